"""A host's own things beside a turn: references to a task or an order, and items in its own form. None is read."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field

from elytron_core import limits, strict_json
from elytron_core.errors import InvalidJson, PayloadTooLarge
from elytron_core.model import Value
from elytron_core.scope import Name


class HostRefRelation(StrEnum):
    """Relation of the host's object to the turn."""

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


def _json(body: str) -> str:
    try:
        strict_json.parse(body.encode(), limit=limits.OPAQUE_ITEM_BYTES)
    except (InvalidJson, PayloadTooLarge) as error:
        raise ValueError(f"is not the text of one JSON value of at most {limits.OPAQUE_ITEM_BYTES} bytes") from error
    return body


class OpaqueItem(Value):
    """One item of a host, as JSON text: an output item of a model API, a framework's message, a tool call.

    `kind` and `issuer` are names that the host gives. The text of `body` comes back byte for byte, except that
    credentials in it are blacked out. It is neither indexed nor shown to a model, and is erased with its turn.
    """

    kind: Name
    issuer: Name
    body: Annotated[str, AfterValidator(_json)]


def _bounded(items: tuple[OpaqueItem, ...]) -> tuple[OpaqueItem, ...]:
    if sum(len(item.body.encode()) for item in items) > limits.OPAQUE_ITEMS_BYTES:
        raise ValueError(f"hold more than {limits.OPAQUE_ITEMS_BYTES} bytes together")
    return items


OpaqueItems = Annotated[tuple[OpaqueItem, ...], Field(max_length=limits.OPAQUE_ITEMS), AfterValidator(_bounded)]
"""The items of one turn, in the order of the host."""
