"""The envelope of a call and its answer, the same for all transports, and the wire names of each error."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, cast

from pydantic import Field, SerializeAsAny, ValidationError, WithJsonSchema, computed_field

from elytron.registry import AnyOperation, Operation
from elytron_core import limits
from elytron_core.errors import ElytronError
from elytron_core.model import OperationRequest, Request, Value, every_name, invalid_input
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.scope import IdempotencyKey, Name, Space, own_space
from elytron_core.strict_json import parse_json

DECODED_AT_ONCE_BYTES: Final = 128 * 1024
"""A longer body is decoded in a thread."""


Json = dict[str, Any]

_RUNTIME_REJECTED = "runtime_rejected"
_SEED_KEYS = {
    "idempotency_conflict": "duplicated",
    "invalid_input": "operation_mismatch",
    "invalid_json": "invalid_json",
    "method_not_allowed": "unsupported_operation",
    "payload_too_large": "payload_too_large",
    "permission_refused": "forbidden",
    "scope_missing": "operation_mismatch",
    "unauthorized": "unauthorized",
    "unsupported": "unsupported_operation",
}
_SNAPSHOT_MODES = {"BootstrapImport": "bootstrap", "FullRestore": "full_restore"}
_FEEDBACK = ("tool_usage_feedback", "feedback")
_WRITES = frozenset({"writes", "extraction", *_FEEDBACK})


def seed_key(key: str, /) -> str:
    """Return the name that the protocol's first hosts use, one of eight, for the error `key`."""
    return _SEED_KEYS.get(key, _RUNTIME_REJECTED)


class OperationCall(NamedTuple):
    """An operation's name and its request."""

    operation: str
    request: Json


def is_seed_write(body: Mapping[str, Any], /) -> bool:
    """Return whether `body` shows by its fields, and not by `kind`, what is written."""
    return not _WRITES.isdisjoint(body)


def asked_of(operation: str, body: Mapping[str, Any], /, *, space: str | None) -> OperationCall:
    """Return the typed request of `body` to `operation`; a typed request is returned unchanged.

    `space` is the caller's own; a chat is in it.
    """
    match operation:
        case "write":
            return OperationCall(operation, _typed_write(body))
        case "export" if "chat_id" in body:
            request_fields = {name: value for name, value in body.items() if name != "chat_id"}
            return OperationCall("export_continuity", _in_chat(request_fields, body["chat_id"], space))
        case "import" if "snapshot" in body:
            request_fields = {name: value for name, value in body.items() if name != "target_chat_id"}
            if isinstance(mode := body.get("mode"), str):
                request_fields["mode"] = _SNAPSHOT_MODES.get(mode, mode)
            return OperationCall("import_continuity", _in_chat(request_fields, body.get("target_chat_id"), space))
        case _:
            return OperationCall(operation, dict(body))


def _typed_write(body: Mapping[str, Any]) -> Json:
    """Return a write whose body shows by its fields, and not by `kind`, what is written."""
    if "writes" in body:
        return _wrap_write(body, "procedural", {name: body[name] for name in ("writes", "source") if name in body})
    if isinstance(extraction := body.get("extraction"), dict):
        return _wrap_write(body, "long_term", cast("Json", extraction), dropped_fields=("extraction",))
    for name in _FEEDBACK:
        if name in body:
            return _wrap_write(body, "agent_tool_usage_feedback", {"feedback": body[name]}, dropped_fields=(name,))
    return dict(body)


def _wrap_write(
    body: Mapping[str, Any], kind: str, write: Mapping[str, Any], /, *, dropped_fields: tuple[str, ...] = ()
) -> Json:
    wrapped_fields = {name: value for name, value in body.items() if name not in {*dropped_fields, *write}}
    return wrapped_fields | {"write": {**write, "kind": kind}}


def _in_chat(request_fields: Json, chat: object, space: str | None) -> Json:
    if chat is None:
        return request_fields
    scope = cast("Json", request_fields["scope"]) if isinstance(request_fields.get("scope"), dict) else {}
    space_field = {"space": space} if space is not None else {}
    return request_fields | {"scope": space_field | scope | {"chat": chat}}


