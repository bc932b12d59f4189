"""The transcript plane: what was said, by whom and when. Evidence, never silently a belief."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, assert_never

from pydantic import AfterValidator, Field, FiniteFloat

from elytron_core import limits, strict_json
from elytron_core.clock import Instant, order_time
from elytron_core.errors import InvalidJson, PayloadTooLarge
from elytron_core.evidence import (
    PRIVATE_FLAG,
    RESTRICTED,
    STORE_FLAG,
    EvidenceAuthority,
    EvidenceRole,
    TrustLevel,
    authority_of_role,
    require_flags,
    trust_of_authority,
)
from elytron_core.ids import ConversationTag, TurnId
from elytron_core.model import Value
from elytron_core.scope import ConversationKey, Name, Space
from elytron_core.time_kinds import ClaimedTime


class ActorAttribution(Value):
    """Actors of a turn, by the host's own ids; unknown parts stay empty."""

    speaker_id: Name | None = None
    speaker_kind: Name | None = None
    """Kind of the speaker, in the host's words: subject, human, assistant, tool."""
    subject_id: Name | None = None
    actor_subject_id: Name | None = None
    mounted_subject_id: Name | None = None
    agent_id: Name | None = None
    triggered_by: Name | None = None

    def speaking(self, speaker: str | None, /) -> "ActorAttribution":
        """Return the attribution of a message by `speaker` in this turn; the other parts are the turn's."""
        return self if speaker is None else self.model_copy(update={"speaker_id": speaker})

    @property
    def outward(self) -> "ActorAttribution":
        """The part that a conversation's participants may know: the speaker."""
        return ActorAttribution(speaker_id=self.speaker_id, speaker_kind=self.speaker_kind)


class HostRefRelation(StrEnum):
    """Relation of the host's object to the turn."""

    ORIGIN = "origin"
    EVIDENCE_FOR = "evidence_for"
    TRIGGER = "trigger"
    RELATED = "related"


class HostRefVisibility(StrEnum):
    """The view in which it may appear."""

    INTERNAL = "internal"
    HOST_UI = "host_ui"
    MODEL_CONTEXT = "model_context"
    OPERATOR_AUDIT = "operator_audit"
    EXPORT = "export"


class HostOpaqueRef(Value):
    """A host's object by kind and id. Elytron only compares these texts for equality."""

    host_kind: Name
    business_ref_type: Name
    business_ref_id: Name
    relation: HostRefRelation = HostRefRelation.RELATED
    visibility: HostRefVisibility = HostRefVisibility.INTERNAL
    label: Annotated[str, Field(max_length=limits.LABEL_CHARS)] | None = None


def _opaque_json(body: str) -> str:
    try:
        strict_json.parse_json(body.encode(), limit=limits.OPAQUE_ITEM_BYTES)
    except (InvalidJson, PayloadTooLarge) as error:
        raise ValueError(f"is not JSON text with a single value of at most {limits.OPAQUE_ITEM_BYTES} bytes") from error
    return body


class OpaqueItem(Value):
    """One item of a host, as JSON text: an output item of a model API, a framework's message, a tool call.

    `kind` and `issuer` are named by the host. The text of `body` is returned byte for byte, except that
    credentials in it are redacted. It is neither indexed nor shown to a model, and is erased with its turn.
    """

    kind: Name
    issuer: Name
    body: Annotated[str, AfterValidator(_opaque_json)]


def _bounded_items(items: tuple[OpaqueItem, ...]) -> tuple[OpaqueItem, ...]:
    if sum(len(item.body.encode()) for item in items) > limits.OPAQUE_ITEMS_BYTES:
        raise ValueError(f"have more than {limits.OPAQUE_ITEMS_BYTES} bytes in total")
    return items


OpaqueItems = Annotated[tuple[OpaqueItem, ...], Field(max_length=limits.OPAQUE_ITEMS), AfterValidator(_bounded_items)]
"""The items of one turn, in host order."""


TURNS, CONVERSATIONS = "turns", "conversations"
TURN_NAMES = "turn_names"
CHAT_ALIASES = "chat_aliases"
SEQUENCE_DIGITS, SPEAKERS_KEPT = 12, 32
EDIT_OF = "edit_of"
"""Metadata key of an edited message: the id of the one that it replaces."""

MessageText = Annotated[str, Field(max_length=limits.MESSAGE_CHARS)]
Metadata = dict[Name, str | int | float | bool | None]
"""A host's verbatim items of a turn, as stored."""

