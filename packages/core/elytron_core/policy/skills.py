"""Runtime skills: their Markdown form, their quality and state, and one pass over all of them.

Read are the front matter of SKILL.md files and the Markdown form of runtime skills, of YAML only what such files use: a
field a line, plain or quoted, a text over indented lines, and `>` and `|` blocks. Fields of other shapes are passed
over.

Quality is a sum of points up to 100. From it and from age a skill's state follows: stale after 90 days without use or
change, of low value below 32, or below 45 when stale. A stale and unused skill is retired if it has a history, and
pruned if it has none, was learned by the runtime itself and rests on at most one citation. A caller's skill is
never pruned. The pass merges duplicates, stores states and prunes unused skills.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, assert_never

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.skills import RuntimeSkillCounts
from elytron_core.model import Value
from elytron_core.planes import facts
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

LINEAGE_NODES: Final = 8
STRATEGY_DIFFS: Final = 8
DIFF_CHARS: Final = 600
SUPERSEDED_NAMES: Final = 16


MARK: Final = "elytron: runtime-skill"
"""First field of a runtime skill's Markdown form."""

_FENCE = "---"
_FIELD = re.compile(r"([A-Za-z_][\w-]{0,63}):(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"([>|])[-+]?[ \t]*(?:#.*)?$")
_PLAIN_STOP = re.compile(r"\s#.*$")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A Markdown file: the text fields of its front matter, and the rest."""

    fields: dict[str, str]
    body: str


def read_skill_file(text: str, /) -> SkillFile | None:
    """Return a file's fields; None if it has no front matter."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return None
    fence_line = next((line_index for line_index, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if fence_line is None:
        return None
    return SkillFile(_front_fields(lines[1:fence_line]), "\n".join(lines[fence_line + 1 :]).strip("\n"))


def write_skill_file(skill: Skill, /) -> str:
    """Return the Markdown form of `skill`, from which it can be restored."""
    fields = {
        "name": skill.name,
        "topic": skill.topic,
        "title": skill.title,
        "summary": skill.summary,
        "source": skill.source.value,
        "revision": str(skill.revision_count),
        "citations": " ".join(skill.citations),
    }
    front_matter = "\n".join(f"{name}: {_quote_field(value)}" for name, value in fields.items())
    return f"{_FENCE}\n{MARK}\n{front_matter}\n{_FENCE}\n\n{skill.procedure}\n"


def _quote_field(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_][\w .,()/-]*", value) and value == value.strip():
        return value
    escaped_value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped_value}"'


def _front_fields(lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    line_index = 0
    while line_index < len(lines):
        field_match = _FIELD.match(lines[line_index])
        line_index += 1
        if field_match is None:
            continue
        first_below = line_index
        while line_index < len(lines) and (not lines[line_index].strip() or lines[line_index][0] in " \t"):
            line_index += 1
        value = _field_value((field_match[2] or "").strip(), lines[first_below:line_index])
        if value is not None:
            fields.setdefault(field_match[1], value)
    return fields


def _field_value(first_line: str, lines_below: list[str]) -> str | None:
    """Return the text of a field: its line and the indented lines below it; None for a list or a mapping."""
    block_match = _BLOCK.match(first_line)
    if block_match is not None:
        return _block_text(lines_below, folded=block_match[1] == ">")
    text_below = [line.strip() for line in lines_below if line.strip() and not line.lstrip().startswith("#")]
    if not first_line and text_below and (text_below[0].startswith("- ") or _FIELD.match(text_below[0])):
        return None
    if first_line[:1] in {"[", "{", "&", "*"}:
        return None
    if first_line[:1] in {'"', "'"}:
        return _unquote_field(" ".join((first_line, *text_below)))
    return " ".join(_PLAIN_STOP.sub("", line_text) for line_text in (first_line, *text_below) if line_text).strip()


def _block_text(lines: list[str], *, folded: bool) -> str:
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    unindented_lines = [line[indent:].rstrip() for line in lines]
    if not folded:
        return "\n".join(unindented_lines).strip("\n")
    return "\n".join(
        " ".join(paragraph.split("\n")) for paragraph in "\n".join(unindented_lines).strip("\n").split("\n\n")
    )


def _unquote_field(text: str) -> str | None:
    if text[0] == "'":
        quoted_match = re.match(r"'((?:[^']|'')*)'", text)
        return quoted_match[1].replace("''", "'") if quoted_match is not None else None
    quoted_match = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    if quoted_match is None:
        return None
    return re.sub(r"\\(.)", lambda escape_match: _ESCAPES.get(escape_match[1], escape_match[0]), quoted_match[1])


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
    """Return the quality of `skill`, 0 to 100."""
    quality_points = (
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
    return max(0, min(quality_points, QUALITY_MAX))


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
    """Return the lifecycle state of `skill` at `at`. A retired one stays so until it is restored."""
    is_stale_now = is_stale(skill, at=at)
    if skill.state is SkillState.RETIRED or (is_stale_now and has_lineage(skill) and is_unused(skill)):
        return SkillState.RETIRED
    if skill_quality(skill) < (LOW_VALUE_STALE if is_stale_now else LOW_VALUE):
        return SkillState.LOW_VALUE
    return SkillState.STALE if is_stale_now else SkillState.ACTIVE


def is_prunable(skill: Skill, *, at: Instant) -> bool:
    """Return whether `skill` may be removed: learned, stale, unused, without history, with at most one citation."""
    return (
        skill.origin is SkillOrigin.LEARNED
        and is_stale(skill, at=at)
        and is_unused(skill)
        and not has_lineage(skill)
        and len(skill.citations) <= PRUNED_CITATIONS
    )


class SkillDecision(StrEnum):
    """A governance decision on a skill."""

    KEEP = "keep"
    MOVE = "move"
    """A different state is stored."""
    PRUNE = "prune"


def fate_of(skill: Skill, *, at: Instant) -> SkillDecision:
    """Return the decision on `skill`; a forgotten one is not changed, because it can still be restored."""
    if skill.forgotten_at is not None:
        return SkillDecision.KEEP
    if is_prunable(skill, at=at):
        return SkillDecision.PRUNE
    return SkillDecision.MOVE if state_of(skill, at=at) is not skill.state else SkillDecision.KEEP


def touch_skill(skill: Skill, *, at: Instant) -> Skill:
    """Return `skill` used once more at `at`, or unchanged if its last use covers this one."""
    if skill.last_used_at is not None and at - skill.last_used_at < TOUCH_MS:
        return skill
    return skill.model_copy(update={"use_count": skill.use_count + 1, "last_used_at": at})


def with_outcome(skill: Skill, outcome: ReuseOutcome, *, at: Instant, note: str = "") -> Skill:
    """Return `skill` after a use: a mismatch asks for a revision, a success clears that."""
    changed_fields: dict[str, object] = {"last_outcome_at": at, "last_outcome_note": note[: limits.OUTCOME_NOTE_CHARS]}
    match outcome:
        case ReuseOutcome.SUCCEEDED:
            changed_fields |= {"validated_count": skill.validated_count + 1, "revision_pending": False}
        case ReuseOutcome.MISMATCH:
            changed_fields |= {"mismatch_count": skill.mismatch_count + 1, "revision_pending": True}
        case ReuseOutcome.NEUTRAL:
            pass
        case _:
            assert_never(outcome)
    return skill.model_copy(update=changed_fields)


def revise_skill(old: Skill, new: Skill, *, digest: str, reason: str = "") -> Skill:
    """Return `new` as the next revision of `old`, with its evidence; `digest` represents the old content."""
    lineage_node = LineageNode(
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
            "supersedes": join_unique(old.supersedes, new.supersedes, most=SUPERSEDED_NAMES),
            "predecessors": (*old.predecessors, lineage_node)[-(LINEAGE_NODES - 1) :],
            "diffs": (*old.diffs, *_strategy_diffs(old, new, revision=revision, reason=reason))[-STRATEGY_DIFFS:],
            "use_count": old.use_count,
            "validated_count": old.validated_count,
            "mismatch_count": old.mismatch_count,
            "last_used_at": old.last_used_at,
            "last_outcome_at": old.last_outcome_at,
            "last_outcome_note": old.last_outcome_note,
        }
    )


def merge_skills(target: Skill, given_up: Skill, *, digest: str) -> Skill:
    """Return `target` with the evidence of `given_up`, which it supersedes."""
    lineage_node = LineageNode(
        name=given_up.name,
        revision=given_up.revision_count,
        digest=digest,
        status=LineageStatus.SUPERSEDED,
        at=given_up.updated_at,
    )
    predecessors = sorted(
        (*given_up.predecessors, lineage_node, *target.predecessors), key=lambda predecessor: predecessor.at
    )
    return target.model_copy(
        update={
            "citations": join_unique(given_up.citations, target.citations, most=limits.CITATIONS),
            "supersedes": join_unique(target.supersedes, (*given_up.supersedes, given_up.name), most=SUPERSEDED_NAMES),
            "predecessors": tuple(predecessors[-(LINEAGE_NODES - 1) :]),
            "use_count": target.use_count + given_up.use_count,
            "validated_count": target.validated_count + given_up.validated_count,
            "mismatch_count": target.mismatch_count + given_up.mismatch_count,
            "last_used_at": max(target.last_used_at or 0, given_up.last_used_at or 0) or None,
            "source_chat_id": target.source_chat_id or given_up.source_chat_id,
            "enabled": target.enabled and given_up.enabled,
        }
    )


def retire_skill(skill: Skill, *, by: str) -> Skill:
    """Return `skill` as superseded by the one called `by`; it can be restored."""
    return skill.model_copy(update={"state": SkillState.RETIRED, "superseded_by": by})


def skill_lineage(skill: Skill, *, digest: str) -> tuple[LineageNode, ...]:
    """Return the revisions of `skill` that are known, oldest first, itself last."""
    status = LineageStatus.RETIRED if skill.state is SkillState.RETIRED else LineageStatus.ACTIVE
    own_node = LineageNode(
        name=skill.name, revision=skill.revision_count, digest=digest, status=status, at=skill.updated_at
    )
    return (*skill.predecessors, own_node)


def join_unique(old_values: tuple[str, ...], new_values: tuple[str, ...], /, *, most: int) -> tuple[str, ...]:
    """Return both without repeats, only the latest `most`."""
    return tuple(dict.fromkeys((*old_values, *new_values)))[-most:]


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
            before=text_before[:DIFF_CHARS],
            after=text_after[:DIFF_CHARS],
            reason=reason,
        )
        for change, text_before, text_after in changes
        if text_before != text_after
    ]


def _lines_apart(old: str, new: str) -> tuple[str, str]:
    """Return the lines that only the old text has, and those that only the new one has."""
    if old == new:
        return "", ""
    old_lines, new_lines = old.splitlines(), new.splitlines()
    removed_lines, added_lines = _lines_without(old_lines, new_lines), _lines_without(new_lines, old_lines)
    # The same lines in another order: both texts are shown whole.
    return (removed_lines, added_lines) if removed_lines or added_lines else (old, new)


def _lines_without(lines: list[str], others: list[str]) -> str:
    excluded_lines = set(others)
    return "\n".join(line for line in lines if line not in excluded_lines)


DUPLICATE: Final = 16
"""Similarity points from which two skills count as one."""
COMPARED: Final = 12
WORDS: Final = 16


class LikenessPoints(Value):
    """Points for what two skills share; texts less similar than `floor` share nothing."""

    topic: float = 6
    title: float = 8
    summary: float = 6
    procedure: float = 12
    floor: float = 0.4


LIKENESS: Final = LikenessPoints()


class SkillLook:
    """The compared parts of a skill, computed once: its topic and its texts' trigrams."""

    def __init__(self, skill: Skill, /) -> None:
        self._skill = skill
        self.topic = facts.topic_key(skill.topic)

    @cached_property
    def title(self) -> frozenset[str]:
        return _text_grams(self._skill.title)

    @cached_property
    def summary(self) -> frozenset[str]:
        return _text_grams(self._skill.summary)

    @cached_property
    def procedure(self) -> frozenset[str]:
        return _text_grams(self._skill.procedure)

    @cached_property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Return the keys under which it is looked up."""
        title = similarity.normalise_text(self._skill.title)
        words = dict.fromkeys((*title.split()[:WORDS], *similarity.words_of(title, limit=WORDS)))
        summary = similarity.normalise_text(self._skill.summary)
        return (
            ("topic", self.topic),
            *(("word", word) for word in words),
            *((("summary", summary),) if summary else ()),
        )


class SkillLooks:
    """Comparison data by name, and which skills may be similar to another."""

    def __init__(self) -> None:
        self._looks: dict[str, SkillLook] = {}
        self._names: dict[tuple[str, str], set[str]] = {}

    def put(self, skill: Skill, /) -> None:
        """Add `skill`, replacing an earlier revision."""
        self.drop(skill.name)
        look = self._looks[skill.name] = SkillLook(skill)
        for key in look.keys:
            self._names.setdefault(key, set()).add(skill.name)

    def drop(self, name: str, /) -> None:
        """Remove the skill of this name."""
        look = self._looks.pop(name, None)
        for key in look.keys if look is not None else ():
            self._names[key].discard(name)

    def twins(self, skill: Skill, /) -> Iterator[str]:
        """Yield the names of duplicates of `skill`, those that share most first."""
        look = SkillLook(skill)
        shared_counts = Counter(name for key in look.keys for name in self._names.get(key, ()) if name != skill.name)
        for name in sorted(shared_counts, key=lambda twin_name: (-shared_counts[twin_name], twin_name))[:COMPARED]:
            if is_duplicate(look, self._looks[name]):
                yield name


def skill_similarity(look: SkillLook, other_look: SkillLook, /) -> float:
    """Return two skills' similarity points, 0 to 32; if they cannot reach a duplicate's points, fewer are counted.

    Long texts are compared last, and only if they can still decide.
    """
    likeness = LIKENESS.topic * (look.topic == other_look.topic) + LIKENESS.title * _look_likeness(
        look.title, other_look.title, LIKENESS.floor
    )
    likeness += LIKENESS.summary * _look_likeness(look.summary, other_look.summary, LIKENESS.floor)
    # Procedures are long, so they are compared only if they can still decide.
    if likeness + LIKENESS.procedure < DUPLICATE:
        return likeness
    return likeness + LIKENESS.procedure * _look_likeness(look.procedure, other_look.procedure, LIKENESS.floor)


def is_duplicate(look: SkillLook, other_look: SkillLook, /) -> bool:
    """Return whether two skills are the same under two names."""
    return skill_similarity(look, other_look) >= DUPLICATE


def _text_grams(text: str) -> frozenset[str]:
    return similarity.text_trigrams(similarity.normalise_text(text))


def _look_likeness(grams: frozenset[str], other_grams: frozenset[str], least_likeness: float) -> float:
    likeness = similarity.trigram_likeness(grams, other_grams)
    return likeness if likeness >= least_likeness else 0.0


@dataclass(frozen=True, slots=True)
class GovernedSkills:
    """Skills to write, in the order of names, and skills to remove."""

    changed: tuple[Skill, ...]
    moved: tuple[Skill, ...]
    """Those of which only the state changed."""
    merged: tuple[str, ...]
    pruned: tuple[Skill, ...]

    @property
    def is_change(self) -> bool:
        return bool(self.changed or self.pruned)

    def names_in(self, state: SkillState, /) -> tuple[str, ...]:
        """Return the names of those that changed to `state`."""
        return tuple(skill.name for skill in self.moved if skill.state is state)


def count_skills(skills: Iterable[Skill], *, at: Instant) -> RuntimeSkillCounts:
    """Return how many of `skills` are in each state at `at`."""
    all_skills = tuple(skills)
    states = Counter(state_of(skill, at=at) for skill in all_skills)
    return RuntimeSkillCounts(
        total=len(all_skills),
        active=states[SkillState.ACTIVE],
        stale=states[SkillState.STALE],
        low_value=states[SkillState.LOW_VALUE],
        retired=states[SkillState.RETIRED],
        disabled=sum(not skill.enabled for skill in all_skills),
        forgotten=sum(skill.forgotten_at is not None for skill in all_skills),
        revision_pending=sum(skill.revision_pending for skill in all_skills),
        recallable=sum(skill.is_recallable for skill in all_skills),
    )


def govern_skills(skills: Iterable[Skill], *, at: Instant, digest: Callable[[Skill], str]) -> GovernedSkills:
    """Return the governance changes to `skills` at `at`. `digest` represents a skill's content in another's lineage.

    Of two equal ones the later stays and takes over the other's evidence.
    """
    skills_before = {skill.name: skill for skill in sorted(skills, key=lambda one: one.name)}
    skills_after = dict(skills_before)
    merged_names = _merge_duplicates(skills_after, digest=digest)
    moved_skills: list[Skill] = []
    pruned_skills: list[Skill] = []
    for name, skill in skills_after.items():
        if name in merged_names:
            continue
        match fate_of(skill, at=at):
            case SkillDecision.PRUNE:
                pruned_skills.append(skills_before[name])
            case SkillDecision.MOVE:
                skills_after[name] = skill.model_copy(update={"state": state_of(skill, at=at)})
                moved_skills.append(skills_after[name])
            case SkillDecision.KEEP:
                pass
    pruned_names = {skill.name for skill in pruned_skills}
    # Compared with what was read, because a merge may have changed a skill as well.
    changed_skills = tuple(
        skill for name, skill in skills_after.items() if name not in pruned_names and skill != skills_before[name]
    )
    return GovernedSkills(changed_skills, tuple(moved_skills), merged_names, tuple(pruned_skills))


def _merge_duplicates(skills: dict[str, Skill], *, digest: Callable[[Skill], str]) -> tuple[str, ...]:
    """Merge duplicates within `skills`; return the names of the removed ones."""
    candidates = [
        skill for skill in skills.values() if skill.forgotten_at is None and skill.state is not SkillState.RETIRED
    ]
    # The latest first, so that an older one is merged into it.
    candidates.sort(key=lambda one: (-one.ordered_at, one.name))
    looks = SkillLooks()
    merged_names: list[str] = []
    for skill in candidates:
        target_name = next(looks.twins(skill), None)
        if target_name is None:
            looks.put(skill)
            continue
        skills[target_name] = merge_skills(skills[target_name], skill, digest=digest(skill))
        skills[skill.name] = retire_skill(skill, by=target_name)
        merged_names.append(skill.name)
    return tuple(sorted(merged_names))