class CallTransport(StrEnum):
    """Transport of a call."""

    SDK = "sdk"
    CLI = "cli"
    HTTP = "http"
    WSS = "wss"
    MCP = "mcp"
    A2A = "a2a"
    LLM = "llm"
    """Memory of the model APIs that a server relays."""
    CONSOLE = "console"


LOCAL = frozenset({CallTransport.SDK, CallTransport.CLI})
"""Transports whose caller runs on this machine as its own user."""


class SourceKind(StrEnum):
    """Kind of caller."""

    HOST = "host"
    AGENT = "agent"
    OPERATOR = "operator"
    PEER = "peer"


class CallSource(Value):
    """The caller's own name. It labels a call and grants nothing."""

    id: Name | None = None
    kind: SourceKind = SourceKind.HOST
    agent: Name | None = None
    owner: Name | None = None
    channel: Name | None = None
    chat: Name | None = None

    @property
    def label(self) -> str | None:
        """Return the label for the audit: its kind and the given names; None without a name."""
        names = (("id", self.id), ("agent", self.agent), ("owner", self.owner), ("channel", self.channel))
        parts = [f"{what} {name!r}" for what, name in (*names, ("chat", self.chat)) if name is not None]
        return ", ".join((self.kind, *parts)) if parts else None


class CallHeaders(NamedTuple):
    """What a caller says of a call beside its request."""

    idempotency_key: str | None = None
    audit_id: str | None = None
    versions: tuple[str, ...] = ()
    """Versions of the protocol that the caller accepts."""


NO_HEADERS: Final = CallHeaders()


class AuthKind(StrEnum):
    """The kind of credential of a caller."""

    NONE = "none"
    LOCAL = "local"
    BEARER = "bearer"
    SIGNATURE = "signature"


class CallOrigin(NamedTuple):
    """The way by which a call came, and who says that it came from there."""

    transport: CallTransport
    source: CallSource = CallSource()
    kind: AuthKind = AuthKind.BEARER
    may_disclose: bool = True
    """Whether a report may have what was shared in confidence."""


class CallAuth(Value):
    """The caller as authenticated by the shell, only from a credential and never from a payload.

    `role` says what the caller may do; `space` is the only space that it may use, None: any.
    """

    authenticated: bool = False
    kind: AuthKind = AuthKind.NONE
    principal: Name | None = None
    role: PrincipalKind | None = None
    space: Space | None = None


class Envelope(Request):
    """One call of one operation. `payload` is JSON from outside, or the typed request of a caller in this process."""

    request_id: Name
    transport: CallTransport
    operation: Annotated[str, Field(max_length=limits.NAME_CHARS)]
    source: CallSource = CallSource()
    auth: CallAuth = CallAuth()
    idempotency_key: IdempotencyKey | None = None
    audit_id: Name | None = None
    versions: tuple[str, ...] = ()
    """One of these must be the version of what is changed; "*": any. None: not checked."""
    may_disclose: bool = True
    """Show private memories; never to a model, unless its host wants that."""
    payload: bytes | Value = b"{}"


Report = Annotated[SerializeAsAny[Value], WithJsonSchema({"type": "object", "title": "Report"})]
"""The report of any operation."""


class AcceptedAnswer(Value):
    """It was done."""

    kind: Literal["accepted"] = "accepted"
    request_id: str
    report: Report
    version: str | None = Field(default=None, exclude=True)
    """Version of the one thing that was read, which shells return with the report."""


class DuplicatedAnswer(Value):
    """It was already done under this idempotency key; nothing was changed, and this repeats the first answer."""

    kind: Literal["duplicated"] = "duplicated"
    request_id: str
    report: Report


class QueuedAnswer(Value):
    """A part is done; `job` does the rest and can be queried."""

    kind: Literal["queued"] = "queued"
    request_id: str
    report: Report
    job: str


