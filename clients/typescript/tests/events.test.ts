/** The stream of a space's journal, from a real server and from one that breaks off. */
import assert from "node:assert/strict";
import { after, before, test, type TestContext } from "node:test";
import { connect, type EventGap, type JournalEvent, Unreachable, Unsupported } from "../src/index.js";
import { EventParser, type ServerEvent } from "../src/events.js";
import { problem, type ScriptedAnswer, scriptedServer } from "./scripted_server.js";
import { type RunningServer, serve } from "./serving.js";

let server: RunningServer;

before(async () => {
  server = await serve("--development");
});
after(() => server.stop());

const entry = (sequence: number) =>
  `event: entry\nid: ${sequence}-5\ndata: {"type":"entry","id":"${sequence}-5","space":"ada","sequence":${sequence}}\n\n`;

/** Returns the first items of a stream, which it then leaves. */
async function firstOf(stream: AsyncIterable<JournalEvent | EventGap>, count: number) {
  const items: (JournalEvent | EventGap)[] = [];
  for await (const item of stream) {
    items.push(item);
    if (items.length === count) break;
  }
  return items;
}

test("what is committed comes in order, and a later stream goes on behind it", async () => {
  const memory = connect(server.url, { space: "ada" });
  await memory.add("We moved to Lisbon in May.");
  const { sequence: last } = await memory.inspect();
  const seen = (await firstOf(memory.events({ after: 0 }), last)) as JournalEvent[];
  assert.deepEqual(
    seen.map(({ sequence }) => sequence),
    seen.map((_, index) => index + 1),
  );
  const next = firstOf(memory.events({ after: seen.at(-1)?.id }), 1);
  await memory.add("The boat key is under the oar.");
  const [item] = (await next) as JournalEvent[];
  assert.deepEqual([item?.sequence, item?.space], [last + 1, "ada"]);
});

test("a stream without a place begins with what is committed next", async () => {
  const memory = connect(server.url, { space: "next" });
  await memory.add("Earlier.");
  const controller = new AbortController();
  const stream = memory.events({ signal: controller.signal });
  const next = stream.next();
  let isOver = false;
  void next.then(() => (isOver = true));
  // The stream begins at some time before one of these, so that the first one it yields is of them.
  while (!isOver) await memory.add("Later.");
  const { value } = await next;
  assert.ok(value.type === "entry" && value.sequence > 2);
  controller.abort(new Error("enough"));
  await assert.rejects(stream.next(), /enough/);
});

test("an erased space comes as a gap, behind which the stream begins again", async () => {
  const memory = connect(server.url, { space: "gone" });
  await memory.add("A line.");
  await memory.eraseSpace("gone");
  await memory.add("Another line.");
  const [gap, first] = await firstOf(memory.events({ after: "2-1" }), 2);
  assert.deepEqual([gap?.type, gap?.type === "gap" && gap.reason], ["gap", "erased"]);
  assert.deepEqual([first?.type, first?.type === "entry" && first.sequence], ["entry", 1]);
});

test("a broken stream is opened again behind the last entry or gap", async () => {
  const gap = 'event: gap\nid: 9-5\ndata: {"type":"gap","space":"ada","reason":"compacted","first":3,"last":9}\n\n';
  const streams = ["id: 1-5\n\n", `: heartbeat\n\n${entry(2)}${gap}`, entry(10)];
  const broken: ScriptedAnswer = (response, _request, number) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(streams[number - 1]);
  };
  const scripted = await scriptedServer(broken);
  const items = await firstOf(connect(scripted.url).events(), 3);
  await scripted.stop();
  assert.deepEqual(
    items.map((item) => (item.type === "entry" ? item.id : item.last)),
    ["2-5", 9, "10-5"],
  );
  const places = scripted.requests.slice(0, 3).map(({ headers }) => headers["last-event-id"]);
  assert.deepEqual(places, [undefined, "1-5", "9"]);
});

test("a refusal ends the stream, at its start and midway", async () => {
  const revoked = 'event: error\ndata: {"code":"unauthorized","detail":"the key is revoked","status":401}\n\n';
  const answers: ScriptedAnswer[] = [
    (response) => problem(response, 401, "unauthorized"),
    (response) => response.writeHead(200).end(entry(1) + revoked),
  ];
  for (const answer of answers) {
    const scripted = await scriptedServer(answer);
    await assert.rejects(firstOf(connect(scripted.url).events(), 9), { name: "Unauthorized", key: "unauthorized" });
    assert.equal(scripted.requests.length, 1);
    await scripted.stop();
  }
});

