"""Checking and repairing: everything is read, damage is named without its content, damaged things are set aside."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store import CheckReport, Damage, Problem
from elytron_store.sqlite import blobs, schema
from elytron_store.sqlite.driver import ERRORS, Access, Raw, snapshot, transaction
from elytron_store.sqlite.schema import PAD

_DOCUMENTS = 'SELECT space, collection, key, revision, body, "check" FROM documents'
_ENTRIES = (
    'SELECT space, sequence, at, action, collection, key, digest, covers, "check" FROM journal ORDER BY space, sequence'
)
_HEADS = 'SELECT space, sequence, "check" FROM heads'
_BLOBS = 'SELECT space, key, upload, parts, size, "check" FROM blobs'
_NUMBER = "(SELECT coalesce(max(number), 0) + 1 FROM quarantine WHERE space = ?)"
_KEEP = f"INSERT INTO quarantine VALUES (?, {_NUMBER}, ?, ?, ?, ?, ?, ?, {PAD}, ?)"  # noqa: S608 - ours


class Found(NamedTuple):
    """A problem, and the place of the damaged row if it can be set aside."""

    problem: Problem
    place: tuple[str, str, str] | None = None


@dataclass
class _Tally:
    """Findings of a pass."""

    spaces: int = 0
    documents: int = 0
    entries: int = 0
    blobs: int = 0
    found: list[Found] = field(default_factory=list[Found])

    def report(self, problems: Sequence[Problem], /) -> CheckReport:
        return CheckReport(
            spaces=self.spaces,
            documents=self.documents,
            entries=self.entries,
            blobs=self.blobs,
            problems=tuple(problems[: limits.PROBLEMS_MAX]),
            clipped=len(problems) > limits.PROBLEMS_MAX,
        )


def check(raw: Raw, /) -> CheckReport:
    """Read everything in one state and report what is damaged; change nothing."""
    with snapshot(raw):
        tally = _read_all(raw)
    return tally.report([found.problem for found in tally.found])


def repair(raw: Raw, access: Access, at: Instant, /) -> CheckReport:
    """Set damaged documents and blobs aside, in one transaction; report all damage found."""
    with transaction(raw, access):
        tally = _read_all(raw)
        problems = [_set_aside(raw, found, at) for found in tally.found]
    return tally.report(problems)


def _read_all(raw: Raw) -> _Tally:
    tally = _Tally()
    for part in (_engine, _documents, _journal, _blobs):
        try:
            tally.found.extend(part(raw, tally))
        except ERRORS:
            # If SQLite itself cannot go on, the rest of that table is unread; the others may be whole.
            tally.found.append(Found(Problem(Damage.ENGINE, None, f"the file, while reading its {part.__name__[1:]}")))
    return tally


def _engine(raw: Raw, _: _Tally) -> Iterator[Found]:
    for (line,) in raw.execute(f"PRAGMA integrity_check({limits.PROBLEMS_MAX})"):
        if line != "ok":
            yield Found(Problem(Damage.ENGINE, None, str(line).partition("\n")[0]))


def _documents(raw: Raw, tally: _Tally) -> Iterator[Found]:
    for space, collection, key, revision, body, check in raw.execute(_DOCUMENTS):
        tally.documents += 1
        if schema.check_of(space, collection, key, revision, body=body) != check:
            problem = Problem(Damage.DOCUMENT, SpaceId(space), f"document {collection}/{key}")
            yield Found(problem, (space, collection, key))


def _journal(raw: Raw, tally: _Tally) -> Iterator[Found]:
    ends: dict[str, int] = {}
    for space, sequence, at, action, collection, key, digest, covers, check in raw.execute(_ENTRIES):
        tally.entries += 1
        end = ends.get(space, 0)
        if sequence - covers != end:
            lost = f"journal entries {end + 1} to {sequence - covers}"
            yield Found(Problem(Damage.JOURNAL_GAP, SpaceId(space), lost))
        if schema.check_of(space, sequence, at, action, collection, key, digest, covers) != check:
            yield Found(Problem(Damage.JOURNAL_ENTRY, SpaceId(space), f"journal entry {sequence}"))
        ends[space] = sequence
    for space, head, check in raw.execute(_HEADS):
        tally.spaces += 1
        end = ends.pop(space, 0)
        if head != end or schema.check_of(space, head) != check:
            yield Found(Problem(Damage.JOURNAL_GAP, SpaceId(space), f"the head of the journal, which ends at {end}"))
    for space in ends:
        yield Found(Problem(Damage.JOURNAL_GAP, SpaceId(space), "the head of the journal, which is missing"))


def _blobs(raw: Raw, tally: _Tally) -> Iterator[Found]:
    for space, key, *row in raw.execute(_BLOBS).fetchall():
        tally.blobs += 1
        if blobs.damage(raw, space, key, (row[0], row[1], row[2], row[3])):
            yield Found(Problem(Damage.BLOB, SpaceId(space), f"blob {key}"), (space, "", key))


def _set_aside(raw: Raw, found: Found, at: Instant) -> Problem:
    """Move the row of `found` to the quarantine, if it has a place; return the problem with what was done."""
    if found.place is None:
        return found.problem
    space, collection, key = found.place
    if found.problem.damage is Damage.BLOB:
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
    return Problem(found.problem.damage, found.problem.space, found.problem.what, quarantined=True)
