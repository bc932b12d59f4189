"""Versions of a message: the original, and the edits shown in its place."""

from collections.abc import Collection, Iterable, Mapping

from elytron.context import OperationContext
from elytron.memories.lookup import Memory, MessageMemory, find_stored
from elytron_core.ids import TurnId
from elytron_core.planes.transcript import EDIT_OF, TURNS, Turn, tag_of
from elytron_core.ports.store import scan_documents
from elytron_core.scope import Scope

_MARK = EDIT_OF.encode()


async def message_versions(
    ctx: OperationContext, scope: Scope, memories: Iterable[Memory | None], /
) -> dict[str, list[MessageMemory]]:
    """Return by id all versions of each message among `memories`, oldest first.

    An edit hides what it replaces and stands behind it in the same conversation.
    """
    messages = [memory for memory in memories if isinstance(memory, MessageMemory)]
    first_versions = {message.id: await _first_version(ctx, scope, message) for message in messages}
    versions = {memory.id: [memory] for memory in first_versions.values()}
    by_id = {memory.id: memory for memory in first_versions.values()}
    earliest_keys: dict[str, str] = {}
    for memory in first_versions.values():
        if memory.part in memory.turn.forgotten:
            tag = tag_of(TurnId(memory.ref.key))
            earliest_keys[tag] = min(memory.ref.key, earliest_keys.get(tag, memory.ref.key))
    for tag, earliest_key in earliest_keys.items():
        async for document in scan_documents(ctx.store, scope.space, TURNS, prefix=f"{tag}.", after=earliest_key):
            if _MARK not in document.body:
                continue
            turn = Turn.from_bytes(document.body)
            name = str(turn.metadata.get(EDIT_OF))
            earlier_version = by_id.get(name)
            if earlier_version is not None and earlier_version.part in earlier_version.turn.forgotten:
                by_id[document.ref.key] = version = MessageMemory(document.ref, document.revision, turn, 0)
                versions[name].append(version)
                versions[version.id] = versions[name]
    return {name: versions[memory.id] for name, memory in first_versions.items()}


async def latest_versions(
    ctx: OperationContext, scope: Scope, memories: Mapping[str, Memory | None], /
) -> tuple[dict[str, Memory | None], Collection[list[MessageMemory]]]:
    """Return `memories` with each message in its shown or last version, and all versions of each message.

    There may be two last ones: the edit of a message, and what was said at a corrected time.
    """
    versions = await message_versions(ctx, scope, memories.values())
    for family in versions.values():
        family.sort(key=lambda each: each.part not in each.turn.forgotten)
    latest_memories = {
        name: versions[memory.id][-1] if isinstance(memory, MessageMemory) else memory
        for name, memory in memories.items()
    }
    return latest_memories, versions.values()


async def _first_version(ctx: OperationContext, scope: Scope, memory: MessageMemory) -> MessageMemory:
    """Return the original; a turn that claims to replace a message that is still shown replaces none."""
    while isinstance(name := memory.turn.metadata.get(EDIT_OF), str) and name < memory.ref.key:
        earlier_memory = (await find_stored(ctx, scope, (name,)))[name]
        if not isinstance(earlier_memory, MessageMemory) or earlier_memory.part not in earlier_memory.turn.forgotten:
            break
        if tag_of(TurnId(earlier_memory.ref.key)) != tag_of(TurnId(memory.ref.key)):
            break
        memory = earlier_memory
    return memory
