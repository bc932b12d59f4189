/** Errors of the server and of the way to it, one class for each family of keys. */

/** What a problem document says besides its key and text. */
export interface ErrorContext {
  /** Fields for programs, such as `field` and `problem` of an invalid value. */
  details?: Readonly<Record<string, string | number>> | undefined;
  /** Whether trying again can help [default: false]. */
  retryable?: boolean | undefined;
  /** Seconds to wait before a repeat that the server asks for. */
  retryAfter?: number | undefined;
  status?: number | undefined;
  requestId?: string | undefined;
}

/**
 * The root of all errors. `key` is the same in every version, transport and language; `retryable` says whether trying
 * again can help. Messages name the thing and the way out, and hold no value that was passed in.
 */
export class ElytronError extends Error {
  readonly key: string;
  readonly retryable: boolean;
  /** Seconds to wait before a repeat; 0 if the server names no time. */
  readonly retryAfter: number;
  readonly details: Readonly<Record<string, string | number>>;
  /** The HTTP status, if a server answered. */
  readonly status: number | undefined;
  readonly requestId: string | undefined;

  constructor(key: string, message: string, context: ErrorContext = {}) {
    super(message);
    this.name = new.target.name;
    this.key = key;
    this.retryable = context.retryable ?? false;
    this.retryAfter = context.retryAfter ?? 0;
    this.details = context.details ?? {};
    this.status = context.status;
    this.requestId = context.requestId;
  }

  /** Returns what a log may hold. */
  toJSON(): Record<string, unknown> {
    const { name, key, message, retryable, retryAfter, details, status, requestId } = this;
    return { name, key, message, retryable, retryAfter, details, status, requestId };
  }
}

/** A value is not what its field takes. */
export class InvalidInput extends ElytronError {}
/** No memory, store or agent with this name in this space. */
export class NotFound extends ElytronError {}
/** A precondition no longer holds: read again, or wait. */
export class Conflict extends ElytronError {}
/** The journal has not reached `min_sequence`. */
export class SequenceAhead extends ElytronError {}
/** The version differs from `ifMatch`: read again. */
export class PreconditionFailed extends ElytronError {}
/** A limit, which is named, is exceeded. */
export class LimitExceeded extends ElytronError {}
/** Too many calls by this caller. */
export class RateLimited extends LimitExceeded {}
/** Too many calls for the server: try again in a moment. */
export class Overloaded extends ElytronError {}
/** An operator switched this transport off. */
export class TransportOff extends ElytronError {}
/** The access key is missing, or not valid, or no longer. */
export class Unauthorized extends ElytronError {}
/** The caller may not do this. */
export class PermissionRefused extends ElytronError {}
/** The operation is not available there, or the address is not an Elytron server of this version. */
export class Unsupported extends ElytronError {}
/** The store cannot do this, or not now. */
export class StoreError extends ElytronError {}
/** A sealed space cannot be read: its key is missing, destroyed or locked. */
export class SealError extends ElytronError {}
/** A model cannot be reached, or declined. */
export class ModelError extends ElytronError {}
/** A Memory Gateway refused the call. */
export class GatewayRefused extends ElytronError {}
/** The server does not answer. A write may have been done. */
export class Unreachable extends ElytronError {}
