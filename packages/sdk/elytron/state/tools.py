"""Tools of a space's host, read once for each state of the space."""

from dataclasses import dataclass

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.tools import (
    EXPERIENCES,
    ID_WORD,
    REGISTRIES,
    AgentToolRegistrySnapshot,
    KeptRegistry,
    ToolExperience,
)
from elytron_core.ports.store import Document, Store


@dataclass(frozen=True, slots=True)
class ToolState:
    """The registries by their id, and the experiences by theirs."""

    registries: dict[str, AgentToolRegistrySnapshot]
    experiences: dict[str, ToolExperience]


NO_TOOLS = ToolState({}, {})


async def tools_of(store: Store, space: SpaceId, /) -> ToolState:
    """Return what the space knows of tools now."""
    registries = await store.scan(space, REGISTRIES, limit=limits.TOOL_REGISTRIES)
    kept = [KeptRegistry.from_bytes(document.body).snapshot for document in registries]
    experiences = await store.scan(space, EXPERIENCES, limit=limits.TOOL_EXPERIENCES)
    return ToolState(
        {one.registry_id: one for one in sorted(kept, key=lambda one: one.registry_id)},
        {experience_id(document): ToolExperience.from_bytes(document.body) for document in experiences},
    )


def experience_id(document: Document, /) -> str:
    """Return the memory id of a stored experience."""
    return f"{ID_WORD}:{document.ref.key}"


@dataclass(frozen=True, slots=True)
class _HeldRegistry:
    record: SpaceRecord
    sequence: int
    tools: ToolState


class ToolShelves:
    """Tools of spaces, remembered until the journal grows, so that a recall costs no reads for them."""

    KEPT = 256

    def __init__(self) -> None:
        self._held: dict[SpaceId, _HeldRegistry] = {}

    def forget(self, space: SpaceId, /) -> None:
        """Let go of the tools of `space`."""
        self._held.pop(space, None)

    async def at(self, store: Store, space: SpaceId, record: SpaceRecord, /, *, sequence: int) -> ToolState:
        """Return the tools of `space` in its state at `sequence`, or later."""
        held = self._held.get(space)
        if held is not None and held.sequence == sequence and held.record.secret == record.secret:
            return held.tools
        tools = await tools_of(store, space)
        if len(self._held) >= self.KEPT:
            self._held.clear()
        self._held[space] = _HeldRegistry(record, sequence, tools)
        return tools
