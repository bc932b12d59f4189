"""The lease that lets one writer at a time use a store on an MCP file server, made of appendings alone.

lease/<epoch>      the first whole line in it says whose epoch it is; that writer's further lines renew or end it

Who takes the store appends a claim to the file of the next epoch. It holds the store if its line came first, if there
is no later epoch, and if the epoch before was not renewed meanwhile. So it is enough that the server puts appendings
one behind the other. Times are those of the writers' clocks, which may differ by `MCP_LEASE_SKEW_MS`.
"""

import asyncio
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from elytron_core.clock import Clock
from elytron_core.errors import NotFound, StoreBusy, StoreFailed
from elytron_store.mcp.tools import ENGINE, ToolFiles, WriteMode

MCP_LEASE_MS: Final = 60_000
MCP_LEASE_SKEW_MS: Final = 10_000
"""Lease of a writer on an MCP file server, and the largest difference of two writers' clocks."""
MCP_LEASE_CHARS: Final = 64 * 1024
"""A lease's file that is longer is given up for a new one."""


_OTHERS = "another writer had locked it"


class LeaseClaim(BaseModel):
    """A line of a lease: its holder and its end, in milliseconds since 1970; 0 ends it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    holder: str
    until: int


class LeaseEpoch(NamedTuple):
    """Contents of an epoch's file: its owner, its end, and whether it is over."""

    holder: str
    until: int

    @property
    def is_over(self) -> bool:
        return self.until == 0


class WriterLease:
    """A writer's lock on the store in `folder`. `epoch` is that of the lock, 0 before the first.

    If another writer came between two locks, it ends for good: cached state is no longer valid.
    """

    def __init__(self, files: ToolFiles, folder: str, /, *, holder: str, clock: Clock) -> None:
        self.epoch = 0
        self.is_after_a_crash = False
        """True if the previous writer did not release its lock, so that its last calls may still arrive."""
        self._files = files
        self._folder = folder
        self._holder = holder
        self._clock = clock
        self._until = 0
        self._size = 0
        self._taking = asyncio.Lock()

    async def hold(self) -> None:
        """Reserve the store for this writer for at least half the lease time. Raises StoreBusy, StoreFailed."""
        if self._is_held_for(MCP_LEASE_MS // 2):
            return
        async with self._taking:
            # Checked again: the call before in the queue may have renewed it.
            if self._is_held_for(MCP_LEASE_MS // 2):
                return
            if not self._is_held_for(0) or not await self._renewed():
                await self._take()

    async def confirm(self) -> None:
        """Raise StoreFailed unless the last action was done under this lock."""
        if not self._is_held_for(0):
            await self.confirm_on_server()

    async def confirm_on_server(self) -> None:
        """Raise StoreFailed if another writer began meanwhile: a later one sees what was done before this call."""
        if await self._newest() != self.epoch:
            self._until = 0
            raise StoreFailed(engine=ENGINE, doing=_OTHERS)

    async def release(self) -> None:
        """Release the lock, so that the next writer can start immediately."""
        if self._until:
            self._until = 0
            await self._append(self.epoch, LeaseClaim(holder=self._holder, until=0))

    def _is_held_for(self, time_ms: int) -> bool:
        return bool(self._until) and self._clock.now() + time_ms < self._until

    async def _renewed(self) -> bool:
        """Renew the lock; return whether it is still this writer's. A long file is replaced."""
        if self._size > MCP_LEASE_CHARS:
            await self.release()
            return False
        held_until = self._clock.now() + MCP_LEASE_MS
        await self._append(self.epoch, LeaseClaim(holder=self._holder, until=held_until))
        # Read after the claim, so that a writer who began before it is seen.
        is_ours = await self._newest() == self.epoch
        self._until = held_until if is_ours else 0
        return is_ours

    async def _take(self) -> None:
        newest_epoch = await self._newest()
        former_claim = await self._read(newest_epoch)
        now = self._clock.now()
        has_former_claim = former_claim is not None and former_claim.holder == self._holder
        if self.epoch and not has_former_claim:
            raise StoreFailed(engine=ENGINE, doing=_OTHERS)
        if former_claim is not None and not has_former_claim:
            self._require_free(former_claim, now)
        epoch = newest_epoch + 1
        held_until = now + MCP_LEASE_MS
        self._until, self._size = 0, 0
        await self._append(epoch, LeaseClaim(holder=self._holder, until=held_until))
        own_claim = await self._read(epoch)
        holds_own_claim = own_claim is not None and own_claim.holder == self._holder
        # The former holder may have renewed its claim between the two reads.
        if not holds_own_claim or await self._newest() != epoch or await self._read(newest_epoch) != former_claim:
            await self._append(epoch, LeaseClaim(holder=self._holder, until=0))
            raise StoreBusy(engine=ENGINE, waited_s=0)
        self.is_after_a_crash = former_claim is not None and not former_claim.is_over and not has_former_claim
        self.epoch, self._until = epoch, held_until
        for entry in await self._files.list(self._folder):
            if _epoch_of(entry.name) < epoch:
                await self._files.delete(f"{self._folder}/{entry.name}")

    def _require_free(self, claim: LeaseEpoch, now: int) -> None:
        if not claim.is_over and now < claim.until + MCP_LEASE_SKEW_MS:
            raise StoreBusy(engine=ENGINE, waited_s=0)

    async def _newest(self) -> int:
        return max((_epoch_of(entry.name) for entry in await self._files.list(self._folder)), default=0)

    async def _read(self, epoch: int) -> LeaseEpoch | None:
        """Return the contents of an epoch's file; None if it is empty or missing."""
        try:
            text = await self._files.read(self._path(epoch)) if epoch else ""
        except NotFound:
            return None
        claims = [claim for line in text.splitlines() if (claim := _parse_claim(line)) is not None]
        if not claims:
            return None
        holder = claims[0].holder
        held_untils = [claim.until for claim in claims if claim.holder == holder]
        return LeaseEpoch(holder, 0 if 0 in held_untils else max(held_untils))

    async def _append(self, epoch: int, claim: LeaseClaim) -> None:
        # A line break before it too: the remains of a broken append spoil no claim.
        line = f"\n{claim.model_dump_json()}\n"
        entry = await self._files.stat(self._path(epoch)) if not self._size else None
        offset = self._size or (0 if entry is None else entry.size)
        await self._files.write(self._path(epoch), line, mode=WriteMode.APPEND, offset=offset)
        self._size = offset + len(line)

    def _path(self, epoch: int) -> str:
        return f"{self._folder}/{epoch:08}"


def _epoch_of(name: str) -> int:
    return int(name) if name.isdecimal() else 0


def _parse_claim(line: str) -> LeaseClaim | None:
    try:
        return LeaseClaim.model_validate_json(line)
    except ValidationError:
        return None
