/** Memory blocks of an agent on the server. */
import type { CallOptions, Connection } from "./connection.js";
import type { Schemas } from "./operations.js";

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

function blockPath(label: string): string {
  return `/v1/agent/memory/blocks/${encodeURIComponent(label)}`;
}
