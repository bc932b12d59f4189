"""Attributes of turns and messages: small values that a host, or the memory itself, keeps beside what was said."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes.conversation.host_refs import HostRefVisibility
from elytron_core.scope import Name

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


class Attribute(Value):
    """One value under a key that begins with `host.` or `memory.`. With `part`, it is that message's."""

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


class TurnAttribute(Attribute):
    """An attribute as stored: with the turn that it belongs to."""

    turn: TurnId
    channel: Name
    conversation: Name
    written_at: Instant


def attribute_key(turn: TurnId, tag: str, /) -> str:
    """Return the document key of an attribute; a turn's attributes stand together."""
    return f"{turn}.{tag}"
