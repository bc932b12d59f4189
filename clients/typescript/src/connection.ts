/** Requests to one server: the credential, limits of time and size, and repeats. */
import { errorOf, invalidInput } from "./error_keys.js";
import { ElytronError, type ErrorContext, RateLimited } from "./errors.js";
import { parseJson, writeJson } from "./json.js";

export interface ConnectOptions {
  /** An access key, sent as `Authorization: Bearer`. No message, log or inspection shows it. */
  apiKey?: string | undefined;
  /** The space of calls that name none; without it, a call is about the key's space. */
  space?: string | undefined;
  /** Limit for an answer, in milliseconds [default: 60000]. */
  timeoutMs?: number | undefined;
  /** Give every write an idempotency key of its own, so that it may be sent again [default: false]. */
  repeatWrites?: boolean | undefined;
  /** Takes the place of the global `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
}

export interface CallOptions {
  /** Ends the call, also while it waits for a repeat. The call rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** A change under a key takes effect once, however often it is sent. */
  idempotencyKey?: string | undefined;
  /** Make the change only while this is the version of its memory. */
  ifMatch?: string | undefined;
}

export interface ServerRequest {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  /** True if a request that is sent twice takes effect once. */
  mayRepeat: boolean;
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string | undefined>;
  /** A value that is sent as JSON. */
  body?: unknown;
  /** A body of another kind, sent as it is. */
  data?: Blob | FormData | undefined;
  signal?: AbortSignal | undefined;
}

const reportBytes = 64 * 1024 * 1024;
const attemptLimit = 4;
const backoffMs = 100;
const backoffLimitMs = 5_000;
const spaceMissing = "no space is named: use memory.withSpace(name), or connect(address, { space: name })";
const gatewayStatuses = new Set([502, 503, 504]);
const transientKeys = new Set(
  "unreachable rate_limited overloaded still_running store_unavailable store_busy model_unavailable".split(" "),
);

/**
 * Returns the milliseconds to wait before attempt `attempt + 1`, or undefined where the error is the answer. `attempt`
 * counts from 1; `jitter` (0 to 1) spreads callers that failed together.
 */
export function pauseMs(
  error: ElytronError,
  attempt: number,
  jitter: number,
  limit = attemptLimit,
): number | undefined {
  if (attempt >= limit || !transientKeys.has(error.key)) return undefined;
  if (error instanceof RateLimited) return Math.min(error.retryAfter * 1000, backoffLimitMs);
  const backoff = Math.min(backoffMs * 2 ** (attempt - 1), backoffLimitMs);
  return Math.min(error.retryAfter * 1000 + backoff * (0.5 + jitter / 2), backoffLimitMs);
}

/** Waits unless `signal` ends it, which rejects with its reason. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Ends a request when its caller's signal aborts, or after `waitMs` without an answer. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #waitMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(waitMs: number, signal: AbortSignal | undefined) {
    signal?.throwIfAborted();
    this.#waitMs = waitMs;
    this.#signal = signal;
    signal?.addEventListener("abort", this.#stop, { once: true });
    this.extend();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly #stop = () => this.#controller.abort(this.#signal?.reason);

  /** Restarts the timer. */
  extend(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#stop, this.#waitMs);
  }

  /** Removes the limit of time; the caller's signal still ends the request. */
  stopTimer(): void {
    clearTimeout(this.#timer);
  }

  /** Releases the timer and the caller's signal. */
  end(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#stop);
  }
}

/** One server and the credential for it. Many calls may be under way at once. */
export class Connection {
  readonly url: string;
  readonly repeatsWrites: boolean;
  readonly #authorization: string | undefined;
  readonly #fetch: typeof globalThis.fetch;
  readonly timeoutMs: number;

  constructor(address: string | URL, options: ConnectOptions = {}) {
    this.url = serverUrl(address);
    if (options.apiKey !== undefined && !/^[\x21-\x7e]{1,500}$/.test(options.apiKey))
      throw invalidInput("apiKey", "is not a valid key, which is printable ASCII without spaces");
    this.#authorization = options.apiKey === undefined ? undefined : `Bearer ${options.apiKey}`;
    this.timeoutMs = options.timeoutMs ?? 60_000;
    if (!(this.timeoutMs > 0)) throw invalidInput("timeoutMs", "is not a positive number");
    this.repeatsWrites = options.repeatWrites ?? false;
    const call = options.fetch ?? globalThis.fetch;
    this.#fetch = (input, init) => call(input, init); // a browser refuses another `this` than the window
  }

