"""The error tree: one class per cause. A server's error is raised as the same class on the client."""

import copyreg
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar

from elytron_core import errors


class ElytronError(Exception):
    """Base of all errors. `key` is stable across versions and transports; `retryable` says whether a retry can help."""

    key: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    detail_fields: ClassVar[tuple[str, ...]] = ()
    """Attributes included in `details`."""
    retry_after_s: int = 0
    """Delay before a retry that the server requests; 0 if it gave none."""

    def __init__(self, message: str, /) -> None:
        super().__init__(message)
        self.message = message

    def details(self) -> dict[str, str | int]:
        """Return machine-readable details in addition to the key, without secrets or content."""
        return {name: getattr(self, name) for name in self.detail_fields}

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickling rebuilds the error from its message and fields, because the constructor's arguments are not stored.
        return vars(copyreg)["__newobj__"], (type(self), *self.args), self.__dict__


class InvalidInput(ElytronError):
    key = "invalid_input"
    detail_fields = ("field", "problem")

    def __init__(self, *, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field, self.problem = field, problem


class InvalidJson(InvalidInput):
    key = "invalid_json"

    def __init__(self, *, problem: str) -> None:
        super().__init__(field="the JSON", problem=problem)


class ScopeMissing(InvalidInput):
    key = "scope_missing"

    def __init__(self, *, operation: str, way_out: str) -> None:
        super().__init__(field="scope", problem=f"is missing for {operation!r}: {way_out}")


class WordsInvalid(InvalidInput):
    key = "words_invalid"

    def __init__(self, *, problem: str) -> None:
        super().__init__(field="the words", problem=problem)


class StoreUrlInvalid(InvalidInput):
    key = "store_url_invalid"

    def __init__(self, *, problem: str) -> None:
        accepted_forms = "memory:, file:///folder, sqlite:///path.db, or a path that ends in .db"
        super().__init__(field="store", problem=f"{problem}; use {accepted_forms}")


class UnreadableFile(InvalidInput):
    key = "unreadable_file"

    def __init__(self, *, name: str, problem: str, line: int | None = None) -> None:
        file_and_line = f"{name!r}, line {line}" if line is not None else f"{name!r}"
        super().__init__(field=f"file {file_and_line}", problem=problem)
        self.line = line

    @classmethod
    def unopened(cls, name: str, error: OSError | ValueError, /) -> "UnreadableFile":
        """Return the error for a file that could not be read because of `error`, worded the same everywhere."""
        match error:
            case FileNotFoundError() | NotADirectoryError():
                problem = "does not exist"
            case IsADirectoryError():
                problem = "is a folder"
            case OSError():
                problem = f"cannot be read: {error.strerror}"
            case _:
                problem = "does not exist, because it is not a valid file name"
        return cls(name=name, problem=problem)


class EventIdInvalid(InvalidInput):
    key = "event_id_invalid"

    def __init__(self) -> None:
        super().__init__(field="Last-Event-ID", problem="is not the id of an event of this stream")


class NotFound(ElytronError):
    key = "not_found"
    detail_fields = ("what",)

    def __init__(self, *, what: str, name: str, way_out: str | None = None) -> None:  # noqa: ARG002 - for readers of code
        # The name is left out: it may be a mistyped secret, and messages go over wires and into logs.
        super().__init__(f"no {what} of this name{f': {way_out}' if way_out is not None else ' in this scope'}")
        self.what = what


class AgentDisabled(NotFound):
    key = "agent_disabled"

    def __init__(self, *, way_out: str) -> None:
        ElytronError.__init__(self, f"the agent is disabled: {way_out}")
        self.what = "agent"


class Conflict(ElytronError):
    key = "conflict"
    retryable = True
    detail_fields = ("what", "expected", "found")

    def __init__(self, *, what: str, expected: int, found: int) -> None:
        super().__init__(f"{what} is at revision {found}, not {expected}: read it again and retry")
        self.what, self.expected, self.found = what, expected, found


class PreconditionFailed(ElytronError):
    key = "precondition_failed"

    def __init__(self) -> None:
        super().__init__("it has changed since it was read: read it again and retry")


class IdempotencyConflict(Conflict):
    key = "idempotency_conflict"
    retryable = False
    detail_fields = ()

    def __init__(self) -> None:
        ElytronError.__init__(self, "this idempotency key was used for a different request: send a new key")


class SequenceAhead(ElytronError):
    key = "sequence_ahead"
    retryable = True
    detail_fields = ("expected",)

    def __init__(self, *, expected: int) -> None:
        super().__init__(
            f"the space's journal did not reach sequence {expected} in time: use the sequence of a report of this "
            "space, or try again"
        )
        self.expected = expected


class AlreadyExists(Conflict):
    """Something with this name exists, and what its creation showed is never shown again."""

    key = "already_exists"
    retryable = False
    detail_fields = ()

    def __init__(self, *, what: str, name: str, problem: str) -> None:
        ElytronError.__init__(self, f"{what} {name!r} already exists: {problem}")


class SpaceInUse(Conflict):
    key = "space_in_use"
    retryable = False
    detail_fields = ()

    def __init__(self, *, space: str, problem: str) -> None:
        ElytronError.__init__(self, f"space {space!r} {problem}")


class SpaceIncomplete(Conflict):
    key = "space_incomplete"
    detail_fields = ()

    def __init__(self, *, space: str, problem: str = "") -> None:
        filling_problem = "is being filled by a restore or copy, or one was interrupted"
        problem = problem or f"{filling_problem}: wait, run it again, or erase the space"
        ElytronError.__init__(self, f"space {space!r} {problem}")


class StillRunning(Conflict):
    key = "still_running"
    detail_fields = ()

    def __init__(self) -> None:
        ElytronError.__init__(self, "the first call with this idempotency key is still running: try again")


class ThreadBusy(Conflict):
    key = "thread_busy"
    detail_fields = ("thread",)

    def __init__(self, *, thread: str) -> None:
        ElytronError.__init__(
            self, f"the thread {thread!r} is busy with other turns: wait for their answers, then try again"
        )
        self.thread = thread


class TurnConflict(Conflict):
    key = "turn_conflict"
    retryable = False
    detail_fields = ()

    def __init__(self, *, turn: str) -> None:
        ElytronError.__init__(self, f"turn {turn!r} is already stored with different content: use a new turn id")


class LimitExceeded(ElytronError):
    key = "limit_exceeded"
    detail_fields = ("what", "limit")

    def __init__(self, *, what: str, limit: int, found: int | None = None, way_out: str = "") -> None:
        found_amount = f", got {found}" if found is not None else ""
        super().__init__(f"{what}: at most {limit}{found_amount}{way_out and f'; {way_out}'}")
        self.what, self.limit = what, limit


class PayloadTooLarge(LimitExceeded):
    key = "payload_too_large"

    def __init__(self, *, limit: int, what: str = "this", way_out: str = "split it into parts") -> None:
        ElytronError.__init__(self, f"{what} has more than {limit} bytes: {way_out}")
        self.what, self.limit = "bytes", limit


class RateLimited(LimitExceeded):
    key = "rate_limited"
    retryable = True
    detail_fields = ("retry_after_s",)

    def __init__(self, *, limit: int, retry_after_s: int, what: str = "calls", period: str = "minute") -> None:
        ElytronError.__init__(self, f"more than {limit} {what} per {period}: try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Overloaded(ElytronError):
    key = "overloaded"
    retryable = True

    def __init__(self) -> None:
        super().__init__("the server is overloaded: try again in a moment")


class TransportOff(ElytronError):
    key = "transport_off"
    detail_fields = ("transport",)

    def __init__(self, *, transport: str) -> None:
        super().__init__(f"the operator of this server has disabled {str(transport)!r}")
        self.transport = transport


class Unauthorized(ElytronError):
    key = "unauthorized"

    def __init__(self, way_out: str = "send `Authorization: Bearer <key>`") -> None:
        super().__init__(f"missing or unknown credential: {way_out}")


class PermissionRefused(ElytronError):
    key = "permission_refused"


class Unsupported(ElytronError):
    key = "unsupported"


def install_hint(
    extra: str,
    /,
    *,
    place: str = __file__,
    prefix: str = sys.prefix,
    base_prefix: str = sys.base_prefix,
    has_pip: bool | None = None,
) -> str:
    """Return the command that adds `extra` to the installation at `place`, whose interpreter has these prefixes and
    perhaps pip."""
    prefix_folders = prefix.replace("\\", "/").split("/")
    if "site-packages" not in place and "dist-packages" not in place:
        return f"in the checkout, run `uv sync --inexact --extra {extra}` or `pip install '.[{extra}]'`"
    if "uv" in prefix_folders and "tools" in prefix_folders:
        command, where_to_run = "uv tool install", ""
    elif "pipx" in prefix_folders:
        command, where_to_run = "pipx install --force", ""
    else:
        has_pip = find_spec("pip") is not None if has_pip is None else has_pip
        command = "pip install" if has_pip else "uv pip install"  # uv creates environments without pip
        where_to_run = (
            " in its virtual environment" if prefix != base_prefix else ", in a container as a step of its image"
        )
    return f"run `{command} 'elytron[{extra}]'`{where_to_run} (from a checkout: '.[{extra}]')"


class MissingExtra(Unsupported):
    key = "missing_extra"
    detail_fields = ("extra",)

    def __init__(self, *, extra: str, purpose: str, packages: tuple[str, ...] = ()) -> None:
        """Name the extra, the `packages` of it that suffice, and how to install it here."""
        requirement = f"{' and '.join(packages)} of the extra {extra!r}" if packages else f"the extra {extra!r}"
        super().__init__(f"{purpose} needs {requirement}: {install_hint(extra)}")
        self.extra = extra


class UnsupportedMedia(Unsupported):
    key = "unsupported_media"

    def __init__(self, *, allowed: tuple[str, ...], problem: str = "files of this type are not supported") -> None:
        super().__init__(f"{problem}; supported types are {', '.join(allowed)}")
        self.allowed = allowed


class StoreError(ElytronError):
    key = "store_error"


class StoreMissing(StoreError):
    key = "store_missing"
    detail_fields = ("place",)

    def __init__(self, *, place: str) -> None:
        super().__init__(
            f"there is no store at {place!r}: check the path, or create one by storing something (`elytron add`, "
            "`elytron import`)"
        )
        self.place = place


class StoreUnavailable(StoreError):
    key = "store_unavailable"
    retryable = True


class StoreBusy(StoreUnavailable):
    key = "store_busy"

    def __init__(self, *, engine: str, waited_s: float, way_out: str = "try again") -> None:
        super().__init__(f"the {engine} store was locked by others for {waited_s:.0f} s: {way_out}")


class StoreCrowded(StoreUnavailable):
    key = "store_crowded"

    def __init__(self) -> None:
        super().__init__(
            "the Postgres server accepts no more connections: use fewer (?connections=N in the URL), put a pooler "
            "in between, or raise its max_connections"
        )


class StoreTimeout(StoreUnavailable):
    key = "store_timeout"

    def __init__(self) -> None:
        super().__init__(
            "the Postgres server cancelled a statement that exceeded its statement_timeout; nothing was changed: "
            "try again, or raise the timeout for this user"
        )


class StoreDeadlock(StoreUnavailable):
    key = "store_deadlock"

    def __init__(self) -> None:
        super().__init__(
            "the Postgres server repeatedly cancelled a statement because of deadlocks; nothing was changed: try again"
        )


class StoreRefused(StoreError):
    key = "store_refused"


class OutcomeUnknown(StoreError):
    key = "outcome_unknown"

    def __init__(self, *, doing: str) -> None:
        super().__init__(
            f"the connection to the store was lost while {doing}, so it is unknown whether that was done: check "
            "before you repeat it; a call with an idempotency key can be repeated safely"
        )


class StoreReadOnly(StoreError):
    key = "store_read_only"


class StoreFull(StoreError):
    key = "store_full"
    retryable = True

    def __init__(self, *, engine: str, erasing: bool = False) -> None:
        way_out = "free space on the device" if erasing else "free space or erase something,"
        effect = "the erasure is not complete" if erasing else "this write stored nothing"
        super().__init__(f"the device of the {engine} store is full: {way_out} and retry; {effect}")
        self.engine = engine


class StoreBudgetExceeded(StoreError):
    key = "store_budget_exceeded"
    detail_fields = ("what", "limit")

    def __init__(self, *, what: str, limit: int) -> None:
        super().__init__(
            f"this store is limited to {limit} {what}: erase some, or open it with a larger profile; nothing was stored"
        )
        self.what = what
        self.limit = limit


class StoreFailed(StoreError):
    key = "store_failed"

    def __init__(self, *, engine: str, doing: str) -> None:
        super().__init__(f"the {engine} store failed while {doing} and accepts no more writes: open it again")


class StoreClosed(StoreError):
    key = "store_closed"

    def __init__(self) -> None:
        super().__init__("this store is closed: open it again")


class StoreForeign(StoreError):
    """The store belongs to something else. If only its profile differs, `profile` names that."""

    key = "store_foreign"

    def __init__(self, message: str, *, profile: str | None = None) -> None:
        super().__init__(message)
        self.profile = profile


class StoreNewer(StoreError):
    key = "store_newer"
    detail_fields = ("found",)

    def __init__(self, *, found: int, known: int) -> None:
        super().__init__(f"this store has schema {found}, this version supports up to {known}: upgrade elytron")
        self.found = found


class StoreCorrupt(StoreError):
    key = "store_corrupt"
    detail_fields = ("what",)

    def __init__(self, *, what: str) -> None:
        super().__init__(f"{what} is damaged and was not returned: run `elytron inspect --check` for the full report")
        self.what = what


class SealError(ElytronError):
    key = "seal_error"


class KeyMissing(SealError):
    key = "key_missing"


class KeyDestroyed(SealError):
    key = "key_destroyed"

    def __init__(self) -> None:
        super().__init__("this space was erased by destroying its key; its content cannot be recovered")


class SealBroken(SealError):
    key = "seal_broken"
    detail_fields = ("what",)

    def __init__(self, *, what: str) -> None:
        super().__init__(
            f"{what} was altered, moved or truncated after it was sealed, and was not returned: run `elytron "
            "inspect --check` for the full report"
        )
        self.what = what


class SpaceLocked(SealError):
    key = "space_locked"
    detail_fields = ("space",)

    def __init__(self, *, space: str) -> None:
        super().__init__(f"space {space!r} is locked: unlock it with its user's words or passphrase")
        self.space = space


class SecretRefused(SealError):
    key = "secret_refused"

    def __init__(self) -> None:
        super().__init__("the words or the passphrase do not match this space")


class ModelError(ElytronError):
    key = "model_error"


class ModelUnavailable(ModelError):
    key = "model_unavailable"
    retryable = True


class ModelRefused(ModelError):
    key = "model_refused"


class Unreachable(ElytronError):
    key = "unreachable"
    retryable = True


class GatewayRefused(ElytronError):
    key = "gateway_refused"
    detail_fields = ("status",)

    def __init__(self, message: str, /, *, status: int) -> None:
        super().__init__(message)
        self.status = status


Details = Mapping[str, str | int]

_CARRIED: dict[type[ElytronError], dict[str, str | int | None]] = {
    errors.InvalidInput: {"field": "request", "problem": "is not valid"},
    errors.UnreadableFile: {"line": None},
    errors.NotFound: {"what": "memory"},
    errors.Conflict: {"what": "it", "expected": 0, "found": 0},
    errors.SequenceAhead: {"expected": 0},
    errors.ThreadBusy: {"thread": "main"},
    errors.LimitExceeded: {"what": "values", "limit": 0},
    errors.RateLimited: {"retry_after_s": 1},
    errors.TransportOff: {"transport": "this transport"},
    errors.MissingExtra: {"extra": "server"},
    errors.StoreMissing: {"place": "somewhere"},
    errors.StoreNewer: {"found": 0},
    errors.StoreFull: {"engine": "shared"},
    errors.GatewayRefused: {"status": 502},
    errors.StoreBudgetExceeded: {"what": "something", "limit": 0},
    errors.StoreCorrupt: {"what": "something"},
    errors.SealBroken: {"what": "something"},
    errors.SpaceLocked: {"space": ""},
}
"""Attributes of an error and their defaults when a server omits them; subclasses have them too."""


def error_of(key: str, message: str, details: Details | None = None, /) -> ElytronError:
    """Return the error called `key` with `message` and `details`; the base error if the key is unknown."""
    error_class = _BY_KEY.get(key, ElytronError)
    # Not built through its constructor: the message is complete and may come from another version.
    error = error_class.__new__(error_class)
    ElytronError.__init__(error, message)
    for base_class in reversed(error_class.__mro__):
        for name, default_value in _CARRIED.get(base_class, {}).items():
            # Values of other types are ignored, because the server may be of another version.
            detail = (details or {}).get(name, default_value)
            setattr(
                error,
                name,
                detail if default_value is None or isinstance(detail, type(default_value)) else default_value,
            )
    return error


def _error_kinds(error_class: type[ElytronError]) -> Iterator[type[ElytronError]]:
    yield error_class
    for subclass in error_class.__subclasses__():
        if subclass.__module__.startswith(f"{errors.__name__}."):
            yield from _error_kinds(subclass)


_BY_KEY = {kind.key: kind for kind in _error_kinds(ElytronError)}
