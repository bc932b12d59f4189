/** Conversations of the Responses API on a server that runs agents. */
import type { CallOptions, Connection } from "./connection.js";
import type { Schemas } from "./operations.js";

export interface PageOptions {
  limit?: number;
  /** The id behind which the page begins. */
  after?: string;
  signal?: AbortSignal;
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

  async create(
    request: Schemas["ConversationRequest"] = {},
    call: CallOptions = {},
  ): Promise<Schemas["ConversationBody"]> {
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
    return this.#connection.report({
      method: "DELETE",
      path: conversationPath(id),
      mayRepeat: false,
      signal: call.signal,
    });
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

function pageRequest(path: string, { limit, after, signal }: PageOptions) {
  return { method: "GET", path, query: { limit, after }, mayRepeat: true, signal } as const;
}

function conversationPath(id: string): string {
  return `/v1/conversations/${encodeURIComponent(id)}`;
}
