"""Commits: waiting batches of a space are committed as a group, in one statement if their preconditions hold."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import psycopg

from elytron_core.errors import (
    Conflict,
    ElytronError,
    IdempotencyConflict,
    InvalidInput,
    OutcomeUnknown,
    StoreClosed,
    StoreCorrupt,
    StoreDeadlock,
    StoreFailed,
)
from elytron_core.ports.store import Batch, BatchKey, CommitReceipt, DocumentRef, JournalEntry, number_entries
from elytron_store import limits as store_limits
from elytron_store.commit_queue import Outcome, Waiting, answer_group, take_group
from elytron_store.engine import row_checksum
from elytron_store.ledger import AnsweredRequest
from elytron_store.postgres import statements
from elytron_store.postgres.address import ENGINE
from elytron_store.postgres.connections import (
    COMMITTING,
    Connection,
    ServerConnections,
    bytes_array,
    number_array,
    run_pipeline,
    text_array,
    translate_error,
    unstorable_value,
    wide_number,
)
from elytron_store.postgres.statements import PartitionStatements


class RevisionChange(NamedTuple):
    """A document that a group names: its revision before, and its state afterwards.

    Revision 0 is absence. Without a body it is deleted, or was only required.
    """

    ref: DocumentRef
    expects: int
    revision: int
    body: bytes | None


class StoredState(NamedTuple):
    """Stored state of a space: its head, and the documents that a group names."""

    head: int
    revisions: Mapping[DocumentRef, int]
    answered: Mapping[str, AnsweredRequest[bytes]]


class GroupPlan:
    """Batches of one space, applied in order.

    Without a `stored` state each document is assumed to be at the revision that the first batch to name it expects, and
    each key to be new; sequences are then relative to the head. The plan is valid only if `changes` confirms it.
    """

    def __init__(self, space: str, batches: Sequence[Batch], /, *, stored: StoredState | None = None) -> None:
        self.space = space
        self.head = self.last = 0 if stored is None else stored.head
        self.outcomes: list[Outcome] = []
        self.entries: list[JournalEntry] = []
        self.records: dict[str, AnsweredRequest[bytes]] = {}
        self._stored = stored
        self._before: dict[DocumentRef, int] = {}
        self._after: dict[DocumentRef, tuple[int, bytes | None]] = {}
        for batch in batches:
            self._take(batch)

    def changes(self) -> Sequence[RevisionChange]:
        """Return each document that a batch names, once."""
        return [
            RevisionChange(ref, expects, *self._after.get(ref, (expects, None)))
            for ref, expects in self._before.items()
        ]

    def outcomes_behind(self, head: int, /) -> Sequence[Outcome]:
        """Return the outcomes with sequences after `head`, to which they were relative."""
        return [
            CommitReceipt(head + outcome.first, head + outcome.last, outcome.replayed, outcome.answer)
            if isinstance(outcome, CommitReceipt)
            else outcome
            for outcome in self.outcomes
        ]

    def _take(self, batch: Batch) -> None:
        """Apply `batch` over those before; a rejected one changes nothing."""
        try:
            self.outcomes.append(self._find_repeated(batch.idempotency) or self._lay(batch))
        except ElytronError as refusal:
            self.outcomes.append(refusal)

    def _find_repeated(self, batch_key: BatchKey | None) -> CommitReceipt | None:
        if batch_key is None:
            return None
        record = self.records.get(batch_key.key)
        if record is None and self._stored is not None:
            record = self._stored.answered.get(batch_key.key)
        if record is None:
            return None
        if record.digest != batch_key.digest:
            raise IdempotencyConflict
        return CommitReceipt(record.first, record.last, replayed=True, answer=record.answer)

    def _lay(self, batch: Batch) -> CommitReceipt:
        for change in (*batch.puts, *batch.deletes):
            self._require(change.ref, change.expects)
        for demand in batch.requires:
            self._require(demand.ref, demand.revision)
        for put_change in batch.puts:
            self._after[put_change.ref] = put_change.expects + 1, put_change.body
        for delete in batch.deletes:
            self._after[delete.ref] = 0, None
        first_sequence = self.last + 1
        self.entries.extend(number_entries(batch, after=self.last))
        self.last = self.entries[-1].sequence
        batch_key = batch.idempotency
        if batch_key is None:
            return CommitReceipt(first_sequence, self.last)
        self.records[batch_key.key] = AnsweredRequest(
            batch_key.key, batch_key.digest, batch_key.answer, first_sequence, self.last, batch.at
        )
        return CommitReceipt(first_sequence, self.last, answer=batch_key.answer)

    def _require(self, ref: DocumentRef, expected: int) -> None:
        if ref in self._after:
            revision = self._after[ref][0]
        else:
            assumed_revision = expected if self._stored is None else self._stored.revisions.get(ref, 0)
            revision = self._before.setdefault(ref, assumed_revision)
        if revision != expected:
            raise Conflict(what=f"document {ref.collection}/{ref.key}", expected=expected, found=revision)


def entry_checksum(space: str, entry: JournalEntry, /) -> bytes:
    """Return the checksum of a journal entry without its sequence, which the server assigns gaplessly."""
    collection, key = entry.ref
    checksum_values = space, entry.at, entry.action.value, collection, key, entry.digest, entry.covers
    return row_checksum(*checksum_values)


def record_checksum(space: str, record: AnsweredRequest[bytes], /) -> bytes:
    """Return the checksum of an idempotency record, without its sequences."""
    return row_checksum(space, record.key, record.digest, record.at, body=record.answer)


T = TypeVar("T")
Parameters = tuple[object, ...]


class GroupWriter:
    """Writes groups of batches of one space."""

    def __init__(
        self,
        connections: ServerConnections,
        /,
        *,
        partition: Callable[[str], PartitionStatements],
        is_portable: bool,
    ) -> None:
        self._connections = connections
        self._partition = partition
        self._is_portable = is_portable

    async def write(self, space: str, batches: Sequence[Batch], /) -> Sequence[Outcome]:
        """Apply `batches` in order; return the outcome of each for its caller.

        If the connection is lost, batches with idempotency keys are applied again, which reveals their outcome; that of
        the others is unknown.
        """
        try:
            return await self._write_all(space, batches)
        except OutcomeUnknown as unknown_outcome:
            if len(batches) == 1:
                return [unknown_outcome] if batches[0].idempotency is None else await self._write_again(space, batches)
            return [
                unknown_outcome if batch.idempotency is None else (await self._write_again(space, [batch]))[0]
                for batch in batches
            ]
        except (ElytronError, OverflowError, UnicodeError) as error:
            refusal = error if isinstance(error, ElytronError) else unstorable_value()
            if len(batches) == 1 or not isinstance(refusal, InvalidInput | StoreCorrupt):
                return [refusal] * len(batches)
            # One of them carries what cannot be stored, or touches damage: applied separately, each finds out for
            # itself.
            return [outcome for batch in batches for outcome in await self.write(space, [batch])]

    async def _write_again(self, space: str, batches: Sequence[Batch]) -> Sequence[Outcome]:
        # Only once: if the connection is lost again, the caller learns that the outcome is unknown.
        try:
            return await self._write_all(space, batches)
        except ElytronError as error:
            return [error]

    async def _write_all(self, space: str, batches: Sequence[Batch]) -> Sequence[Outcome]:
        for _ in range(store_limits.POSTGRES_REPEATS - 1):
            try:
                return await self._write_once(space, batches)
            except StoreDeadlock:
                continue
        return await self._write_once(space, batches)

    async def _write_once(self, space: str, batches: Sequence[Batch]) -> Sequence[Outcome]:
        partition = self._partition(space)
        # One round trip, based on the revisions that callers expect; the server applies nothing if they differ.
        if not self._is_portable:
            plan = await _build_plan(batches, partial(GroupPlan, space))
            if plan.last:
                values = await _build_plan(batches, lambda _: call_parameters(plan))
                head_sequence = await self._call(partition, values)
                if head_sequence is not None:
                    return plan.outcomes_behind(head_sequence)
        async with self._connections.connection(doing=COMMITTING) as connection:
            try:
                stored_state = await read_state(connection, partition, space, batches)
            except psycopg.Error as error:
                raise translate_error(error, doing="reading") from None
            plan = await _build_plan(batches, lambda group: GroupPlan(space, group, stored=stored_state))
            # Every batch was rejected or answered: only the lock on the head needs to be released.
            if plan.last == stored_state.head:
                await connection.execute(statements.ROLLBACK)
                return plan.outcomes
            commands = await _build_plan(batches, lambda _: list(write_statements(partition, plan)))
            await run_pipeline(connection, [*commands, (statements.COMMIT, None)])
        return plan.outcomes

    async def _call(self, partition: PartitionStatements, values: Parameters) -> int | None:
        """Call the commit function; return the previous head, or None if the group does not match."""
        async with self._connections.connection(doing=COMMITTING) as connection:
            try:
                cursor = await connection.execute(partition.of(statements.COMMIT_CALL), values, binary=True)
            except psycopg.Error as error:
                if error.sqlstate != statements.MISSED:
                    raise
                return None
            row = await cursor.fetchone()
        assert row is not None
        return int(row[0])


async def _build_plan(batches: Sequence[Batch], build: Callable[[Sequence[Batch]], T]) -> T:
    """Return the result of `build` for `batches`; for an import, which may be large, in another thread."""
    if any(batch.is_import for batch in batches):
        return await asyncio.to_thread(build, batches)
    return build(batches)


async def read_state(
    connection: Connection, partition: PartitionStatements, space: str, batches: Sequence[Batch], /
) -> StoredState:
    """Begin a transaction that excludes other commits to `space`, and return the state needed for `batches`."""
    refs = list(
        dict.fromkeys([change.ref for batch in batches for change in (*batch.puts, *batch.deletes, *batch.requires)])
    )
    keys = [batch.idempotency.key for batch in batches if batch.idempotency is not None]
    collections, names = text_array([ref.collection for ref in refs]), text_array([ref.key for ref in refs])
    _, head_row, revision_rows, answer_rows = await run_pipeline(
        connection,
        [
            (statements.BEGIN, None),
            (partition.of(statements.LOCK_HEAD), (space,)),
            (partition.of(statements.REVISIONS), (collections, names, space)),
            (partition.of(statements.ANSWERED), (space, text_array(keys))),
        ],
    )
    ((sequence,),) = await head_row.fetchall()
    return StoredState(
        head=sequence,
        revisions={
            DocumentRef(collection, key): revision for collection, key, revision in await revision_rows.fetchall()
        },
        answered={row[0]: _read_record(space, row) for row in await answer_rows.fetchall()},
    )


def _read_record(space: str, row: tuple[object, ...]) -> AnsweredRequest[bytes]:
    key, digest, answer, first_sequence, last_sequence, at, checksum = row
    assert isinstance(digest, bytes)
    assert isinstance(answer, bytes)
    record = AnsweredRequest(key, digest.decode(), answer, first_sequence, last_sequence, at)  # pyright: ignore[reportArgumentType]
    if record_checksum(space, record) != checksum:
        raise StoreCorrupt(what="an idempotency record")
    return record


def call_parameters(plan: GroupPlan, /) -> Parameters:
    """Return the arguments of the function that commits. Raises InvalidInput, UnicodeError."""
    changes = plan.changes()
    inserts = [change for change in changes if change.body is not None and not change.expects]
    updates = [change for change in changes if change.body is not None and change.expects]
    deletes = [change for change in changes if change.body is None and change.revision != change.expects]
    required_changes = [change for change in changes if change.body is None and change.revision == change.expects]
    return (
        plan.space,
        wide_number(plan.last),
        *_put_arrays(plan.space, inserts),
        *_put_arrays(plan.space, updates, has_expects=True),
        *_ref_arrays(deletes),
        *_ref_arrays(required_changes),
        *entry_arrays(plan.space, plan.entries),
        *_record_arrays(plan.space, list(plan.records.values())),
    )


def write_statements(partition: PartitionStatements, plan: GroupPlan, /) -> Sequence[tuple[bytes, Parameters]]:
    """Return the statements that write the `plan` made from a stored state, which is locked for it."""
    space, changes = plan.space, plan.changes()
    puts = [change for change in changes if change.body is not None]
    deletes = [change for change in changes if change.body is None and change.revision != change.expects]
    commands: list[tuple[bytes, Parameters]] = [(partition.of(statements.MOVE_HEAD), (wide_number(plan.last), space))]
    if puts:
        commands.append((partition.of(statements.PUT_SEVERAL), (space, *_put_arrays(space, puts))))
    commands += [(partition.of(statements.DELETE_ONE), (space, *change.ref)) for change in deletes]
    commands.append((partition.of(statements.APPEND), (space, *entry_arrays(space, plan.entries))))
    if plan.records:
        commands.append(
            (partition.of(statements.REMEMBER), (space, *_record_arrays(space, list(plan.records.values()))))
        )
    return commands


def _put_arrays(space: str, changes: Sequence[RevisionChange], *, has_expects: bool = False) -> Parameters:
    """Return the columns of `changes`: collections, keys, optionally expected revisions, revisions, bodies,
    checksums."""
    if not changes:
        return (None,) * (5 + has_expects)
    expected_revisions = (number_array([change.expects for change in changes]),) if has_expects else ()
    return (
        text_array([change.ref.collection for change in changes]),
        text_array([change.ref.key for change in changes]),
        *expected_revisions,
        number_array([change.revision for change in changes]),
        bytes_array([change.body or b"" for change in changes]),
        bytes_array([row_checksum(space, *change.ref, change.revision, body=change.body or b"") for change in changes]),
    )


def _ref_arrays(changes: Sequence[RevisionChange]) -> Parameters:
    if not changes:
        return (None,) * 3
    return (
        text_array([change.ref.collection for change in changes]),
        text_array([change.ref.key for change in changes]),
        number_array([change.expects for change in changes]),
    )


def entry_arrays(space: str, entries: Sequence[JournalEntry], /) -> Parameters:
    """Return the columns of journal entries."""
    return (
        number_array([entry.sequence for entry in entries]),
        number_array([entry.at for entry in entries]),
        text_array([entry.action.value for entry in entries]),
        text_array([entry.ref.collection for entry in entries]),
        text_array([entry.ref.key for entry in entries]),
        bytes_array([entry.digest.encode() for entry in entries]),
        number_array([entry.covers for entry in entries]),
        bytes_array([entry_checksum(space, entry) for entry in entries]),
    )


def _record_arrays(space: str, records: Sequence[AnsweredRequest[bytes]]) -> Parameters:
    if not records:
        return (None,) * 7
    return (
        text_array([record.key for record in records]),
        bytes_array([record.digest.encode() for record in records]),
        bytes_array([record.answer for record in records]),
        number_array([record.first for record in records]),
        number_array([record.last for record in records]),
        number_array([record.at for record in records]),
        bytes_array([record_checksum(space, record) for record in records]),
    )


@dataclass(slots=True)
class _SpaceQueue:
    """Waiting batches of one space, and the task that writes them."""

    waiting: deque[Waiting] = field(default_factory=deque[Waiting])
    task: asyncio.Task[None] | None = None


class CommitQueues:
    """A queue of batches per space: at most one group of a space is running, concurrently with those of others.

    Commits in a space keep the order of calls.
    """

    def __init__(self, write: Callable[[str, Sequence[Batch]], Awaitable[Sequence[Outcome]]], /) -> None:
        self._write = write
        self._lanes: dict[str, _SpaceQueue] = {}
        self._waiting = 0
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self.groups, self.batches = 0, 0
        """Counts of submitted work."""

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Return the outcome of `batch` once it is durable. If cancelled before its group is formed, it is not
        applied."""
        while self._waiting >= store_limits.QUEUE_BATCHES:
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise StoreClosed
        receipt_future: asyncio.Future[CommitReceipt] = asyncio.get_running_loop().create_future()
        commit_lane = self._lanes.get(batch.space)
        if commit_lane is None:
            commit_lane = self._lanes[batch.space] = _SpaceQueue()
            # The task starts in the next iteration of the loop: what others commit in this one is included.
            commit_lane.task = asyncio.create_task(self._drain_queue(batch.space, commit_lane))
        commit_lane.waiting.append((batch, receipt_future))
        self._waiting += 1
        return await receipt_future

    async def close(self) -> None:
        """Finish accepted work, reject the rest."""
        self._closed = True
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            await asyncio.wait(tasks)

    async def _drain_queue(self, space: str, lane: _SpaceQueue) -> None:
        try:
            while lane.waiting:
                waiting_count = len(lane.waiting)
                group = take_group(lane.waiting)
                self._waiting -= waiting_count - len(lane.waiting)
                self._room.set()
                if group:
                    self.groups += 1
                    self.batches += len(group)
                    answer_group(group, await self._write_group(space, group))
        finally:
            del self._lanes[space]
            answer_group(lane.waiting, [StoreClosed()] * len(lane.waiting))

    async def _write_group(self, space: str, group: Sequence[Waiting]) -> Sequence[Outcome]:
        try:
            return await self._write(space, [batch for batch, _ in group])
        except BaseException as error:
            failure = StoreFailed(engine=ENGINE, doing=COMMITTING)
            failure.__cause__ = error
            if isinstance(error, Exception):
                return [failure] * len(group)
            answer_group(group, [failure] * len(group))
            raise
