"""Writes to a file through a handle's one write connection: groups of batches, and other writes in turn."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar, TypeVarTuple

from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.errors import ElytronError, StoreClosed, StoreFailed, StoreReadOnly
from elytron_core.ports.store import Batch, Committed
from elytron_store import limits as store_limits
from elytron_store.group_commit import GroupCommitter, Outcome, Work
from elytron_store.sqlite import erasure, writes
from elytron_store.sqlite.database.connection import Connection, transaction
from elytron_store.sqlite.database.driver import ERRORS, Access, Raw, translate

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_ENGINE = "sqlite"


class Writer:
    """The write connection, which the one who made it closes behind `finish`.

    Nothing is written once a write failed at the device, or where all writing is `refused`.
    """

    def __init__(
        self, connection: Connection, /, *, clock: Clock, access: Access, refused: StoreReadOnly | None = None
    ) -> None:
        self.connection = connection
        self._clock = clock
        self._access = access
        self._answers = 0
        self._beside: set[object] = set()
        """Work of the thread beside commits."""
        self._failed: StoreFailed | StoreReadOnly | None = refused
        self._group = GroupCommitter(self._apply, engine=_ENGINE, submit=connection.give, between=self._between)

    @property
    def takes_writes(self) -> bool:
        """True if no write has failed at the device, and none is refused."""
        return self._failed is None

    @property
    def is_resting(self) -> bool:
        """True if the thread is idle, and all callers of written batches have their answers or are gone."""
        return not self._beside and self._group.is_resting

    async def commit(self, batch: Batch, /) -> Committed:
        """Return what became of `batch`, which waiting ones share a flush with, once it is durable."""
        return await self._group.commit(batch)

    async def run(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function`, which brings its own transactions, on the write connection."""
        work = object()

        def call(raw: Raw) -> T:
            try:
                return self._guard(lambda: function(raw, *args), doing="writing")
            finally:
                self._beside.discard(work)

        self._beside.add(work)
        return await self.connection.run(call)

    async def change(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function` on the write connection in a transaction of its own."""
        access = self._access

        def call(raw: Raw) -> T:
            with transaction(raw, access):
                return function(raw, *args)

        return await self.run(call)

    def others(self) -> int | None:
        """Return what is another number when other connections have committed; None where the thread is at work."""
        if not self.is_resting:
            return None
        try:
            found: int = self.connection.require_raw().execute("PRAGMA data_version").fetchall()[0][0]
        except (StoreClosed, *ERRORS):
            return None
        return found

    async def finish(self) -> None:
        """Finish what was accepted, and leave the file small."""
        await self._group.close()
        # Best effort: a store closed without these is whole, only larger.
        with suppress(ElytronError, *ERRORS):
            if self._answers:
                await self.connection.run(writes.forget_answers, self._access, self._expired())
            if self._access.mode == "wal":
                await self.connection.run(_cut_at_once)

    def _expired(self) -> int:
        return self._clock.now() - limits.IDEMPOTENCY_KEEP_MS

    def _apply(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        """Write a group; runs on the writer's thread."""
        raw = self.connection.require_raw()
        try:
            outcomes = self._guard(lambda: writes.apply_group(raw, self._access, batches), doing="committing")
        except ElytronError:
            raise
        except Exception as error:
            self._failed = StoreFailed(engine=_ENGINE, doing="committing")
            raise self._failed from error
        self._answers += sum(batch.idempotency is not None for batch in batches)
        return outcomes

    def _between(self) -> Work | None:
        if self._answers < store_limits.FORGET_EVERY:
            return None
        self._answers = 0
        raw = self.connection.require_raw()
        return lambda: writes.forget_answers(raw, self._access, self._expired())

    def _guard(self, write: Callable[[], T], /, *, doing: str) -> T:
        """Return the result of `write`; runs on the writer's thread. Nothing is written once a write failed.

        It is unknown what part of the failed one reached the device.
        """
        if self._failed is not None:
            raise self._failed
        try:
            return write()
        except ERRORS as error:
            refused = translate(error, doing=doing)
            if isinstance(refused, StoreFailed):
                self._failed = refused
            raise refused from error


def _cut_at_once(raw: Raw) -> None:
    erasure.cut(raw, wait_s=0.0)
