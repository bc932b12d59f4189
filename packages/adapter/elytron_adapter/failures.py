"""Names of each error in HTTP, in JSON-RPC and as an exit code. One table, one row per error key."""

from dataclasses import dataclass

from elytron_adapter.envelope import RejectedAnswer
from elytron_core.errors import ElytronError

INTERNAL = "internal"
METHOD_NOT_ALLOWED = "method_not_allowed"
UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
REQUEST_TIMEOUT = "request_timeout"
HEADERS_TOO_LARGE = "headers_too_large"
EXIT_OK = 0
EXIT_DAMAGE = 13
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class FailureStatus:
    """An error's HTTP status, JSON-RPC code, exit code, and the title that people read."""

    status: int
    rpc: int
    exit: int
    title: str


FAILURES: dict[str, FailureStatus] = {
    INTERNAL: FailureStatus(500, -32603, 1, "Internal error"),
    "invalid_input": FailureStatus(422, -32602, 2, "Invalid input"),
    "invalid_json": FailureStatus(400, -32700, 2, "Not readable as JSON"),
    "event_id_invalid": FailureStatus(400, -32013, 2, "Event id invalid"),
    "scope_missing": FailureStatus(422, -32010, 2, "Scope missing"),
    "store_url_invalid": FailureStatus(422, -32011, 2, "Store address invalid"),
    "words_invalid": FailureStatus(422, -32014, 2, "Words invalid"),
    "unreadable_file": FailureStatus(422, -32012, 6, "File not readable"),
    "not_found": FailureStatus(404, -32020, 3, "Not found"),
    "agent_disabled": FailureStatus(404, -32029, 3, "Agent switched off"),
    "conflict": FailureStatus(409, -32021, 4, "Conflict"),
    "precondition_failed": FailureStatus(412, -32073, 4, "Precondition failed"),
    "idempotency_conflict": FailureStatus(422, -32022, 4, "Idempotency key used for another request"),
    "space_in_use": FailureStatus(409, -32026, 4, "Space in use"),
    "space_incomplete": FailureStatus(409, -32027, 4, "Space incomplete"),
    "turn_conflict": FailureStatus(409, -32023, 4, "Turn id used for another turn"),
    "still_running": FailureStatus(409, -32024, 4, "Still running"),
    "thread_busy": FailureStatus(409, -32028, 4, "Thread busy"),
    "limit_exceeded": FailureStatus(422, -32030, 7, "Limit exceeded"),
    "payload_too_large": FailureStatus(413, -32031, 7, "Payload too large"),
    "rate_limited": FailureStatus(429, -32032, 7, "Too many requests"),
    "overloaded": FailureStatus(503, -32033, 9, "Overloaded"),
    "transport_off": FailureStatus(503, -32085, 9, "Switched off"),
    "unauthorized": FailureStatus(401, -32042, 5, "Unauthorized"),
    "permission_refused": FailureStatus(403, -32040, 5, "Permission refused"),
    "unsupported": FailureStatus(422, -32601, 8, "Unsupported"),
    "missing_extra": FailureStatus(501, -32041, 8, "Not installed"),
    "unsupported_media": FailureStatus(415, -32043, 8, "Unsupported media type"),
    "store_error": FailureStatus(500, -32050, 11, "Store error"),
    "store_missing": FailureStatus(404, -32025, 3, "No such store"),
    "store_unavailable": FailureStatus(503, -32051, 9, "Store unavailable"),
    "store_busy": FailureStatus(503, -32052, 9, "Store busy"),
    "sequence_ahead": FailureStatus(409, -32096, 4, "Journal behind"),
    "store_crowded": FailureStatus(503, -32091, 9, "Store crowded"),
    "store_timeout": FailureStatus(503, -32092, 9, "Store too slow"),
    "store_deadlock": FailureStatus(503, -32093, 9, "Store in a deadlock"),
    "store_refused": FailureStatus(500, -32094, 12, "Refused by the store's server"),
    "outcome_unknown": FailureStatus(504, -32095, 11, "Outcome unknown"),
    "store_read_only": FailureStatus(403, -32044, 5, "Store read-only"),
    "store_full": FailureStatus(507, -32053, 10, "Store full"),
    "store_budget_exceeded": FailureStatus(507, -32059, 10, "Store budget exceeded"),
    "store_failed": FailureStatus(503, -32054, 11, "Store failed"),
    "store_closed": FailureStatus(503, -32055, 11, "Store closed"),
    "store_foreign": FailureStatus(500, -32056, 12, "Not this store"),
    "store_newer": FailureStatus(500, -32057, 12, "Store of a newer version"),
    "store_corrupt": FailureStatus(500, -32058, EXIT_DAMAGE, "Stored data damaged"),
    "seal_error": FailureStatus(500, -32060, 14, "Seal error"),
    "key_missing": FailureStatus(500, -32061, 14, "Key missing"),
    "key_destroyed": FailureStatus(410, -32062, 14, "Key destroyed"),
    "seal_broken": FailureStatus(500, -32063, 14, "Seal broken"),
    "space_locked": FailureStatus(423, -32064, 15, "Space locked"),
    "secret_refused": FailureStatus(403, -32065, 5, "Secret refused"),
    "model_error": FailureStatus(502, -32080, 9, "Model error"),
    "model_unavailable": FailureStatus(503, -32081, 9, "Model unavailable"),
    "model_refused": FailureStatus(502, -32082, 9, "Model refused"),
    "gateway_refused": FailureStatus(502, -32084, 1, "Refused by the gateway"),
    "unreachable": FailureStatus(503, -32083, 9, "Unreachable"),
    METHOD_NOT_ALLOWED: FailureStatus(405, -32070, 1, "Method not allowed"),
    UNSUPPORTED_MEDIA_TYPE: FailureStatus(415, -32071, 1, "Unsupported media type"),
    REQUEST_TIMEOUT: FailureStatus(408, -32072, 9, "Request too slow"),
    HEADERS_TOO_LARGE: FailureStatus(431, -32074, 7, "Headers too large"),
}


def failure_of(key: str, /) -> FailureStatus:
    """Return the row of `key`; an unknown key is an internal error."""
    return FAILURES.get(key, FAILURES[INTERNAL])


def reject_error(error: BaseException, /, *, request_id: str) -> RejectedAnswer:
    """Return what a caller sees of `error`; of a foreign exception, only that it happened."""
    if isinstance(error, ElytronError):
        return RejectedAnswer(
            request_id=request_id,
            error_key=error.key,
            reason=error.message,
            retryable=error.retryable,
            details=error.details(),
        )
    reason = f"something went wrong inside; the log names it under request {request_id}"
    return RejectedAnswer(request_id=request_id, error_key=INTERNAL, reason=reason)
