/** Everyday calls against a real server. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { connect, InvalidInput, type Memory, NotFound, PreconditionFailed, Unauthorized } from "../src/index.js";
import { post, type RunningServer, serve } from "./serving.js";

let server: RunningServer;
let memory: Memory;

before(async () => {
  server = await serve("--development", "--agent-model", "ollama:none");
  memory = connect(server.url, { space: "ada" });
});
after(() => server.stop());

test("what was added is recalled, projected, listed and read", async () => {
  const { ids } = await memory.add("The boat key is under the oar.", { speaker: "Ada", conversation: "boat" });
  const { hits, outcome } = await memory.recall("where is the boat key?", { limit: 1 });
  assert.deepEqual([outcome, hits[0]?.id, hits[0]?.speaker], ["found", ids[0], "Ada"]);
  const { system_memory_block: block } = await memory.project("where is the boat key?", { max_chars: 900 });
  assert.match(block, /under the oar/);
  const { items } = await memory.list({ filters: { speakers: ["Ada"] } });
  assert.deepEqual(
    items.map((item) => item.text),
    ["The boat key is under the oar."],
  );
  assert.equal((await memory.get(ids[0] as string)).text, "The boat key is under the oar.");
  const { turns } = await memory.turns("boat");
  assert.deepEqual(
    turns.map((turn) => turn.messages[0]?.text),
    ["The boat key is under the oar."],
  );
});

test("messages keep their roles, names and times", async () => {
  const chat = memory.withSpace("chat");
  await chat.add(
    [
      { role: "user", content: "When does the ferry leave?", name: "Noor", timestamp: "2026-05-04T10:00:00Z" },
      { role: "assistant", content: "The ferry leaves at six." },
    ],
    { conversation: "trip" },
  );
  const { turns } = await chat.turns("trip");
  const messages = turns.flatMap((turn) => turn.messages);
  assert.deepEqual(
    messages.map(({ role, speaker, at }) => [role, speaker, at !== undefined]),
    [
      ["user", "Noor", true],
      ["assistant", undefined, messages[1]?.at !== undefined],
    ],
  );
  assert.equal(messages[0]?.at, Date.UTC(2026, 4, 4, 10));
});

test("a written turn is stored once under its host's id", async () => {
  const notes = memory.withSpace("notes");
  const turn = { messages: [{ text: "We moved to Lisbon in May." }], host_id: "turn-7" };
  const first = await notes.write({ kind: "transcript", turns: [turn] });
  const second = await notes.write({ kind: "transcript", turns: [turn] });
  assert.deepEqual([first.changed, second.changed], [true, false]);
  assert.equal((await notes.inspect()).documents["turns"], 1);
});

test("a memory is corrected, forgotten, brought back and erased", async () => {
  const tea = memory.withSpace("tea");
  const { id = "" } = await tea.addFact("tea", "Ada drinks green tea");
  const { decisions } = await tea.correct(id, "Ada drinks white tea", { reason: "misheard" });
  const next = decisions[0]?.new_id ?? "";
  assert.equal((await tea.listFacts()).items[0]?.content, "Ada drinks white tea");
  assert.deepEqual((await tea.history(next)).items.at(-1)?.event, "added");
  assert.equal((await tea.getFact(next)).fact.id, next);
  assert.match((await tea.profile("Ada")).text, /white tea/);
  await tea.forget(next);
  assert.deepEqual((await tea.recall("tea")).hits, []);
  assert.equal((await tea.forget([next], { undo: true })).changed, true);
  assert.equal((await tea.erase(next)).changed, true);
  await assert.rejects(tea.get(next), NotFound);
});

test("facts are forgotten by their words", async () => {
  const facts = memory.withSpace("facts");
  await facts.addFact("car", "Ada drives a red car");
  const { token = null } = await facts.forgetFacts("red car", { dry_run: true });
  assert.equal((await facts.listFacts()).items.length, 1);
  await facts.forgetFacts("red car", { token });
  assert.deepEqual((await facts.listFacts()).items, []);
});

test("a space is a wall: ids of one say nothing in another", async () => {
  const { ids } = await memory.add("The safe opens with 4417.");
  const bob = memory.withSpace("bob");
  const id = ids[0] as string;
  assert.deepEqual((await bob.recall("safe")).hits, []);
  await assert.rejects(bob.get(id), NotFound);
  assert.equal((await bob.erase(id)).changed, false);
  assert.equal((await memory.get(id)).text, "The safe opens with 4417.");
  assert.equal(memory.space, "ada");
});

test("an integer beyond 2^53 is sent from a bigint and read as a string", async () => {
  const value = { serial: 2n ** 53n + 1n, below: 42, list: [-(2n ** 62n)] };
  await memory.putRecord(["devices"], "petrel", value);
  const { record } = await memory.getRecord(["devices"], "petrel");
  assert.deepEqual(record?.value, { serial: "9007199254740993", below: 42, list: ["-4611686018427387904"] });
  await assert.rejects(memory.putRecord(["devices"], "petrel", { serial: 2 ** 53 + 2 }), InvalidInput);
});

test("a change under a key takes effect once", async () => {
  const once = memory.withSpace("once");
  const add = () => once.add("The ferry leaves at six.", {}, { idempotencyKey: "ferry-1" });
  assert.deepEqual(await add(), await add());
  assert.equal((await once.inspect()).documents["turns"], 1);
  const other = once.add("Another text.", {}, { idempotencyKey: "ferry-1" });
  await assert.rejects(other, { name: "Conflict", key: "idempotency_conflict", retryable: false, status: 422 });
});

test("a change is made only while the version is the expected one", async () => {
  const { ids } = await memory.add("The tide table hangs in the kitchen.");
  const change = memory.forget(ids, {}, { ifMatch: '"another"' });
  await assert.rejects(change, PreconditionFailed);
});

test("a space is exported as a stream and imported from a blob", async () => {
  const archive = await memory.exportArchive({ includePrivate: true });
  const file = await new Response(archive.body).blob();
  assert.match(archive.etag, /^"\w+"$/);
  const copy = memory.withSpace("copy");
  const preview = await copy.importArchive(file, { dryRun: true });
  assert.deepEqual([preview.dry_run, (await copy.recall("boat key")).hits], [true, []]);
  const report = await copy.importArchive(file);
  assert.equal(report.changed, true);
  assert.equal((await copy.recall("boat key", { limit: 1 })).hits[0]?.text, "The boat key is under the oar.");
});

test("a whole space is erased by its name, and no longer listed", async () => {
  await memory.withSpace("gone").add("A line.");
  const names = async () => (await memory.spaces()).spaces.map(({ space }) => space);
  assert.ok((await names()).includes("gone"));
  await memory.withSpace("gone").eraseSpace("gone");
  assert.ok(!(await names()).includes("gone"));
});

test("an agent's blocks are written, read and listed", async () => {
  await assert.rejects(memory.blocks.get("human"), NotFound);
  await post(`${server.url}/v1/agent/init`, {});
  const block = await memory.blocks.put("human", { value: "Ada sails." });
  assert.equal((await memory.blocks.get("human")).value, "Ada sails.");
  assert.ok((await memory.blocks.list()).some(({ label, version }) => label === "human" && version === block.version));
});

test("a conversation of the Responses API has items", async () => {
  const created = await memory.conversations.create({ metadata: { topic: "boat" } });
  await memory.conversations.addItems(created.id, [{ type: "message", role: "user", content: "Where is the key?" }]);
  const { data } = await memory.conversations.items(created.id, { limit: 5 });
  assert.equal(data.length, 1);
  assert.deepEqual((await memory.conversations.get(created.id)).metadata, { topic: "boat" });
  assert.ok((await memory.conversations.list()).data.some(({ id }) => id === created.id));
  assert.equal((await memory.conversations.delete(created.id)).deleted, true);
});

test("a gateway user's files are uploaded, listed and deleted", async () => {
  const { user_key: key } = await post(`${server.url}/users`, { user_id: "grace" });
  const grace = connect(server.url, { apiKey: key as string });
  const terms = new Blob(["# Terms\n\nPayment is due in thirty days."], { type: "text/markdown" });
  const file = await grace.files.upload(terms, { title: "Terms", fileName: "terms.md" });
  assert.deepEqual([file.status, file.title, file.file_name], ["extracted", "Terms", "terms.md"]);
  assert.deepEqual(
    (await grace.files.list()).map(({ resource_id: id }) => id),
    [file.resource_id],
  );
  assert.equal((await grace.files.get(file.resource_id)).mime, "text/markdown");
  const { user_key: otherKey } = await post(`${server.url}/users`, { user_id: "linus" });
  const linus = connect(server.url, { apiKey: otherKey as string });
  await assert.rejects(linus.files.get(file.resource_id), NotFound);
  assert.equal((await grace.files.delete(file.resource_id)).deleted, true);
  assert.deepEqual(await grace.files.list(), []);
  await assert.rejects(memory.files.list(), Unauthorized);
});

test("any operation is called by its name", async () => {
  const { policy } = await memory.operate("capabilities", {});
  assert.equal(policy, "open");
});

test("an unknown operation and a second argument of events are refused by their names", async () => {
  await assert.rejects(memory.operate("nope" as "recall", { query: "?" }), /^InvalidInput: operation/);
  const events = memory.events as (...options: object[]) => unknown;
  assert.throws(() => events.call(memory, {}, { signal: AbortSignal.abort() }), /^InvalidInput: events/);
});
