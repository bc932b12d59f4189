"""The blocks hooks show a model: relevant memories at a prompt, the current state at a session's start."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from secrets import token_hex
from typing import Final

from elytron_assistants.hooks.activity import digest_of
from elytron_core.clock import Instant, as_datetime
from elytron_core.contracts.memories import ListOrder, MemoryListRequest
from elytron_core.contracts.projection import MemoryProjectionRequest
from elytron_core.contracts.recall import RecallFilters, RecallHit, RecallPlane
from elytron_core.evidence import EvidenceRole, TrustLevel
from elytron_core.policy.projection import fence
from elytron_core.policy.projection.builder import POLICY, BlockForm, ProjectionInputs, build_projection
from elytron_core.policy.projection.sections import RecentMessage, clip_text
from elytron_core.scope import Scope
from elytron_core.text.similarity import normalise_text, plain_text, words_of
from elytron_turn.memory import OperateCall, TurnBudget, TurnMemory, TurnMessages

CONTEXT_CHARS: Final = 800
"""Default size of a prompt's block, in characters."""
START_CHARS: Final = 1_500
"""Size of the block at a session's start, in characters."""
STANDING_PERCENT: Final = 60
"""Percentage of the start block for facts and wishes."""
_LISTED: Final = 4
_CANDIDATES: Final = 50
"""Number of most recently stored memories from which the most recently said are listed."""
_ITEM_CHARS: Final = 240
_MARK_BYTES: Final = 12
_RECENT_MS: Final = 10 * 60 * 1000
_UNFINISHED: Final = " (minutes ago, may be unfinished)"
_LABEL: Final = re.compile(r"^- \[[^\]\n]*\] ")
_LINE_TIME: Final = re.compile(r"^- \[(?:[a-z ]+ )?(\d{4}-\d\d-\d\d \d\d:\d\d)")
_USED_WORDS: Final = 2
_USED_PERCENT: Final = 40
_WORDS_COMPARED: Final = 60


@dataclass(frozen=True, slots=True)
class HookBlock:
    """A block for the model, the ids of the memories in it, and digests of its lines."""

    text: str = ""
    ids: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


async def recalled_block(
    memory: TurnMemory,
    messages: TurnMessages,
    budget: TurnBudget,
    /,
    *,
    shown_lines: Collection[str],
    key: bytes,
    now: Instant,
) -> HookBlock:
    """Return memories that answer a prompt, without lines in `shown_lines`; the block is empty if there are none.

    Lines from the last few minutes are marked, because another session may still be working on what they describe.
    Raises ElytronError if recall fails or times out.
    """
    context = await memory.before(messages, budget)
    if context.failure is not None:
        raise context.failure
    text = _without_lines(_with_marks(context.block, budget.max_chars, now), shown_lines, key)
    return HookBlock(text, context.cites if text else (), line_digests(text, key))


async def start_block(operate: OperateCall, scope: Scope, /, *, key: bytes, max_chars: int = START_CHARS) -> HookBlock:
    """Return the current state: wishes and facts, open work, decisions, and the latest requests."""
    request = MemoryProjectionRequest(
        scope=scope, query="", max_chars=max_chars * STANDING_PERCENT // 100, recent_messages_limit=0, recall_limit=0
    )
    standing_block = await operate(request)
    block = standing_block.system_memory_block if standing_block.selected_ids else ""
    hits = [
        hit for filters, speaker in _START_LISTS for hit in await _listed_messages(operate, scope, filters, speaker)
    ]
    # The same text may have been said or imported several times.
    unsaid_messages = {plain_text(hit.text): hit for hit in hits if hit.id not in standing_block.selected_ids}
    latest_messages = sorted(unsaid_messages.values(), key=lambda message: message.at or 0)
    rule = f"{POLICY}\n" if block else ""
    remaining_chars = max_chars - len(block) + len(rule) - 1
    message_block = build_projection(
        ProjectionInputs(form=BlockForm(max_chars=remaining_chars), recent=tuple(latest_messages)),
        mark=token_hex(_MARK_BYTES),
    )
    text = "\n".join(filter(None, (block, message_block.block.replace(rule, "", 1) if rule else message_block.block)))
    ids = (*standing_block.selected_ids, *(memory for part in message_block.sections for memory in part.included))
    return HookBlock(text, tuple(dict.fromkeys(ids)) if text else (), line_digests(text, key))


