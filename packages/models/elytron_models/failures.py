"""Failures of model servers, distinguished by status and by the codes of their error objects. No text is repeated."""

from typing import Final

from elytron_core.errors import InvalidInput, ModelError, ModelRefused, ModelUnavailable
from elytron_core.ports.chat import Failed, FailureReason
from elytron_models.address import KEY_VARIABLE, address_of
from elytron_models.fields import Fields, fields_of, inner, text

_CODES: Final = {
    "context_length_exceeded": FailureReason.CONTEXT_TOO_LONG,
    "request_too_large": FailureReason.CONTEXT_TOO_LONG,
    "invalid_encrypted_content": FailureReason.OPAQUE_REFUSED,
    "rate_limit_exceeded": FailureReason.RATE_LIMITED,
    "rate_limit_error": FailureReason.RATE_LIMITED,
    "overloaded_error": FailureReason.UNAVAILABLE,
    "api_error": FailureReason.UNAVAILABLE,
    "timeout_error": FailureReason.UNAVAILABLE,
    "server_error": FailureReason.UNAVAILABLE,
    "internal_error": FailureReason.UNAVAILABLE,
    "vector_store_timeout": FailureReason.UNAVAILABLE,
    "authentication_error": FailureReason.UNAUTHORIZED,
    "permission_error": FailureReason.UNAUTHORIZED,
    "invalid_api_key": FailureReason.UNAUTHORIZED,
    "insufficient_quota": FailureReason.REFUSED,
}
_PHRASES: Final = {
    "prompt is too long": FailureReason.CONTEXT_TOO_LONG,
    "maximum context length": FailureReason.CONTEXT_TOO_LONG,
    "context window": FailureReason.CONTEXT_TOO_LONG,
    "context length": FailureReason.CONTEXT_TOO_LONG,
    "exceeds the available context": FailureReason.CONTEXT_TOO_LONG,
    "in `thinking` block": FailureReason.OPAQUE_REFUSED,
}
"""Texts of servers that have no code for it."""
_STATUSES: Final = {
    401: FailureReason.UNAUTHORIZED,
    403: FailureReason.UNAUTHORIZED,
    408: FailureReason.UNAVAILABLE,
    409: FailureReason.UNAVAILABLE,
    413: FailureReason.CONTEXT_TOO_LONG,
    429: FailureReason.RATE_LIMITED,
}
_TOLD: Final = {
    FailureReason.UNREACHABLE: "cannot be reached: check its address",
    FailureReason.TIMEOUT: "did not answer in time",
    FailureReason.CUT: "broke off before the end of its answer: try again",
    FailureReason.RATE_LIMITED: "takes no more calls for now: try again later",
    FailureReason.UNAVAILABLE: "cannot answer now: try again later",
    FailureReason.UNAUTHORIZED: "did not accept the key: check {key}",
    FailureReason.KEY_MISSING: "has no key: set {key}",
    FailureReason.CONTEXT_TOO_LONG: "was given more than it reads: send less",
    FailureReason.OPAQUE_REFUSED: "did not take back an item of its reasoning: send the conversation without it",
    FailureReason.REFUSED: "refused the request: check the model's name and the request",
    FailureReason.MALFORMED: "answered what its dialect does not know: check the dialect and the address",
    FailureReason.TOO_LARGE: "answered more than is read",
}


def failure_of(error: Fields, /, *, status: int | None = None) -> Failed:
    """Return the failure that an error object describes, with the status that it came under, if any."""
    status = status if status is not None else _number(error)
    for code in (text(error, "code"), text(error, "type")):
        if (reason := _CODES.get(code)) is not None:
            return Failed(reason=reason, status=status)
    said = text(error, "message").lower()
    for phrase, reason in _PHRASES.items():
        if phrase in said:
            return Failed(reason=reason, status=status)
    return Failed(reason=_of_status(status), status=status)


def refusal_of(status: int, body: bytes, /, *, retry_after_s: int = 0) -> Failed:
    """Return the failure of an answer with another status than 200."""
    told = fields_of(body) or {}
    error = inner(told, "error") or {"message": text(told, "error") or text(told, "message")}
    return failure_of(error, status=status).model_copy(update={"retry_after_s": retry_after_s})


def error_of(failed: Failed, /, *, name: str, kind: str = "model") -> ModelError:
    """Return `failed` as the error of a call of the model `name`, or of what else the `kind` says."""
    status = f" ({failed.status})" if failed.status is not None else ""
    made = ModelUnavailable if failed.is_passing else ModelRefused
    told = _TOLD[failed.reason].format(key=_key_variables(name) if kind == "model" else "it")
    error = made(f"the {kind} {name!r} {told}{status}")
    error.retry_after_s = failed.retry_after_s
    return error


def _of_status(status: int | None) -> FailureReason:
    if status is None or status >= 500:
        return FailureReason.UNAVAILABLE
    return _STATUSES.get(status, FailureReason.REFUSED)


def _number(error: Fields) -> int | None:
    """Return the status that some servers write as the code of an error within a stream."""
    code = error.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _key_variables(name: str) -> str:
    """Return the variables that hold the key of the model called `name`; a vendor's is for its own server alone."""
    try:
        return address_of(name).key_variables
    except InvalidInput:
        return KEY_VARIABLE
