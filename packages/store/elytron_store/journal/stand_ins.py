"""Runs of obsolete journal entries, and the one entry in place of each after a compaction."""

from collections.abc import Iterable, Iterator, Sequence

from elytron_core import limits
from elytron_core.errors import Conflict, InvalidInput, LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.ports.store import COMPACTION_REF, Action, JournalEntry, Run, require_space


def require_runs(space: SpaceId, runs: Sequence[Run], /) -> None:
    """Raise InvalidInput unless `runs` are in order and of two sequences or more each, LimitExceeded for too many."""
    require_space(space)
    if len(runs) > limits.COMPACTION_RUNS:
        raise LimitExceeded(what="runs in a compaction", limit=limits.COMPACTION_RUNS, found=len(runs))
    end = 0
    for run in runs:
        if not end < run.first < run.last:
            raise InvalidInput(field="runs", problem="are not in order, or one is of a single entry")
        end = run.last


def stand_in(run: Run, entries: Sequence[JournalEntry], /) -> JournalEntry:
    """Return the entry in place of `entries`, those of `run`. Raises Conflict unless it may cover them."""
    is_whole = bool(entries) and (entries[0].first, entries[-1].sequence) == (run.first, run.last)
    if not is_whole or any(entry.digest and entry.covers == 1 for entry in entries):
        raise conflict(run)
    made = JournalEntry(
        run.last, entries[-1].at, Action.ERASE, COMPACTION_REF, run.digest, covers=run.last - run.first + 1
    )
    if len(entries) == 1 and entries[0] != made:
        raise conflict(run)
    return made


def compacted(entries: Iterable[JournalEntry], runs: Sequence[Run], /) -> Iterator[JournalEntry]:
    """Yield a whole journal with one entry in place of each of `runs`. Raises Conflict if it has no such run."""
    left = iter(runs)
    run = next(left, None)
    held: list[JournalEntry] = []
    for entry in entries:
        if run is None or entry.sequence < run.first:
            yield entry
            continue
        held.append(entry)
        if entry.sequence >= run.last:
            yield stand_in(run, held)
            held.clear()
            run = next(left, None)
    if run is not None:
        raise conflict(run)


def conflict(run: Run, /) -> Conflict:
    """Return the refusal of a run that the journal has not."""
    return Conflict(what=f"the run of journal entries {run.first} to {run.last}", expected=1, found=0)
