"""Authority, trust and privacy of a piece of evidence."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar, assert_never

ValueT = TypeVar("ValueT")


class EvidenceRole(StrEnum):
    """Role of a message in an exchange with a model."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


ROLE_WORDS: Final[Mapping[str, EvidenceRole]] = {role.value: role for role in EvidenceRole} | {
    "human": EvidenceRole.USER,
    "ai": EvidenceRole.ASSISTANT,
    "model": EvidenceRole.ASSISTANT,
    "developer": EvidenceRole.SYSTEM,
    "function": EvidenceRole.TOOL,
}
"""Role of a message by the word that programs have for it."""
TEXT_PARTS: Final = frozenset({"input_text", "output_text", "text"})
"""Kinds of message parts that are text, in the dialects of model APIs."""


class EvidenceAuthority(StrEnum):
    """Authority of a message or candidate: who vouches for it."""

    USER_ASSERTED = "user_asserted"
    ASSISTANT_UTTERANCE = "assistant_utterance"
    ASSISTANT_SELF_CLAIM = "assistant_self_claim"
    RUNTIME_OBSERVATION = "runtime_observation"
    WORLD_OBSERVATION = "world_observation"
    PROGRAM_MEMORY_CANONICAL = "program_memory_canonical"
    ARCHIVE_EVIDENCE = "archive_evidence"
    SUBJECT_PROJECTION = "subject_projection"
    SOUL_GOVERNANCE = "soul_governance"
    PRIVATE_GARDEN_INTERNAL = "private_garden_internal"
    OPERATOR_DIAGNOSTIC = "operator_diagnostic"
    EXTERNAL_CONTENT = "external_content"
    LEGACY_TRANSCRIPT = "legacy_transcript"


class TrustLevel(StrEnum):
    """Trust in a memory by its origin, least first; not whether it is true."""

    OUTSIDE = "outside"
    """From outside: a tool, a page, a document, an archive. No caller here vouches for it."""
    DRAWN = "drawn"
    """Said or derived by a model: an assistant's words, extractions, summaries and notes."""
    VOUCHED = "vouched"
    """The user said it, or the operator, the program or the runtime vouches for it."""

    @property
    def rank(self) -> int:
        """Return the position from 1 on; a higher one is trusted more."""
        return _RANKS[self]

    def is_at_least(self, least_level: "TrustLevel | None", /) -> bool:
        return least_level is None or self.rank >= least_level.rank


_RANKS = {trust: place for place, trust in enumerate(TrustLevel, 1)}

PRIVATE = frozenset({EvidenceAuthority.SOUL_GOVERNANCE, EvidenceAuthority.PRIVATE_GARDEN_INTERNAL})
"""Planes that only the owner sees: the private garden and the inner life."""
RESTRICTED = PRIVATE | {EvidenceAuthority.OPERATOR_DIAGNOSTIC}
"""Planes that are never recalled, projected or shown in a conversation."""


def authority_of_role(role: EvidenceRole, /) -> EvidenceAuthority:
    """Return the authority of a message that states none."""
    match role:
        case EvidenceRole.USER:
            return EvidenceAuthority.USER_ASSERTED
        case EvidenceRole.ASSISTANT:
            return EvidenceAuthority.ASSISTANT_UTTERANCE
        case EvidenceRole.TOOL:
            return EvidenceAuthority.RUNTIME_OBSERVATION
        case EvidenceRole.SYSTEM:
            return EvidenceAuthority.LEGACY_TRANSCRIPT
        case _:
            assert_never(role)


def trust_of_authority(authority: EvidenceAuthority, /) -> TrustLevel:
    """Return the trust of content with `authority`."""
    match authority:
        case (
            EvidenceAuthority.USER_ASSERTED
            | EvidenceAuthority.RUNTIME_OBSERVATION
            | EvidenceAuthority.PROGRAM_MEMORY_CANONICAL
            | EvidenceAuthority.SOUL_GOVERNANCE
            | EvidenceAuthority.PRIVATE_GARDEN_INTERNAL
            | EvidenceAuthority.OPERATOR_DIAGNOSTIC
        ):
            return TrustLevel.VOUCHED
        case (
            EvidenceAuthority.ASSISTANT_UTTERANCE
            | EvidenceAuthority.ASSISTANT_SELF_CLAIM
            | EvidenceAuthority.WORLD_OBSERVATION
            | EvidenceAuthority.ARCHIVE_EVIDENCE
            | EvidenceAuthority.SUBJECT_PROJECTION
        ):
            return TrustLevel.DRAWN
        case EvidenceAuthority.EXTERNAL_CONTENT | EvidenceAuthority.LEGACY_TRANSCRIPT:
            return TrustLevel.OUTSIDE
        case _:
            assert_never(authority)


PRIVATE_FLAG: Final = "private"
"""True in a private conversation."""
STORE_FLAG: Final = "store"
"""False if the request asked not to store the turn as memory."""
FLAGS: Final = (PRIVATE_FLAG, STORE_FLAG)
"""Metadata that decides who sees a turn. Any value other than true or false would have no effect."""


def require_flags(metadata: dict[str, ValueT], /) -> dict[str, ValueT]:
    """Return `metadata`. Raises ValueError for a flag that is not true or false, or whose name is misspelled."""
    for name, value in metadata.items():
        normal_name = name.strip().casefold()
        if normal_name in FLAGS and not (name == normal_name and (value is None or isinstance(value, bool))):
            raise ValueError(f"has {normal_name!r} in a form that has no effect: write {normal_name!r}: true or false")
    return metadata