class RejectedAnswer(Value):
    """It was not done. `error_key` is stable; `reason` repeats no given value."""

    kind: Literal["rejected"] = "rejected"
    request_id: str
    error_key: str
    reason: str
    retryable: bool = False
    details: dict[str, str | int] = {}

    @computed_field
    @property
    def seed_key(self) -> str:
        """Return the error in the terms of the protocol's first hosts."""
        return seed_key(self.error_key)


Response = Annotated[AcceptedAnswer | DuplicatedAnswer | QueuedAnswer | RejectedAnswer, Field(discriminator="kind")]


JsonSchema = dict[str, Any]
ValueT = TypeVar("ValueT", bound=Value)
ResultT = TypeVar("ResultT")
RequestT = TypeVar("RequestT", bound=OperationRequest[Any])


def decode_request(operation: Operation[RequestT, Any], data: bytes, /, *, space: str | None = None) -> RequestT:
    """Return the request of `operation` in `data`; `space` is the caller's own, the default of a scope without one.

    Raises InvalidJson for invalid strict JSON, PayloadTooLarge, and InvalidInput that names the field and never repeats
    what was given, whether a value or an unknown field's name.
    """
    return decode_as(operation.request, data, space=space)


def decode_as(
    model: type[ValueT], data: bytes, /, *, limit: int = limits.JSON_BYTES, space: str | None = None
) -> ValueT:
    """Return the `model` in `data`. Raises as `decode_request` does."""
    # Parsed strictly first, because pydantic accepts repeated keys and other ambiguous JSON.
    parse_json(data, limit=limit)
    try:
        # Filling an instance bypasses a request's own __init__, which would read Python's types, not JSON's.
        return model.__pydantic_validator__.validate_json(
            data, strict=True, context=own_space(space), self_instance=model.__new__(model)
        )
    except ValidationError as error:
        raise invalid_input(error, model=model, names=every_name(model)) from None


async def read_aside(size: int, read: Callable[[], ResultT], /) -> ResultT:
    """Return the result of `read` for `size` bytes; large inputs are read in a thread, so that others are answered
    meanwhile."""
    return read() if size <= DECODED_AT_ONCE_BYTES else await asyncio.to_thread(read)


def encode_value(value: Value, /) -> bytes:
    """Return `value` as JSON without empty fields."""
    return value.__pydantic_serializer__.to_json(value, exclude_none=True)


def operation_schemas(operation: AnyOperation, /) -> JsonSchema:
    """Return the JSON Schemas of an operation's request and report."""
    return {
        "request": operation.request.model_json_schema(mode="validation"),
        "report": operation.report.model_json_schema(mode="serialization"),
    }


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
    """An error's HTTP status, JSON-RPC code, exit code, and the title for people."""

    status: int
    rpc: int
    exit: int
    title: str


