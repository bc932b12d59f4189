"""Usage and quotas of the embedding service: rows, bytes and inserts per user, rows and bytes in total."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from elytron.context import OperationContext
from elytron.runtime_records import RuntimeRecords
from elytron_agent.rag.rows import row_pages
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.errors import LimitExceeded, PreconditionFailed, RateLimited
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.scope import Scope

USER_ROWS: Final = 250_000
USER_BYTES: Final = 2 * 1024**3
PROJECT_ROWS: Final = 2_500_000
PROJECT_BYTES: Final = 20 * 1024**3
"""Limits on rows and bytes of all users of a server."""
INSERTS_PER_HOUR: Final = 10_000
RECOUNT_MS: Final = 3_600_000
"""Age after which a user's usage is counted again."""
RECOUNT_PAUSE_MS: Final = 60_000
"""Minimum age for a recount before a request is refused."""
PROJECT_COUNT_MS: Final = 30_000
"""Age after which the usage of all users is read again."""
ROW_BYTES: Final = 200
"""Bytes counted per row in addition to its text and vector."""


_PLACE: Final = ("elytron:rag",)
_USAGE: Final = "usage"
_HOUR_MS: Final = 3_600_000
_WAY_OUT: Final = "delete rows to free space: DELETE /v1/rag/embeddings"
_PROJECT_WAY_OUT: Final = "users of this server must delete rows, or its operator must raise the limit"


@dataclass(frozen=True, slots=True)
class RagQuotas:
    """Limits on what users insert. Messages, which are embedded automatically, do not count."""

    user_rows: int = USER_ROWS
    user_bytes: int = USER_BYTES
    project_rows: int = PROJECT_ROWS
    project_bytes: int = PROJECT_BYTES
    inserts_per_hour: int = INSERTS_PER_HOUR


class RagUsage(Value):
    """Usage of one user, and the time it was counted."""

    rows: int = 0
    size_bytes: int = 0
    counted_at: Instant = Instant(0)
    hour: int = 0
    """Hours since 1970."""
    inserts: int = 0
    """Inserts in that hour."""

    def in_hour(self, hour: int, /) -> int:
        """Return the inserts in an hour."""
        return self.inserts if self.hour == hour else 0