_INTEGER_MAX = 10**300
GivenMetadata = Annotated[
    dict[
        Name,
        Annotated[str, Field(max_length=limits.METADATA_CHARS)]
        | Annotated[int, Field(ge=-_INTEGER_MAX, le=_INTEGER_MAX)]
        | FiniteFloat
        | bool
        | None,
    ],
    Field(max_length=limits.METADATA_KEYS),
    AfterValidator(require_flags),
]
"""The same as input: bounded, and only JSON values."""


class TurnDelivery(StrEnum):
    """End of a turn; assistant text is evidence only if it was delivered."""

    DELIVERED = "delivered"
    USER_ONLY = "user_only"
    UPSTREAM_FAILED = "upstream_failed"
    CANCELLED = "cancelled"
    INCOMPLETE_STREAM = "incomplete_stream"
    REJECTED_BY_POLICY = "rejected_by_policy"


class TurnLifecycle(StrEnum):
    """State of a turn's raw text."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    MASKED = "masked"
    RAW_DELETED = "raw_deleted"


class TextRedaction(StrEnum):
    """Part of a turn's raw text that remains, shown or not."""

    RAW_AVAILABLE = "raw_available"
    MASKED = "masked"
    RAW_DELETED = "raw_deleted"


class TurnOrigin(StrEnum):
    """Source of a turn."""

    HOST = "host"
    IMPORTED = "imported"


class Message(Value):
    """One utterance. `at` is the time that its host claims."""

    role: EvidenceRole = EvidenceRole.USER
    text: MessageText
    speaker: Name | None = None
    at: ClaimedTime | None = None
    authority: EvidenceAuthority | None = None
    """Its authority; defaults by role."""

    @property
    def stands_on(self) -> EvidenceAuthority:
        return self.authority or authority_of_role(self.role)


class TurnSource(Value):
    """Origin of a turn, in the host's words."""

    ingress: Name | None = None
    provider: Name | None = None
    protocol: Name | None = None
    endpoint: Annotated[str, Field(max_length=limits.URI_CHARS)] | None = None
    model_alias: Name | None = None
    model_resolved: Name | None = None
    request_id: Name | None = None


class ToolObservation(Value):
    """A brief record of a tool's use and outcome; never its raw result."""

    observation_id: Name
    tool_name: Name
    summary: Annotated[str, Field(max_length=limits.FACT_CHARS)] = ""
    external_content: bool = False


def _nothing_hidden() -> dict[int, Instant]:
    # A plain function: every turn read or stored calls it, and a generic alias is slower.
    return {}


