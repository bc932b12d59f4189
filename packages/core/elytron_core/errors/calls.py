"""Errors of a call: its values, its target, its time, its size, its caller."""

from elytron_core.errors.root import ElytronError


class InvalidInput(ElytronError):
    key = "invalid_input"
    told = ("field", "problem")

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


class StoreUrlInvalid(InvalidInput):
    key = "store_url_invalid"

    def __init__(self, *, problem: str) -> None:
        forms = "memory:, file:///folder, sqlite:///path.db, or a path that ends in .db"
        super().__init__(field="store", problem=f"{problem}; use {forms}")


class UnreadableFile(InvalidInput):
    key = "unreadable_file"

    def __init__(self, *, name: str, problem: str, line: int | None = None) -> None:
        place = f"{name!r}, line {line}" if line is not None else f"{name!r}"
        super().__init__(field=f"file {place}", problem=problem)
        self.line = line


class NotFound(ElytronError):
    key = "not_found"
    told = ("what",)

    def __init__(self, *, what: str, name: str, way_out: str | None = None) -> None:  # noqa: ARG002 - for readers of code
        # Not the name: a secret may have been put in its place, and messages go over wires and into logs.
        super().__init__(f"no {what} of this name{f': {way_out}' if way_out is not None else ' in this scope'}")
        self.what = what


class Conflict(ElytronError):
    key = "conflict"
    retryable = True
    told = ("what", "expected", "found")

    def __init__(self, *, what: str, expected: int, found: int) -> None:
        super().__init__(f"{what} is at revision {found}, not {expected}: read it again and retry")
        self.what, self.expected, self.found = what, expected, found


class PreconditionFailed(ElytronError):
    key = "precondition_failed"

    def __init__(self) -> None:
        super().__init__("it is not of the version that was seen any more: read it again, and decide again")


class IdempotencyConflict(Conflict):
    key = "idempotency_conflict"
    retryable = False
    told = ()

    def __init__(self) -> None:
        ElytronError.__init__(self, "this idempotency key was used for another request: send a new key")


class SpaceInUse(Conflict):
    key = "space_in_use"
    retryable = False
    told = ()

    def __init__(self, *, space: str, problem: str) -> None:
        ElytronError.__init__(self, f"space {space!r} {problem}")


class SpaceIncomplete(Conflict):
    key = "space_incomplete"
    told = ()

    def __init__(self, *, space: str) -> None:
        ElytronError.__init__(
            self,
            f"space {space!r} is being filled by a restore or a copy, or one was broken off: "
            "wait for it, do it again, or erase the space",
        )


class StillRunning(Conflict):
    key = "still_running"
    told = ()

    def __init__(self) -> None:
        ElytronError.__init__(self, "the first call under this idempotency key still runs: ask again with the same key")


class ThreadBusy(Conflict):
    key = "thread_busy"
    told = ("thread",)

    def __init__(self, *, thread: str) -> None:
        ElytronError.__init__(
            self, f"another process runs the thread {thread!r} now: wait for its answer, and try again"
        )
        self.thread = thread


class TurnConflict(Conflict):
    key = "turn_conflict"
    retryable = False
    told = ()

    def __init__(self, *, turn: str) -> None:
        ElytronError.__init__(self, f"turn {turn!r} is already committed with other content: use a new turn id")


class LimitExceeded(ElytronError):
    key = "limit_exceeded"
    told = ("what", "limit")

    def __init__(self, *, what: str, limit: int, found: int | None = None, way_out: str = "") -> None:
        seen = f", {found} given" if found is not None else ""
        super().__init__(f"{what}: at most {limit}{seen}{way_out and f'; {way_out}'}")
        self.what, self.limit = what, limit


class PayloadTooLarge(LimitExceeded):
    key = "payload_too_large"

    def __init__(self, *, limit: int, what: str = "this", way_out: str = "send it in parts") -> None:
        ElytronError.__init__(self, f"{what} has more than {limit} bytes: {way_out}")
        self.what, self.limit = "bytes", limit


class RateLimited(LimitExceeded):
    key = "rate_limited"
    retryable = True
    told = ("retry_after_s",)

    def __init__(self, *, limit: int, retry_after_s: int, what: str = "calls", period: str = "minute") -> None:
        ElytronError.__init__(self, f"more than {limit} {what} a {period}: try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class Overloaded(ElytronError):
    key = "overloaded"
    retryable = True

    def __init__(self) -> None:
        super().__init__("there are more calls than can be answered now: try again in a moment")


class Unauthorized(ElytronError):
    key = "unauthorized"

    def __init__(self, way_out: str = "send `Authorization: Bearer <key>`") -> None:
        super().__init__(f"no credential that is known here: {way_out}")


class PermissionRefused(ElytronError):
    key = "permission_refused"


class Unsupported(ElytronError):
    key = "unsupported"


class MissingExtra(Unsupported):
    key = "missing_extra"
    told = ("extra",)

    def __init__(self, *, extra: str, purpose: str, packages: tuple[str, ...] = ()) -> None:
        """Name the extra, or the `packages` of it alone that are missing."""
        checkout = f"in a checkout `uv sync --extra {extra}` or `pip install '.[{extra}]'`"
        whole = f"the extra {extra!r}: {checkout}"
        named = f"{' and '.join(packages)}: `pip install {' '.join(packages)}`, or {checkout}"
        super().__init__(f"{purpose} needs {named if packages else whole}")
        self.extra = extra


class UnsupportedMedia(Unsupported):
    key = "unsupported_media"

    def __init__(self, *, allowed: tuple[str, ...]) -> None:
        super().__init__(f"a file of this kind is not taken in; there are {', '.join(allowed)}")
        self.allowed = allowed
