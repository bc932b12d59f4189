"""Errors of a store: its place, its device, its contents, its keys."""

from elytron_core.errors.root import ElytronError


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
    """A store of something else. If only its profile differs, `profile` names that."""

    key = "store_foreign"

    def __init__(self, message: str, *, profile: str | None = None) -> None:
        super().__init__(message)
        self.profile = profile


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
