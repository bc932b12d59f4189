"""The window: the latest turns verbatim, earlier turns compacted, and the memory reference next to them.

The policy text contains no stored text. The data is one line of JSON inside a fence.

Items of a turn are stored as messages of the transcript. What text cannot express (images, call ids, arguments) is an
attribute of each message and is erased with it. Every group of items is either in the window or in the summary.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from pydantic import ValidationError

from elytron.api import MemoryFace
from elytron_agent.hooks.messages import HostMessage, paired_items
from elytron_core.contracts.continuity import ContinuityRequest, SummaryDraft, SummaryWrite
from elytron_core.contracts.inspection import LedgerTurn, MemoryReplayRequest
from elytron_core.contracts.transcript import (
    CanonicalTurnDelta,
    MemoryTranscriptReplayRequest,
    MemoryWriteRequest,
    RedactedTranscriptTurn,
    TranscriptReplayView,
)
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import is_name, is_role_name
from elytron_core.limits import ATTRIBUTE_CHARS, SUMMARY_CHARS
from elytron_core.model import Value, invalid_input
from elytron_core.planes.continuity import SessionSummary
from elytron_core.planes.transcript import (
    HostRefVisibility,
    Message,
    MessageAttribute,
    TextRedaction,
    TurnDelivery,
    TurnLifecycle,
)
from elytron_core.policy.admission.own_output import is_own_output, strip_own_output
from elytron_core.policy.projection import fence
from elytron_core.policy.projection.builder import DATA_POLICY
from elytron_core.policy.projection.sections import escape_line
from elytron_core.scope import Scope
from elytron_core.text import similarity
from elytron_models.chat_messages import CALL, MESSAGE, RESULT, SYSTEM, ItemPart, TurnItem
from elytron_turn.compaction import extend_summary, said_line
from elytron_turn.memory import observed_tools

ITEM_DETAILS: Final = 48
"""Maximum number of attributes, each up to `core.limits.ATTRIBUTE_CHARS` characters, with details of a turn's items."""
ITEM_DETAIL_PIECES: Final = 4
"""Maximum number of attributes per item. A larger item, such as an inline image, is stored only as its text."""
SAID_LINE_CHARS: Final = 240
"""Maximum length of a line in a running summary."""


KIND: Final = "historical_memory"


class FactLine(Value):
    """A fact as shown to a model."""

    id: str
    key: str
    value: str
    confidence: str
    tier: str = ""
    from_outside: bool = False


class InsightLine(Value):
    """An insight as shown to a model."""

    id: str
    type: str
    summary: str
    confidence: str


class WishLine(Value):
    """A standing wish as shown to a model."""

    id: str
    text: str


class ChunkLine(Value):
    """A part of an earlier message as shown to a model."""

    id: str
    text: str
    speaker: str = ""
    at: str = ""
    from_outside: bool = False


class TurnReference(Value):
    """Content of a turn's memory reference."""

    summary: str = ""
    """Summary of the earlier conversation that is not in the context verbatim."""
    facts: tuple[FactLine, ...] = ()
    insights: tuple[InsightLine, ...] = ()
    wishes: tuple[WishLine, ...] = ()
    chunks: tuple[ChunkLine, ...] = ()
    note: str = ""
    """A doubt about the chunks."""

    @property
    def is_empty(self) -> bool:
        return not (self.summary or self.facts or self.insights or self.wishes or self.chunks)

    def shorter(self) -> "TurnReference":
        """Return the reference without its least important entry: the last chunk, else insight, fact or wish."""
        for name in ("chunks", "insights", "facts", "wishes"):
            if lines := getattr(self, name):
                return self.model_copy(update={name: lines[:-1]})
        return self


def reference_items(reference: TurnReference, /, *, policy_role: str, reference_role: str) -> tuple[TurnItem, ...]:
    """Return the policy and the data, or nothing if the reference is empty."""
    if reference.is_empty:
        return ()
    fenced_reference = fence.fence_data(_reference_fields(reference))
    return _text_item(policy_role, DATA_POLICY), _text_item(reference_role, fenced_reference)


def is_policy(item: TurnItem, /) -> bool:
    """Return whether an item is the policy."""
    return item.type == MESSAGE and item.role != "assistant" and item.words == DATA_POLICY


