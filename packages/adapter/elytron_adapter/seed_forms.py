"""Bodies and error keys in the forms of the protocol's first hosts, on every transport that such hosts speak."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

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


class Asked(NamedTuple):
    """An operation's name and its request."""

    operation: str
    request: Json


def is_seed_write(sent: Mapping[str, Any], /) -> bool:
    """Return whether `sent` says by its fields, and not by `kind`, what is written."""
    return not _WRITES.isdisjoint(sent)


def asked_of(operation: str, sent: Mapping[str, Any], /, *, space: str | None) -> Asked:
    """Return the typed request of `sent` to `operation`; a typed request is returned unchanged.

    `space` is the caller's own; a chat is in it.
    """
    match operation:
        case "write":
            return Asked(operation, _write(sent))
        case "export" if "chat_id" in sent:
            rest = {name: value for name, value in sent.items() if name != "chat_id"}
            return Asked("export_continuity", _in_chat(rest, sent["chat_id"], space))
        case "import" if "snapshot" in sent:
            rest = {name: value for name, value in sent.items() if name != "target_chat_id"}
            if isinstance(mode := sent.get("mode"), str):
                rest["mode"] = _SNAPSHOT_MODES.get(mode, mode)
            return Asked("import_continuity", _in_chat(rest, sent.get("target_chat_id"), space))
        case _:
            return Asked(operation, dict(sent))


def _write(sent: Mapping[str, Any]) -> Json:
    """Return a write whose body says by its fields, and not by `kind`, what is written."""
    if "writes" in sent:
        return _wrapped(sent, "procedural", {name: sent[name] for name in ("writes", "source") if name in sent})
    if isinstance(extraction := sent.get("extraction"), dict):
        return _wrapped(sent, "long_term", cast("Json", extraction), taken=("extraction",))
    for name in _FEEDBACK:
        if name in sent:
            return _wrapped(sent, "agent_tool_usage_feedback", {"feedback": sent[name]}, taken=(name,))
    return dict(sent)


def _wrapped(sent: Mapping[str, Any], kind: str, write: Mapping[str, Any], /, *, taken: tuple[str, ...] = ()) -> Json:
    rest = {name: value for name, value in sent.items() if name not in {*taken, *write}}
    return rest | {"write": {**write, "kind": kind}}


def _in_chat(rest: Json, chat: object, space: str | None) -> Json:
    if chat is None:
        return rest
    scope = cast("Json", rest["scope"]) if isinstance(rest.get("scope"), dict) else {}
    own = {"space": space} if space is not None else {}
    return rest | {"scope": own | scope | {"chat": chat}}
