/** The keys of errors against the product's own table. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { ElytronError, errorKeys } from "../src/index.js";
import { errorOf } from "../src/error_keys.js";

const page = join(import.meta.dirname ?? "", "..", "..", "..", "..", "docs", "reference", "errors.md");

test("every key of the product has a class of its family, and is retryable as the page says", async () => {
  const rows = [...(await readFile(page, "utf8")).matchAll(/^\| `(\w+)` \| `(\w+)` \| (yes|no) \|/gm)];
  const described = rows.map(([, key, , retry]) => [key, retry === "yes"]);
  const known = errorKeys.map((key) => [key, errorOf(key, "").retryable]);
  assert.deepEqual(known.sort(), described.sort());
  for (const [, key = "", name] of rows) {
    const { name: family } = errorOf(key, "");
    if (family.toLowerCase() === key.replaceAll("_", "")) assert.equal(family, name);
  }
});

test("a key that this version does not know keeps its text", () => {
  const error = errorOf("key_of_tomorrow", "it is new", { details: { field: "a" }, status: 418 });
  assert.ok(error instanceof ElytronError);
  assert.deepEqual(error.toJSON(), {
    name: "ElytronError",
    key: "key_of_tomorrow",
    message: "it is new",
    retryable: false,
    retryAfter: 0,
    details: { field: "a" },
    status: 418,
    requestId: undefined,
  });
});
