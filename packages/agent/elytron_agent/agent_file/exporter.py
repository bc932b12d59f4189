"""Export of an agent as an agent file: its blocks and words as they stand now, the rest as it was imported."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, cast

from elytron.api import MemoryFace
from elytron_agent.agent_file.document import (
    HEAD,
    ISSUER,
    LISTS,
    MESSAGE,
    SOURCE,
    AgentFile,
    ImportedShell,
    Json,
    read_agent_file,
)
from elytron_agent.blocks.shelf import BlockShelf, MemoryBlock
from elytron_agent.runs.journal import journal_of
from elytron_core import limits
from elytron_core.clock import Instant, format_instant
from elytron_core.contracts.transcript import (
    MemoryTranscriptReplayRequest,
    RedactedTranscriptMessage,
    RedactedTranscriptTurn,
    TranscriptReplayView,
)
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import TurnLifecycle
from elytron_core.scope import Scope

_AGENT_TYPE: Final = "letta_v1_agent"
_HIDDEN: Final = (("private", True), ("store", False))
"""Metadata of turns that do not leave."""


async def export_agent_file(
    memory: MemoryFace, name: str, /, *, blocks: BlockShelf | None = None, journal: MemoryFace | None = None
) -> AgentFile:
    """Return an agent as an agent file: one that was imported, with what changed since, or one of our own.

    Its blocks are its own, else those that the agents of the space share, or those of `blocks`. Private turns, masked
    ones, and what was erased are left out. `journal` is that of the agent. Raises NotFound if there is nothing of that
    name.
    """
    if memory.scope is None:
        raise InvalidInput(field="memory", problem="has no space of its own: open it with one")
    scope = Scope.model_validate(memory.scope.model_dump() | {"agent": name, "conversation": name, "chat": None})
    shell = ImportedShell(journal_of(memory, journal), name)
    head = await shell.get(HEAD)
    parts = {key: part async for key, part in shell.parts()} if head is not None else {}
    if head is None:
        return await _own_document(memory, name, scope, blocks)
    names = cast("list[str]", head["agents"])
    lists = {key: _file_elements(key, parts) for key in cast("Json", head["lists"])}
    agents: list[Json] = []
    kept: dict[str, Json] = {}
    for place, each in enumerate(names):
        agent = dict(cast("Json", lists["agents"][place]["element"]))
        found = await (blocks if blocks is not None and place == 0 else BlockShelf(memory, agent=each)).list()
        agent["block_ids"] = _with_blocks(agent, found, lists.get("blocks", []), kept)
        there = scope.model_copy(update={"agent": each, "conversation": each})
        agent["messages"] = await _thread_messages(
            memory, there, _wordless_parts(parts, place), agent_id=str(agent["id"])
        )
        agents.append(agent)
    given: dict[str, Any] = cast("Json", head["rest"]) | {
        key: [part["element"] for part in found] for key, found in lists.items()
    }
    given |= {"agents": agents, "blocks": _in_order(kept, lists.get("blocks", []))}
    return read_agent_file({key: given[key] for key in cast("list[str]", head["keys"])})


async def _own_document(memory: MemoryFace, name: str, scope: Scope, blocks: BlockShelf | None) -> AgentFile:
    found = await (blocks or BlockShelf(memory, agent=name)).list()
    messages = await _thread_messages(memory, scope, [], agent_id="agent-0")
    if not messages and not found:
        raise NotFound(what="agent", name=name)
    if not found and blocks is None:
        found = await BlockShelf(memory).list()
    elements = [_new_block(place, block) for place, block in enumerate(found)]
    agent: Json = {
        "id": "agent-0",
        "name": name,
        "agent_type": _AGENT_TYPE,
        "system": None,
        "description": None,
        "metadata": None,
        "llm_config": None,
        "embedding_config": None,
        "tags": [],
        "tools": [],
        "tool_ids": [],
        "tool_rules": [],
        "source_ids": [],
        "memory_blocks": [],
        "block_ids": [block["id"] for block in elements],
        "group_ids": [],
        "files_agents": [],
        "tool_exec_environment_variables": {},
        "timezone": "UTC",
        "in_context_message_ids": [message["id"] for message in messages],
        "messages": messages,
    }
    document: Json = {key: [] for key in LISTS if key != "skills"}
    return read_agent_file(document | {"agents": [agent], "blocks": elements, "metadata": {}})


def _file_elements(key: str, parts: dict[str, Json]) -> list[Json]:
    return [part for name, part in sorted(parts.items()) if name.startswith(f"{key}.") and "element" in part]


def _with_blocks(agent: Json, found: Sequence[MemoryBlock], elements: list[Json], kept: dict[str, Json]) -> list[str]:
    """Put the blocks that an agent has now into `kept`, by their ids, and return these, in the file's order."""
    wanted = cast("list[str]", agent.get("block_ids") or [])
    by_label = {block.label: block for block in found}
    ids: list[str] = []
    of_id = {str(part["element"]["id"]): part for part in elements}
    for block_id in wanted:
        part = of_id.get(block_id)
        label = part.get("label") if part is not None else None
        if part is None or label is None:  # it was never on a shelf
            ids.append(block_id)
            continue
        block, element = by_label.pop(str(label), None), cast("Json", part["element"])
        if block is None:
            kept.setdefault(block_id, {})
            continue
        # Of a block that agents of the file shared, the word of the first one that changed it counts.
        if kept.get(block_id) in ({}, None, element):
            kept[block_id] = _changed_element(element, block)
        ids.append(block_id)
    used = {*of_id, *kept}
    for block in by_label.values():
        place = next(place for place in range(len(used) + len(by_label) + 1) if f"block-{place}" not in used)
        used.add(f"block-{place}")
        kept[f"block-{place}"] = _new_block(place, block)
        ids.append(f"block-{place}")
    return ids


