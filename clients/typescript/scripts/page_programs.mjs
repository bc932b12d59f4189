/** Writes the TypeScript programs of pages into a folder: `node scripts/page_programs.mjs FOLDER PAGE...`. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";

const [folder, ...pages] = process.argv.slice(2);
await mkdir(folder, { recursive: true });
for (const page of pages) {
  const programs = [...(await readFile(page, "utf8")).matchAll(/^```ts\n(.*?)^```$/gms)];
  if (programs.length === 0) throw new Error(`${page} has no program`);
  for (const [index, [, program]] of programs.entries()) {
    await writeFile(join(folder, `${basename(page, ".md")}_${index + 1}.ts`), program);
  }
}
console.log(`${pages.length} pages`);
