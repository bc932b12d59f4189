"""Reading who takes part in a space, and what a persona keeps to itself."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.contracts.scope_fields import ConversationReport, ScopedRequest
from elytron_core.model import Value
from elytron_core.planes.knowledge.garden import GardenDocument
from elytron_core.planes.knowledge.subjects import Subject, SubjectEdge, SubjectKind


class SubjectAudience(StrEnum):
    """View of the caller: hosts see visible subjects, an operator's audit all of them."""

    HOST = "host"
    AUDIT = "audit"


class SubjectsRequest(ScopedRequest):
    """Read the subjects of a space and how they stand to each other."""

    audience: SubjectAudience = SubjectAudience.HOST
    kinds: Annotated[tuple[SubjectKind, ...], Field(max_length=limits.TAGS)] = ()


class SubjectsReport(Value):
    """The subjects that the audience may see, by name; edges only between these."""

    space: str
    subjects: tuple[Subject, ...]
    edges: tuple[SubjectEdge, ...]
    withheld: int = 0
    """Subjects that this audience may not see."""
    clipped: bool = False


class GardenAudience(StrEnum):
    """For whom private documents are read."""

    OWNER = "owner"
    """The persona itself: all of them."""
    MODEL = "model"
    """A model's context where private context is allowed: all but sealed ones."""
    HOST_UI = "host_ui"
    """A host's view: none."""


class GardenRequest(ScopedRequest):
    """Read the private documents of the scope's conversation."""

    audience: GardenAudience


class GardenReport(ConversationReport):
    """The documents that the audience may see, by name, and how many it may not."""

    documents: tuple[GardenDocument, ...]
    withheld: int = 0
