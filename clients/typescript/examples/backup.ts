/** Write a space to a file, and check that it can be imported: `node backup.js http://127.0.0.1:8010 ada.zip`. */
import { openAsBlob } from "node:fs";
import { writeFile } from "node:fs/promises";
import { connect } from "elytron";

const [address = "http://127.0.0.1:8010", file = "memory.zip"] = process.argv.slice(2);
const memory = connect(address, { apiKey: process.env["ELYTRON_API_KEY"], space: process.env["ELYTRON_SPACE"] });

const archive = await memory.exportArchive({ includePrivate: true });
await writeFile(file, archive.body);
const preview = await memory.importArchive(await openAsBlob(file), { dryRun: true });
console.log(`${file} holds`, preview.contents);
