"""Integrity checks of a conversation's links: turns, derived memories, and their attributes."""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple, Self, assert_never

from pydantic import ValidationError

from elytron_core import strict_json
from elytron_core.contracts.inspection import HEAD, HeadStanding
from elytron_core.contracts.memories import OriginKind, OutsideOrigin
from elytron_core.contracts.transcript import DerivedMemoryLink, TranscriptRepairIssue
from elytron_core.contracts.transcript import TranscriptRepairIssueKind as Kind
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole, TrustLevel
from elytron_core.ids import TurnId
from elytron_core.planes import transcript
from elytron_core.planes.transcript import (
    DERIVED_REFS,
    KEY_PATTERN,
    TURN_ATTRIBUTES,
    TURNS,
    DerivedMemoryRef,
    HostRefRelation,
    HostRefVisibility,
    Turn,
    TurnAttribute,
    sequence_of,
)
from elytron_core.scope import ConversationKey

_KEY = re.compile(KEY_PATTERN)


class _MissingTarget(Enum):
    """Missing target of a link."""

    TURN = auto()
    MESSAGE = auto()


@dataclass(slots=True)
class ConversationLinks:
    """The part of a conversation read so far, and its issues."""

    space: str
    conversation: ConversationKey
    issues: list[TranscriptRepairIssue] = field(default_factory=list[TranscriptRepairIssue])
    turns: dict[TurnId, Turn] = field(default_factory=dict[TurnId, Turn])
    derived: dict[str, DerivedMemoryRef] = field(default_factory=dict[str, DerivedMemoryRef])
    _sequences: set[int] = field(default_factory=set[int])
    _corrupt: set[TurnId] = field(default_factory=set[TurnId])

    def turn(self, key: str, body: bytes, /) -> None:
        """Check a turn's own record."""
        turn_id = TurnId(key)
        try:
            turn = Turn.model_validate_json(body)
        except ValidationError:
            self._corrupt.add(turn_id)
            self._note(Kind.CORRUPT_RECORD, TURNS, key, turn_id)
            return
        self.turns[turn_id] = turn
        if turn.sequence in self._sequences:
            self._note(Kind.DUPLICATE_TURN_CURSOR, TURNS, key, turn_id)
        # The key and the record must agree; otherwise one of them was moved.
        elif turn.sequence != sequence_of(turn_id) or (turn.channel, turn.conversation) != self.conversation:
            self._note(Kind.CORRUPT_RECORD, TURNS, key, turn_id)
        self._sequences.add(turn.sequence)

    def damaged(self, collection: str, key: str, /) -> None:
        """Note a record that the store does not serve."""
        turn_id = TurnId(key) if collection == TURNS else _turn_of(key)
        if collection == TURNS:
            self._corrupt.add(turn_id)
        is_attribute = collection == TURN_ATTRIBUTES
        self._note(
            Kind.CORRUPT_TRANSCRIPT_ATTR_RECORD if is_attribute else Kind.CORRUPT_RECORD, collection, key, turn_id
        )

    def derived_ref(self, key: str, body: bytes, /) -> None:
        """Check a link from a memory to this conversation, whose turns are known by now."""
        turn_id = _turn_of(key)
        try:
            ref = DerivedMemoryRef.read(body, space=self.space)
        except InvalidInput:
            self._note(Kind.CORRUPT_RECORD, DERIVED_REFS, key, turn_id)
            return
        self.derived[key] = ref
        source = ref.source
        if source.conversation != self.conversation or source.turn_id != turn_id:
            self._note(Kind.MISMATCHED_SOURCE_KEY, DERIVED_REFS, key, turn_id, ref=ref)
            return
        missing_target = self._missing(turn_id, _part_of(source.message_id))
        if missing_target is _MissingTarget.TURN:
            self._note(Kind.MISSING_SOURCE_TURN, DERIVED_REFS, key, turn_id, ref=ref)
        elif missing_target is _MissingTarget.MESSAGE:
            self._note(Kind.MISSING_SOURCE_MESSAGE, DERIVED_REFS, key, turn_id, message=source.message_id, ref=ref)

    def targets(self, existing_keys: AbstractSet[str], /) -> None:
        """Check that the targets of the links exist; `existing_keys` are the keys of links whose memory exists."""
        for key, ref in self.derived.items():
            if key not in existing_keys:
                self._note(Kind.ORPHAN_DERIVED_REF, DERIVED_REFS, key, _turn_of(key), ref=ref)

    def attribute(self, key: str, body: bytes, /) -> None:
        """Check an attribute of a turn; the turns are known by now."""
        turn_id = _turn_of(key)
        try:
            turn_attribute = TurnAttribute.model_validate_json(body)
        except ValidationError:
            self._note(_what_is_wrong(body), TURN_ATTRIBUTES, key, turn_id)
            return
        if (turn_attribute.channel, turn_attribute.conversation) != self.conversation or turn_attribute.turn != turn_id:
            self._note(Kind.MISMATCHED_ATTR_SOURCE_KEY, TURN_ATTRIBUTES, key, turn_id)
            return
        if turn_attribute.value_bytes > turn_attribute.max_value_bytes:
            self._note(Kind.OVERSIZED_ATTR_VALUE, TURN_ATTRIBUTES, key, turn_id)
        missing_target = self._missing(turn_id, turn_attribute.part)
        if missing_target is _MissingTarget.TURN:
            self._note(Kind.MISSING_ATTR_TARGET_TURN, TURN_ATTRIBUTES, key, turn_id)
        elif missing_target is _MissingTarget.MESSAGE:
            self._note(
                Kind.MISSING_ATTR_TARGET_MESSAGE,
                TURN_ATTRIBUTES,
                key,
                turn_id,
                message=f"{turn_id}#{turn_attribute.part}",
            )

    def _missing(self, turn_id: TurnId, part: int | None) -> _MissingTarget | None:
        turn = self.turns.get(turn_id)
        if turn is None:
            # A turn that cannot be read is an issue of its own.
            return None if turn_id in self._corrupt else _MissingTarget.TURN
        is_present = part is None or (part < len(turn.messages) and part not in turn.erased)
        return None if is_present else _MissingTarget.MESSAGE

    def _note(
        self,
        kind: Kind,
        collection: str,
        key: str,
        turn_id: TurnId,
        /,
        *,
        message: str | None = None,
        ref: DerivedMemoryRef | None = None,
    ) -> None:
        self.issues.append(
            TranscriptRepairIssue(
                kind=kind,
                collection=collection,
                key=key,
                turn_id=turn_id,
                message_id=message,
                derived_ref=DerivedMemoryLink.of(ref) if ref is not None else None,
            )
        )


