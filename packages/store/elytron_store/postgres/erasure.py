"""Erasure and compaction: rows are deleted in one transaction, then their tables are rewritten."""

import asyncio
import re
from collections.abc import Sequence
from time import monotonic
from typing import Final, NamedTuple

import psycopg
from psycopg.errors import Diagnostic

from elytron_core.errors import StoreBusy, StoreRefused
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    CompactedRun,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
    erasure_entries,
)
from elytron_core.profiles import ErasureLayer, ErasurePlace, ErasureState
from elytron_store import engine
from elytron_store import limits as store_limits
from elytron_store.postgres import statements
from elytron_store.postgres.address import ENGINE
from elytron_store.postgres.commits import entry_arrays, entry_checksum
from elytron_store.postgres.connections import (
    Connection,
    bytes_array,
    number_array,
    run_pipeline,
    text_array,
    wide_number,
)
from elytron_store.postgres.reads import row_entries, row_entry
from elytron_store.postgres.statements import PartitionStatements

POSTGRES_LOG_ROUNDS: Final = 8
"""Number of segments of a Postgres server's log that an erasure has it write over at most."""


_PAUSE_S = 0.02
_NUMBER = re.compile(r"\d+")
"""The first number in the detail of a rewrite's notice, in any language: dead rows that were copied too."""


async def compact_runs(
    connection: Connection, partition: PartitionStatements, space: SpaceId, runs: Sequence[CompactedRun], /
) -> int:
    """Replace each of `runs` with one entry, all or none; return the number of removed entries.

    Raises Conflict where the journal is another, StoreCorrupt for damaged entries.
    """
    removal_count = 0
    async with connection.transaction():
        await connection.execute(partition.of(statements.HOLD_HEAD), (space,))
        for run in runs:
            run_values = (space, wide_number(run.first), wide_number(run.last))
            cursor = await connection.execute(partition.of(statements.JOURNAL_RUN), run_values, binary=True)
            entries = row_entries(space, await cursor.fetchall(), after=run.first - 1)
            replacement = engine.stand_in(run, entries)
            # Compacted before, by a call whose answer was lost.
            if len(entries) == 1:
                continue
            await run_pipeline(
                connection,
                [
                    (partition.of(statements.CUT_RUN), run_values),
                    (partition.of(statements.APPEND), (space, *entry_arrays(space, [replacement]))),
                ],
            )
            removal_count += len(entries) - 1
    return removal_count


class RowErasure(NamedTuple):
    """The removed rows, and the server's number of the removing transaction."""

    receipt: ErasureReceipt
    transaction: str


async def remove_rows(connection: Connection, partition: PartitionStatements, erasure: ErasureTarget, /) -> RowErasure:
    """Remove what `erasure` names in one transaction; `rewrite_tables` then takes its remains."""
    async with connection.transaction():
        remove = _remove_space if erasure.whole_space else _remove_named
        receipt = await remove(connection, partition, erasure)
        ((transaction_id,),) = await (await connection.execute(statements.OWN_TRANSACTION)).fetchall()
    return RowErasure(receipt, transaction_id)


async def _remove_space(
    connection: Connection, partition: PartitionStatements, erasure: ErasureTarget
) -> ErasureReceipt:
    space = erasure.space
    await connection.execute(partition.of(statements.HOLD_HEAD), (space,))
    # In the order of the tables: a running upload ends before its parts are looked for.
    delete_cursors = {
        table: await connection.execute(partition.of(erase_statement), (space,))
        for table, erase_statement in statements.ERASE_SPACE.items()
    }
    row_counts = {table: result.rowcount for table, result in delete_cursors.items()}
    return ErasureReceipt(
        documents=row_counts["documents"], blobs=row_counts["blobs"], entries_scrubbed=row_counts["journal"], sequence=0
    )


