"""The Postgres engine: one schema of a database, shared by any number of nodes."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Self

import psycopg

from elytron_core import limits
from elytron_core.clock import Clock, Instant
from elytron_core.errors import StoreFull, StoreReadOnly
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
)
from elytron_core.ports.store_checks import CheckReport, StoreLoss
from elytron_core.profiles import ErasurePromise, StoreCapabilities
from elytron_store import limits as store_limits
from elytron_store.engine import DocumentPage, Engine
from elytron_store.postgres import blobs, reads, statements, tables
from elytron_store.postgres.address import ENGINE, PostgresAddress
from elytron_store.postgres.commits import CommitQueues, GroupWriter
from elytron_store.postgres.connections import (
    Connection,
    ServerConnections,
    connect_once,
    translate_error,
    wide_number,
)
from elytron_store.postgres.erasure import compact_runs, erasure_layers, remove_rows, rewrite_tables
from elytron_store.postgres.reads import check_partitions, repair_partitions
from elytron_store.postgres.statements import PartitionStatements
from elytron_store.postgres.tables import FoundTables, PostgresTarget, require_commits


class PostgresStore(Engine):
    """A store in one schema of a Postgres database. Use it from one event loop.

    Batches of one space that wait at the same time become one statement. The outcome of a commit whose connection is
    lost is determined through its idempotency key; without one it raises OutcomeUnknown.
    """

    capabilities = StoreCapabilities(
        durable=True, single_writer=False, erasure=ErasurePromise.OF_TABLES, ttl=True, nodes=True, queue_index=True
    )

    def __init__(
        self, connections: ServerConnections, address: PostgresAddress, layout: FoundTables, /, *, clock: Clock
    ) -> None:
        super().__init__(in_process=ENGINE)  # a child would read its parent's answers from the same sockets
        self._connections = connections
        self._address = address
        self._partitions = layout.partitions
        self._clock = clock
        self._lanes = CommitQueues(GroupWriter(connections, partition=self._own, is_portable=address.portable).write)
        self._answers = 0
        self._is_refused = False
        """The latest commit found no room, or a read-only server."""

    @classmethod
    async def open_unnoted(cls, target: PostgresTarget, /, *, clock: Clock) -> Self:
        """Open the store at `target`, created if there is none; an existing one is not modified.

        A caller that finds its own store calls `note_opening`. Raises StoreUnavailable, StoreRefused, StoreReadOnly,
        StoreMissing, StoreForeign, StoreNewer.
        """
        try:
            async with await connect_once(target.address) as connection:
                layout = await tables.prepare_tables(connection, target)
        except psycopg.Error as error:
            raise translate_error(error, doing="opening") from None
        connections = ServerConnections(target.address, is_pooled=layout.is_pooled)
        return cls(connections, target.address, layout, clock=clock)

    async def note_opening(self, at: Instant, /) -> None:
        """Record that the store was opened at `at`, and sweep uploads that died long before."""

        async def note(connection: Connection) -> None:
            await tables.note_opening(connection, self._address.schema, at)
            for partition in self._all():
                await blobs.drop_stale_uploads(connection, partition, at - store_limits.UPLOAD_KEEP_MS)

        await self._connections.run(note, doing="opening")

    async def _commit(self, batch: Batch) -> CommitReceipt:
        try:
            receipt = await self._lanes.commit(batch)
        except (StoreFull, StoreReadOnly):
            self._is_refused = True
            raise
        self._is_refused = False
        if batch.idempotency is not None:
            self._answers += 1
            # A partition at a time, so that no commit waits for a sweep through all of them.
            batches_per_sweep = store_limits.FORGET_EVERY // self._partitions
            if self._answers % batches_per_sweep == 0:
                await self._forget_answers(turn=self._answers // batches_per_sweep)
        return receipt

    async def _forget_answers(self, *, turn: int) -> None:
        """Drop the expired idempotency records of this `turn`'s partition."""
        partition = statements.partition_statements(self._address.schema, turn % self._partitions)
        expired_before = self._clock.now() - limits.IDEMPOTENCY_KEEP_MS
        await self._connections.run(
            lambda connection: connection.execute(partition.of(statements.FORGET_ANSWERS), (expired_before,)),
            doing="clearing",
        )

    async def _get(self, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]:
        partition = self._own(space)
        return await self._connections.run(
            lambda connection: reads.find_documents(connection, partition, space, refs), doing="reading"
        )

    async def _scan(self, space: SpaceId, page: DocumentPage) -> Sequence[Document]:
        partition = self._own(space)
        return await self._connections.run(
            lambda connection: reads.scan_documents(connection, partition, space, page), doing="reading"
        )

    async def _count(self, space: SpaceId, collection: str) -> int:
        partition = self._own(space)
        return await self._connections.run(
            lambda connection: reads.count_documents(connection, partition, space, collection), doing="reading"
        )

    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]:
        partition = self._own(space)
        return await self._connections.run(
            lambda connection: reads.read_journal(connection, partition, space, after, limit), doing="reading"
        )

    async def _compact(self, space: SpaceId, runs: Sequence[CompactedRun]) -> int:
        partition = self._own(space)
        return await self._connections.run(
            lambda connection: compact_runs(connection, partition, space, runs), doing="compacting"
        )

    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        return await self._read_names(statements.spaces_page(self._address.schema), after, limit)

    async def _queued_spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        return await self._read_names(statements.queued_page(self._address.schema), after, limit)

    async def _read_names(self, statement: bytes, after: str, limit: int) -> Sequence[SpaceId]:
        async def page(connection: Connection) -> Sequence[SpaceId]:
            rows = await connection.execute(statement, (after, limit))
            return [SpaceId(space) for (space,) in await rows.fetchall()]

        return await self._connections.run(page, doing="reading")

    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int:
        return await blobs.write_blob(self._connections, self._own(space), space, key, chunks, at=self._clock.now())

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        self._require_blob(space, key)
        async for part in blobs.read_blob(self._connections, self._own(space), space, key):
            yield part

    async def _erase(self, erasure: ErasureTarget) -> ErasureReceipt:
        """Remove what `erasure` names; see `Store.erase`. Takes time in proportion to the partition of the space.

        If only the second half fails (StoreBusy, StoreRefused), readers no longer see the content, but its bytes may be
        in the server's tables: erase again.
        """
        partition = self._own(erasure.space)
        erasure_receipt = await self._connections.run(
            lambda connection: remove_rows(connection, partition, erasure), doing="erasing"
        )
        await self._connections.run(
            lambda connection: rewrite_tables(connection, partition, erasure_receipt), doing="erasing"
        )
        recycles_log = self._address.recycles_log
        layers = await self._connections.run(
            lambda connection: erasure_layers(connection, recycles_log=recycles_log), doing="erasing"
        )
        return replace(erasure_receipt.receipt, layers=layers)

    async def _check(self) -> CheckReport:
        return await self._connections.run(
            lambda connection: check_partitions(connection, self._all()), doing="checking"
        )

    async def _repair(self) -> CheckReport:
        at = self._clock.now()
        return await self._connections.run(
            lambda connection: repair_partitions(connection, self._all(), at), doing="repairing"
        )

    async def losses(self, space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
        self._require_open()
        schema, partition = self._address.schema, None if space is None else self._own(space)
        return await self._connections.run(
            lambda connection: reads.read_losses(connection, schema, partition, space), doing="reading"
        )

    async def acknowledge_losses(self, space: SpaceId | None, /, *, at: Instant) -> int:
        spaces = [loss.space for loss in await self.losses()] if space is None else [space]
        count = 0
        for space_name in filter(None, spaces):
            acknowledge_loss = partial(reads.acknowledge_loss, own=self._own(space_name), space=space_name, at=at)
            count += await self._connections.run(acknowledge_loss, doing="acknowledging losses")
        return count

    async def _probe(self) -> None:
        # A trial writes a megabyte, so it is made only after a commit found no room.
        partition, was_refused = self._own(""), self._is_refused
        await self._connections.run(
            lambda connection: require_commits(connection, partition, is_tried=was_refused), doing="checking the server"
        )
        self._is_refused = False

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._lanes.close()
        await self._connections.close()

    async def note_node(self, url: str, /, *, lease_ms: int) -> None:
        """Register a server's address in the list of nodes for `lease_ms`, and remove expired ones."""

        async def note(connection: Connection) -> None:
            await connection.execute(statements.note_node(self._address.schema), (url, wide_number(lease_ms)))
            await connection.execute(statements.drop_nodes(self._address.schema), ("",))

        await self._connections.run(note, doing="listing a node")

    async def drop_node(self, url: str, /) -> None:
        """Remove a server's address from the list of nodes."""
        statement = statements.drop_nodes(self._address.schema)
        await self._connections.run(lambda connection: connection.execute(statement, (url,)), doing="listing a node")

    async def list_nodes(self) -> Sequence[str]:
        """Return the addresses of the registered servers, in order."""

        async def listed(connection: Connection) -> Sequence[str]:
            cursor = await connection.execute(statements.list_nodes(self._address.schema), (limits.SCAN_MAX,))
            return [url for (url,) in await cursor.fetchall()]

        return await self._connections.run(listed, doing="reading")

    @property
    def figures(self) -> Mapping[str, tuple[str, float]]:
        """Return this process's metrics by name, each with its description."""
        figures = self._connections.figures
        return {
            "store_connections": ("Connections to the database server.", figures.open),
            "store_connections_used": ("Connections to the database server in use.", figures.in_use),
            "store_connections_failed_total": ("Connection attempts that failed.", figures.failed),
            "store_silences_total": ("Times that the database server stopped responding.", figures.silent),
            "store_groups_total": ("Groups of commits that were sent.", self._lanes.groups),
            "store_batches_total": ("Commits in these groups.", self._lanes.batches),
        }

    def lend_connection(self) -> AbstractAsyncContextManager[Connection]:
        """Lend a connection for inspecting the server or maintaining its tables."""
        return self._connections.connection(doing="a statement")

    def _own(self, space: str) -> PartitionStatements:
        """Return the statements of the partition of `space`."""
        partition = statements.partition_of(space, self._partitions)
        return statements.partition_statements(self._address.schema, partition)

    def _all(self) -> Sequence[PartitionStatements]:
        return [
            statements.partition_statements(self._address.schema, partition) for partition in range(self._partitions)
        ]