test("a server that is away ends a stream that never began after four attempts", async () => {
  const scripted = await scriptedServer((response) => response.destroy());
  await assert.rejects(firstOf(connect(scripted.url).events(), 1), Unreachable);
  assert.equal(scripted.requests.length, 4);
  await scripted.stop();
});

/**
 * Returns the times in seconds at which a stream is opened, until it ends with Unreachable or was opened `most` times.
 * Each of its connections breaks off `lastsMs` after its opening.
 */
async function openingTimes(context: TestContext, opening: string, lastsMs: number, most: number): Promise<number[]> {
  context.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const controller = new AbortController();
  const times: number[] = [];
  const bytes = new TextEncoder().encode(opening);
  const fetch = async () => {
    if (times.push(Date.now() / 1000) === most) controller.abort();
    const start = (stream: ReadableStreamDefaultController) => {
      stream.enqueue(bytes);
      for (let ms = 15_000; ms < lastsMs; ms += 15_000)
        setTimeout(() => stream.enqueue(new TextEncoder().encode(": still here\n\n")), ms);
      setTimeout(() => stream.close(), lastsMs);
    };
    return new Response(new ReadableStream({ start }));
  };
  const stream = connect("http://localhost", { fetch }).events({ signal: controller.signal });
  let isOver = false;
  const end = assert.rejects(stream.next()).finally(() => (isOver = true));
  while (!isOver) {
    context.mock.timers.tick(100);
    await new Promise(setImmediate);
  }
  await end;
  return times;
}

test("a stream that always ends behind its opening is given up", async (context) => {
  const times = await openingTimes(context, "id: 1-5\n\n", 0, 100);
  assert.equal(times.length, 24);
});

test("a stream is opened again no earlier than the server asks, up to five seconds", async (context) => {
  const times = await openingTimes(context, "retry: 2000\nid: 1-5\n\n", 0, 4);
  assert.ok(times.slice(1).every((time, index) => time - (times[index] ?? 0) >= 2));
  context.mock.timers.reset();
  const [first = 0, second = 0] = await openingTimes(context, "retry: 99999999\nid: 1-5\n\n", 0, 2);
  assert.ok(second - first >= 5 && second - first < 10);
});

test("a quiet stream that lasts is opened again each time", async (context) => {
  const times = await openingTimes(context, "id: 1-5\n\n", 70_000, 40);
  assert.equal(times.length, 40);
});

test("an unknown event is unsupported", async () => {
  for (const data of ["[1", "7", "null", '{"type":"other"}', '{"type":"gap"}']) {
    const scripted = await scriptedServer((response) => response.writeHead(200).end(`data: ${data}\n\n`));
    await assert.rejects(firstOf(connect(scripted.url).events(), 1), Unsupported);
    await scripted.stop();
  }
});

test("events are cut the same wherever the bytes are", () => {
  const text =
    'id: 1\r\n\r\n: beat\n\nevent: entry\rdata: {"a":\rdata:"ü"}\rnoise\rother: 1\r\rid: 2\ndata\n\nevent: lost\n\n';
  const expected: ServerEvent[] = [
    { name: "", data: "", id: "1" },
    { name: "entry", data: '{"a":\n"ü"}', id: "" },
    { name: "", data: "", id: "2" },
  ];
  const bytes = new TextEncoder().encode(text);
  for (const size of [1, 2, 3, 7, bytes.length]) {
    const parser = new EventParser();
    const events: ServerEvent[] = [];
    for (let at = 0; at < bytes.length; at += size) events.push(...parser.feed(bytes.slice(at, at + size)));
    assert.deepEqual(events, expected, `chunks of ${size}`);
  }
});

test("an event of more than 1 MiB is refused, in one line or many", () => {
  const line = new TextEncoder().encode("a".repeat(600_000));
  const endless = new EventParser();
  assert.throws(() => [...endless.feed(line), ...endless.feed(line)], Unsupported);
  const many = new EventParser();
  const lines = new TextEncoder().encode(`data: ${"a".repeat(600_000)}\n`);
  assert.throws(() => [...many.feed(lines), ...many.feed(lines)], Unsupported);
});
