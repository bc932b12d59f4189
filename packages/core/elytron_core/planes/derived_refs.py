"""Links of memories to the turns that they rest on, which lifecycle and repair read."""

import re
from enum import StrEnum

from elytron_core.clock import Instant
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes.evidence import EvidenceAuthority
from elytron_core.scope import ConversationKey, Name, Space

DERIVED_REFS = "derived_refs"

_TURN = re.compile(r"[0-9a-f]{24}\.[0-9a-f]{12}")
_PART = re.compile(r"[0-9]{1,3}")
_SCHEME = "transcript:"
_MESSAGE = re.compile(r"[\w.-]+#[0-9]+", re.ASCII)
"""The form of a message's id: no host's own source may look like one, or a slip of the pen would count as evidence."""


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
        """The text that people are shown; nothing is decided by reading it."""
        place = f"{_SCHEME}{self.memory_space_id}/{self.channel_id}/{self.conversation_id}#turn={self.turn_id}"
        return place if self.message_id is None else f"{place}#message={self.message_id}"


class DerivedMemoryPlane(StrEnum):
    """Reference of a memory that rests on a transcript."""

    LONG_TERM = "long_term"
    SHARED_FACT = "shared_fact"
    PROCEDURAL_SKILL = "procedural_skill"
    TASK_LEARNING = "task_learning"
    ARCHIVE_EVIDENCE = "archive_evidence"
    CONTINUITY = "continuity"
    PRIVATE_GARDEN = "private_garden"
    SOUL_CANDIDATE_HANDOFF = "soul_candidate_handoff"


class DerivedMemoryRef(Value):
    """A memory and the evidence it rests on. `store_key` is the memory's id in its plane."""

    plane: DerivedMemoryPlane
    store_key: str
    source: TranscriptEvidenceRef
    created_at: Instant
    subject_id: Name | None = None

    @classmethod
    def read(cls, body: bytes, /, *, space: str) -> "DerivedMemoryRef":
        """Return the link that a document of `space` holds.

        The name in the document is that of the space in which it was made, and a restore may give it another.
        """
        found = cls.from_bytes(body)
        return found.model_copy(update={"source": found.source.model_copy(update={"memory_space_id": space})})


def derived_key(turn: TurnId, tag: str, /) -> str:
    """Return the document key of a link; links of one turn are adjacent."""
    return f"{turn}.{tag}"


def cited_turn(citation: str, /) -> tuple[TurnId, int | None] | None:
    """Return the turn that `citation` names, and which message of it; None where it names no turn of ours.

    A turn's id, a message's id (`turn#part`) and a display citation are understood.
    """
    rest = citation
    if citation.startswith(_SCHEME):
        _, found, rest = citation.rpartition("#turn=")
        if not found:
            return None
        turn, _, message = rest.partition("#message=")
        rest = message or turn
    turn, _, part = rest.partition("#")
    if not _TURN.fullmatch(turn) or (part and not _PART.fullmatch(part)):
        return None
    return TurnId(turn), int(part) if part else None


def cites_transcript(citation: str, /) -> bool:
    """Return whether `citation` has the form of one of our turns or messages, existing or not."""
    is_turn = _TURN.match(citation) is not None
    return is_turn or citation.startswith(_SCHEME) or _MESSAGE.fullmatch(citation) is not None
