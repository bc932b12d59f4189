"""Routes for an agent's memory: blocks, archival memory, a search over both, and threads."""

import re
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from elytron_adapter.http.responses import value_response
from elytron_adapter.surface import Route
from elytron_agent.blocks.archive import ArchivalMemory, search_conversations
from elytron_agent.blocks.block_repository import BlockDraft, BlockRepository, MemoryBlock
from elytron_agent.rag.rows import token_count_of
from elytron_agent.service import wire
from elytron_agent.service.agent_service import ROOT
from elytron_agent.service.companion import KnownAgent
from elytron_agent.service.routes.agent_calls import AgentCall, AgentRoute
from elytron_agent.service.wire import SearchHit, SearchSource
from elytron_core.contracts.memories import MemoryEraseRequest, MemoryGetRequest
from elytron_core.contracts.recall import RecallHit
from elytron_core.errors import InvalidInput, NotFound, PreconditionFailed
from elytron_core.model import Value
from elytron_turn.context import near_names
from elytron_turn.sizes import within_tokens

_BLOCKS: Final = f"{ROOT}/memory/blocks"
_BLOCK: Final = f"{_BLOCKS}/{{label:path}}"
_THREAD: Final = f"{ROOT}/conversations/{{conversation_id}}"
_VERSION: Final = re.compile(r'"([0-9]{1,18})"')


async def _list_blocks(call: AgentCall) -> Value:
    await call.user.enabled()
    return wire.BlockList(data=await BlockRepository(call.user.memory).list())


async def _get_block(call: AgentCall) -> Response:
    await call.user.enabled()
    repository, label = BlockRepository(call.user.memory), call.part("label")
    try:
        return _block_response(await repository.read(label))
    except NotFound:
        nearest_labels = near_names(label, [block.label for block in await repository.list()])
        raise NotFound(what="block", name=label, way_out=f"the nearest are {nearest_labels}") from None


async def _put_block(call: AgentCall) -> Response:
    await call.user.enabled()
    request = await call.body(wire.BlockChange)
    label, repository, required_version = call.part("label"), BlockRepository(call.user.memory), _expected_version(call)
    try:
        block = await repository.change(label, **dict(request), expected_version=required_version)
    except NotFound:
        # An expected version can only be that of an existing block.
        if call.request.headers.get("if-match") is not None:
            raise PreconditionFailed from None
        fields = {name: value for name, value in request if value is not None}
        block = await repository.create(BlockDraft(label=label, **fields))
    return _block_response(block)


def _block_response(block: MemoryBlock) -> Response:
    return value_response(block, headers={"ETag": f'"{block.version}"'})


def _expected_version(call: AgentCall) -> int | None:
    """Return the version that a change expects. Raises PreconditionFailed for one that no block can have."""
    text = call.request.headers.get("if-match")
    if text is None or text.strip() == "*":
        return None
    version_match = _VERSION.fullmatch(text.strip())
    if version_match is None:
        raise PreconditionFailed
    return int(version_match[1])


async def _insert_archival(call: AgentCall) -> Value:
    await call.user.enabled()
    request = await call.body(wire.ArchivalRequest)
    return wire.ArchivalAnswer(id=await ArchivalMemory(call.user.memory).insert(request.content, tags=request.tags))


async def _delete_archival(call: AgentCall) -> Value:
    """Erase an archival memory. The id of any other memory is rejected."""
    await call.user.enabled()
    memory, memory_id = call.user.memory, call.part("id")
    try:
        entry = await memory.get(MemoryGetRequest(scope=call.user.scope, id=memory_id))
    except (InvalidInput, NotFound):
        entry = None
    if entry is None or entry.conversation != ArchivalMemory(memory).conversation:
        raise NotFound(what="archival memory", name=memory_id)
    await memory.erase(MemoryEraseRequest(scope=call.user.scope, ids=(entry.id,), reason="the user deleted it"))
    return wire.ArchivalDeleted(id=memory_id)


