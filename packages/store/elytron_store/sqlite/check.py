"""Checking and repairing: everything is read, damage is named without its content, damaged things are set aside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store import CheckReport, DamageKind, StoreProblem
from elytron_store.sqlite import blobs, schema
from elytron_store.sqlite.driver import ERRORS, FileAccess, Raw, read_snapshot, write_transaction
from elytron_store.sqlite.schema import PAD

_DOCUMENTS = 'SELECT space, collection, key, revision, body, "check" FROM documents'
_ENTRIES = (
    'SELECT space, sequence, at, action, collection, key, digest, covers, "check" FROM journal ORDER BY space, sequence'
)
_HEADS = 'SELECT space, sequence, "check" FROM heads'
_BLOBS = 'SELECT space, key, upload, parts, size, "check" FROM blobs'
_NUMBER = "(SELECT coalesce(max(number), 0) + 1 FROM quarantine WHERE space = ?)"
_KEEP = f"INSERT INTO quarantine VALUES (?, {_NUMBER}, ?, ?, ?, ?, ?, ?, {PAD}, ?)"  # noqa: S608 - ours


class FoundDamage(NamedTuple):
    """A problem, and the place of the damaged row if it can be set aside."""

    problem: StoreProblem
    place: tuple[str, str, str] | None = None


@dataclass
class _PassTally:
    """Findings of a pass."""

    spaces: int = 0
    documents: int = 0
    entries: int = 0
    blobs: int = 0
    found: list[FoundDamage] = field(default_factory=list[FoundDamage])

    def report(self, problems: Sequence[StoreProblem], /) -> CheckReport:
        return CheckReport(
            spaces=self.spaces,
            documents=self.documents,
            entries=self.entries,
            blobs=self.blobs,
            problems=tuple(problems[: limits.PROBLEMS_MAX]),
            clipped=len(problems) > limits.PROBLEMS_MAX,
        )


def check_database(raw: Raw, /) -> CheckReport:
    """Read everything in one state and report what is damaged; change nothing."""
    with read_snapshot(raw):
        tally = _read_all(raw)
    return tally.report([found.problem for found in tally.found])


def repair_database(raw: Raw, access: FileAccess, at: Instant, /) -> CheckReport:
    """Set damaged documents and blobs aside, in one transaction; report all damage found."""
    with write_transaction(raw, access):
        tally = _read_all(raw)
        problems = [_set_aside(raw, found, at) for found in tally.found]
    return tally.report(problems)


def _read_all(raw: Raw) -> _PassTally:
    tally = _PassTally()
    for part in (_check_engine, _check_documents, _check_journal, _check_blobs):
        try:
            tally.found.extend(part(raw, tally))
        except (*ERRORS, TypeError, ValueError):
            # If SQLite itself cannot go on, or gives values of other types, the rest of that table is unread; the
            # others may be whole.
            what = f"the file, while reading its {part.__name__.rpartition('_')[2]}"
            tally.found.append(FoundDamage(StoreProblem(DamageKind.ENGINE, None, what)))
    return tally


def _check_engine(raw: Raw, _: _PassTally) -> Iterator[FoundDamage]:
    for (line,) in raw.execute(f"PRAGMA integrity_check({limits.PROBLEMS_MAX})"):
        if line != "ok":
            yield FoundDamage(StoreProblem(DamageKind.ENGINE, None, str(line).partition("\n")[0]))


def _check_documents(raw: Raw, tally: _PassTally) -> Iterator[FoundDamage]:
    for space, collection, key, revision, body, check in raw.execute(_DOCUMENTS):
        tally.documents += 1
        if schema.check_of(space, collection, key, revision, body=body) != check:
            problem = StoreProblem(DamageKind.DOCUMENT, SpaceId(space), f"document {collection}/{key}")
            yield FoundDamage(problem, (space, collection, key))


def _check_journal(raw: Raw, tally: _PassTally) -> Iterator[FoundDamage]:
    ends: dict[str, int] = {}
    for space, sequence, at, action, collection, key, digest, covers, check in raw.execute(_ENTRIES):
        tally.entries += 1
        end = ends.get(space, 0)
        is_whole = schema.check_of(space, sequence, at, action, collection, key, digest, covers) == check
        if not (isinstance(sequence, int) and isinstance(covers, int)):
            yield FoundDamage(StoreProblem(DamageKind.JOURNAL_ENTRY, SpaceId(space), f"journal entry {end + 1}"))
            continue
        if sequence - covers != end:
            lost = f"journal entries {end + 1} to {sequence - covers}"
            yield FoundDamage(StoreProblem(DamageKind.JOURNAL_GAP, SpaceId(space), lost))
        if not is_whole:
            yield FoundDamage(StoreProblem(DamageKind.JOURNAL_ENTRY, SpaceId(space), f"journal entry {sequence}"))
        ends[space] = sequence
    for space, head, check in raw.execute(_HEADS):
        tally.spaces += 1
        end = ends.pop(space, 0)
        if head != end or schema.check_of(space, head) != check:
            yield FoundDamage(
                StoreProblem(DamageKind.JOURNAL_GAP, SpaceId(space), f"the head of the journal, which ends at {end}")
            )
    for space in ends:
        yield FoundDamage(
            StoreProblem(DamageKind.JOURNAL_GAP, SpaceId(space), "the head of the journal, which is missing")
        )


def _check_blobs(raw: Raw, tally: _PassTally) -> Iterator[FoundDamage]:
    for space, key, *row in raw.execute(_BLOBS).fetchall():
        tally.blobs += 1
        if blobs.is_blob_damaged(raw, space, key, (row[0], row[1], row[2], row[3])):
            yield FoundDamage(StoreProblem(DamageKind.BLOB, SpaceId(space), f"blob {key}"), (space, "", key))


def _set_aside(raw: Raw, found: FoundDamage, at: Instant) -> StoreProblem:
    """Move the row of `found` to the quarantine, if it has a place; return the problem with what was done."""
    if found.place is None:
        return found.problem
    space, collection, key = found.place
    if found.problem.damage is DamageKind.BLOB:
        # The chunks stay; without the row no reader finds them.
        row = raw.execute("SELECT upload FROM blobs WHERE space = ? AND key = ?", (space, key)).fetchone()
        kept = None if row is None else (0, row[0], b"")
        table, where, place = "blobs", "space = ? AND key = ?", (space, key)
    else:
        where, place = "space = ? AND collection = ? AND key = ?", (space, collection, key)
        row = raw.execute(f"SELECT revision, body FROM documents WHERE {where}", place).fetchone()  # noqa: S608 - ours
        kept = None if row is None else (row[0], 0, row[1])
        table = "documents"
    if kept is None:
        return found.problem  # reached by walking the table, not by its key: the tree itself is damaged
    raw.execute(_KEEP, (space, space, at, found.problem.damage.value, collection, key, *kept))
    raw.execute(f"DELETE FROM {table} WHERE {where}", place)  # noqa: S608 - our own names
    return StoreProblem(found.problem.damage, found.problem.space, found.problem.what, quarantined=True)