_START_LISTS: Final = (
    (RecallFilters(planes=(RecallPlane.EXECUTION, RecallPlane.CONTINUITY)), "open work"),
    (RecallFilters(planes=(RecallPlane.TRANSCRIPT,), roles=(EvidenceRole.TOOL,)), "noted"),
    (RecallFilters(planes=(RecallPlane.TRANSCRIPT,), roles=(EvidenceRole.USER,)), "user"),
)
"""What a start block lists, and its label. Decisions and fixed commands are stored in the tool's role."""


async def _listed_messages(
    operate: OperateCall, scope: Scope, filters: RecallFilters, speaker: str
) -> list[RecentMessage]:
    request = MemoryListRequest(scope=scope, filters=filters, limit=_CANDIDATES, order=ListOrder.LATEST)
    list_report = await operate(request)
    hits = [hit for hit in list_report.items if hit.trust is not TrustLevel.OUTSIDE]
    latest_hits = sorted(hits, key=lambda hit: hit.at or 0, reverse=True)[:_LISTED]
    return [_short_message(hit, speaker) for hit in latest_hits]


def _short_message(hit: RecallHit, speaker: str) -> RecentMessage:
    text = clip_text(hit.text, _ITEM_CHARS) if len(hit.text) > _ITEM_CHARS else hit.text
    return RecentMessage(id=hit.id, role=hit.role or EvidenceRole.SYSTEM, text=text, speaker=speaker, at=hit.at)


def is_used(hit: str, reply: str, prompt: str, /) -> bool:
    """Return whether a reply uses words of a hit that were not in the prompt."""
    terms = set(_terms_of(hit)) - set(_terms_of(prompt))
    common_terms = terms & set(words_of(normalise_text(reply), limit=len(reply)))
    return len(common_terms) >= min(_USED_WORDS, len(terms) or 1) and 100 * len(common_terms) >= _USED_PERCENT * len(
        terms
    )


def line_digests(block: str, key: bytes, /) -> tuple[str, ...]:
    """Return a digest of each memory's line in a block, independent of its label."""
    return tuple(_line_digest(line, key) for line in block.split("\n") if line.startswith("- "))


def _terms_of(text: str) -> tuple[str, ...]:
    return words_of(normalise_text(text), limit=_WORDS_COMPARED)


def _line_digest(line: str, key: bytes) -> str:
    return digest_of(_LABEL.sub("", line).casefold(), key=key)


def _without_lines(block: str, shown_lines: Collection[str], key: bytes) -> str:
    """Remove lines with these digests and fences left without a memory. Return "" if no memory remains."""
    if not shown_lines:
        return block

    def filtered_fence(mark: str, lines: Iterable[str]) -> str:
        visible_lines = [
            line for line in lines if not line.startswith("- ") or _line_digest(line, key) not in shown_lines
        ]
        has_memory = any(line.startswith("- ") for line in visible_lines)
        return fence.fence_text("\n".join(visible_lines), mark) if has_memory else ""

    text = fence.FENCED.sub(lambda match: filtered_fence(match[1], match[2].split("\n")), block)
    return re.sub(r"\n{2,}", "\n", text).strip() if line_digests(text, key) else ""


def _with_marks(block: str, max_chars: int, now: Instant) -> str:
    """Mark lines from the last few minutes, as long as there is room for the mark."""
    lines = block.split("\n")
    earliest_time = as_datetime(Instant(now - _RECENT_MS)).strftime("%Y-%m-%d %H:%M")
    spare_chars = max_chars - len(block)
    for line_index, line in enumerate(lines):
        time_match = _LINE_TIME.match(line)
        if time_match is not None and time_match[1] >= earliest_time and spare_chars >= len(_UNFINISHED):
            line_head, _, text = line.partition("] ")
            lines[line_index] = f"{line_head}{_UNFINISHED}] {text}"
            spare_chars -= len(_UNFINISHED)
    return "\n".join(lines)
