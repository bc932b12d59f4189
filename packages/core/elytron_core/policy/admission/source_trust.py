"""Authorities that a call may bring in: a member's own and those of others' text, not the machine's."""

from collections.abc import Iterable, Mapping
from typing import assert_never

from elytron_core import limits
from elytron_core.contracts.conversation.write import (
    FactDraft,
    LongTermExtraction,
    Procedural,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.model import Value
from elytron_core.planes.conversation import transcript
from elytron_core.planes.evidence import EvidenceAuthority
from elytron_core.planes.knowledge.long_term import Authority

CLAIMED = "claimed_authority"
"""The metadata key of an imported turn that names the words which its archive claimed."""
_MACHINES = frozenset(
    {
        Authority.OPERATOR,
        Authority.PROGRAM,
        Authority.RUNTIME,
        EvidenceAuthority.PROGRAM_MEMORY_CANONICAL,
        EvidenceAuthority.RUNTIME_OBSERVATION,
    }
)
"""Their word overrules a user's doubt about what a tool or a page said, so no member may claim it."""


def borrowed_words(request: object, /) -> tuple[str, ...]:
    """Return the authorities in `request` beyond a member's own: of facts, candidates, messages."""
    return tuple(sorted({authority.value for authority in _claimed(request) if authority in _MACHINES}))


def as_claims(
    write: TranscriptWrite | LongTermExtraction | Procedural, /
) -> TranscriptWrite | LongTermExtraction | Procedural:
    """Return `write` with every word beyond a member's own lowered to that of an outsider, and kept as a claim."""
    match write:
        case TranscriptWrite():
            return write.model_copy(update={"turns": tuple(map(_turn, write.turns))})
        case LongTermExtraction():
            return write.model_copy(update={"facts": tuple(map(_fact, write.facts))})
        case Procedural():
            return write
        case _:
            assert_never(write)


def _fact(draft: FactDraft) -> FactDraft:
    if draft.authority not in _MACHINES:
        return draft
    return draft.model_copy(update={"authority": Authority.IMPORTED, "claimed": draft.authority})


def _turn(draft: TurnDraft) -> TurnDraft:
    claims = borrowed_words(draft)
    if not claims:
        return draft
    messages = tuple(map(_message, draft.messages))
    has_room = len(draft.metadata) < limits.METADATA_KEYS or CLAIMED in draft.metadata
    metadata = {**draft.metadata, CLAIMED: ", ".join(claims)} if has_room else draft.metadata
    return draft.model_copy(update={"messages": messages, "metadata": metadata})


def _message(message: transcript.Message) -> transcript.Message:
    if message.authority not in _MACHINES:
        return message
    return message.model_copy(update={"authority": EvidenceAuthority.EXTERNAL_CONTENT})


def _claimed(value: object) -> Iterable[Authority | EvidenceAuthority]:
    """Yield every authority in `value`, wherever a request has it."""
    match value:
        case Authority() | EvidenceAuthority():
            yield value
        case Value():
            for name in type(value).model_fields:
                if name != "claimed":
                    yield from _claimed(getattr(value, name))
        case tuple():
            for part in value:  # pyright: ignore[reportUnknownVariableType]
                yield from _claimed(part)  # pyright: ignore[reportUnknownArgumentType]
        case Mapping():
            for part in value.values():  # pyright: ignore[reportUnknownVariableType]
                yield from _claimed(part)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return