def _turn_of(key: str) -> TurnId:
    return TurnId(key.rpartition(".")[0])


def _part_of(message: str | None) -> int | None:
    """Return which message of its turn an id names; the turn's own id is the first."""
    if message is None:
        return None
    part = message.partition("#")[2]
    return int(part) if part.isascii() and part.isdigit() else 0


def _what_is_wrong(body: bytes) -> Kind:
    """Return why an attribute's record is invalid."""
    try:
        fields = strict_json.parse_json(body)
    except InvalidInput:
        return Kind.CORRUPT_TRANSCRIPT_ATTR_RECORD
    if not isinstance(fields, dict):
        return Kind.CORRUPT_TRANSCRIPT_ATTR_RECORD
    key, visibility = fields.get("key"), fields.get("visibility", HostRefVisibility.INTERNAL)
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        return Kind.INVALID_ATTR_KEY
    if visibility not in list(HostRefVisibility):
        return Kind.INVALID_ATTR_VISIBILITY
    return Kind.CORRUPT_TRANSCRIPT_ATTR_RECORD


SOURCES: Final = frozenset({"url", "uri", "source", "resource_id", "upload_id"})
"""Metadata keys under which a turn names the page or file that it came from."""


def parts_through(turn: transcript.Turn, origin: OutsideOrigin, /) -> tuple[int, ...]:
    """Return the numbers of the turn's messages that came through `origin`; the user's own messages stay."""
    match origin.kind:
        case OriginKind.TOOL:
            return _through_tool(turn, origin.name)
        case OriginKind.PAGE | OriginKind.UPLOAD | OriginKind.SESSION:
            return _through_source(turn, origin.name)
        case _:
            assert_never(origin.kind)


def _through_tool(turn: transcript.Turn, name: str) -> tuple[int, ...]:
    is_used = any(observation.tool_name == name for observation in turn.tool_observations)
    has_its_words = any(message.role is EvidenceRole.TOOL and message.speaker == name for message in turn.messages)
    if not is_used and not has_its_words:
        return ()
    # The assistant's answer may repeat what the tool returned.
    return tuple(
        part
        for part, message in enumerate(turn.messages)
        if message.role is EvidenceRole.ASSISTANT
        or (message.role is EvidenceRole.TOOL and message.speaker in {None, name})
    )


def _through_source(turn: transcript.Turn, name: str) -> tuple[int, ...]:
    matching_refs = [ref for ref in turn.host_refs if ref.business_ref_id == name]
    is_named = any(turn.metadata.get(key) == name for key in SOURCES)
    if any(ref.relation is HostRefRelation.ORIGIN for ref in matching_refs):
        return tuple(range(len(turn.messages)))
    if not matching_refs and not is_named:
        return ()
    return tuple(part for part in range(len(turn.messages)) if turn.trust_of(part) is not TrustLevel.VOUCHED)


DIGEST_BYTES: Final = 16


class JournalHead(NamedTuple):
    """The head of a journal. Its text is `sequence.order.content`."""

    sequence: int
    order: str
    content: str

    @classmethod
    def parse(cls, text: str, /) -> Self:
        """Parse `text`. Raises InvalidInput."""
        head_match = HEAD.fullmatch(text)
        if head_match is None:
            raise InvalidInput(field="head", problem="is not a head as reported by an inspection")
        return cls(int(head_match[1]), head_match[2], head_match[3])

    def __str__(self) -> str:
        return f"{self.sequence}.{self.order}.{self.content}"


def standing_of(
    recorded_head: JournalHead,
    current_head: JournalHead | None,
    head_at_entry: JournalHead | None,
    /,
    *,
    is_compacted: bool = False,
) -> HeadStanding:
    """Return the relation of a space to its `recorded_head`.

    `current_head` is its head, None if there is no such space; `head_at_entry` its head at the entry at which
    `recorded_head` ends, None if it has none: it is shorter, or the entry is in a compacted run, which `is_compacted`
    proves.
    """
    if current_head is None:
        return HeadStanding.ABSENT
    # Checked first, because a compacted run no longer has its entries to compare.
    if is_compacted:
        return HeadStanding.COMPACTED
    if head_at_entry is None:
        return HeadStanding.BEHIND if current_head.sequence < recorded_head.sequence else HeadStanding.FORKED
    if head_at_entry.order != recorded_head.order:
        return HeadStanding.FORKED
    if head_at_entry.content != recorded_head.content:
        # Digests disappear only with an erasure, which leaves an entry: without a later one, another program changed
        # them.
        return HeadStanding.SCRUBBED if current_head.sequence > recorded_head.sequence else HeadStanding.FORKED
    return HeadStanding.CURRENT if current_head.sequence == recorded_head.sequence else HeadStanding.CONTAINED