def _in_order(kept: dict[str, Json], elements: list[Json]) -> list[Json]:
    """Return all blocks: those of the file as they stand now, without deleted ones, then new ones."""
    found = {str(part["element"]["id"]): cast("Json", part["element"]) for part in elements} | kept
    return [block for block in found.values() if block]


def _changed_element(element: Json, block: MemoryBlock) -> Json:
    """Return a block of the file with what was edited here."""
    changed: Json = {}
    if block.value != element["value"]:
        changed["value"] = block.value
        if not isinstance(element.get("limit"), int) or element["limit"] < len(block.value):
            changed["limit"] = block.limit
    if block.description != (element.get("description") or ""):
        changed["description"] = block.description
    return element | changed


def _new_block(place: int, block: MemoryBlock) -> Json:
    return {
        "value": block.value,
        "limit": block.limit,
        "label": block.label,
        "read_only": block.read_only,
        "description": block.description or None,
        "metadata": {},
        "id": f"block-{place}",
    }


def _wordless_parts(parts: dict[str, Json], place: int) -> list[tuple[int, Json]]:
    start = f"messages.{place:06}."
    return [(part["place"], part["message"]) for key, part in parts.items() if key.startswith(start)]


async def _thread_messages(
    memory: MemoryFace, scope: Scope, wordless: list[tuple[int, Json]], *, agent_id: str
) -> list[Json]:
    """Return the messages of a thread: those of the file at their places, then what was said since."""
    placed, said = dict(wordless), list[Json]()
    async for turn in _thread_turns(memory, scope):
        if (
            any(turn.metadata.get(name) is value for name, value in _HIDDEN)
            or turn.lifecycle is not TurnLifecycle.ACTIVE
        ):
            continue
        place = turn.metadata.get("place") if turn.metadata.get("source") == SOURCE else None
        pieces = [item.body for item in turn.items if (item.kind, item.issuer) == (MESSAGE, ISSUER)]
        if pieces and isinstance(place, int):
            placed[place] = json.loads("".join(json.loads(piece) for piece in pieces))
            continue
        made = [
            _new_message(message, agent_id, turn.recorded_at)
            for message in turn.messages
            if message.text and message.role is not EvidenceRole.SYSTEM
        ]
        if isinstance(place, int) and made:
            placed[place] = made[0]
        else:
            said += made
    known = [placed[place] for place in sorted(placed)]
    used = {str(message.get("id")) for message in known}
    free = (f"message-{place}" for place in range(len(known) + len(said) + 1) if f"message-{place}" not in used)
    return [message if message["id"] else message | {"id": next(free)} for message in (*known, *said)]


def _new_message(message: RedactedTranscriptMessage, agent_id: str, recorded_at: Instant) -> Json:
    return {
        "type": "message",
        "role": message.role.value,
        "content": [{"type": "text", "text": message.text}],
        "id": "",
        "agent_id": agent_id,
        "created_at": format_instant(message.at if message.at is not None else recorded_at),
    }


async def _thread_turns(memory: MemoryFace, scope: Scope) -> AsyncIterator[RedactedTranscriptTurn]:
    cursor: str | None = None
    while True:
        request = MemoryTranscriptReplayRequest(
            scope=scope, view=TranscriptReplayView.RAW_OWNER_ONLY, limit=limits.PAGE_MAX // 5, cursor=cursor
        )
        report = await memory.replay_transcript(request)
        for turn in report.slice.turns:
            yield turn
        cursor = report.next_cursor
        if cursor is None:
            return