FAILURES: dict[str, FailureStatus] = {
    INTERNAL: FailureStatus(500, -32603, 1, "Internal error"),
    "invalid_input": FailureStatus(422, -32602, 2, "Invalid input"),
    "invalid_json": FailureStatus(400, -32700, 2, "Invalid JSON"),
    "event_id_invalid": FailureStatus(400, -32013, 2, "Invalid event id"),
    "scope_missing": FailureStatus(422, -32010, 2, "Scope missing"),
    "store_url_invalid": FailureStatus(422, -32011, 2, "Invalid store address"),
    "words_invalid": FailureStatus(422, -32014, 2, "Invalid words"),
    "unreadable_file": FailureStatus(422, -32012, 6, "Unreadable file"),
    "not_found": FailureStatus(404, -32020, 3, "Not found"),
    "agent_disabled": FailureStatus(404, -32029, 3, "Agent disabled"),
    "conflict": FailureStatus(409, -32021, 4, "Conflict"),
    "precondition_failed": FailureStatus(412, -32073, 4, "Precondition failed"),
    "idempotency_conflict": FailureStatus(422, -32022, 4, "Idempotency key reused"),
    "already_exists": FailureStatus(409, -32045, 4, "Already exists"),
    "space_in_use": FailureStatus(409, -32026, 4, "Space in use"),
    "space_incomplete": FailureStatus(409, -32027, 4, "Space incomplete"),
    "turn_conflict": FailureStatus(409, -32023, 4, "Turn id reused"),
    "still_running": FailureStatus(409, -32024, 4, "Still running"),
    "thread_busy": FailureStatus(409, -32028, 4, "Thread busy"),
    "limit_exceeded": FailureStatus(422, -32030, 7, "Limit exceeded"),
    "payload_too_large": FailureStatus(413, -32031, 7, "Payload too large"),
    "rate_limited": FailureStatus(429, -32032, 7, "Too many requests"),
    "overloaded": FailureStatus(503, -32033, 9, "Overloaded"),
    "transport_off": FailureStatus(503, -32085, 9, "Disabled"),
    "unauthorized": FailureStatus(401, -32042, 5, "Unauthorized"),
    "permission_refused": FailureStatus(403, -32040, 5, "Permission denied"),
    "unsupported": FailureStatus(422, -32601, 8, "Unsupported"),
    "missing_extra": FailureStatus(501, -32041, 8, "Extra not installed"),
    "unsupported_media": FailureStatus(415, -32043, 8, "Unsupported media type"),
    "store_error": FailureStatus(500, -32050, 11, "Store error"),
    "store_missing": FailureStatus(404, -32025, 3, "No such store"),
    "store_unavailable": FailureStatus(503, -32051, 9, "Store unavailable"),
    "store_busy": FailureStatus(503, -32052, 9, "Store busy"),
    "sequence_ahead": FailureStatus(409, -32096, 4, "Journal behind"),
    "store_crowded": FailureStatus(503, -32091, 9, "Too many store connections"),
    "store_timeout": FailureStatus(503, -32092, 9, "Store timeout"),
    "store_deadlock": FailureStatus(503, -32093, 9, "Store deadlock"),
    "store_refused": FailureStatus(500, -32094, 12, "Rejected by the database server"),
    "outcome_unknown": FailureStatus(504, -32095, 11, "Outcome unknown"),
    "store_read_only": FailureStatus(403, -32044, 5, "Store read-only"),
    "store_full": FailureStatus(507, -32053, 10, "Store full"),
    "store_budget_exceeded": FailureStatus(507, -32059, 10, "Store budget exceeded"),
    "store_failed": FailureStatus(503, -32054, 11, "Store failed"),
    "store_closed": FailureStatus(503, -32055, 11, "Store closed"),
    "store_foreign": FailureStatus(500, -32056, 12, "Foreign store"),
    "store_newer": FailureStatus(500, -32057, 12, "Store from a newer version"),
    "store_corrupt": FailureStatus(500, -32058, EXIT_DAMAGE, "Damaged data"),
    "seal_error": FailureStatus(500, -32060, 14, "Seal error"),
    "key_missing": FailureStatus(500, -32061, 14, "Key missing"),
    "key_destroyed": FailureStatus(410, -32062, 14, "Key destroyed"),
    "seal_broken": FailureStatus(500, -32063, 14, "Seal broken"),
    "space_locked": FailureStatus(423, -32064, 15, "Space locked"),
    "secret_refused": FailureStatus(403, -32065, 5, "Wrong secret"),
    "model_error": FailureStatus(502, -32080, 9, "Model error"),
    "model_unavailable": FailureStatus(503, -32081, 9, "Model unavailable"),
    "model_refused": FailureStatus(502, -32082, 9, "Rejected by the model"),
    "gateway_refused": FailureStatus(502, -32084, 1, "Rejected by the gateway"),
    "unreachable": FailureStatus(503, -32083, 9, "Unreachable"),
    METHOD_NOT_ALLOWED: FailureStatus(405, -32070, 1, "Method not allowed"),
    UNSUPPORTED_MEDIA_TYPE: FailureStatus(415, -32071, 1, "Unsupported media type"),
    REQUEST_TIMEOUT: FailureStatus(408, -32072, 9, "Request timeout"),
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
    reason = f"internal error; see the log for request {request_id}"
    return RejectedAnswer(request_id=request_id, error_key=INTERNAL, reason=reason)