def is_reference(item: TurnItem, /) -> bool:
    """Return whether an item is the fenced data."""
    return item.type == MESSAGE and item.role != "assistant" and fence.is_fenced_data(item.words)


def without_reference(items: Iterable[TurnItem], /) -> tuple[TurnItem, ...]:
    """Return the items without those that hooks added, and the texts without repetitions of them.

    A message that becomes empty is dropped.
    """
    clean_items = (_clean_item(item) for item in items if not (is_policy(item) or is_reference(item)))
    return tuple(item for item in clean_items if item is not None)


def _clean_item(item: TurnItem) -> TurnItem | None:
    if not any(map(is_own_output, item.texts)):
        return item
    if item.type != MESSAGE:
        return item.model_copy(update={"output": strip_own_output(item.output).text})
    parts = tuple(part.model_copy(update={"text": strip_own_output(part.text).text}) for part in item.content)
    kept_parts = tuple(
        part for part, old_part in zip(parts, item.content, strict=True) if part.text or not old_part.text
    )
    return item.model_copy(update={"content": kept_parts}) if kept_parts else None


def _text_item(role: str, text: str) -> TurnItem:
    return TurnItem(role=role, content=(ItemPart(type="input_text", text=text),))


def _reference_fields(reference: TurnReference) -> dict[str, Any]:
    fields: dict[str, Any] = {"kind": KIND, "untrusted": True}
    if reference.summary:
        fields["summary"] = "\n".join(escape_line(line) for line in reference.summary.splitlines())
    lists: tuple[tuple[str, Sequence[Value]], ...] = (
        ("facts", reference.facts),
        ("insights", reference.insights),
        ("wishes", reference.wishes),
        ("chunks", reference.chunks),
    )
    fields |= {name: [_line_fields(line) for line in lines] for name, lines in lists if lines}
    return fields | ({"note": reference.note} if reference.note and reference.chunks else {})


def _line_fields(line: Value) -> dict[str, Any]:
    fields = line.model_dump(exclude_defaults=True)
    return {name: escape_line(value) if isinstance(value, str) else value for name, value in fields.items()}


KEY: Final = "host.item"
_ROLES: Final = {"user": EvidenceRole.USER, "assistant": EvidenceRole.ASSISTANT}


class ItemGroup(Value):
    """Items that stay together: a turn, or a host's messages from one user message to the next."""

    items: tuple[TurnItem, ...]
    sequence: int | None = None
    """The turn's sequence in its conversation, if the memory knows the turn."""
    first: int | None = None
    """The index of the first message, if the host sent the group."""

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)


class HookWindow(Value):
    """The turns that are available verbatim, oldest first, and the summary of earlier ones."""

    groups: tuple[ItemGroup, ...] = ()
    summary: SessionSummary | None = None

    @property
    def summary_text(self) -> str:
        return self.summary.text if self.summary is not None and self.summary.forgotten_at is None else ""

    def recent(self, host_identities: frozenset[str], /, *, limit: int) -> tuple[ItemGroup, ...]:
        """Return the groups of the last `limit` items that the host did not send.

        Calls come only with their results.
        """
        groups: list[ItemGroup] = []
        free_count = limit
        for group in reversed(self.groups):
            items = paired_items(item for item in group.items if item.identity not in host_identities)
            free_count -= len(items)
            if free_count < 0:
                break
            if items:
                groups.append(group.model_copy(update={"items": items}))
        return tuple(reversed(groups))


def extend_lines(summary: str, groups: Iterable[ItemGroup], /) -> str:
    """Return the summary extended by a line for each message of the groups that it does not cover yet."""
    lines = (
        said_line(item.role, item.words, SAID_LINE_CHARS)
        for group in groups
        for item in group.items
        if item.type == MESSAGE and item.role in _ROLES and not similarity.is_blank(item.words)
    )
    return extend_summary(summary, lines, SUMMARY_CHARS)


