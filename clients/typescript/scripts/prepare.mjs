// Builds the package for those who install it from a folder. npm links a folder without its development dependencies,
// so they are installed first.
import { execSync } from "node:child_process";
import { existsSync } from "node:fs";

const run = (command) => execSync(command, { stdio: "inherit" });
if (!existsSync("node_modules/typescript")) run("npm install --ignore-scripts --no-audit --no-fund --no-save");
run("npm run build");
