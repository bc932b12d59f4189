"""Who vouches for a piece of evidence, and who may see it for that reason."""

from enum import StrEnum
from typing import assert_never

from elytron_core.planes.roles import Role


class EvidenceAuthority(StrEnum):
    """On whose word a message or candidate stands."""

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


PRIVATE = frozenset({EvidenceAuthority.SOUL_GOVERNANCE, EvidenceAuthority.PRIVATE_GARDEN_INTERNAL})
"""What only the owner sees: the private garden, and the inner life."""
RESTRICTED = PRIVATE | {EvidenceAuthority.OPERATOR_DIAGNOSTIC}
"""What is never recalled, projected or shown in a conversation."""


def authority_of_role(role: Role, /) -> EvidenceAuthority:
    """Return on whose word a message stands that says nothing of it."""
    match role:
        case Role.USER:
            return EvidenceAuthority.USER_ASSERTED
        case Role.ASSISTANT:
            return EvidenceAuthority.ASSISTANT_UTTERANCE
        case Role.TOOL:
            return EvidenceAuthority.RUNTIME_OBSERVATION
        case Role.SYSTEM:
            return EvidenceAuthority.LEGACY_TRANSCRIPT
        case _:
            assert_never(role)