def groups_of(messages: Sequence[HostMessage], stored_groups: Sequence[ItemGroup], /) -> tuple[ItemGroup, ...]:
    """Return a host's messages in groups, each with the sequence of its turn if the memory knows it."""
    group_starts: list[int] = []
    for index, message in enumerate(messages):
        begins_group = message.role == "user" or not group_starts
        group_starts.append(index if begins_group else group_starts[-1])
    sequences_by_identity = {group.items[0].identity: group.sequence for group in stored_groups if group.items}
    groups: list[ItemGroup] = []
    for group_start, message_indices in groupby(range(len(messages)), key=group_starts.__getitem__):
        items = tuple(item for index in message_indices for item in messages[index].items)
        sequence = sequences_by_identity.get(items[0].identity) if items else None
        groups.append(ItemGroup(items=items, first=group_start, sequence=sequence))
    return tuple(groups)


async def read_window(memory: MemoryFace, scope: Scope, /, *, turns: int) -> HookWindow:
    """Return the last turns of a conversation that no summary covers, and the summary."""
    if turns == 0:
        return HookWindow()
    # Read one more turn than is shown: its position is the cursor for the view of those after it.
    ledger = await memory.replay(MemoryReplayRequest(scope=scope, limit=turns + 1))
    if not ledger.turns:
        return HookWindow()
    summary = (await memory.read_continuity(ContinuityRequest(scope=scope))).summary
    turn_before = ledger.turns[0] if len(ledger.turns) > turns else None
    transcript = await memory.replay_transcript(
        MemoryTranscriptReplayRequest(
            scope=scope,
            view=TranscriptReplayView.HOST_UI,
            limit=turns,
            cursor=f"{turn_before.sequence}:{turn_before.id}" if turn_before is not None else None,
        )
    )
    views = {turn.id: turn for turn in transcript.slice.turns}
    covered_sequence = summary.through_sequence if summary is not None else 0
    groups = [
        ItemGroup(items=_stored_items(turn, views.get(turn.id)), sequence=turn.sequence)
        for turn in ledger.turns[-turns:]
        if turn.sequence > covered_sequence and turn.lifecycle is TurnLifecycle.ACTIVE
    ]
    return HookWindow(groups=tuple(group for group in groups if group.items), summary=summary)


async def keep_summary(
    memory: MemoryFace, scope: Scope, earlier_summary: SessionSummary | None, text: str, cut: Sequence[ItemGroup], /
) -> None:
    """Store the summary of all turns up to the last of `cut`, or nothing if the memory knows none of them."""
    covered_sequence = earlier_summary.through_sequence if earlier_summary is not None else 0
    new_groups = [group for group in cut if group.sequence is not None and group.sequence > covered_sequence]
    if not new_groups or similarity.is_blank(text):
        return
    message_count = (earlier_summary.messages if earlier_summary is not None else 0) + sum(
        len(group.items) for group in new_groups
    )
    last_sequence = max(group.sequence or 0 for group in new_groups)
    draft = SummaryDraft(text=text, messages=message_count, through_sequence=last_sequence)
    await memory.write(MemoryWriteRequest(scope=scope, write=SummaryWrite(summary=draft)))


def delta_of(items: Iterable[TurnItem], /, *, turn_id: str, speaker: str | None) -> CanonicalTurnDelta | None:
    """Return the items of a turn as evidence, or None if nothing in them may be stored.

    Raises InvalidInput if a turn cannot hold that many or such long messages.
    """
    evidence_items = [
        item for item in without_reference(items) if item.role not in SYSTEM and item.type in {MESSAGE, CALL, RESULT}
    ]
    if not any(item.words.strip() or item.type != MESSAGE or item.content for item in evidence_items):
        return None
    speaker_name = speaker if speaker and is_name(speaker) and not is_role_name(speaker) else None
    try:
        return _turn_delta(evidence_items, turn_id, speaker_name)
    except ValidationError as error:
        raise invalid_input(error) from None


def _turn_delta(items: Sequence[TurnItem], turn_id: str, name: str | None) -> CanonicalTurnDelta:
    messages = [_item_message(item, name) for item in items]
    is_answered = messages[-1].role is EvidenceRole.ASSISTANT and items[-1].type == MESSAGE
    return CanonicalTurnDelta(
        turn_id=turn_id,
        delivery=TurnDelivery.DELIVERED,
        input_messages=tuple(messages[:-1] if is_answered else messages),
        assistant_message=messages[-1] if is_answered else None,
        tool_observations=observed_tools(_used_tools(items), is_outside=False),
        attributes=tuple(_item_attributes(items)),
    )