class UsageLedger:
    """The usage of a server's users, each stored in the user's own space."""

    def __init__(self, context: OperationContext, quotas: RagQuotas, /) -> None:
        self._ctx = context
        self.quotas = quotas
        self.refused = 0
        self._project = RagUsage()
        self._project_known = False

    async def of(self, space: SpaceId, /) -> RagUsage:
        """Return a user's usage, recounted if it is too old."""
        usage, version = await self._read(space)
        return await self._recount(space, usage, version) if self._is_old(usage) else usage

    async def take(self, space: SpaceId, size_bytes: int, /) -> None:
        """Count a row before it is stored. Raises LimitExceeded or RateLimited if it would exceed a quota."""
        while True:
            usage, version = await self._read(space)
            age_ms = self._ctx.clock.now() - usage.counted_at
            if self._is_old(usage) or (not self._fits(usage, size_bytes) and age_ms >= RECOUNT_PAUSE_MS):
                # Rows may have been added or removed by other means.
                recounted_usage = await self._recount(space, usage, version)
                usage, version = await self._read(space)
                usage = usage if version else recounted_usage
            try:
                self._require_room(usage, size_bytes)
                await self._require_project_room(size_bytes)
            except LimitExceeded:
                self.refused += 1
                raise
            hour = self._ctx.clock.now() // _HOUR_MS
            new_usage = usage.model_copy(
                update={
                    "rows": usage.rows + 1,
                    "size_bytes": usage.size_bytes + size_bytes,
                    "hour": hour,
                    "inserts": usage.in_hour(hour) + 1,
                }
            )
            if await self._write(space, new_usage, version):
                self._add_to_project(1, size_bytes)
                return

    async def give_back(self, space: SpaceId, rows: int, size_bytes: int, /, *, inserts: int = 0) -> None:
        """Subtract rows, and inserts that did not take place."""
        while True:
            usage, version = await self._read(space)
            new_usage = usage.model_copy(
                update={
                    "rows": max(0, usage.rows - rows),
                    "size_bytes": max(0, usage.size_bytes - size_bytes),
                    "inserts": max(0, usage.inserts - inserts),
                }
            )
            if new_usage == usage or await self._write(space, new_usage, version):
                self._add_to_project(-rows, -size_bytes)
                return

    async def project(self) -> RagUsage:
        """Return the usage of all users. That of other servers on the same store may be some seconds old."""
        now = self._ctx.clock.now()
        if not self._project_known or now - self._project.counted_at >= PROJECT_COUNT_MS:
            rows = size_bytes = 0
            async for space in self._spaces():
                usage, _ = await self._read(space)
                rows, size_bytes = rows + usage.rows, size_bytes + usage.size_bytes
            self._project = RagUsage(rows=rows, size_bytes=size_bytes, counted_at=now)
            self._project_known = True
        return self._project

    def hour_ends_in_s(self) -> int:
        """Return the seconds until the current hour of inserts ends."""
        return -(-(_HOUR_MS - self._ctx.clock.now() % _HOUR_MS) // 1000)

    def inserts_of(self, usage: RagUsage, /) -> int:
        """Return the inserts in the current hour."""
        return usage.in_hour(self._ctx.clock.now() // _HOUR_MS)

    def _fits(self, usage: RagUsage, size_bytes: int) -> bool:
        return usage.rows < self.quotas.user_rows and usage.size_bytes + size_bytes <= self.quotas.user_bytes

    def _is_old(self, usage: RagUsage) -> bool:
        return self._ctx.clock.now() - usage.counted_at >= RECOUNT_MS

    def _require_room(self, usage: RagUsage, size_bytes: int) -> None:
        if self.inserts_of(usage) >= self.quotas.inserts_per_hour:
            raise RateLimited(
                limit=self.quotas.inserts_per_hour,
                retry_after_s=self.hour_ends_in_s(),
                what="new embeddings",
                period="hour",
            )
        if usage.rows >= self.quotas.user_rows:
            raise LimitExceeded(what="rows per user", limit=self.quotas.user_rows, way_out=_WAY_OUT)
        if usage.size_bytes + size_bytes > self.quotas.user_bytes:
            raise LimitExceeded(what="bytes in a user's rows", limit=self.quotas.user_bytes, way_out=_WAY_OUT)

    async def _require_project_room(self, size_bytes: int) -> None:
        usage = await self.project()
        if usage.rows >= self.quotas.project_rows:
            raise LimitExceeded(what="rows across all users", limit=self.quotas.project_rows, way_out=_PROJECT_WAY_OUT)
        if usage.size_bytes + size_bytes > self.quotas.project_bytes:
            limit = self.quotas.project_bytes
            raise LimitExceeded(what="bytes in all users' rows", limit=limit, way_out=_PROJECT_WAY_OUT)

    def _add_to_project(self, rows: int, size_bytes: int) -> None:
        usage = self._project
        self._project = usage.model_copy(
            update={"rows": max(0, usage.rows + rows), "size_bytes": max(0, usage.size_bytes + size_bytes)}
        )

    async def _recount(self, space: SpaceId, usage: RagUsage, version: int) -> RagUsage:
        """Recount a user's rows, and store the result unless the usage changed meanwhile."""
        row_count = size_bytes = 0
        vector_bytes = self.vector_bytes
        async for page in row_pages(self._ctx.store, space):
            inserted_rows = [row for row in page if row.is_put_in]
            row_count += len(inserted_rows)
            size_bytes += sum(row.size_bytes + vector_bytes for row in inserted_rows)
        recounted_usage = usage.model_copy(
            update={"rows": row_count, "size_bytes": size_bytes, "counted_at": self._ctx.clock.now()}
        )
        if row_count or version:
            await self._write(space, recounted_usage, version)
        return recounted_usage

    @property
    def vector_bytes(self) -> int:
        """Bytes of a row in addition to its text."""
        embedder = self._ctx.encoders.current
        return ROW_BYTES + (2 * embedder.info.dimensions if embedder is not None else 0)

    async def _read(self, space: SpaceId) -> tuple[RagUsage, int]:
        record = await self._records(space).get(_PLACE, _USAGE)
        return (RagUsage.model_validate(record.value), record.version) if record is not None else (RagUsage(), 0)

    async def _write(self, space: SpaceId, usage: RagUsage, version: int) -> bool:
        value = usage.model_dump(mode="json")
        try:
            await self._records(space).put(_PLACE, _USAGE, value, text="usage of embeddings", expected_version=version)
        except PreconditionFailed:
            return False
        return True

    def _records(self, space: SpaceId) -> RuntimeRecords:
        return RuntimeRecords(self._ctx, Scope(space=space))

    async def _spaces(self) -> AsyncIterator[SpaceId]:
        last_space = ""
        while page := await self._ctx.store.spaces(after=last_space, limit=core_limits.PAGE_MAX):
            last_space = page[-1]
            for space in page:
                if not is_reserved(space):
                    yield space
