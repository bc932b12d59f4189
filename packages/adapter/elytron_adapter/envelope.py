"""The envelope of a call and of its answer, the same for all transports."""

import asyncio
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, cast

from pydantic import Field, SerializeAsAny, ValidationError, WithJsonSchema, computed_field

from elytron.registry import AnyOperation, Operation
from elytron_core import limits
from elytron_core.model import OperationRequest, Request, Value, every_name, invalid_input
from elytron_core.planes.space import PrincipalKind
from elytron_core.scope import IdempotencyKey, Name, Space
from elytron_core.strict_json import parse_json

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
    """Return the word of the protocol's first hosts, one of eight, for the error `key`."""
    return _SEED_KEYS.get(key, _RUNTIME_REJECTED)


class AskedOperation(NamedTuple):
    """An operation's name and its request."""

    operation: str
    request: Json


def is_seed_write(sent: Mapping[str, Any], /) -> bool:
    """Return whether `sent` says by its fields, and not by `kind`, what is written."""
    return not _WRITES.isdisjoint(sent)


def asked_of(operation: str, sent: Mapping[str, Any], /, *, space: str | None) -> AskedOperation:
    """Return the typed request of `sent` to `operation`; a typed request is returned unchanged.

    `space` is the caller's own; a chat is in it.
    """
    match operation:
        case "write":
            return AskedOperation(operation, _typed_write(sent))
        case "export" if "chat_id" in sent:
            rest = {name: value for name, value in sent.items() if name != "chat_id"}
            return AskedOperation("export_continuity", _in_chat(rest, sent["chat_id"], space))
        case "import" if "snapshot" in sent:
            rest = {name: value for name, value in sent.items() if name != "target_chat_id"}
            if isinstance(mode := sent.get("mode"), str):
                rest["mode"] = _SNAPSHOT_MODES.get(mode, mode)
            return AskedOperation("import_continuity", _in_chat(rest, sent.get("target_chat_id"), space))
        case _:
            return AskedOperation(operation, dict(sent))


def _typed_write(sent: Mapping[str, Any]) -> Json:
    """Return a write whose body says by its fields, and not by `kind`, what is written."""
    if "writes" in sent:
        return _wrap_write(sent, "procedural", {name: sent[name] for name in ("writes", "source") if name in sent})
    if isinstance(extraction := sent.get("extraction"), dict):
        return _wrap_write(sent, "long_term", cast("Json", extraction), taken=("extraction",))
    for name in _FEEDBACK:
        if name in sent:
            return _wrap_write(sent, "agent_tool_usage_feedback", {"feedback": sent[name]}, taken=(name,))
    return dict(sent)


def _wrap_write(
    sent: Mapping[str, Any], kind: str, write: Mapping[str, Any], /, *, taken: tuple[str, ...] = ()
) -> Json:
    rest = {name: value for name, value in sent.items() if name not in {*taken, *write}}
    return rest | {"write": {**write, "kind": kind}}


def _in_chat(rest: Json, chat: object, space: str | None) -> Json:
    if chat is None:
        return rest
    scope = cast("Json", rest["scope"]) if isinstance(rest.get("scope"), dict) else {}
    own = {"space": space} if space is not None else {}
    return rest | {"scope": own | scope | {"chat": chat}}


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
        """Return what the audit notes of it: its kind and the names that were said; None without a name."""
        named = (("id", self.id), ("agent", self.agent), ("owner", self.owner), ("channel", self.channel))
        said = [f"{what} {name!r}" for what, name in (*named, ("chat", self.chat)) if name is not None]
        return ", ".join((self.kind, *said)) if said else None


class AuthKind(StrEnum):
    """The kind of credential of a caller."""

    NONE = "none"
    LOCAL = "local"
    BEARER = "bearer"
    SIGNATURE = "signature"


class CallAuth(Value):
    """The caller as the shell knows it, from a credential alone and never from a payload.

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
    """One of these must be the version of what is changed; "*": any. None: that is not asked."""
    may_disclose: bool = True
    """Private memories are shown if true; not to a model, unless its host wants that."""
    payload: bytes | Value = b"{}"


Report = Annotated[SerializeAsAny[Value], WithJsonSchema({"type": "object", "title": "Report"})]
"""The report of any operation."""


class AcceptedAnswer(Value):
    """It was done."""

    kind: Literal["accepted"] = "accepted"
    request_id: str
    report: Report
    version: str | None = Field(default=None, exclude=True)
    """Of the one thing that was read, for shells to tell beside the report."""


class DuplicatedAnswer(Value):
    """It had been done before under this idempotency key; nothing was changed, and this is the first answer again."""

    kind: Literal["duplicated"] = "duplicated"
    request_id: str
    report: Report


class QueuedAnswer(Value):
    """A part is done; `job` does the rest and can be asked for."""

    kind: Literal["queued"] = "queued"
    request_id: str
    report: Report
    job: str


class RejectedAnswer(Value):
    """It was not done. `error_key` is stable; `reason` names no value that was given."""

    kind: Literal["rejected"] = "rejected"
    request_id: str
    error_key: str
    reason: str
    retryable: bool = False
    details: dict[str, str | int] = {}

    @computed_field
    @property
    def seed_key(self) -> str:
        """Return the same in the few words of the protocol's first hosts."""
        return seed_key(self.error_key)


Response = Annotated[AcceptedAnswer | DuplicatedAnswer | QueuedAnswer | RejectedAnswer, Field(discriminator="kind")]


JsonSchema = dict[str, Any]
ValueT = TypeVar("ValueT", bound=Value)
ResultT = TypeVar("ResultT")
RequestT = TypeVar("RequestT", bound=OperationRequest[Any])


def decode_request(operation: Operation[RequestT, Any], data: bytes, /, *, limit: int = limits.JSON_BYTES) -> RequestT:
    """Return the request of `operation` in `data`.

    Raises InvalidJson for what is no strict JSON, PayloadTooLarge, and InvalidInput that names the field and never
    repeats what was given, be it a value or an unknown field's name.
    """
    return decode_as(operation.request, data, limit=limit)


def decode_as(model: type[ValueT], data: bytes, /, *, limit: int = limits.JSON_BYTES) -> ValueT:
    """Return the `model` in `data`. Raises as `decode_request` does."""
    parse_json(data, limit=limit)
    try:
        # With an instance to fill, a request's own __init__ is passed by, which would read Python's types, not JSON's.
        return model.__pydantic_validator__.validate_json(data, strict=True, self_instance=model.__new__(model))
    except ValidationError as error:
        raise invalid_input(error, model=model, known=every_name(model)) from None


async def read_aside(size: int, read: Callable[[], ResultT], /) -> ResultT:
    """Return what `read` makes of `size` bytes: many are read in a thread, so that others are answered meanwhile."""
    return read() if size <= limits.DECODED_AT_ONCE_BYTES else await asyncio.to_thread(read)


def encode_value(value: Value, /) -> bytes:
    """Return `value` as JSON; fields without a value are left out."""
    return value.__pydantic_serializer__.to_json(value, exclude_none=True)


def operation_schemas(operation: AnyOperation, /) -> JsonSchema:
    """Return the JSON Schemas of an operation's request and report."""
    return {
        "request": operation.request.model_json_schema(mode="validation"),
        "report": operation.report.model_json_schema(mode="serialization"),
    }
