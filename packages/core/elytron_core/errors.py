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
    │   ├── SpaceInUse            space_in_use               a full restore takes an empty space, and it is none
    │   ├── SpaceIncomplete       space_incomplete           it is being filled, or that was broken off (retryable)
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

import copyreg
from typing import Any, ClassVar


class ElytronError(Exception):
    """The root. `key` is stable across versions and transports; `retryable` says whether trying again can help."""

    key: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    told: ClassVar[tuple[str, ...]] = ()
    """The attributes that `details` tells."""
    retry_after_s: int = 0
    """How long who answered asks to wait before a repeat; 0: that was not said."""

    def __init__(self, message: str, /) -> None:
        super().__init__(message)
        self.message = message

    def details(self) -> dict[str, str | int]:
        """Return what a machine may want beside the key; no secret, no content."""
        return {name: getattr(self, name) for name in self.told}

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process makes it of its message and fields: the arguments that made these are not kept.
        return vars(copyreg)["__newobj__"], (type(self), *self.args), self.__dict__


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

    def __init__(self, *, what: str, name: str, way_out: str | None = None) -> None:
        super().__init__(f"no {what} {name!r}{f': {way_out}' if way_out is not None else ' in this scope'}")
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


class TurnConflict(Conflict):
    key = "turn_conflict"
    retryable = False
    told = ()

    def __init__(self, *, turn: str) -> None:
        ElytronError.__init__(self, f"turn {turn!r} is already committed with other content: use a new turn id")


class LimitExceeded(ElytronError):
    key = "limit_exceeded"
    told = ("what", "limit")

    def __init__(self, *, what: str, limit: int, found: int | None = None) -> None:
        seen = f", {found} given" if found is not None else ""
        super().__init__(f"{what}: at most {limit}{seen}")
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

    def __init__(self, *, limit: int, retry_after_s: int, what: str = "calls") -> None:
        ElytronError.__init__(self, f"more than {limit} {what} a minute: try again in {retry_after_s} s")
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

    def __init__(self, *, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the extra {extra!r}: pip install 'elytron[{extra}]'")
        self.extra = extra


class UnsupportedMedia(Unsupported):
    key = "unsupported_media"

    def __init__(self, *, allowed: tuple[str, ...]) -> None:
        super().__init__(f"a file of this kind is not taken in; there are {', '.join(allowed)}")
        self.allowed = allowed


class StoreError(ElytronError):
    key = "store_error"


class StoreMissing(StoreError):
    key = "store_missing"
    told = ("place",)

    def __init__(self, *, place: str) -> None:
        super().__init__(
            f"there is no store at {place!r}: check the path, or make one by storing something "
            "(`elytron add`, `elytron import`)"
        )
        self.place = place


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
    told = ("what", "limit")

    def __init__(self, *, what: str, limit: int) -> None:
        super().__init__(
            f"this store may hold {limit} {what} and would have more: erase some, or open it with a larger profile; "
            "nothing was stored"
        )
        self.what = what
        self.limit = limit


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
    told = ("found",)

    def __init__(self, *, found: int, known: int) -> None:
        super().__init__(f"this store has schema {found}, this version knows up to {known}: use a newer elytron")
        self.found = found


class StoreCorrupt(StoreError):
    key = "store_corrupt"
    told = ("what",)

    def __init__(self, *, what: str) -> None:
        super().__init__(f"{what} is damaged and was not served: run `elytron inspect --check` for the whole report")
        self.what = what


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
    told = ("what",)

    def __init__(self, *, what: str) -> None:
        super().__init__(f"{what} was altered, moved or cut after it was sealed, and was not served")
        self.what = what


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
    told = ("status",)

    def __init__(self, message: str, /, *, status: int) -> None:
        super().__init__(message)
        self.status = status