async def _search_memory(call: AgentCall) -> Value:
    main = await call.user.enabled()
    request = await call.body(wire.AgentSearchRequest)
    # Only archival memories have tags.
    sources = (SearchSource.ARCHIVAL,) if request.tags else request.sources
    thread_name = None
    if request.conversation_id is not None:
        thread_name = (await _thread_of(call, main, request.conversation_id)).name
    memory = call.user.memory
    candidate_hits: list[SearchHit] = []
    # Archival memories do not belong to a thread.
    if SearchSource.ARCHIVAL in sources and thread_name is None:
        hits = await ArchivalMemory(memory).search(request.query, top_k=request.top_k, tags=request.tags)
        candidate_hits += _found_memories(hits, SearchSource.ARCHIVAL)
    if SearchSource.MESSAGE in sources:
        hits = await search_conversations(memory, request.query, limit=request.top_k, conversation=thread_name)
        candidate_hits += _found_memories(hits, SearchSource.MESSAGE)
    best_hits = sorted(candidate_hits, key=lambda candidate: -candidate.score)[: request.top_k]
    return wire.SearchHits(
        data=within_tokens(best_hits, request.max_tokens, tokens=lambda hit: token_count_of(hit.text))
    )


def _found_memories(hits: Sequence[RecallHit], source: SearchSource) -> list[SearchHit]:
    return [
        SearchHit(id=hit.id, source=source, text=hit.text, score=hit.score, created_at=hit.at, tags=hit.tags)
        for hit in hits
    ]


async def _list_threads(call: AgentCall) -> Value:
    main = await call.user.enabled()
    agents = [main, *await call.user.known_subagents(main=main)]
    return wire.AgentConversations(data=tuple(_thread_answer(agent) for agent in agents))


async def _list_thread_items(call: AgentCall) -> Value:
    return await call.items_page(await _named_thread(call))


async def _delete_thread(call: AgentCall) -> Value:
    """Erase the content of a thread. Its agent remains."""
    agent = await _named_thread(call)
    # Cancel its turns first, because an active one would write to what is being erased.
    await call.service.turn_service.cancel(call.user, agent)
    memory_count = await call.user.clear(agent)
    return wire.ThreadDeleted(id=agent.id, memories=memory_count)


async def _named_thread(call: AgentCall) -> KnownAgent:
    return await _thread_of(call, await call.user.enabled(), call.part("conversation_id"))


async def _thread_of(call: AgentCall, main: KnownAgent, conversation: str) -> KnownAgent:
    try:
        return main if conversation == main.id else await call.user.subagent(conversation, main=main)
    except NotFound:
        raise NotFound(what="conversation", name=conversation) from None


def _thread_answer(agent: KnownAgent) -> wire.AgentConversation:
    name = agent.subagent.name if agent.subagent is not None else None
    return wire.AgentConversation(id=agent.id, agent_id=agent.id, name=name, created_at=agent.stored.created_at)


MEMORY_ROUTES: Final[tuple[AgentRoute, ...]] = (
    Route("GET", _BLOCKS, _list_blocks, "list_agent_blocks", "List the memory blocks.", None, wire.BlockList),
    Route("GET", _BLOCK, _get_block, "get_agent_block", "Retrieve a memory block.", None, MemoryBlock),
    Route("PUT", _BLOCK, _put_block, "put_agent_block", "Create or update a memory block.", wire.BlockChange,
          MemoryBlock, headers=("If-Match",)),
    Route("POST", f"{ROOT}/memory/archival", _insert_archival, "insert_archival", "Store an archival memory.",
          wire.ArchivalRequest, wire.ArchivalAnswer),
    Route("DELETE", f"{ROOT}/memory/archival/{{id:path}}", _delete_archival, "delete_archival",
          "Erase an archival memory.", None, wire.ArchivalDeleted),
    Route("POST", f"{ROOT}/memory/search", _search_memory, "search_agent_memory",
          "Search archival memory and past messages.", wire.AgentSearchRequest, wire.SearchHits),
    Route("GET", f"{ROOT}/conversations", _list_threads, "list_agent_conversations", "List the agents' threads.", None,
          wire.AgentConversations),
    Route("GET", f"{_THREAD}/items", _list_thread_items, "list_agent_conversation_items", "List a thread's messages.",
          None, wire.ItemList, query=("limit", "after", "order")),
    Route("DELETE", _THREAD, _delete_thread, "delete_agent_conversation", "Erase the messages of a thread.", None,
          wire.ThreadDeleted),
)  # fmt: skip
