"""Checking and repairing: everything is read, damage is named without its content, damaged things are set aside."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import CheckReport, DamageKind, StoreProblem
from elytron_store import limits as store_limits
from elytron_store.postgres import statements
from elytron_store.postgres.blobs import WINDOW_PARTS, read_window
from elytron_store.postgres.connections import Connection, Row, wide_number
from elytron_store.postgres.plan import entry_checksum, row_checksum
from elytron_store.postgres.reads import row_entry
from elytron_store.postgres.statements import PartitionStatements


class DamagedRow(NamedTuple):
    """A problem, and the place of the damaged row if it can be set aside."""

    problem: StoreProblem
    own: PartitionStatements
    place: tuple[str, str, str] | None = None


@dataclass
class _StoreTally:
    """Findings of a pass."""

    spaces: int = 0
    documents: int = 0
    entries: int = 0
    blobs: int = 0
    found: list[DamagedRow] = field(default_factory=list[DamagedRow])

    def report(self, problems: Sequence[StoreProblem], /) -> CheckReport:
        return CheckReport(
            spaces=self.spaces,
            documents=self.documents,
            entries=self.entries,
            blobs=self.blobs,
            problems=tuple(problems[: limits.PROBLEMS_MAX]),
            clipped=len(problems) > limits.PROBLEMS_MAX,
        )


async def check_partitions(connection: Connection, partitions: Sequence[PartitionStatements], /) -> CheckReport:
    """Read everything in one state and report what is damaged; change nothing."""
    async with connection.transaction():
        await connection.execute(statements.ONE_STATE)
        tally = await _read_partitions(connection, partitions)
    return tally.report([found.problem for found in tally.found])


async def repair_partitions(
    connection: Connection, partitions: Sequence[PartitionStatements], at: Instant, /
) -> CheckReport:
    """Set damaged documents and blobs aside, in one transaction; report all damage found."""
    async with connection.transaction():
        await connection.execute(statements.ONE_STATE_TO_WRITE)
        tally = await _read_partitions(connection, partitions)
        problems = [await _quarantine_row(connection, found, at) for found in tally.found]
    return tally.report(problems)


async def _read_partitions(connection: Connection, partitions: Sequence[PartitionStatements]) -> _StoreTally:
    tally = _StoreTally()
    for own in partitions:
        for part in (_walk_documents, _walk_journal, _walk_blobs):
            async for damage in part(connection, own, tally):
                tally.found.append(damage)
    return tally


async def _walk_rows(
    connection: Connection, statement: bytes, place: tuple[object, ...], width: int
) -> AsyncIterator[Row]:
    """Yield the rows behind `place`, which are in the order of their first `width` columns."""
    most = store_limits.POSTGRES_CHECK_ROWS
    while True:
        rows = await (await connection.execute(statement, (*place, wide_number(most)), binary=True)).fetchall()
        for row in rows:
            yield row
        if len(rows) < most:
            return
        place = tuple(wide_number(value) if isinstance(value, int) else value for value in rows[-1][:width])


async def _walk_documents(
    connection: Connection, own: PartitionStatements, tally: _StoreTally
) -> AsyncIterator[DamagedRow]:
    walk = _walk_rows(connection, own.of(statements.CHECK_DOCUMENTS), ("", "", ""), 3)
    async for space, collection, key, revision, body, checksum in walk:
        tally.documents += 1
        if row_checksum(space, collection, key, revision, body=body) != checksum:
            problem = StoreProblem(DamageKind.DOCUMENT, SpaceId(space), f"document {collection}/{key}")
            yield DamagedRow(problem, own, (space, collection, key))


async def _walk_journal(
    connection: Connection, own: PartitionStatements, tally: _StoreTally
) -> AsyncIterator[DamagedRow]:
    ends: dict[str, int] = {}

    def damage(kind: DamageKind, space: str, what: str) -> DamagedRow:
        return DamagedRow(StoreProblem(kind, SpaceId(space), what), own)

    async for space, *row in _walk_rows(connection, own.of(statements.CHECK_JOURNAL), ("", wide_number(0)), 2):
        tally.entries += 1
        sequence, covers = row[0], row[6]
        end = ends.get(space, 0)
        if sequence - covers != end:
            yield damage(DamageKind.JOURNAL_GAP, space, f"journal entries {end + 1} to {sequence - covers}")
        if not _is_whole_entry(space, tuple(row)):
            yield damage(DamageKind.JOURNAL_ENTRY, space, f"journal entry {sequence}")
        ends[space] = sequence
    async for space, head in _walk_rows(connection, own.of(statements.CHECK_HEADS), ("",), 1):
        tally.spaces += 1
        end = ends.pop(space, 0)
        if head != end:
            yield damage(DamageKind.JOURNAL_GAP, space, f"the head of the journal, which ends at {end}")
    for space in ends:
        yield damage(DamageKind.JOURNAL_GAP, space, "the head of the journal, which is missing")


def _is_whole_entry(space: str, row: Row) -> bool:
    try:
        return entry_checksum(space, row_entry(row)) == row[-1]
    except StoreCorrupt:
        return False


async def _walk_blobs(
    connection: Connection, own: PartitionStatements, tally: _StoreTally
) -> AsyncIterator[DamagedRow]:
    async for space, key, _, parts, _, _ in _walk_rows(connection, own.of(statements.CHECK_BLOBS), ("", ""), 2):
        tally.blobs += 1
        try:
            for first in range(0, max(parts, 1), WINDOW_PARTS):
                await read_window(connection, own=own, space=space, key=key, first=first)
        except StoreCorrupt:
            yield DamagedRow(StoreProblem(DamageKind.BLOB, SpaceId(space), f"blob {key}"), own, (space, "", key))


async def _quarantine_row(connection: Connection, found: DamagedRow, at: Instant) -> StoreProblem:
    """Move the row of `found` to the quarantine, if it has a place; return the problem with what was done."""
    problem, own = found.problem, found.own
    if found.place is None:
        return problem
    space, collection, key = found.place
    if problem.damage is DamageKind.BLOB:
        # The parts stay; without the row no reader finds them.
        statement, place = statements.SET_BLOB_ASIDE, (space, key)
    else:
        statement, place = statements.SET_ASIDE, (space, collection, key)
    moved = await connection.execute(own.of(statement), (*place, wide_number(at), problem.damage.value))
    return StoreProblem(problem.damage, problem.space, problem.what, quarantined=bool(moved.rowcount))
