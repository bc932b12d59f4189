"""Project and personal memory of a folder, read into one block and written from one turn.

The personal tier stores only users' own statements about themselves. Anything that mentions the project stays in the
project's tier.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar, cast

from elytron.indexing.units import is_standing
from elytron.runtime import MemoryRuntime
from elytron_assistants.project_registry import ProjectMemory, note_project
from elytron_core.contracts.projection import MemoryProjectionReport, MemoryProjectionRequest
from elytron_core.contracts.recall import AnyOf, ComparisonOperator, FieldCondition, RecallFilters
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.evidence import EvidenceRole
from elytron_core.model import OperationRequest, Value
from elytron_core.planes.transcript import TurnOrigin
from elytron_core.policy.extraction.rule_facts import own_sentences, read_stated_facts
from elytron_core.policy.projection.builder import POLICY
from elytron_core.scope import Scope
from elytron_turn.memory import OperateCall

PROJECT_PERCENT: Final = 70
PARENT_PERCENT: Final = 20
"""Percentage of the block for the repository that contains a submodule, taken from the project's share."""
SPARE_CHARS: Final = 80
"""With less spare room than this, a tier is not read again."""
_RULE: Final = f"{POLICY}\n"
_SOURCE: Final = "project"
"""Metadata key for the project in which the person said something."""
_ONESELF: Final = re.compile(r"\b(?:I|I'(?:m|ve|d|ll)|me|my|mine|myself|Me|My|Mine|Myself)\b|我(?!们)|俺")
_ADDRESSED: Final = re.compile(
    r"\A\W*(?:please |always |never |from now on,? )*(?:answer|reply|respond|call me)\b", re.IGNORECASE
)
"""A wish about how to be answered, which concerns no particular project."""
_PROJECT_WORDS: Final = re.compile(
    r"\b(?:we|us|our|ours|here|(?:mono)?repo(?:sitor(?:y|ies))?|projects?|code ?bases?|packages?|modules?|branch(?:es)?"
    r"|workspaces?|services?|director(?:y|ies)|folders?|files?|tests?|builds?|deploy\w*|releases?|commits?|database)\b"
    r"|我们|咱们|这里|这儿|仓库|项目|代码库|模块|分支|目录|文件",
    re.IGNORECASE,
)
_CODE_WORDS: Final = re.compile(r"`|\w[._/\\-]\w*[._/\\]\w|\w+[_/\\.:]\w+|\w+\(\)|--\w")
"""Paths, hosts, code identifiers and options, which belong to a project."""

ReportT = TypeVar("ReportT", bound=Value)


class TieredMemory:
    """A folder's memory behind the interface of a single space. Blocks and turns cover all its tiers."""

    def __init__(self, memory: MemoryRuntime, operate: OperateCall, project_place: ProjectMemory, /) -> None:
        self._memory = memory
        self._operate = operate
        self._place = project_place

    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform `request`. Block requests and writes cover all tiers; all others use the project's space."""
        project_request = self._in_project(request)
        if isinstance(request, MemoryProjectionRequest):
            return cast("ReportT", await read_tiers(self._operate, request, self._place))
        if isinstance(request, MemoryWriteRequest) and isinstance(request.write, TranscriptWrite):
            return cast("ReportT", await write_tiers(self._memory, self._operate, request, self._place))
        return await self._operate(project_request)

    def _in_project(self, request: OperationRequest[ReportT]) -> OperationRequest[ReportT]:
        scope = getattr(request, "scope", None)
        if not isinstance(scope, Scope):
            return request
        return request.model_copy(update={"scope": scope.model_copy(update={"space": self._place.spaces[0]})})


class ReadingTier(NamedTuple):
    """A space read for a block, the label of its lines, and its percentage of the block."""

    space: str
    label: str
    percent: int


def reading_tiers(project_place: ProjectMemory, /) -> tuple[ReadingTier, ...]:
    """Return the tiers to read for a folder. Their shares add up to 100 percent."""
    if project_place.space is None:
        return (ReadingTier(project_place.person, "person", 100),)
    parent_percent = PARENT_PERCENT if project_place.parent is not None else 0
    parent = (
        (ReadingTier(project_place.parent, "parent project", parent_percent),)
        if project_place.parent is not None
        else ()
    )
    project_tier = ReadingTier(project_place.space, "project", PROJECT_PERCENT - parent_percent)
    return (project_tier, *parent, ReadingTier(project_place.person, "person", 100 - PROJECT_PERCENT))