def _item_message(item: TurnItem, name: str | None) -> Message:
    match item.type:
        case "function_call":
            return Message(role=EvidenceRole.ASSISTANT, text="")
        case "function_call_output":
            return Message(role=EvidenceRole.TOOL, text=item.output)
        case _:
            role = _ROLES.get(item.role, EvidenceRole.TOOL)
            return Message(role=role, text=item.words, speaker=name if role is EvidenceRole.USER else None)


def _used_tools(items: Sequence[TurnItem]) -> list[tuple[str, str]]:
    """Return id and name of each call that has a result."""
    results = {item.call_id for item in items if item.type == RESULT}
    return [(item.call_id, item.name) for item in items if item.type == CALL and item.call_id in results]


def _item_attributes(items: Sequence[TurnItem]) -> list[MessageAttribute]:
    """Return, in pieces, the details of items that their messages cannot express. Too large items are skipped."""
    attributes: list[MessageAttribute] = []
    for item_index, item in enumerate(items):
        item_detail = _beside_words(item)
        if item_detail is None:
            continue
        pieces = [item_detail[start : start + ATTRIBUTE_CHARS] for start in range(0, len(item_detail), ATTRIBUTE_CHARS)]
        if len(pieces) > ITEM_DETAIL_PIECES or len(attributes) + len(pieces) > ITEM_DETAILS:
            continue
        attributes += [
            MessageAttribute(
                key=f"{KEY}.{piece_number}", value=piece, part=item_index, visibility=HostRefVisibility.HOST_UI
            )
            for piece_number, piece in enumerate(pieces)
        ]
    return attributes


def _beside_words(item: TurnItem) -> str | None:
    """Return an item without its text as JSON, or None if the text is all of it."""
    if item.type == RESULT:
        return _json_text({"type": RESULT, "call_id": item.call_id})
    if item.type == CALL:
        return _json_text(item.model_dump(exclude_defaults=True))
    if len(item.content) == 1 and item.texts:
        return None
    has_single_text = len(item.texts) == 1
    parts = [
        part.model_dump(exclude_defaults=True, exclude={"text"} if has_single_text else None) for part in item.content
    ]
    return _json_text({"role": item.role, "content": parts})


def _stored_items(turn: LedgerTurn, view: RedactedTranscriptTurn | None) -> tuple[TurnItem, ...]:
    """Return the items of a stored turn, without those of hidden or removed messages."""
    if view is None or view.redaction is not TextRedaction.RAW_AVAILABLE:
        return ()
    # Tool results are missing from the view for hosts and come from the ledger, but only if the turn lost no message.
    is_whole = len(turn.messages) == len(view.messages)
    items: list[TurnItem] = []
    for index, message in enumerate(view.messages):
        ledger_message = turn.messages[index] if is_whole else None
        text = message.text if message.text is not None else ledger_message.text if ledger_message is not None else None
        if text is None or (ledger_message is not None and ledger_message.forgotten):
            continue
        detail_text = "".join(
            str(attribute.value)
            for attribute in sorted(message.attributes, key=lambda attribute: attribute.key)
            if attribute.key.startswith(f"{KEY}.")
        )
        item = _restored_item(message.role, text, detail_text)
        if item is not None:
            items.append(item)
    return paired_items(items)


def _restored_item(role: EvidenceRole, text: str, beside: str) -> TurnItem | None:
    fields: dict[str, Any] = {}
    if beside:
        try:
            fields = json.loads(beside)
        except ValueError:  # part of it was redacted
            fields = {}
    match fields.get("type"), role:
        case "function_call", _:
            return TurnItem.model_validate(fields)
        case "function_call_output", _:
            return TurnItem(type=RESULT, call_id=str(fields.get("call_id", "")), output=text)
        case _, EvidenceRole.USER | EvidenceRole.ASSISTANT:
            content = fields.get("content") or [{"type": "input_text" if role is EvidenceRole.USER else "output_text"}]
            parts = [{"text": text, **part} if str(part["type"]).endswith("text") else part for part in content]
            item = TurnItem.model_validate({"role": role.value, "content": parts})
            return item if beside or not similarity.is_blank(text) else None
        case _:
            return None


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
