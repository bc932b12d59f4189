/** The journal of a space as it grows, over server-sent events read through `fetch`. */
import { type Connection, chunksOf, Deadline, pause, problemOf, unreachable } from "./connection.js";
import { errorOf } from "./error_keys.js";
import { parseJson } from "./json.js";

/** One entry of a journal: which document was touched and how, never what it says. */
export interface JournalEvent {
  type: "entry";
  /** The place of the entry, for `after`. */
  id: string;
  space: string;
  sequence: number;
  /** Milliseconds since 1970. */
  at: number;
  action: "write" | "merge" | "delete" | "erase" | "maintenance" | "projection" | "lifecycle" | "operator";
  collection: string;
  plane?: string;
  key: string;
  /** A keyed tag, never the conversation's name. */
  conversation?: string;
  digest?: string;
}

/** Entries `first` to `last` are not sent; the stream goes on behind `last`. Read the space again. */
export interface EventGap {
  type: "gap";
  space: string;
  reason: "erased" | "compacted" | "retention";
  first: number;
  last: number;
}

export interface EventOptions {
  /** The id or sequence of the last entry that was seen; 0 is before the first [default: new entries only]. */
  after?: string | number | undefined;
  /** Ends the stream, which then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** An event as the server sends it. `data` is empty where the server only says at which place the stream begins. */
export interface ServerEvent {
  name: string;
  data: string;
  id: string;
  /** Milliseconds that the server asks to wait before the stream is opened again. */
  retryMs?: number;
}

const eventChars = 1024 * 1024;
const silenceMs = 45_000; // three heartbeats
const lastingMs = 60_000;
const retryLimitMs = 5_000;
const firstAttempts = 4;
const laterAttempts = 24;

/**
 * Yields the entries of a space's journal in order and at least once. A broken connection is made again for about a
 * minute, and the stream goes on behind the last entry.
 */
export async function* journalEvents(
  connection: Connection,
  space: string | undefined,
  options: EventOptions,
): AsyncGenerator<JournalEvent | EventGap, never> {
  let place = options.after === undefined ? undefined : String(options.after);
  let failures = 0;
  let attempts = firstAttempts;
  for (;;) {
    let retryMs = 0;
    let openedAt: number | undefined;
    try {
      for await (const event of connected(connection, space, place, options.signal)) {
        openedAt ??= Date.now();
        attempts = laterAttempts;
        retryMs = event.retryMs ?? retryMs;
        const item = event.data === "" ? undefined : itemOf(event, connection.url);
        place = item === undefined ? event.id : placeBehind(item);
        // Every stream opens with an event that is no item, also one that a proxy always cuts behind it.
        if (item === undefined) continue;
        failures = 0;
        yield item;
      }
    } catch (error) {
      if (openedAt !== undefined && Date.now() - openedAt >= lastingMs) failures = 0;
      failures += 1;
      await connection.pauseAfter(error, failures, options.signal, attempts);
      await pause(retryMs, options.signal);
    }
  }
}

/** Yields the events of one connection, until it ends with Unreachable. */
async function* connected(
  connection: Connection,
  space: string | undefined,
  after: string | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<ServerEvent, never> {
  const headers = { Accept: "text/event-stream", "Last-Event-ID": after };
  const request = { method: "GET", path: "/v1/events", query: { space }, headers, mayRepeat: true, signal } as const;
  const deadline = new Deadline(silenceMs, signal);
  try {
    const response = await connection.open(request, deadline);
    const parser = new EventParser();
    try {
      for await (const chunk of chunksOf(response)) {
        deadline.extend();
        yield* parser.feed(chunk);
      }
    } catch (error) {
      throw connection.failure(error, signal, deadline);
    }
    throw unreachable(connection.url, "the stream ended");
  } finally {
    deadline.end();
  }
}

/** Cuts a stream of bytes into events. Comments are heartbeats, and unknown fields are passed over. */
export class EventParser {
  readonly #decoder = new TextDecoder();
  #rest = "";
  #endsInReturn = false;
  #name = "";
  #data: string[] = [];
  #id = "";
  #retry: { retryMs?: number } = {};
  #chars = 0;

  /** Yields the events that `chunk` completes. Throws Unsupported for an event of more than 1 MiB. */
  *feed(chunk: Uint8Array): Generator<ServerEvent> {
    let text = this.#decoder.decode(chunk, { stream: true });
    // A line may end in a return and a line feed, and a chunk between the two.
    if (this.#endsInReturn && text.startsWith("\n")) text = text.slice(1);
    if (text === "") return;
    this.#endsInReturn = text.endsWith("\r");
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      this.#chars += line.length;
      if (line !== "") this.#take(line);
      else yield* this.#ended();
      this.#requireBounded(0);
    }
    this.#requireBounded(this.#rest.length);
  }

  #take(line: string): void {
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.#retry = { retryMs: Math.min(Number(value), retryLimitMs) };
  }

  *#ended(): Generator<ServerEvent> {
    if (this.#data.length > 0 || this.#id !== "")
      yield { name: this.#name, data: this.#data.join("\n"), id: this.#id, ...this.#retry };
    [this.#name, this.#data, this.#id, this.#retry, this.#chars] = ["", [], "", {}, 0];
  }

  #requireBounded(rest: number): void {
    if (this.#chars + rest > eventChars) throw errorOf("unsupported", "the server sent an event of more than 1 MiB");
  }
}

function itemOf({ name, data }: ServerEvent, url: string): JournalEvent | EventGap {
  if (name === "error") throw problemOf(data, undefined, url);
  const item = parsedItem(data);
  if (item === undefined) {
    const problem = "the server sent an unknown event: use the same version on both sides";
    throw errorOf("unsupported", problem);
  }
  return item;
}

function parsedItem(data: string): JournalEvent | EventGap | undefined {
  let item: Partial<JournalEvent | EventGap> | null;
  try {
    item = parseJson(data) as Partial<JournalEvent | EventGap> | null;
  } catch {
    return undefined;
  }
  if (item?.type === "entry" && typeof item.id === "string") return item as JournalEvent;
  if (item?.type === "gap" && typeof item.last === "number") return item as EventGap;
  return undefined;
}

/** Returns the place from which a stream goes on. */
function placeBehind(item: JournalEvent | EventGap): string {
  if (item.type === "entry") return item.id;
  return item.reason === "erased" ? "0" : String(item.last);
}
