"""Quality and state of a runtime skill.

Quality is a sum of points up to 100. From it and from age a skill's state follows: stale after 90 days without use or
change, of low value below 32, or below 45 when stale. A stale and unused skill is retired if it has a history, and
pruned if it has none, was learned by the runtime itself and rests on at most one citation. A caller's skill is
never pruned.
"""

from enum import StrEnum
from typing import Final, assert_never

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.model import Value
from elytron_core.planes.skills import (
    LineageNode,
    LineageStatus,
    ReuseOutcome,
    Skill,
    SkillOrigin,
    SkillState,
    StrategyChange,
    StrategyDiff,
)
from elytron_core.text import similarity

QUALITY_MAX: Final = 100
STALE_MS: Final = 90 * DAY_MS
LOW_VALUE: Final = 32
LOW_VALUE_STALE: Final = 45
TOUCH_MS: Final = 6 * 3600 * 1000
"""Uses closer together than this count as one."""
PRUNED_CITATIONS: Final = 1


class QualityPoints(Value):
    """The points that make up a skill's quality."""

    base: int = 20
    summary: int = 18
    citation: int = 10
    citations_counted: int = 4
    use: int = 6
    uses_counted: int = 5
    validated: int = 5
    validated_counted: int = 4
    several_lines: int = 14
    chat: int = 6
    mismatch: int = -4
    mismatches_counted: int = 3
    pending: int = -6


POINTS: Final = QualityPoints()


def skill_quality(skill: Skill, /) -> int:
    """Return what `skill` is worth, 0 to 100."""
    worth = (
        POINTS.base
        + POINTS.summary * (not similarity.is_blank(skill.summary))
        + POINTS.citation * min(len(skill.citations), POINTS.citations_counted)
        + POINTS.use * min(skill.use_count, POINTS.uses_counted)
        + POINTS.validated * min(skill.validated_count, POINTS.validated_counted)
        + POINTS.several_lines * (len(skill.procedure.split("\n")) > 1)
        + POINTS.chat * (skill.source_chat_id is not None)
        + POINTS.mismatch * min(skill.mismatch_count, POINTS.mismatches_counted)
        + POINTS.pending * skill.revision_pending
    )
    return max(0, min(worth, QUALITY_MAX))


def is_stale(skill: Skill, *, at: Instant) -> bool:
    """Return whether `skill` was neither changed nor used for 90 days."""
    return at - max(skill.updated_at, skill.last_used_at or 0, skill.last_outcome_at or 0) > STALE_MS


def is_unused(skill: Skill, /) -> bool:
    """Return whether `skill` was never used."""
    return skill.use_count == 0 and skill.validated_count == 0


def has_lineage(skill: Skill, /) -> bool:
    """Return whether `skill` has earlier revisions, or others merged into it."""
    return bool(skill.predecessors or skill.supersedes)


def state_of(skill: Skill, *, at: Instant) -> SkillState:
    """Return where `skill` is in its life at `at`. A retired one stays so until it is brought back."""
    stale = is_stale(skill, at=at)
    if skill.state is SkillState.RETIRED or (stale and has_lineage(skill) and is_unused(skill)):
        return SkillState.RETIRED
    if skill_quality(skill) < (LOW_VALUE_STALE if stale else LOW_VALUE):
        return SkillState.LOW_VALUE
    return SkillState.STALE if stale else SkillState.ACTIVE


def is_prunable(skill: Skill, *, at: Instant) -> bool:
    """Return whether `skill` may be removed: learned, stale, unused, without history, with at most one citation."""
    return (
        skill.origin is SkillOrigin.LEARNED
        and is_stale(skill, at=at)
        and is_unused(skill)
        and not has_lineage(skill)
        and len(skill.citations) <= PRUNED_CITATIONS
    )


class SkillFate(StrEnum):
    """Change of a skill by governance."""

    KEEP = "keep"
    MOVE = "move"
    """Another state is written down."""
    PRUNE = "prune"


def fate_of(skill: Skill, *, at: Instant) -> SkillFate:
    """Return what is to become of `skill`; a forgotten one is left alone, for it can still be brought back."""
    if skill.forgotten_at is not None:
        return SkillFate.KEEP
    if is_prunable(skill, at=at):
        return SkillFate.PRUNE
    return SkillFate.MOVE if state_of(skill, at=at) is not skill.state else SkillFate.KEEP


def touch_skill(skill: Skill, *, at: Instant) -> Skill:
    """Return `skill` used once more at `at`, or itself where its last use counts for this one too."""
    if skill.last_used_at is not None and at - skill.last_used_at < TOUCH_MS:
        return skill
    return skill.model_copy(update={"use_count": skill.use_count + 1, "last_used_at": at})


def with_outcome(skill: Skill, outcome: ReuseOutcome, *, at: Instant, note: str = "") -> Skill:
    """Return `skill` as using it has left it: a mismatch asks for a revision, a success takes that back."""
    update: dict[str, object] = {"last_outcome_at": at, "last_outcome_note": note[: limits.OUTCOME_NOTE_CHARS]}
    match outcome:
        case ReuseOutcome.SUCCEEDED:
            update |= {"validated_count": skill.validated_count + 1, "revision_pending": False}
        case ReuseOutcome.MISMATCH:
            update |= {"mismatch_count": skill.mismatch_count + 1, "revision_pending": True}
        case ReuseOutcome.NEUTRAL:
            pass
        case _:
            assert_never(outcome)
    return skill.model_copy(update=update)


