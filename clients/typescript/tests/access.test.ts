/** Keys of several callers against a real server that requires them, and what a client shows of its key. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import { connect, InvalidInput, NotFound, PermissionRefused, Unauthorized } from "../src/index.js";
import { post, type RunningServer, serve } from "./serving.js";

let server: RunningServer;
let operatorKey: string;

before(async () => {
  server = await serve("--operator-key");
  operatorKey = server.printed["operator_key"] as string;
});
after(() => server.stop());

async function userKey(space: string): Promise<string> {
  return (await post(`${server.url}/v1/access`, { kind: "user", label: space, space }, operatorKey))["key"] as string;
}

test("a key opens its own space and no other", async () => {
  const ada = connect(server.url, { apiKey: await userKey("ada") });
  const bob = connect(server.url, { apiKey: await userKey("bob") });
  const { ids } = await ada.add("The safe opens with 4417.");
  assert.equal((await ada.recall("safe")).space, "ada");
  assert.deepEqual((await bob.recall("safe")).hits, []);
  await assert.rejects(bob.get(ids[0] as string), NotFound);
  await assert.rejects(bob.withSpace("ada").recall("safe"), PermissionRefused);
  await assert.rejects(bob.withSpace("ada").exportArchive(), PermissionRefused);
  const stolen = bob.withSpace("ada").events({ after: 0 }).next();
  await assert.rejects(stolen, PermissionRefused);
});

test("a key of every space names the calls of this client that choose one", async () => {
  const call = connect(server.url, { apiKey: operatorKey }).recall("safe");
  await assert.rejects(call, { key: "scope_missing", message: /memory\.withSpace\(name\)/ });
});

test("a missing or wrong key is unauthorized, and not tried again", async () => {
  await assert.rejects(connect(server.url).recall("safe"), { name: "Unauthorized", key: "unauthorized", status: 401 });
  await assert.rejects(connect(server.url, { apiKey: "ely_wrong" }).recall("safe"), Unauthorized);
});

test("a key is in no inspection, text, message or stack", async () => {
  const apiKey = "ely_secret_4417";
  const memory = connect(server.url, { apiKey });
  const failures = [
    await memory.recall("safe").catch((error: unknown) => error),
    await connect("http://127.0.0.1:1", { apiKey })
      .recall("safe")
      .catch((error: unknown) => error),
  ];
  const shown = [memory, memory.blocks, memory.files, memory.conversations, memory.events(), ...failures];
  for (const value of shown) {
    const texts = [inspect(value, { depth: 9, showHidden: true }), JSON.stringify(value), String(value)];
    if (value instanceof Error) texts.push(value.stack ?? "");
    assert.ok(!texts.some((text) => text.includes(apiKey)), inspect(value));
  }
  assert.deepEqual(JSON.parse(JSON.stringify(memory)), { url: server.url });
});

test("a wrong key or address is refused without being repeated", () => {
  const isRefusal = (error: unknown) => error instanceof InvalidInput && !error.message.includes("4417");
  assert.throws(() => connect(server.url, { apiKey: "key 4417" }), isRefusal);
  assert.throws(() => connect("http://ada:4417@localhost"), isRefusal);
  assert.throws(() => connect("http://localhost?key=4417"), isRefusal);
  assert.throws(() => connect("ws://localhost/4417"), isRefusal);
  assert.throws(() => connect("4417"), isRefusal);
  assert.throws(() => connect("http://localhost", { timeoutMs: 0 }), InvalidInput);
  assert.throws(() => connect("http://localhost").withSpace(""), InvalidInput);
});

test("the package has the version of the product", async () => {
  const root = join(import.meta.dirname ?? "", "..", "..");
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
  const project = await readFile(join(root, "..", "..", "pyproject.toml"), "utf8");
  assert.match(project, new RegExp(`^version = "${version.replaceAll(".", "\\.")}"$`, "m"));
});