class Turn(Value):
    """Messages committed together under a conversation's sequence."""

    sequence: int
    channel: Name
    conversation: Name
    messages: tuple[Message, ...]
    recorded_at: Instant
    host_id: Name | None = None
    delivery: TurnDelivery = TurnDelivery.DELIVERED
    origin: TurnOrigin = TurnOrigin.HOST
    lifecycle: TurnLifecycle = TurnLifecycle.ACTIVE
    agent: Name | None = None
    app: Name | None = None
    project: Name | None = None
    tags: tuple[Name, ...] = ()
    metadata: Metadata = Field(default_factory=dict)
    forgotten: dict[int, Instant] = Field(default_factory=_nothing_hidden)
    """Messages hidden from recall, and since when."""
    erased: tuple[int, ...] = ()
    """Erased messages; their positions stay, so that later messages keep their ids."""
    source: TurnSource | None = None
    actor: ActorAttribution | None = None
    tool_observations: tuple[ToolObservation, ...] = ()
    host_refs: tuple[HostOpaqueRef, ...] = ()
    items: tuple[OpaqueItem, ...] = ()
    """The host's verbatim items, unchanged."""
    external_content_used: bool = False
    candidate_ids: tuple[Name, ...] = ()
    redaction: TextRedaction = TextRedaction.RAW_AVAILABLE
    chat: Name | None = None
    title: str | None = None
    """Chat name in the write of the turn, if the head did not have it yet."""

    @property
    def is_private(self) -> bool:
        """True if the host's metadata mark it private or not to be stored for memory."""
        return self.metadata.get(PRIVATE_FLAG) is True or self.metadata.get(STORE_FLAG) is False

    def is_recallable(self, part: int, /, *, include_private: bool = False) -> bool:
        """Return whether a message may be recalled and learned from.

        It is stored, not an instruction of the system, and private only for a caller that asks for that.
        """
        passes_privacy = include_private or not self.is_private
        return passes_privacy and self.messages[part].role is not EvidenceRole.SYSTEM and self.is_kept(part)

    def is_kept(self, part: int, /) -> bool:
        """Return whether a message is in use: neither hidden, erased nor restricted, and not in an archived turn."""
        return (
            self.lifecycle is TurnLifecycle.ACTIVE
            and part not in self.forgotten
            and part not in self.erased
            and self.messages[part].authority not in RESTRICTED
        )

    def without(self, part: int, /) -> "Turn":
        """Return the turn with a message erased; the host's accompanying data may repeat it, and is removed too."""
        messages = list(self.messages)
        messages[part] = Message(role=messages[part].role, text="")
        erased_parts = tuple(sorted((*self.erased, part)))
        return self.model_copy(update={"messages": tuple(messages), "items": (), "erased": erased_parts})

    def is_readable(self, part: int, /) -> bool:
        """Return whether a message may be read by its id: its text exists, is not masked, and is not restricted."""
        return (
            self.redaction is TextRedaction.RAW_AVAILABLE
            and part not in self.erased
            and self.messages[part].authority not in RESTRICTED
        )

    def trust_of(self, part: int, /) -> TrustLevel:
        """Return the trust of a message.

        What a tool said came from outside, unless the host vouches for it by name. Beside a page or a document that
        went into the turn, only the user's words are vouched for. If all of it is the user's, it rests on the
        page itself.
        """
        message = self.messages[part]
        if message.authority is None and message.role is EvidenceRole.TOOL:
            return TrustLevel.OUTSIDE
        if self.uses_external_content and (message.role is not EvidenceRole.USER or self._is_told_by_users):
            return TrustLevel.OUTSIDE
        return trust_of_authority(message.stands_on)

    @property
    def _is_told_by_users(self) -> bool:
        """True if users wrote all of a delivered turn; an undelivered one may lack an answer."""
        return self.delivery is TurnDelivery.DELIVERED and all(
            message.role is EvidenceRole.USER for message in self.messages
        )

    @property
    def uses_external_content(self) -> bool:
        """True if third parties' words went into the turn: a page, a document, or a tool that reads these."""
        return self.external_content_used or any(observation.external_content for observation in self.tool_observations)

    @property
    def is_emptied(self) -> bool:
        """True if every message is erased; such a turn is being removed."""
        return len(self.erased) == len(self.messages)


class TurnName(Value):
    """A host's own turn id, stored so that the same turn is committed once. `digest` is keyed."""

    turn: TurnId
    digest: str


class Conversation(Value):
    """The head of a conversation: its next sequence and what it contains so far."""

    channel: Name
    conversation: Name
    turns: int = 0
    next_sequence: int = 1
    first_at: Instant | None = None
    last_at: Instant | None = None
    speakers: tuple[str, ...] = ()
    chat: Name | None = None
    title: str | None = None

    @property
    def key(self) -> ConversationKey:
        return ConversationKey(self.channel, self.conversation)


class AliasTrust(StrEnum):
    """State of a chat's alias."""

    TRUSTED = "trusted"
    UNKNOWN_SUBJECT = "unknown_subject"
    """The chat belongs to another subject."""
    CONVERSATION_GONE = "conversation_gone"
    """Its conversation was erased."""
    MISMATCHED = "mismatched"
    """The alias document belongs to another chat."""


class ChatAlias(Value):
    """Conversation of a chat for each subject: the one committed last under that chat."""

    channel: Name
    chat: Name
    conversations: dict[Name, Name] = {}


def turn_id(tag: ConversationTag, sequence: int, /) -> TurnId:
    """Return the id, and document key, of a conversation's turn; ids sort in conversation order."""
    return TurnId(f"{tag}.{sequence:0{SEQUENCE_DIGITS}x}")


def tag_of(turn: TurnId, /) -> ConversationTag:
    """Return the conversation part of a turn's id."""
    return ConversationTag(turn.partition(".")[0])


def is_turn_of(text: str, tag: ConversationTag, /) -> bool:
    """Return whether `text` is the id of a turn that the conversation could have."""
    tag_text, _, sequence_digits = text.partition(".")
    return (
        tag_text == tag and len(sequence_digits) == SEQUENCE_DIGITS and set(sequence_digits) <= set("0123456789abcdef")
    )


def sequence_of(turn: TurnId, /) -> int:
    """Return a turn's sequence in its conversation, parsed from its id."""
    return int(turn.partition(".")[2], 16)


def said_at(turn: Turn, message: Message, /) -> Instant:
    """Return when a message was said: the host's claim, else when the turn was recorded."""
    return turn.recorded_at if message.at is None else message.at