def revise_skill(old: Skill, new: Skill, *, digest: str, reason: str = "") -> Skill:
    """Return `new` as the next revision of `old`, whose evidence it takes over; `digest` represents the old content."""
    node = LineageNode(
        name=old.name,
        revision=old.revision_count,
        digest=digest,
        status=LineageStatus.RETIRED if old.state is SkillState.RETIRED else LineageStatus.SUPERSEDED,
        at=old.updated_at,
    )
    revision = old.revision_count + 1
    return new.model_copy(
        update={
            "revision_count": revision,
            "recorded_at": old.recorded_at,
            "citations": join_unique(old.citations, new.citations, most=limits.CITATIONS),
            "supersedes": join_unique(old.supersedes, new.supersedes, most=limits.SUPERSEDED_NAMES),
            "predecessors": (*old.predecessors, node)[-(limits.LINEAGE_NODES - 1) :],
            "diffs": (*old.diffs, *_strategy_diffs(old, new, revision=revision, reason=reason))[
                -limits.STRATEGY_DIFFS :
            ],
            "use_count": old.use_count,
            "validated_count": old.validated_count,
            "mismatch_count": old.mismatch_count,
            "last_used_at": old.last_used_at,
            "last_outcome_at": old.last_outcome_at,
            "last_outcome_note": old.last_outcome_note,
        }
    )


def merge_skills(kept: Skill, given_up: Skill, *, digest: str) -> Skill:
    """Return `kept` with the evidence of `given_up`, which it supersedes."""
    node = LineageNode(
        name=given_up.name,
        revision=given_up.revision_count,
        digest=digest,
        status=LineageStatus.SUPERSEDED,
        at=given_up.updated_at,
    )
    predecessors = sorted((*given_up.predecessors, node, *kept.predecessors), key=lambda one: one.at)
    return kept.model_copy(
        update={
            "citations": join_unique(given_up.citations, kept.citations, most=limits.CITATIONS),
            "supersedes": join_unique(
                kept.supersedes, (*given_up.supersedes, given_up.name), most=limits.SUPERSEDED_NAMES
            ),
            "predecessors": tuple(predecessors[-(limits.LINEAGE_NODES - 1) :]),
            "use_count": kept.use_count + given_up.use_count,
            "validated_count": kept.validated_count + given_up.validated_count,
            "mismatch_count": kept.mismatch_count + given_up.mismatch_count,
            "last_used_at": max(kept.last_used_at or 0, given_up.last_used_at or 0) or None,
            "source_chat_id": kept.source_chat_id or given_up.source_chat_id,
            "enabled": kept.enabled and given_up.enabled,
        }
    )


def retire_skill(skill: Skill, *, by: str) -> Skill:
    """Return `skill` as superseded by the one called `by`; it can be brought back."""
    return skill.model_copy(update={"state": SkillState.RETIRED, "superseded_by": by})


def skill_lineage(skill: Skill, *, digest: str) -> tuple[LineageNode, ...]:
    """Return the revisions of `skill` that are known, oldest first, itself last."""
    status = LineageStatus.RETIRED if skill.state is SkillState.RETIRED else LineageStatus.ACTIVE
    own = LineageNode(name=skill.name, revision=skill.revision_count, digest=digest, status=status, at=skill.updated_at)
    return (*skill.predecessors, own)


def join_unique(old: tuple[str, ...], new: tuple[str, ...], /, *, most: int) -> tuple[str, ...]:
    """Return both without repeats, the latest `most` of them."""
    return tuple(dict.fromkeys((*old, *new)))[-most:]


def _strategy_diffs(old: Skill, new: Skill, *, revision: int, reason: str) -> list[StrategyDiff]:
    changes = (
        (StrategyChange.DOCTRINE_REVISION, f"{old.topic}: {old.title}", f"{new.topic}: {new.title}"),
        (StrategyChange.SUMMARY_REVISION, old.summary, new.summary),
        (StrategyChange.PROCEDURE_REFINEMENT, *_lines_apart(old.procedure, new.procedure)),
    )
    return [
        StrategyDiff(
            change=change,
            at=new.updated_at,
            revision=revision,
            before=before[: limits.DIFF_CHARS],
            after=after[: limits.DIFF_CHARS],
            reason=reason,
        )
        for change, before, after in changes
        if before != after
    ]


def _lines_apart(old: str, new: str) -> tuple[str, str]:
    """Return the lines that only the old text has, and those that only the new one has."""
    if old == new:
        return "", ""
    before, after = old.splitlines(), new.splitlines()
    gone, come = _lines_without(before, after), _lines_without(after, before)
    return (gone, come) if gone or come else (old, new)


def _lines_without(lines: list[str], others: list[str]) -> str:
    left = set(others)
    return "\n".join(line for line in lines if line not in left)
