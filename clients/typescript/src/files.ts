/** Files of a gateway user. */
import type { CallOptions, Connection } from "./connection.js";
import { errorOf } from "./error_keys.js";
import type { Schemas } from "./operations.js";

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
    return this.#connection.report({
      method: "POST",
      path: "/resources",
      data: form,
      mayRepeat: true,
      signal: options.signal,
    });
  }

  async list(call: CallOptions = {}): Promise<Schemas["ResourceAnswer"][]> {
    return this.#resources("/resources", call);
  }

  /** Reads what is known of a file. Throws NotFound. */
  async get(id: string, call: CallOptions = {}): Promise<Schemas["ResourceAnswer"]> {
    const [resource] = await this.#resources(filePath(id), call);
    if (resource === undefined) throw errorOf("not_found", "no file with this id belongs to this user");
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

function filePath(id: string): string {
  return `/resources/${encodeURIComponent(id)}`;
}