async def read_tiers(
    operate: OperateCall, request: MemoryProjectionRequest, project_place: ProjectMemory, /
) -> MemoryProjectionReport:
    """Build one block of at most `max_chars` characters from all tiers of a folder.

    Room that a tier leaves unused goes to tiers that were truncated, in order.
    """
    tiers = reading_tiers(project_place)
    total_chars = max(request.max_chars - (len(tiers) - 1), 0)
    reports: list[MemoryProjectionReport] = []
    for tier in tiers:
        # The policy text is included once, at the top, so it must not use up room in later tiers.
        tier_chars = total_chars * tier.percent // 100 + (len(_RULE) if _joined_blocks(reports) else 0)
        reports.append(await operate(_tier_request(request, tier, project_place, tier_chars)))
    for tier_number, tier in enumerate(tiers):
        other_blocks = _joined_blocks([*reports[:tier_number], *reports[tier_number + 1 :]])
        tier_chars = request.max_chars - (len(other_blocks) + 1 - len(_RULE) if other_blocks else 0)
        if reports[tier_number].truncated and tier_chars >= reports[tier_number].requested_chars + SPARE_CHARS:
            reports[tier_number] = await operate(_tier_request(request, tier, project_place, tier_chars))
    first_report = next((report for report in reports if report.selected_ids), reports[0])
    return first_report.model_copy(
        update={
            "system_memory_block": _joined_blocks(reports),
            "requested_chars": request.max_chars,
            "budget": request.max_chars,
            "sections": tuple(section for report in reports for section in report.sections),
            "truncated": any(report.truncated for report in reports),
            "selected_ids": tuple(dict.fromkeys(name for report in reports for name in report.selected_ids)),
            "candidate_ids": tuple(dict.fromkeys(name for report in reports for name in report.candidate_ids)),
        }
    )


def _joined_blocks(reports: Sequence[MemoryProjectionReport]) -> str:
    """Join the tiers' blocks and keep the policy text only once."""
    blocks = [report.system_memory_block for report in reports if report.system_memory_block]
    return "\n".join((*blocks[:1], *(block.replace(_RULE, "", 1) for block in blocks[1:])))


def _tier_request(
    request: MemoryProjectionRequest, tier: ReadingTier, project_place: ProjectMemory, max_chars: int
) -> MemoryProjectionRequest:
    assert request.scope is not None
    changes: dict[str, object] = {
        "scope": request.scope.model_copy(update={"space": tier.space}),
        "max_chars": max_chars,
        "line_label": tier.label,
    }
    if project_place.space is not None and tier.space == project_place.person:
        # What the person said in this project is already in the project's tier.
        other_source = FieldCondition(field=_SOURCE, comparison=ComparisonOperator.NE, values=(project_place.space,))
        changes["filters"] = RecallFilters(where=(AnyOf(conditions=(other_source,)),))
    return request.model_copy(update=changes)


async def write_tiers(
    memory: MemoryRuntime, operate: OperateCall, request: MemoryWriteRequest, project_place: ProjectMemory, /
) -> MemoryWriteReport:
    """Store turns in the folder's project, and what users said about themselves in the person's space.

    Turns from personal places go to the person's space in full. All turns are stored as imports: storing a turn again,
    perhaps from another package or with other sentence rules, is not a conflict, and an erased turn stays erased.
    """
    assert request.scope is not None
    assert isinstance(request.write, TranscriptWrite)
    tags = project_place.repository.tags if project_place.repository is not None else ()
    turns = tuple(turn.model_copy(update={"tags": (*turn.tags, *tags)}) for turn in request.write.turns)
    imported_write = request.write.model_copy(update={"turns": turns, "origin": TurnOrigin.IMPORTED})
    update = {
        "scope": request.scope.model_copy(
            update={"space": project_place.spaces[0], "project": project_place.label or request.scope.project}
        ),
        "write": imported_write,
    }
    report = await operate(request.model_copy(update=update))
    if project_place.space is None:
        return report
    await note_project(memory, project_place)
    personal_turns = tuple(_own_turns(memory, request.write.turns, project_place))
    if personal_turns:
        scope = request.scope.model_copy(update={"space": project_place.person, "project": None})
        copies = imported_write.model_copy(update={"turns": personal_turns})
        await operate(request.model_copy(update={"scope": scope, "write": copies, "idempotency_key": None}))
    return report


def _own_turns(
    memory: MemoryRuntime, turns: tuple[TurnDraft, ...], project_place: ProjectMemory
) -> Iterator[TurnDraft]:
    """Yield a reduced turn, with only the personal sentences, for each turn in which users talk about themselves."""
    for turn in turns:
        messages = tuple(
            message.model_copy(update={"text": text})
            for message in turn.messages
            if message.role is EvidenceRole.USER
            and (text := personal_words(memory, message.text, label=project_place.label))
        )
        if messages:
            metadata = {**turn.metadata, _SOURCE: str(project_place.space)}
            yield TurnDraft(messages=messages, host_id=turn.host_id, metadata=metadata, host_refs=turn.host_refs)


def personal_words(memory: MemoryRuntime, text: str, /, *, label: str) -> str:
    """Return the sentences of a user's message with lasting personal facts and wishes, in the user's words.

    Sentences that mention the project, its parts or the people in it are left out.
    """
    names = "|".join(re.escape(part) for part in re.split(r"\W+", label) if len(part) > 2)
    project_name = re.compile(rf"\b(?:{names or '(?!)'})\b", re.IGNORECASE)
    statements = memory.context.models.statements
    return " ".join(
        sentence
        for sentence in own_sentences(text)
        if not sentence.endswith(("?", "？"))
        and (_ONESELF.search(sentence) or _ADDRESSED.match(sentence))
        and not _PROJECT_WORDS.search(sentence)
        and not _CODE_WORDS.search(sentence.rstrip(".!。！ "))
        and not project_name.search(sentence)
        and (is_standing(statements, sentence) or read_stated_facts(sentence))
    )