def ordered_at(turn: Turn, message: Message, /) -> Instant:
    """Return the time that orders a message: as its host claims, but never after the turn was recorded."""
    return order_time(message.at, recorded_at=turn.recorded_at)


def note_turns(head: Conversation, turns: Sequence[Turn], /) -> Conversation:
    """Return `head` updated with the times, speakers and names of `turns`, but not their number."""
    message_times = [ordered_at(turn, message) for turn in turns for message in turn.messages]
    turn_speakers = (message.speaker for turn in turns for message in turn.messages if message.speaker is not None)
    speakers = dict.fromkeys((*head.speakers, *turn_speakers))
    changed_fields = {
        "first_at": min(message_times if head.first_at is None else [head.first_at, *message_times], default=None),
        "last_at": max(message_times if head.last_at is None else [head.last_at, *message_times], default=None),
        "speakers": tuple(speakers)[:SPEAKERS_KEPT],
        "chat": next((turn.chat for turn in reversed(turns) if turn.chat), head.chat),
        "title": next((turn.title for turn in reversed(turns) if turn.title), head.title),
    }
    return head.model_copy(update=changed_fields)


def append_turns(head: Conversation, turns: Sequence[Turn], /) -> Conversation:
    """Return `head` updated and counted for `turns`, which come next."""
    changed_counts = {"turns": head.turns + len(turns), "next_sequence": head.next_sequence + len(turns)}
    return note_turns(head, turns).model_copy(update=changed_counts)


def evidence_of(messages: tuple[Message, ...], delivery: TurnDelivery, /) -> tuple[Message, ...]:
    """Return the messages that a turn with this delivery leaves as evidence.

    A rejected or incomplete turn leaves none; an assistant's text counts only if it was delivered.
    """
    match delivery:
        case TurnDelivery.DELIVERED:
            return messages
        case TurnDelivery.INCOMPLETE_STREAM | TurnDelivery.REJECTED_BY_POLICY:
            return ()
        case TurnDelivery.USER_ONLY | TurnDelivery.UPSTREAM_FAILED | TurnDelivery.CANCELLED:
            return tuple(message for message in messages if message.role is not EvidenceRole.ASSISTANT)
        case _:
            assert_never(delivery)


def delivered_after(turn: Turn, messages: tuple[Message, ...], /) -> Turn | None:
    """Return a turn that was first stored as undelivered with the messages of its delivered form.

    None if it was delivered, does not begin like that, or anything was taken out of it since.
    """
    # A repeat of the turn must not restore what was removed from it.
    is_whole = not turn.erased and not turn.forgotten and turn.redaction is TextRedaction.RAW_AVAILABLE
    if turn.delivery is TurnDelivery.DELIVERED or not is_whole or messages[: len(turn.messages)] != turn.messages:
        return None
    return turn.model_copy(update={"messages": messages, "delivery": TurnDelivery.DELIVERED})


def message_id(turn: TurnId, part: int, /) -> str:
    """Return the memory id of a turn's message: the turn's own for the first, `turn#part` for later ones."""
    return turn if part == 0 else f"{turn}#{part}"


TURN_ATTRIBUTES = "turn_attributes"

KEY_PATTERN = r"^(host|memory)\.[a-z0-9_]+(\.[a-z0-9_]+)*$"
AttributeKey = Annotated[str, Field(max_length=limits.KEY_CHARS, pattern=KEY_PATTERN)]
AttributeText = Annotated[str, Field(max_length=limits.ATTRIBUTE_CHARS)]
AttributeValue = bool | int | float | AttributeText


class AttributePolicy(StrEnum):
    """Effect on an attribute when its turn's text is masked or deleted."""

    FOLLOW_TRANSCRIPT = "follow_transcript"
    METADATA_SURVIVES_MASK = "metadata_survives_mask"
    OPERATOR_AUDIT_ONLY_AFTER_MASK = "operator_audit_only_after_mask"


class AttributeSource(StrEnum):
    """Source of a measurement."""

    HOST_REPORTED = "host_reported"
    PROVIDER_REPORTED = "provider_reported"
    GATEWAY_COUNTED = "gateway_counted"
    HOST_ESTIMATED = "host_estimated"
    MEMORY_COMPUTED = "memory_computed"
    UNAVAILABLE = "unavailable"


