/** The stable keys of the product, each with the class of its error. */
import * as errors from "./errors.js";

type ErrorClass = new (key: string, message: string, context?: errors.ErrorContext) => errors.ElytronError;

const families = new Map<ErrorClass, string>([
  [errors.ElytronError, "internal"],
  [
    errors.InvalidInput,
    "invalid_input invalid_json event_id_invalid scope_missing store_url_invalid unreadable_file words_invalid",
  ],
  [errors.NotFound, "not_found agent_disabled"],
  [
    errors.Conflict,
    "conflict already_exists idempotency_conflict space_in_use space_incomplete still_running thread_busy turn_conflict",
  ],
  [errors.SequenceAhead, "sequence_ahead"],
  [errors.PreconditionFailed, "precondition_failed"],
  [errors.LimitExceeded, "limit_exceeded payload_too_large"],
  [errors.RateLimited, "rate_limited"],
  [errors.Overloaded, "overloaded"],
  [errors.TransportOff, "transport_off"],
  [errors.Unauthorized, "unauthorized"],
  [errors.PermissionRefused, "permission_refused"],
  [errors.Unsupported, "unsupported missing_extra unsupported_media"],
  [
    errors.StoreError,
    "store_error store_missing store_unavailable store_busy store_crowded store_deadlock store_timeout store_refused " +
      "outcome_unknown store_read_only store_full store_budget_exceeded store_failed store_closed store_foreign " +
      "store_newer store_corrupt",
  ],
  [errors.SealError, "seal_error key_missing key_destroyed seal_broken secret_refused space_locked"],
  [errors.ModelError, "model_error model_unavailable model_refused"],
  [errors.GatewayRefused, "gateway_refused"],
  [errors.Unreachable, "unreachable"],
]);

const retryableKeys = new Set(
  (
    "conflict sequence_ahead space_incomplete still_running thread_busy rate_limited overloaded store_unavailable " +
    "store_busy store_crowded store_deadlock store_timeout store_full model_unavailable unreachable"
  ).split(" "),
);

const classes = new Map(
  [...families].flatMap(([family, keys]) => keys.split(" ").map((key) => [key, family] as const)),
);

/** Every key of the product. A newer server may send others, as an ElytronError with that key. */
export const errorKeys: readonly string[] = [...classes.keys()];

/** Returns the error called `key`; an ElytronError if this version does not know the key. */
export function errorOf(key: string, message: string, context: errors.ErrorContext = {}): errors.ElytronError {
  const retryable = context.retryable ?? retryableKeys.has(key);
  return new (classes.get(key) ?? errors.ElytronError)(key, message, { ...context, retryable });
}

/** Returns the error for a value that this client does not send. */
export function invalidInput(field: string, problem: string): errors.ElytronError {
  return errorOf("invalid_input", `${field} ${problem}`, { details: { field, problem } });
}
