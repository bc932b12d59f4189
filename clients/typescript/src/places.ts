/** Calls that have paths of their own: an agent's blocks, conversations, and a user's files. */
import type { CallOptions, Connection } from "./connection.js";
import { NotFound } from "./errors.js";
import type { Schemas } from "./operations.js";

export interface PageOptions {
  limit?: number;
  /** The id behind which the page begins. */
  after?: string;
  signal?: AbortSignal;
}

/** The memory blocks of an agent, which a model sees in every turn. */
export class AgentBlocks {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Lists the blocks. Throws NotFound if the access key's user has no agent yet. */
  async list(call: CallOptions = {}): Promise<Schemas["MemoryBlock"][]> {
    const { data } = await this.#connection.report<Schemas["BlockList"]>({
      method: "GET",
      path: "/v1/agent/memory/blocks",
      mayRepeat: true,
      signal: call.signal,
    });
    return data;
  }

  /** Reads a block. Throws NotFound. */
  async get(label: string, call: CallOptions = {}): Promise<Schemas["MemoryBlock"]> {
    return this.#connection.report({ method: "GET", path: blockPath(label), mayRepeat: true, signal: call.signal });
  }

  /** Sets a block's text, description or limit; a missing block is created. */
  async put(label: string, change: Schemas["BlockChange"], call: CallOptions = {}): Promise<Schemas["MemoryBlock"]> {
    return this.#connection.report({
      method: "PUT",
      path: blockPath(label),
      body: change,
      headers: { "If-Match": call.ifMatch },
      mayRepeat: false,
      signal: call.signal,
    });
  }
}

/** The conversations of the Responses API and their items. */
export class ServerConversations {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async list(page: PageOptions = {}): Promise<Schemas["ConversationList"]> {
    return this.#connection.report(pageRequest("/v1/conversations", page));
  }

  async create(request: Schemas["ConversationRequest"] = {}, call: CallOptions = {}): Promise<Schemas["ConversationBody"]> {
    return this.#connection.report({
      method: "POST",
      path: "/v1/conversations",
      body: request,
      mayRepeat: false,
      signal: call.signal,
    });
  }

  /** Reads a conversation. Throws NotFound. */
  async get(id: string, call: CallOptions = {}): Promise<Schemas["ConversationBody"]> {
    return this.#connection.report({ method: "GET", path: conversationPath(id), mayRepeat: true, signal: call.signal });
  }

  async delete(id: string, call: CallOptions = {}): Promise<Schemas["ConversationDeleted"]> {
    return this.#connection.report({ method: "DELETE", path: conversationPath(id), mayRepeat: false, signal: call.signal });
  }

  /** Reads the items of a conversation, a page at a time. */
  async items(id: string, page: PageOptions = {}): Promise<Schemas["ItemPage"]> {
    return this.#connection.report(pageRequest(`${conversationPath(id)}/items`, page));
  }

  async addItems(id: string, items: Schemas["InputItem"][], call: CallOptions = {}): Promise<Schemas["ItemPage"]> {
    return this.#connection.report({
      method: "POST",
      path: `${conversationPath(id)}/items`,
      body: { items },
      mayRepeat: false,
      signal: call.signal,
    });
  }
}

export interface UploadOptions {
  title?: string;
  description?: string;
  /** The file's name; a File has one of its own. */
  fileName?: string;
  signal?: AbortSignal;
}

/** Files of a gateway user, whose text recall finds. */
export class UserFiles {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Uploads a file. The answer's `status` is `failed`, with the `problem`, for one that cannot be read. */
  async upload(file: Blob, options: UploadOptions = {}): Promise<Schemas["ResourceAnswer"]> {
    const form = new FormData();
    if (options.title !== undefined) form.set("title", options.title);
    if (options.description !== undefined) form.set("description", options.description);
    form.set("file", file, options.fileName ?? (file instanceof File ? file.name : "file"));
    // Equal content is stored once, so that a repeat adds nothing.
    return this.#connection.report({ method: "POST", path: "/resources", data: form, mayRepeat: true, signal: options.signal });
  }

  async list(call: CallOptions = {}): Promise<Schemas["ResourceAnswer"][]> {
    return this.#resources("/resources", call);
  }

  /** Reads what is known of a file. Throws NotFound. */
  async get(id: string, call: CallOptions = {}): Promise<Schemas["ResourceAnswer"]> {
    const [resource] = await this.#resources(filePath(id), call);
    if (resource === undefined) throw new NotFound("not_found", "no file with this id belongs to this user");
    return resource;
  }

  /** Erases a file with its text. */
  async delete(id: string, call: CallOptions = {}): Promise<Schemas["DeletedAnswer"]> {
    return this.#connection.report({ method: "DELETE", path: filePath(id), mayRepeat: false, signal: call.signal });
  }

  async #resources(path: string, call: CallOptions): Promise<Schemas["ResourceAnswer"][]> {
    const request = { method: "GET", path, mayRepeat: true, signal: call.signal } as const;
    return (await this.#connection.report<Schemas["ResourcesAnswer"]>(request)).resources;
  }
}

function pageRequest(path: string, { limit, after, signal }: PageOptions) {
  return { method: "GET", path, query: { limit, after }, mayRepeat: true, signal } as const;
}

function blockPath(label: string): string {
  return `/v1/agent/memory/blocks/${encodeURIComponent(label)}`;
}

function conversationPath(id: string): string {
  return `/v1/conversations/${encodeURIComponent(id)}`;
}

function filePath(id: string): string {
  return `/resources/${encodeURIComponent(id)}`;
}
