/** A memory on a server: everyday calls by name, every other operation through `operate`. */
import { AgentBlocks } from "./blocks.js";
import { type CallOptions, type ConnectOptions, Connection, Deadline } from "./connection.js";
import { ServerConversations } from "./conversations.js";
import { errorOf, invalidInput } from "./error_keys.js";
import { type EventGap, type EventOptions, type JournalEvent, journalEvents } from "./events.js";
import { UserFiles } from "./files.js";
import { operations } from "./generated/operations.js";
import type { OperationName, OperationReport, OperationRequest, RequestFields, Schemas } from "./operations.js";

/** A space as one file. */
export interface SpaceArchive {
  /** The bytes of the ZIP file, read from the server on demand. */
  body: ReadableStream<Uint8Array>;
  /** The version of the space, for `ifMatch`. */
  etag: string;
  /** What the archive contains and leaves out, as the server counts it. */
  contents: unknown;
}

export interface ExportOptions {
  /** Everything, instead of what may be shared. */
  includePrivate?: boolean;
  signal?: AbortSignal;
}

export interface ImportOptions {
  /** Operators may restore a whole space [default: bootstrap]. */
  mode?: Schemas["ImportMode"];
  /** Report what would be imported, and import nothing. */
  dryRun?: boolean;
  ifMatch?: string;
  signal?: AbortSignal;
}

/** A text, or messages with a role and a name. */
export type NewMessages = string | readonly Schemas["FlatMessage"][];

/**
 * Returns the memory on the server at `address`. Nothing is sent before the first call.
 *
 * @throws InvalidInput for a wrong address or key.
 * @example
 * const memory = connect("http://127.0.0.1:8010", { apiKey: process.env.ELYTRON_API_KEY });
 * await memory.add("The ferry leaves at six.", { speaker: "Ada" });
 */
export function connect(address: string | URL, options: ConnectOptions = {}): Memory {
  return new Memory(new Connection(address, options), options.space);
}

/**
 * The memory of one space, or of the space that the access key opens. Many calls may run at once.
 *
 * Reads, and writes under an idempotency key, are sent again where the server cannot be reached or asks for patience;
 * other writes are sent once.
 */
export class Memory {
  readonly #connection: Connection;
  /** The space of calls that name none. */
  readonly space: string | undefined;

  constructor(connection: Connection, space?: string) {
    if (space === "") throw invalidInput("space", "is empty");
    this.#connection = connection;
    this.space = space;
  }

  /** The server's address. */
  get url(): string {
    return this.#connection.url;
  }

  /** Returns a memory whose calls concern `space`, over the same connection. */
  withSpace(space: string): Memory {
    return new Memory(this.#connection, space);
  }

  /** Performs an operation by its name, with the request and report of the server's documentation. */
  async operate<Name extends OperationName>(
    name: Name,
    request: OperationRequest<Name>,
    call: CallOptions = {},
  ): Promise<OperationReport<Name>> {
    if (!Object.hasOwn(operations, name)) throw invalidInput("operation", "is not one that this client knows");
    const { mutates, isKeyed, spaceField } = operations[name];
    const body: Record<string, unknown> = { ...(request as object) };
    if (this.space !== undefined && spaceField === "space") body["space"] ??= this.space;
    // A scope that names a conversation only is one of this space, not of the key's own.
    if (this.space !== undefined && spaceField === "scope")
      body["scope"] = { space: this.space, ...(body["scope"] as object) };
    let key = call.idempotencyKey;
    if (mutates && isKeyed && this.#connection.repeatsWrites && body["idempotency_key"] == null) key ??= randomId();
    const report = await this.#connection.report<OperationReport<Name> & object>({
      method: "POST",
      path: `/v1/${name}`,
      body,
      headers: { "Idempotency-Key": key, "If-Match": call.ifMatch },
      mayRepeat: !mutates || key !== undefined || body["idempotency_key"] != null,
      signal: call.signal,
    });
    requireWithin(report, body["limit"]);
    return report;
  }

