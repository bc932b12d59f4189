"""What can go wrong, as one tree. A policy's refusal is a field of a report and never stands here.

    ElytronError
    ├── InvalidInput              invalid_input              the caller's value is not what the field takes
    │   ├── InvalidJson           invalid_json               not JSON, or JSON that two parsers may read in two ways
    │   ├── ScopeMissing          scope_missing              no space, or a destructive call without a scope
    │   ├── StoreUrlInvalid       store_url_invalid
    │   └── UnreadableFile        unreadable_file            an import file that is not what it says
    ├── NotFound                  not_found
    ├── Conflict                  conflict                   a precondition no longer holds
    │   ├── IdempotencyConflict   idempotency_conflict       same key, other body
    │   ├── StillRunning          still_running              the first call under this key is not done yet (retryable)
    │   └── TurnConflict          turn_conflict              same turn id, other content
    ├── PreconditionFailed        precondition_failed        a thing is not of the version that its change demands
    ├── LimitExceeded             limit_exceeded
    │   ├── PayloadTooLarge       payload_too_large          more bytes than one request or file may have
    │   └── RateLimited           rate_limited               more calls than a caller may make now (retryable)
    ├── Overloaded                overloaded                 no place for another call now (retryable)
    ├── Unauthorized              unauthorized               no credential, or none that is known here
    ├── PermissionRefused         permission_refused
    ├── Unsupported               unsupported                an operation, engine or extra that is not there
    │   ├── MissingExtra          missing_extra
    │   └── UnsupportedMedia      unsupported_media          a file of a kind that is not taken in
    ├── StoreError
    │   ├── StoreMissing          store_missing              there is no store, and none was to be made
    │   ├── StoreUnavailable      store_unavailable          cannot be opened, read or written now (retryable)
    │   │   └── StoreBusy         store_busy                 others held it longer than the wait allows
    │   ├── StoreReadOnly         store_read_only            a change of a store that can only be read here
    │   ├── StoreFull             store_full                 no space left on the device
    │   ├── StoreBudgetExceeded   store_budget_exceeded      more than the store's profile lets it hold
    │   ├── StoreFailed           store_failed               a write or fsync failed; the handle takes no more
    │   ├── StoreClosed           store_closed
    │   ├── StoreForeign          store_foreign              not a store of ours, or of another kind
    │   ├── StoreNewer            store_newer                written by a newer version
    │   └── StoreCorrupt          store_corrupt              damaged bytes were found and not served
    ├── SealError
    │   ├── KeyMissing            key_missing                no key, or not the one that sealed this
    │   ├── KeyDestroyed          key_destroyed              the space was erased by destroying its key
    │   └── SealBroken            seal_broken                a record was altered, moved or cut
    ├── ModelError
    │   ├── ModelUnavailable      model_unavailable          a model cannot be reached now (retryable)
    │   └── ModelRefused          model_refused              a model will not answer this, or not as it must
    ├── GatewayRefused            gateway_refused            a Memory Gateway said no, with its HTTP status
    └── Unreachable               unreachable                a server of ours does not answer (retryable)

Messages name the thing and the way out; they never hold a value that may be secret.
"""

from typing import ClassVar


class ElytronError(Exception):
    """The root. `key` is stable across versions and transports; `retryable` says whether trying again can help."""

    key: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    retry_after_s: int = 0
    """How long who answered asks to wait before a repeat; 0: that was not said."""

    def __init__(self, message: str, /) -> None:
        super().__init__(message)
        self.message = message

    def details(self) -> dict[str, str | int]:
        """Return what a machine may want beside the key; no secret, no content."""
        return {}


