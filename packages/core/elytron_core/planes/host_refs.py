"""References to a host's own things: a task, a ticket, an order. Kept and shown, never parsed or followed."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.model import Value
from elytron_core.scope import Name


class HostRefRelation(StrEnum):
    """What the host's thing has to do with the turn."""

    ORIGIN = "origin"
    EVIDENCE_FOR = "evidence_for"
    TRIGGER = "trigger"
    RELATED = "related"


class HostRefVisibility(StrEnum):
    """In which view it may appear."""

    INTERNAL = "internal"
    HOST_UI = "host_ui"
    MODEL_CONTEXT = "model_context"
    OPERATOR_AUDIT = "operator_audit"
    EXPORT = "export"


class HostOpaqueRef(Value):
    """A host's thing by its kind and id. Nothing in Elytron reads more into these texts than that they are equal."""

    host_kind: Name
    business_ref_type: Name
    business_ref_id: Name
    relation: HostRefRelation = HostRefRelation.RELATED
    visibility: HostRefVisibility = HostRefVisibility.INTERNAL
    label: Annotated[str, Field(max_length=limits.LABEL_CHARS)] | None = None