class MessageAttribute(Value):
    """One value under a key that begins with `host.` or `memory.`. With `part`, it belongs to that message."""

    key: AttributeKey
    value: AttributeValue
    part: Annotated[int, Field(ge=0, lt=limits.MESSAGES_PER_TURN)] | None = None
    visibility: HostRefVisibility = HostRefVisibility.INTERNAL
    source: AttributeSource = AttributeSource.HOST_REPORTED
    policy: AttributePolicy = AttributePolicy.FOLLOW_TRANSCRIPT
    export_allowed: bool = False
    max_value_bytes: Annotated[int, Field(ge=1, le=limits.ATTRIBUTE_CHARS * 4)] = limits.ATTRIBUTE_CHARS * 4

    @property
    def value_bytes(self) -> int:
        """Length of the value as UTF-8 text."""
        return len(str(self.value).encode())


class TurnAttribute(MessageAttribute):
    """An attribute as stored: with the turn that it belongs to."""

    turn: TurnId
    channel: Name
    conversation: Name
    written_at: Instant


def attribute_key(turn: TurnId, tag: str, /) -> str:
    """Return the document key of an attribute; a turn's attributes are adjacent."""
    return f"{turn}.{tag}"


DERIVED_REFS = "derived_refs"

_TURN = re.compile(r"[0-9a-f]{24}\.[0-9a-f]{12}")
_PART = re.compile(r"[0-9]{1,3}")
_SCHEME = "transcript:"
_MESSAGE = re.compile(r"[\w.-]+#[0-9]+", re.ASCII)
"""Form of a message's id. No host's own source may look like one; otherwise a typo would count as evidence."""


class TranscriptEvidenceRef(Value):
    """A turn, or one message of it, as evidence. `turn_id` and `message_id` are the memory's own ids."""

    memory_space_id: Space
    channel_id: Name
    conversation_id: Name
    turn_id: TurnId
    message_id: str | None = None
    subject_id: Name | None = None
    authority: EvidenceAuthority | None = None

    @property
    def conversation(self) -> ConversationKey:
        return ConversationKey(self.channel_id, self.conversation_id)

    @property
    def citation(self) -> str:
        """The citation as shown to people; no decision depends on parsing it."""
        turn_citation = f"{_SCHEME}{self.memory_space_id}/{self.channel_id}/{self.conversation_id}#turn={self.turn_id}"
        return turn_citation if self.message_id is None else f"{turn_citation}#message={self.message_id}"


class DerivedMemoryPlane(StrEnum):
    """Plane of a memory based on a transcript."""

    LONG_TERM = "long_term"
    SHARED_FACT = "shared_fact"
    PROCEDURAL_SKILL = "procedural_skill"
    TASK_LEARNING = "task_learning"
    ARCHIVE_EVIDENCE = "archive_evidence"
    CONTINUITY = "continuity"
    PRIVATE_GARDEN = "private_garden"
    SOUL_CANDIDATE_HANDOFF = "soul_candidate_handoff"


class DerivedMemoryRef(Value):
    """A memory and the evidence it is based on. `store_key` is the memory's id in its plane."""

    plane: DerivedMemoryPlane
    store_key: str
    source: TranscriptEvidenceRef
    created_at: Instant
    subject_id: Name | None = None

    @classmethod
    def read(cls, body: bytes, /, *, space: str) -> "DerivedMemoryRef":
        """Return the link stored in a document of `space`.

        The name in the document is that of the space in which it was made, and a restore may give it another.
        """
        link = cls.from_bytes(body)
        return link.model_copy(update={"source": link.source.model_copy(update={"memory_space_id": space})})


def derived_key(turn: TurnId, tag: str, /) -> str:
    """Return the document key of a link; links of one turn are adjacent."""
    return f"{turn}.{tag}"


def cited_turn(citation: str, /) -> tuple[TurnId, int | None] | None:
    """Return the turn that `citation` names, and which message of it; None if it names no turn of ours.

    A turn's id, a message's id (`turn#part`) and a display citation are understood.
    """
    cited_id = citation
    if citation.startswith(_SCHEME):
        _, separator, cited_id = citation.rpartition("#turn=")
        if not separator:
            return None
        turn, _, message = cited_id.partition("#message=")
        cited_id = message or turn
    turn, _, part = cited_id.partition("#")
    # Citations come from callers, so only the exact form names a turn.
    if not _TURN.fullmatch(turn) or (part and not _PART.fullmatch(part)):
        return None
    return TurnId(turn), int(part) if part else None


def cites_transcript(citation: str, /) -> bool:
    """Return whether `citation` has the form of one of our turns or messages, existing or not."""
    is_turn = _TURN.match(citation) is not None
    return is_turn or citation.startswith(_SCHEME) or _MESSAGE.fullmatch(citation) is not None