class InvalidInput(ElytronError):
    key = "invalid_input"

    def __init__(self, *, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.problem = problem

    def details(self) -> dict[str, str | int]:
        return {"field": self.field, "problem": self.problem}


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

    def __init__(self, *, what: str, name: str, way_out: str | None = None) -> None:
        super().__init__(f"no {what} {name!r}{f': {way_out}' if way_out is not None else ' in this scope'}")
        self.what = what

    def details(self) -> dict[str, str | int]:
        return {"what": self.what}


class Conflict(ElytronError):
    key = "conflict"
    retryable = True

    def __init__(self, *, what: str, expected: int, found: int) -> None:
        super().__init__(f"{what} is at revision {found}, not {expected}: read it again and retry")
        self.what, self.expected, self.found = what, expected, found

    def details(self) -> dict[str, str | int]:
        return {"what": self.what, "expected": self.expected, "found": self.found}


class PreconditionFailed(ElytronError):
    key = "precondition_failed"

    def __init__(self) -> None:
        super().__init__("it is not of the version that was seen any more: read it again, and decide again")


class IdempotencyConflict(Conflict):
    key = "idempotency_conflict"
    retryable = False

    def __init__(self) -> None:
        ElytronError.__init__(self, "this idempotency key was used for another request: send a new key")

    def details(self) -> dict[str, str | int]:
        return {}


class StillRunning(Conflict):
    key = "still_running"

    def __init__(self) -> None:
        ElytronError.__init__(self, "the first call under this idempotency key still runs: ask again with the same key")

    def details(self) -> dict[str, str | int]:
        return {}


class TurnConflict(Conflict):
    key = "turn_conflict"
    retryable = False

    def __init__(self, *, turn: str) -> None:
        ElytronError.__init__(self, f"turn {turn!r} is already committed with other content: use a new turn id")

    def details(self) -> dict[str, str | int]:
        return {}


class LimitExceeded(ElytronError):
    key = "limit_exceeded"

    def __init__(self, *, what: str, limit: int, found: int | None = None) -> None:
        seen = f", {found} given" if found is not None else ""
        super().__init__(f"{what}: at most {limit}{seen}")
        self.what, self.limit = what, limit

    def details(self) -> dict[str, str | int]:
        return {"what": self.what, "limit": self.limit}


class PayloadTooLarge(LimitExceeded):
    key = "payload_too_large"

    def __init__(self, *, limit: int, what: str = "this", way_out: str = "send it in parts") -> None:
        ElytronError.__init__(self, f"{what} has more than {limit} bytes: {way_out}")
        self.what, self.limit = "bytes", limit


class RateLimited(LimitExceeded):
    key = "rate_limited"
    retryable = True

    def __init__(self, *, limit: int, retry_after_s: int, what: str = "calls") -> None:
        ElytronError.__init__(self, f"more than {limit} {what} a minute: try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s

    def details(self) -> dict[str, str | int]:
        return {"retry_after_s": self.retry_after_s}


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

    def __init__(self, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the extra {extra!r}: pip install 'elytron[{extra}]'")
        self.extra = extra

    def details(self) -> dict[str, str | int]:
        return {"extra": self.extra}


class UnsupportedMedia(Unsupported):
    key = "unsupported_media"

    def __init__(self, *, allowed: tuple[str, ...]) -> None:
        super().__init__(f"a file of this kind is not taken in; there are {', '.join(allowed)}")
        self.allowed = allowed


class StoreError(ElytronError):
    key = "store_error"


class StoreMissing(StoreError):
    key = "store_missing"

    def __init__(self, *, place: str) -> None:
        super().__init__(
            f"there is no store at {place!r}: check the path, or make one by storing something "
            "(`elytron add`, `elytron import`)"
        )
        self.place = place

    def details(self) -> dict[str, str | int]:
        return {"place": self.place}


class StoreUnavailable(StoreError):
    key = "store_unavailable"
    retryable = True


class StoreBusy(StoreUnavailable):
    key = "store_busy"

    def __init__(self, *, engine: str, waited_s: float) -> None:
        super().__init__(f"the {engine} store was held by others for {waited_s:.0f} s: try again")


class StoreReadOnly(StoreError):
    key = "store_read_only"


class StoreFull(StoreError):
    key = "store_full"
    retryable = True

    def __init__(self, *, engine: str) -> None:
        super().__init__(
            f"the {engine} store has no room left on its device: free some and retry; this write stored nothing"
        )


class StoreBudgetExceeded(StoreError):
    key = "store_budget_exceeded"

    def __init__(self, *, what: str, limit: int) -> None:
        super().__init__(
            f"this store may hold {limit} {what} and would have more: erase some, or open it with a larger profile; "
            "nothing was stored"
        )
        self.what = what
        self.limit = limit

    def details(self) -> dict[str, str | int]:
        return {"what": self.what, "limit": self.limit}


class StoreFailed(StoreError):
    key = "store_failed"

    def __init__(self, *, engine: str, doing: str) -> None:
        super().__init__(f"the {engine} store failed while {doing}; this handle takes no more writes: open it again")


class StoreClosed(StoreError):
    key = "store_closed"

    def __init__(self) -> None:
        super().__init__("this store is closed: open it again")


class StoreForeign(StoreError):
    key = "store_foreign"


class StoreNewer(StoreError):
    key = "store_newer"

    def __init__(self, *, found: int, known: int) -> None:
        super().__init__(f"this store has schema {found}, this version knows up to {known}: use a newer elytron")
        self.found = found

    def details(self) -> dict[str, str | int]:
        return {"found": self.found}


class StoreCorrupt(StoreError):
    key = "store_corrupt"

    def __init__(self, *, what: str) -> None:
        super().__init__(f"{what} is damaged and was not served: run `elytron inspect --check` for the whole report")
        self.what = what

    def details(self) -> dict[str, str | int]:
        return {"what": self.what}


class SealError(ElytronError):
    key = "seal_error"


class KeyMissing(SealError):
    key = "key_missing"


class KeyDestroyed(SealError):
    key = "key_destroyed"

    def __init__(self) -> None:
        super().__init__("this space was erased by destroying its key; nothing in it can be read again")


class SealBroken(SealError):
    key = "seal_broken"

    def __init__(self, *, what: str) -> None:
        super().__init__(f"{what} was altered, moved or cut after it was sealed, and was not served")
        self.what = what

    def details(self) -> dict[str, str | int]:
        return {"what": self.what}


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

    def __init__(self, message: str, /, *, status: int) -> None:
        super().__init__(message)
        self.status = status

    def details(self) -> dict[str, str | int]:
        return {"status": self.status}
