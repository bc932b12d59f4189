"""The tools of a space's host, and the experience with them, as stored."""

from dataclasses import dataclass
from typing import Final

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.planes.tools import (
    EXPERIENCES,
    ID_WORD,
    REGISTRIES,
    AgentToolRegistrySnapshot,
    StoredRegistry,
    ToolExperience,
)
from elytron_core.ports.store import Document, Store

TOOL_EXPERIENCES: Final = 2_000
"""Experiences of one space that hints are looked for in."""


@dataclass(frozen=True, slots=True)
class ToolState:
    """The registries by their id, and the experiences by theirs."""

    registries: dict[str, AgentToolRegistrySnapshot]
    experiences: dict[str, ToolExperience]


NO_TOOLS = ToolState({}, {})


async def tools_of(store: Store, space: SpaceId, /) -> ToolState:
    """Return the current state of tools in the space."""
    registry_documents = await store.scan(space, REGISTRIES, limit=limits.TOOL_REGISTRIES)
    registry_snapshots = [StoredRegistry.from_bytes(document.body).snapshot for document in registry_documents]
    experience_documents = await store.scan(space, EXPERIENCES, limit=TOOL_EXPERIENCES)
    return ToolState(
        {one.registry_id: one for one in sorted(registry_snapshots, key=lambda one: one.registry_id)},
        {experience_id(document): ToolExperience.from_bytes(document.body) for document in experience_documents},
    )


def experience_id(document: Document, /) -> str:
    """Return the memory id of a stored experience."""
    return f"{ID_WORD}:{document.ref.key}"
