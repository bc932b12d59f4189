"""The private garden: a persona's own documents. Never in a host's view, never recalled, shown only where allowed."""

from enum import StrEnum
from typing import Annotated, NewType

from pydantic import AfterValidator, Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.scope import Name

GARDEN = "garden"
GardenId = NewType("GardenId", str)
ID_WORD = "garden"


class GardenRole(StrEnum):
    """Purpose of a private document."""

    WORKSPACE = "workspace"
    DIARY = "diary"
    RELATIONAL = "relational"
    SEALED = "sealed"
    """Shown to its owner alone: not even if private context is allowed."""


def _within_bytes(text: str) -> str:
    if len(text.encode()) > limits.GARDEN_BYTES:
        raise ValueError(f"has more than {limits.GARDEN_BYTES} bytes")
    return text


GardenText = Annotated[str, Field(max_length=limits.GARDEN_BYTES), AfterValidator(_within_bytes)]


class GardenDocument(Value):
    """One private document of a conversation, by its name."""

    id: GardenId
    role: GardenRole
    name: Name
    text: GardenText
    channel: Name
    conversation: Name
    created_at: Instant
    updated_at: Instant
    forgotten_at: Instant | None = None
