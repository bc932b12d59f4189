/** The examples as programs of their own, against a real server. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { type RunningServer, serve } from "./serving.js";

const examples = join(import.meta.dirname ?? "", "..", "examples");
const environment = { ...process.env, ELYTRON_SPACE: "ada" };
let server: RunningServer;

before(async () => {
  server = await serve("--development");
});
after(() => server.stop());

async function run(name: string, ...words: string[]): Promise<string[]> {
  const program = [join(examples, name), server.url, ...words];
  const { stdout } = await promisify(execFile)(process.execPath, program, { env: environment });
  return stdout.trim().split("\n");
}

test("the everyday example prints what it recalled, corrected and erased", async () => {
  const printed = ["The boat key is under the oar.", "[ 'Ada drinks white tea' ]", "{ turns: 1 }"];
  assert.deepEqual(await run("everyday.js"), printed);
});

test("the backup example writes a file that can be imported", async () => {
  const file = join(server.folder, "ada.zip");
  const [line = ""] = await run("backup.js", file);
  assert.ok(line.startsWith(`${file} holds {`), line);
});

test("the following example prints entries until it is interrupted", async () => {
  const program = spawn(process.execPath, [join(examples, "follow.js"), server.url, "0"], { env: environment });
  const [first] = (await once(createInterface(program.stdout), "line")) as [string];
  assert.match(first, /^1-\d+ lifecycle space$/);
  program.kill("SIGINT");
  assert.deepEqual(await once(program, "close"), [0, null]);
});