  /** Stores a text or messages as evidence, which can be recalled at once. */
  async add(messages: NewMessages, fields: RequestFields<"add", "text" | "messages"> = {}, call: CallOptions = {}) {
    const content = typeof messages === "string" ? { text: messages } : { messages: [...messages] };
    return this.operate("add", { ...fields, ...content }, call);
  }

  /** Stores evidence, facts or procedures as one durable batch. */
  async write(
    write: OperationRequest<"write">["write"],
    fields: RequestFields<"write", "write"> = {},
    call: CallOptions = {},
  ) {
    return this.operate("write", { ...fields, write }, call);
  }

  /** Finds what answers the query, best first. */
  async recall(query: string, fields: RequestFields<"recall", "query"> = {}, call: CallOptions = {}) {
    return this.operate("recall", { ...fields, query }, call);
  }

  /** Builds the bounded block that a model may see for this query. Send it as reference data, never as system text. */
  async project(query: string, fields: RequestFields<"project", "query"> = {}, call: CallOptions = {}) {
    return this.operate("project", { ...fields, query }, call);
  }

  /** Reads one memory. Throws NotFound. */
  async get(id: string, fields: RequestFields<"get", "id"> = {}, call: CallOptions = {}) {
    return this.operate("get", { ...fields, id }, call);
  }

  /** Reads memories a page at a time. */
  async list(fields: RequestFields<"list"> = {}, call: CallOptions = {}) {
    return this.operate("list", fields, call);
  }

  /** Reads what happened to a memory, oldest first. Throws NotFound. */
  async history(id: string, fields: RequestFields<"history", "id"> = {}, call: CallOptions = {}) {
    return this.operate("history", { ...fields, id }, call);
  }

  /** Reads the turns of a conversation, the last ones unless `order` says otherwise. */
  async turns(conversation: string, fields: RequestFields<"replay", "chat_id"> = {}, call: CallOptions = {}) {
    return this.operate("replay", { ...fields, chat_id: conversation }, call);
  }

  /** Hides memories from recall and projection; `undo` brings them back. */
  async forget(ids: string | readonly string[], fields: RequestFields<"forget", "ids"> = {}, call: CallOptions = {}) {
    return this.operate("forget", { ...fields, ids: idList(ids) }, call);
  }

  /** Replaces the content of a fact or message; the old version stays in history. Throws NotFound. */
  async correct(
    id: string,
    content: string,
    fields: RequestFields<"correct", "id" | "content"> = {},
    call: CallOptions = {},
  ) {
    return this.operate("correct", { ...fields, id, content }, call);
  }

  /** Removes memories physically. */
  async erase(ids: string | readonly string[], fields: RequestFields<"erase", "ids"> = {}, call: CallOptions = {}) {
    return this.operate("erase", { ...fields, ids: idList(ids) }, call);
  }

  /** Removes a whole space physically. The name must be that of the space that the call concerns. */
  async eraseSpace(name: string, fields: RequestFields<"erase", "ids" | "whole_space"> = {}, call: CallOptions = {}) {
    return this.operate("erase", { ...fields, whole_space: name }, call);
  }

  /** Stores a fact under its topic; the report says whether it was accepted, and why not. */
  async addFact(topic: string, content: string, call: CallOptions = {}) {
    return this.operate("facts", { topic, content }, call);
  }

  /** Lists the facts that hold, oldest first. */
  async listFacts(fields: RequestFields<"list_facts"> = {}, call: CallOptions = {}) {
    return this.operate("list_facts", fields, call);
  }

  /** Reads a fact with its versions. Throws NotFound. */
  async getFact(id: string, fields: RequestFields<"get_fact", "id"> = {}, call: CallOptions = {}) {
    return this.operate("get_fact", { ...fields, id } as OperationRequest<"get_fact">, call);
  }

  /** Forgets every fact that contains each word of the query: first with `dry_run`, then with the report's `token`. */
  async forgetFacts(query: string, fields: RequestFields<"forget_facts", "query"> = {}, call: CallOptions = {}) {
    return this.operate("forget_facts", { ...fields, query }, call);
  }

  /** Reads what holds of a person, each line with its sources. */
  async profile(person: string, fields: RequestFields<"profile", "person"> = {}, call: CallOptions = {}) {
    return this.operate("profile", { ...fields, person }, call);
  }