  /** Sends a request, again where that is safe and can help, and returns the report. */
  async report<Report extends object>(request: ServerRequest): Promise<Report> {
    const sent = request.body === undefined ? request : { ...request, body: writeJson(request.body) };
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#reportOnce<Report>(sent);
      } catch (error) {
        await this.pauseAfter(error, attempt, request.signal, request.mayRepeat ? attemptLimit : 1);
      }
    }
  }

  /** Waits before the next attempt. Throws `error` if that cannot help. */
  async pauseAfter(error: unknown, attempt: number, signal: AbortSignal | undefined, limit: number): Promise<void> {
    const waitMs = error instanceof ElytronError ? pauseMs(error, attempt, Math.random(), limit) : undefined;
    if (waitMs === undefined) throw error;
    await pause(waitMs, signal);
  }

  async #reportOnce<Report extends object>(request: ServerRequest): Promise<Report> {
    const deadline = new Deadline(this.timeoutMs, request.signal);
    try {
      const response = await this.open(request, deadline);
      const report = parsed(await this.#text(response, request, deadline));
      if (typeof report !== "object" || report === null) throw unknownReport(this.url);
      return report as Report;
    } finally {
      deadline.end();
    }
  }

  /** Sends a request once and returns its response, whose body is yet to be read. Throws what the server reports. */
  async open(request: ServerRequest, deadline: Deadline): Promise<Response> {
    const url = new URL(this.url + request.path);
    for (const [name, value] of Object.entries(request.query ?? {}))
      if (value !== undefined) url.searchParams.set(name, String(value));
    const headers = new Headers();
    for (const [name, value] of Object.entries(request.headers ?? {}))
      if (value !== undefined) headers.set(name, value);
    if (typeof request.body === "string") headers.set("Content-Type", "application/json");
    if (this.#authorization !== undefined) headers.set("Authorization", this.#authorization);
    const init: RequestInit = { method: request.method, headers, redirect: "manual", signal: deadline.signal };
    const body = request.data ?? request.body;
    if (body !== undefined) init.body = body as BodyInit;
    // A page's cookies are not for this server. Some runtimes have no cookies, and refuse the field.
    if ("credentials" in Request.prototype) init.credentials = "omit";
    let response: Response;
    try {
      response = await this.#fetch(url, init);
    } catch (error) {
      throw this.failure(error, request.signal, deadline);
    }
    if (response.status === 200 || response.status === 202) return response;
    throw problemOf(await this.#text(response, request, deadline), response, this.url);
  }

  /** Returns the error of a request that broke off: the reason of the caller's signal, or Unreachable. */
  failure(error: unknown, signal: AbortSignal | undefined, deadline: Deadline): unknown {
    if (signal?.aborted) return signal.reason;
    if (error instanceof ElytronError) return error;
    return unreachable(this.url, deadline.signal.aborted ? "no answer in time" : causeOf(error));
  }

  async #text(response: Response, request: ServerRequest, deadline: Deadline): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    let size = 0;
    try {
      for await (const chunk of chunksOf(response)) {
        size += chunk.byteLength;
        if (size > reportBytes) throw errorOf("unsupported", `${this.url} answered with more than 64 MiB`);
        text += decoder.decode(chunk, { stream: true });
      }
    } catch (error) {
      throw this.failure(error, request.signal, deadline);
    }
    return text + decoder.decode();
  }
}

/** Yields the bytes of a response. Leaving the loop ends the response. Not every browser iterates over streams. */
export async function* chunksOf(response: Response): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

export function unreachable(url: string, cause: string): ElytronError {
  const problem = `does not answer (${cause}): check that it is running, and try again`;
  return errorOf("unreachable", `the server at ${url} ${problem}`);
}

/** Returns a word for why a request failed. The message of the cause could hold a header, and is left out. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return "it failed";
  const { cause } = error;
  return cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : error.name;
}

function unknownReport(url: string): ElytronError {
  return errorOf("unsupported", `the report of ${url} is unknown: use the same version on both sides`);
}

function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Returns what the server says went wrong, or a proxy before it. Problem documents are read leniently. */
export function problemOf(text: string, response: Response | undefined, url: string): ElytronError {
  const document = parsed(text) as Record<string, unknown> | null | undefined;
  const status = response?.status;
  const retryHeader = response?.headers.get("Retry-After") ?? "";
  const retryAfter = /^\d+$/.test(retryHeader) ? Number(retryHeader.slice(0, 6)) : 0;
  if (typeof document?.["code"] === "string") {
    const { code, detail, details, retryable, request_id: requestId } = document;
    const serverText = typeof detail === "string" ? detail : "";
    return errorOf(String(code).slice(0, 200), code === "scope_missing" ? spaceMissing : serverText, {
      details: typeof details === "object" ? ((details ?? undefined) as ErrorContext["details"]) : undefined,
      retryable: typeof retryable === "boolean" ? retryable : undefined,
      retryAfter,
      status,
      requestId: typeof requestId === "string" ? requestId : undefined,
    });
  }
  if (status !== undefined && gatewayStatuses.has(status))
    return errorOf("unreachable", unreachable(url, `status ${status}`).message, { retryAfter, status });
  const answer = status === undefined ? "an unknown event" : `status ${status}`;
  const problem = `${url} answered with ${answer}, unlike an Elytron server: check the address`;
  return errorOf("unsupported", problem, { status });
}

/** Returns `address` without a slash at its end. Throws InvalidInput, which does not repeat it: it may hold a secret. */
function serverUrl(address: string | URL): string {
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    throw invalidInput("address", "is not a URL");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:")
    throw invalidInput("address", "names no server: use http:// or https:// with a host");
  if (url.username || url.password || url.search || url.hash)
    throw invalidInput("address", "has more than a scheme, host, port and path: pass a key as apiKey");
  return url.href.replace(/\/+$/, "");
}
