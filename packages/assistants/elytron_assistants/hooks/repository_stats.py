"""Statistics per repository: how often hooks added memory, its cost and benefit, and how much is stored."""

from collections.abc import Mapping
from pathlib import Path

from elytron_assistants.hooks.activity import RepositoryActivity, read_activity, store_digest
from elytron_core.clock import Instant
from elytron_core.contracts.inspection import MemorySpacesRequest
from elytron_core.model import Value
from elytron_store import parse_url
from elytron_store.backup import size_on_disk
from elytron_turn.memory import OperateCall


class RepositoryStats(Value):
    """What hooks did in one repository, and how much is stored for it."""

    label: str
    space: str
    is_here: bool
    """True if its memory is in the open store, rather than in another store or on a server."""
    hosts: tuple[str, ...]
    sessions: int
    prompts: int
    recalled: int
    """Number of prompts that got a block."""
    added_chars: int
    """Number of characters added to prompts and at session starts."""
    shown_hits: int
    used_hits: int
    """Number of memories shown at prompts whose words reappeared in the reply."""
    prompt_cpu_ms: float
    """Mean CPU time per prompt, of the hook and the resident process."""
    stored_turns: int
    """Number of turns that hooks stored."""
    turns: int | None
    """Current number of turns in its space, including imported ones; None if it is in another store."""
    changed_at: Instant


class StatsReport(Value):
    """Statistics of all repositories, most recently used first."""

    repositories: tuple[RepositoryStats, ...]
    store_bytes: int | None
    """Size of the store's files; None if the store is on a server."""


async def repository_stats(
    operate: OperateCall, records: Path, /, *, store: str, space: str | None = None
) -> StatsReport:
    """Summarise the activity records in the folder `records`, for all repositories or only the one with `space`.

    `store` is the address of the open store, whose spaces `operate` lists.
    """
    turns, own_store_digest = await _turns_by_space(operate), store_digest(store)
    activities = (activity for activity in read_activity(records) if space in {None, activity.repository})
    path = parse_url(store).path
    return StatsReport(
        repositories=tuple(
            _stats_of(activity, turns if activity.store == own_store_digest else None) for activity in activities
        ),
        store_bytes=size_on_disk(path) if path is not None else None,
    )


async def _turns_by_space(operate: OperateCall) -> dict[str, int]:
    turns: dict[str, int] = {}
    cursor, has_more = None, True
    while has_more:
        page = await operate(MemorySpacesRequest(cursor=cursor))
        turns |= {summary.space: summary.turns for summary in page.spaces}
        cursor, has_more = page.next_cursor, page.has_more
    return turns


def _stats_of(activity: RepositoryActivity, turns: Mapping[str, int] | None) -> RepositoryStats:
    counts = activity.counts
    return RepositoryStats(
        label=activity.label or activity.repository,
        space=activity.repository,
        is_here=turns is not None,
        hosts=activity.hosts,
        sessions=activity.sessions,
        prompts=counts.prompts,
        recalled=counts.recalled,
        added_chars=counts.added_chars,
        shown_hits=counts.shown_hits,
        used_hits=counts.used_hits,
        prompt_cpu_ms=round(counts.prompt_cpu_ms / counts.prompts, 1) if counts.prompts else 0.0,
        stored_turns=counts.stored_turns,
        turns=turns.get(activity.repository, 0) if turns is not None else None,
        changed_at=activity.changed_at,
    )