  /** Stores a JSON value under a namespace and a key; it replaces an existing one. */
  async putRecord(
    namespace: readonly string[],
    key: string,
    value: unknown,
    fields: RequestFields<"put_record", "namespace" | "key" | "value"> = {},
    call: CallOptions = {},
  ) {
    return this.operate("put_record", { ...fields, namespace: [...namespace], key, value }, call);
  }

  /** Reads a value. An integer beyond 2^53 in it is a string. */
  async getRecord(
    namespace: readonly string[],
    key: string,
    fields: RequestFields<"get_record", "namespace" | "key"> = {},
    call: CallOptions = {},
  ) {
    return this.operate("get_record", { ...fields, namespace: [...namespace], key }, call);
  }

  /** Lists the spaces that the access key opens, a page at a time. */
  async spaces(fields: RequestFields<"list_spaces"> = {}, call: CallOptions = {}) {
    return this.operate("list_spaces", fields, call);
  }

  /** Counts what the space holds. */
  async inspect(fields: RequestFields<"inspect"> = {}, call: CallOptions = {}) {
    return this.operate("inspect", fields, call);
  }

  /** Yields what is committed to the space, for as long as it is read. A signal is one of its options. */
  events(options: EventOptions = {}): AsyncGenerator<JournalEvent | EventGap, never> {
    if (arguments.length > 1) throw invalidInput("events", "takes one argument: { after, signal }");
    return journalEvents(this.#connection, this.space, options);
  }

  /** Opens the space as an archive file. `timeoutMs` limits the wait for its first bytes; the signal ends it at any time. */
  async exportArchive(options: ExportOptions = {}): Promise<SpaceArchive> {
    const deadline = new Deadline(this.#connection.timeoutMs, options.signal);
    const query = { space: this.space, include_private: options.includePrivate };
    const request = { method: "GET", path: "/v1/archive", query, mayRepeat: true, signal: options.signal } as const;
    const response = await this.#connection.open(request, deadline).catch((error: unknown) => {
      deadline.end();
      throw error;
    });
    deadline.stopTimer();
    const contents: unknown = JSON.parse(response.headers.get("X-Archive-Contents") ?? "{}");
    return { body: response.body ?? new ReadableStream(), etag: response.headers.get("ETag") ?? "", contents };
  }

  /** Imports an archive file into the space. */
  async importArchive(archive: Blob, options: ImportOptions = {}): Promise<Schemas["MemoryImportReport"]> {
    return this.#connection.report({
      method: "PUT",
      path: "/v1/archive",
      query: { space: this.space, mode: options.mode, dry_run: options.dryRun },
      headers: { "Content-Type": "application/zip", "If-Match": options.ifMatch },
      data: archive,
      mayRepeat: options.dryRun ?? false,
      signal: options.signal,
    });
  }

  /** The memory blocks of the access key's own agent, on a server that runs agents. */
  get blocks(): AgentBlocks {
    return new AgentBlocks(this.#connection);
  }

  /** The conversations of the Responses API, on a server that runs agents. */
  get conversations(): ServerConversations {
    return new ServerConversations(this.#connection);
  }

  /** The files of the gateway user whose key this is. */
  get files(): UserFiles {
    return new UserFiles(this.#connection);
  }

  /** Returns what a log may hold: the address and the space. */
  toJSON(): { url: string; space: string | undefined } {
    return { url: this.url, space: this.space };
  }

  /** Shows the address and the space in Node's inspection. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `Memory ${JSON.stringify(this)}`;
  }
}

function idList(ids: string | readonly string[]): string[] {
  return typeof ids === "string" ? [ids] : [...ids];
}

/** Returns a fresh key. `crypto.randomUUID` is missing on pages without TLS. */
export function randomId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Throws Unsupported for a report with more than was requested. */
function requireWithin(report: object, limit: unknown): void {
  if (typeof limit !== "number") return;
  const lists = [(report as { hits?: unknown }).hits, (report as { items?: unknown }).items];
  if (lists.some((list) => Array.isArray(list) && list.length > limit)) {
    const problem = "the server returned more than was requested: use the same version on both sides";
    throw errorOf("unsupported", problem);
  }
}