async def _remove_named(
    connection: Connection, partition: PartitionStatements, erasure: ErasureTarget
) -> ErasureReceipt:
    space = erasure.space
    ((head_sequence,),) = await (
        await connection.execute(partition.of(statements.LOCK_HEAD), (space,), binary=True)
    ).fetchall()
    documents = scrubbed_count = 0
    if refs := list(dict.fromkeys(erasure.refs)):
        ref_arrays = text_array([ref.collection for ref in refs]), text_array([ref.key for ref in refs])
        cursor, _, entries = await run_pipeline(
            connection,
            [
                (partition.of(statements.ERASE_DOCUMENTS), (*ref_arrays, space)),
                (partition.of(statements.ERASE_QUARANTINED), (*ref_arrays, space)),
                (partition.of(statements.NAMED_ENTRIES), (space, *ref_arrays)),
            ],
        )
        documents = cursor.rowcount
        scrubbed_count = await _clear_digests(
            connection, partition, space, [row_entry((*row, b"")) for row in await entries.fetchall()]
        )
    blobs = 0
    for key in dict.fromkeys(erasure.blobs):
        blobs += await _remove_blob(connection, partition, space, key)
    erasure_records = erasure_entries(erasure, after=head_sequence)
    last_sequence = erasure_records[-1].sequence
    await run_pipeline(
        connection,
        [
            (partition.of(statements.MOVE_HEAD), (wide_number(last_sequence), space)),
            (partition.of(statements.APPEND), (space, *entry_arrays(space, erasure_records))),
        ],
    )
    return ErasureReceipt(documents=documents, blobs=blobs, entries_scrubbed=scrubbed_count, sequence=last_sequence)


async def _clear_digests(
    connection: Connection, partition: PartitionStatements, space: str, entries: Sequence[JournalEntry]
) -> int:
    """Remove the digests from `entries`; return their number."""
    if not entries:
        return 0
    emptied_entries = [
        JournalEntry(entry.sequence, entry.at, entry.action, entry.ref, "", entry.covers) for entry in entries
    ]
    sequences = number_array([entry.sequence for entry in emptied_entries])
    checksums = bytes_array([entry_checksum(space, entry) for entry in emptied_entries])
    await connection.execute(partition.of(statements.SCRUB), (sequences, checksums, space))
    return len(emptied_entries)


async def _remove_blob(connection: Connection, partition: PartitionStatements, space: str, key: str) -> int:
    """Delete a blob with its uploads and quarantined rows; return the number of deleted blobs."""
    removed_count = 0
    for table, find_statement in statements.UPLOADS_OF.items():
        uploads = await (await connection.execute(partition.of(find_statement), (space, key), binary=True)).fetchall()
        for (upload,) in uploads:
            await connection.execute(partition.of(statements.DROP_PARTS), (space, wide_number(upload)))
        if uploads:
            await connection.execute(partition.of(statements.DROP_UPLOADS_OF[table]), (space, key))
        removed_count += len(uploads) if table == "blobs" else 0
    return removed_count


async def rewrite_tables(connection: Connection, partition: PartitionStatements, erased: RowErasure, /) -> None:
    """Remove from the files of a partition's tables every byte that no row uses.

    Raises StoreBusy while another session may still read what was removed, StoreRefused if the tables are another
    user's.
    """
    tables = list(partition.tables())
    # The server only warns of a table that it did not rewrite; a new file shows that it did.
    file_numbers_before = await _file_numbers(connection, tables)
    deadline = monotonic() + store_limits.BUSY_WAIT_S
    while tables:
        await _await_readers(connection, erased.transaction, deadline)
        tables = [table for table in tables if await _rewrite_table(connection, table)]
    file_numbers_after = await _file_numbers(connection, list(partition.tables()))
    if any(
        old_number == new_number for old_number, new_number in zip(file_numbers_before, file_numbers_after, strict=True)
    ):
        raise StoreRefused(
            "the Postgres server lets only their owner rewrite tables: erase as the owner of the store's "
            "schema; the erased items can no longer be read, but their bytes remain"
        )


async def _rewrite_table(connection: Connection, table: str) -> int:
    """Rewrite the rows of `table` to new files; return how many copied rows only older readers see."""
    row_counts: list[int] = []

    def note(notice: Diagnostic) -> None:
        match = _NUMBER.search(notice.message_detail or "")
        row_counts.append(int(match[0]) if match is not None else 0)

    connection.add_notice_handler(note)
    try:
        await connection.execute(statements.rewrite_table(table))
    finally:
        connection.remove_notice_handler(note)
    return max(row_counts, default=0)


async def _await_readers(connection: Connection, transaction: str, deadline: float) -> None:
    """Wait until nothing can see a state from before `transaction`: a rewritten table keeps what such readers see."""
    while True:
        cursor = await connection.execute(statements.OLDER_READERS, {"own": transaction}, binary=True)
        ((other_readers,),) = await cursor.fetchall()
        # Checked first: it also bounds the caller's loop, which returns for tables that kept rows.
        if monotonic() > deadline:
            raise StoreBusy(engine=ENGINE, waited_s=store_limits.BUSY_WAIT_S)
        if not other_readers:
            return
        await asyncio.sleep(_PAUSE_S)


async def _file_numbers(connection: Connection, tables: Sequence[str]) -> Sequence[int]:
    cursor = await connection.execute(statements.FILE_NUMBERS, (text_array(tables),), binary=True)
    ((numbers,),) = await cursor.fetchall()
    return numbers


async def recycle_log(connection: Connection) -> ErasureLayer:
    """Make the server overwrite the log with the erased bytes; return whether it has.

    A segment that is no longer needed keeps its bytes, renamed to a later one, until it is reused. So the log is
    advanced past every existing segment, a bounded number of times.
    """
    (erased_in, _, _) = await _log_place(connection)
    last_segment = ""
    for _ in range(POSTGRES_LOG_ROUNDS):
        await connection.execute(statements.SWITCH_LOG)
        await connection.execute(statements.CHECKPOINT)
        current_segment, oldest_segment, newest_segment = await _log_place(connection)
        last_segment = last_segment or newest_segment
        if current_segment > last_segment and oldest_segment > erased_in:
            return ErasureLayer(place=ErasurePlace.LOG, state=ErasureState.GONE)
    return _pending_log("it has more segments than one erasure overwrites")


async def _log_place(connection: Connection) -> tuple[str, str, str]:
    """Return the names of the log's current, oldest and newest segment."""
    ((current_segment, oldest_segment, newest_segment),) = await (
        await connection.execute(statements.LOG_SEGMENTS)
    ).fetchall()
    return current_segment, oldest_segment, newest_segment


def _pending_log(reason: str) -> ErasureLayer:
    return ErasureLayer(
        place=ErasurePlace.LOG,
        state=ErasureState.PENDING,
        reason=f"the server's log contains it until overwritten: {reason}",
    )


async def erasure_layers(connection: Connection, *, recycles_log: bool) -> tuple[ErasureLayer, ...]:
    """Return the state of an erasure's bytes in each place of the server; the log is recycled if requested."""
    if recycles_log:
        try:
            log = await recycle_log(connection)
        except psycopg.errors.InsufficientPrivilege:
            log = _pending_log("this user may not recycle it (pg_switch_wal, pg_checkpoint, pg_monitor)")
    else:
        log = _pending_log("with recycle_log=yes in the URL, erasures recycle it")
    ((replicas, archive_mode),) = await (await connection.execute(statements.COPIES)).fetchall()
    copies = [f"{replicas} replicas"] * bool(replicas) + ["archived logs"] * (archive_mode != "off")
    return (
        ErasureLayer(place=ErasurePlace.ROWS, state=ErasureState.GONE),
        ErasureLayer(place=ErasurePlace.TABLES, state=ErasureState.GONE),
        log,
        ErasureLayer(
            place=ErasurePlace.COPIES,
            state=ErasureState.OUT_OF_REACH,
            reason=f"the server does not track its copies: {', '.join([*copies, 'backups'])}",
        ),
    )
