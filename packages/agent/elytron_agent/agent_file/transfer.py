"""Export and import agent files. Blocks are imported unchanged, messages as evidence from outside."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.agent_file.document import (
    HEAD,
    IMPORT_BEGUN,
    ISSUER,
    LISTS,
    MESSAGE,
    SOURCE,
    AgentFile,
    ImportedShell,
    Json,
    moment_of,
    read_agent_file,
    role_of,
    words_of,
)
from elytron_agent.blocks.block_repository import BlockDraft, BlockRepository, MemoryBlock
from elytron_agent.blocks.injections import refusal_of
from elytron_agent.runs.journal import journal_of
from elytron_core import limits as core_limits
from elytron_core import strict_json
from elytron_core.clock import Instant, format_instant
from elytron_core.contracts.transcript import (
    MemoryTranscriptReplayRequest,
    MemoryWriteRequest,
    RedactedTranscriptMessage,
    RedactedTranscriptTurn,
    TranscriptReplayView,
    TranscriptWrite,
    TurnDraft,
    WriteOutcome,
)
from elytron_core.errors import ElytronError, InvalidInput, NotFound
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.model import Value
from elytron_core.planes.transcript import Message, OpaqueItem, TurnLifecycle, TurnOrigin
from elytron_core.policy.admission.own_output import of_others, strip_own_output
from elytron_core.scope import Scope
from elytron_core.text import similarity

FILE_BATCH: Final = 200
"""Number of turns written in one batch during an import."""
FILE_BATCH_CHARS: Final = 1_000_000
FILE_PIECE_CHARS: Final = 12_000
"""Number of characters of a message's JSON in one opaque item."""


_HIDDEN: Final = (("private", True), ("store", False))
"""Metadata of turns that are never exported."""


async def export_agent_file(
    memory: MemoryFace, name: str, /, *, blocks: BlockRepository | None = None, journal: MemoryFace | None = None
) -> AgentFile:
    """Export an agent as an agent file: an imported one with its later changes, or one created here.

    The exported blocks are those of `blocks`, else the agent's own, else the ones shared in the space. Private, masked
    and erased turns are omitted. `journal` is the agent's journal. Raises NotFound if no agent has that name.
    """
    if memory.scope is None:
        raise InvalidInput(field="memory", problem="has no space: open it with one")
    scope = Scope.model_validate(memory.scope.model_dump() | {"agent": name, "conversation": name, "chat": None})
    shell = ImportedShell(journal_of(memory, journal), name)
    head = await shell.get(HEAD)
    parts = {key: part async for key, part in shell.parts()} if head is not None else {}
    if head is None:
        return await _own_document(memory, name, scope, blocks)
    names = cast("list[str]", head["agents"])
    lists = {key: _file_elements(key, parts) for key in cast("Json", head["lists"])}
    agents: list[Json] = []
    file_blocks: dict[str, Json] = {}
    for place, each in enumerate(names):
        agent = dict(cast("Json", lists["agents"][place]["element"]))
        entries = await (blocks if blocks is not None and place == 0 else BlockRepository(memory, agent=each)).list()
        agent["block_ids"] = _with_blocks(agent, entries, lists.get("blocks", []), file_blocks)
        there = scope.model_copy(update={"agent": each, "conversation": each})
        agent["messages"] = await _thread_messages(
            memory, there, _wordless_parts(parts, place), agent_id=str(agent["id"])
        )
        agents.append(agent)
    document: dict[str, Any] = cast("Json", head["rest"]) | {
        key: [part["element"] for part in entries] for key, entries in lists.items()
    }
    document |= {"agents": agents, "blocks": _in_order(file_blocks, lists.get("blocks", []))}
    return read_agent_file({key: document[key] for key in cast("list[str]", head["keys"])})


async def _own_document(memory: MemoryFace, name: str, scope: Scope, blocks: BlockRepository | None) -> AgentFile:
    agent_blocks = await (blocks or BlockRepository(memory, agent=name)).list()
    messages = await _thread_messages(memory, scope, [], agent_id="agent-0")
    if not messages and not agent_blocks:
        raise NotFound(what="agent", name=name)
    if not agent_blocks and blocks is None:
        agent_blocks = await BlockRepository(memory).list()
    elements = [_new_block(place, block) for place, block in enumerate(agent_blocks)]
    agent: Json = {
        "id": "agent-0",
        "name": name,
        "agent_type": "letta_v1_agent",
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


def _with_blocks(
    agent: Json, agent_blocks: Sequence[MemoryBlock], elements: list[Json], file_blocks: dict[str, Json]
) -> list[str]:
    """Add an agent's current blocks to `file_blocks` by id, and return these ids in the order of the file."""
    file_ids = cast("list[str]", agent.get("block_ids") or [])
    by_label = {block.label: block for block in agent_blocks}
    ids: list[str] = []
    of_id = {str(part["element"]["id"]): part for part in elements}
    for block_id in file_ids:
        part = of_id.get(block_id)
        label = part.get("label") if part is not None else None
        if part is None or label is None:  # it was never stored
            ids.append(block_id)
            continue
        block, element = by_label.pop(str(label), None), cast("Json", part["element"])
        if block is None:
            file_blocks.setdefault(block_id, {})
            continue
        # If several agents of the file shared a block, the first one that changed it wins.
        if file_blocks.get(block_id) in ({}, None, element):
            file_blocks[block_id] = _changed_element(element, block)
        ids.append(block_id)
    used_ids = {*of_id, *file_blocks}
    for block in by_label.values():
        place = next(place for place in range(len(used_ids) + len(by_label) + 1) if f"block-{place}" not in used_ids)
        used_ids.add(f"block-{place}")
        file_blocks[f"block-{place}"] = _new_block(place, block)
        ids.append(f"block-{place}")
    return ids


def _in_order(file_blocks: dict[str, Json], elements: list[Json]) -> list[Json]:
    """Return all blocks: the file's current ones without deleted ones, followed by new ones."""
    elements_by_id = {str(part["element"]["id"]): cast("Json", part["element"]) for part in elements} | file_blocks
    return [block for block in elements_by_id.values() if block]


def _changed_element(element: Json, block: MemoryBlock) -> Json:
    """Return a block of the file with the edits made since its import."""
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
    """Return the messages of a thread: those of the file at their positions, followed by later ones."""
    placed, new_messages = dict(wordless), list[Json]()
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
        turn_messages = [
            _new_message(message, agent_id, turn.recorded_at)
            for message in turn.messages
            if message.text and message.role is not EvidenceRole.SYSTEM
        ]
        if isinstance(place, int) and turn_messages:
            placed[place] = turn_messages[0]
        else:
            new_messages += turn_messages
    file_messages = [placed[place] for place in sorted(placed)]
    used_ids = {str(message.get("id")) for message in file_messages}
    free = (
        f"message-{place}"
        for place in range(len(file_messages) + len(new_messages) + 1)
        if f"message-{place}" not in used_ids
    )
    return [message if message["id"] else message | {"id": next(free)} for message in (*file_messages, *new_messages)]


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
            scope=scope, view=TranscriptReplayView.RAW_OWNER_ONLY, limit=core_limits.PAGE_MAX // 5, cursor=cursor
        )
        report = await memory.replay_transcript(request)
        for turn in report.slice.turns:
            yield turn
        cursor = report.next_cursor
        if cursor is None:
            return


class AgentImport(Value):
    """The result of an import. `agents` lists the names under which the file's agents run, the main agent first."""

    agents: tuple[str, ...]
    blocks: int = 0
    messages: int = 0
    """Number of messages stored as evidence from outside, available to recall."""
    parts: int = 0
    """Number of other parts stored for a later export, such as tools and settings. They are never run or shown."""
    left_out: tuple[str, ...] = ()
    """Parts that were not imported, each with the reason."""
    redacted: dict[str, int] = {}
    """Number of redacted credentials by kind."""
    system_prompt: str = ""
    """The main agent's system prompt, as a proposal. It takes effect only if the host copies it into its settings."""


class _FileOwner(NamedTuple):
    """An agent of the file with the name it has here."""

    name: str
    agent: Json


async def import_agent_file(
    memory: MemoryFace, file: AgentFile, /, *, name: str | None = None, journal: MemoryFace | None = None
) -> AgentImport:
    """Import an agent file under `name`, by default the name of its first agent. Other agents become `NAME/...`.

    Importing the same file again changes nothing, and resumes an interrupted import. `journal` is the agent's journal.
    Raises InvalidInput if the name belongs to an existing agent, and the memory's errors.
    """
    owners = _file_owners(file, name)
    shell = ImportedShell(journal_of(memory, journal), owners[0].name)
    digest = strict_json.sha256_digest(strict_json.canonical_bytes(file.document))
    mark = await shell.get(IMPORT_BEGUN)
    if mark is None and any([await BlockRepository(memory, agent=owner.name).list() for owner in owners]):
        raise InvalidInput(field="name", problem="belongs to an agent with blocks: choose another name, or delete it")
    if mark is not None and mark.get("digest") != digest:
        raise InvalidInput(field="name", problem="belongs to another imported agent: choose another name, or delete it")
    # The mark is written first and the head last, so that an interrupted import is recognised and resumed.
    await shell.put(IMPORT_BEGUN, {"digest": digest})
    file_import = _FileImport(memory, shell, file)
    await file_import.put_lists(owners)
    for place, owner in enumerate(owners):
        await file_import.put_blocks(owner)
        await file_import.put_messages(place, owner)
    await file_import.put_block_parts()
    rest = {key: part for key, part in file.document.items() if key not in LISTS}
    lists = {key: len(file.document[key]) for key in LISTS if key in file.document}
    names = [owner.name for owner in owners]
    await shell.put(HEAD, {"rest": of_others(rest), "lists": lists, "keys": list(file.document), "agents": names})
    return AgentImport(
        agents=tuple(names),
        blocks=file_import.blocks,
        messages=file_import.messages,
        parts=file_import.parts,
        left_out=tuple(file_import.left_out),
        redacted=file.redacted,
        system_prompt=str(owners[0].agent.get("system") or ""),
    )


class _FileImport:
    """A single import and its counts."""

    def __init__(self, memory: MemoryFace, shell: ImportedShell, file: AgentFile) -> None:
        self._memory = memory
        self._shell = shell
        self._file = file
        self.blocks = self.messages = self.parts = 0
        self.left_out: list[str] = []
        self._used_ids: set[str] = set()

    async def put_lists(self, owners: list[_FileOwner]) -> None:
        """Store the elements of every list except blocks; agents are stored without their messages."""
        for key in (each for each in LISTS if each != "blocks"):
            for place, element in enumerate(self._file.document.get(key, ())):
                value: Json = {"element": element}
                if key == "agents":
                    agent_fields = {name: part for name, part in element.items() if name != "messages"}
                    value = {"element": agent_fields, "name": owners[place].name}
                if await self._shell.put(f"{key}.{place:06}", of_others(value)):
                    self.parts += key != "agents"
                else:
                    self.left_out.append(f"{key} {place}: it is too large")

    async def put_block_parts(self) -> None:
        """Store each block as it was in the file, with its label here if it was imported."""
        for place, element in enumerate(self._file.blocks):
            value: Json = {"element": element}
            if element["id"] in self._used_ids:
                value["label"] = _block_label(str(element["label"]))
            if not await self._shell.put(f"blocks.{place:06}", of_others(value)):
                self.left_out.append(f"blocks {place}: it is too large")

    async def put_blocks(self, owner: _FileOwner) -> None:
        """Store the blocks of an agent as its own."""
        repository = BlockRepository(self._memory, agent=owner.name)
        labels = {block.label for block in await repository.list()}
        block_ids = set(owner.agent.get("block_ids") or ())
        for element in (block for block in self._file.blocks if block["id"] in block_ids):
            label, value = _block_label(str(element["label"])), strip_own_output(str(element["value"])).text
            problem = refusal_of(value)
            if problem is not None:
                self.left_out.append(f"block {label!r}: {problem}")
                continue
            if label in labels:  # the file is being imported again
                self._used_ids.add(element["id"])
                continue
            try:
                await repository.create(_block_draft(label, value, element))
            except (ElytronError, ValueError) as error:
                reason = error.message if isinstance(error, ElytronError) else "it is not a valid block"
                self.left_out.append(f"block {label!r}: {reason}")
                continue
            labels.add(label)
            self._used_ids.add(element["id"])
            self.blocks += 1

    async def put_messages(self, place: int, owner: _FileOwner) -> None:
        """Store an agent's messages as turns of its thread, and messages without text as parts."""
        async for batch in self._batches(place, owner.agent):
            request = MemoryWriteRequest(
                scope=_agent_scope(self._memory, owner.name),
                write=TranscriptWrite(turns=tuple(batch), origin=TurnOrigin.IMPORTED),
            )
            report = await self._memory.write(request)
            self.messages += report.count(WriteOutcome.STORED)

    async def _batches(self, place: int, agent: Json) -> AsyncIterator[list[TurnDraft]]:
        batch: list[TurnDraft] = []
        chars = 0
        for number, message in enumerate(agent.get("messages") or ()):
            turn = _message_turn(number, message)
            if turn is None:
                value = {"place": number, "message": of_others(message)}
                if not await self._shell.put(f"messages.{place:06}.{number:06}", value):
                    self.left_out.append(f"message {number}: it is too large")
                continue
            batch.append(turn)
            chars += len(turn.messages[0].text)
            if len(batch) == FILE_BATCH or chars > FILE_BATCH_CHARS:
                yield batch
                batch, chars = [], 0
        if batch:
            yield batch


def _file_owners(file: AgentFile, name: str | None) -> list[_FileOwner]:
    first = file.agents[0]
    main = name or _owner_name(first)
    owners = [_FileOwner(main, first)]
    for agent in file.agents[1:]:
        owner_names = {owner.name for owner in owners}
        owners.append(
            _FileOwner(
                next(each for each in _free_names(f"{main}/{_owner_name(agent)}") if each not in owner_names), agent
            )
        )
    return owners


def _owner_name(agent: Json) -> str:
    clean_name = "".join(char for char in str(agent.get("name") or "") if char.isprintable() and char != "/")
    return " ".join(clean_name.split())[: limits.SUBAGENT_NAME_CHARS] or "agent"


def _free_names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name} {number}" for number in range(2, limits.FILE_AGENTS + 2))


def _agent_scope(memory: MemoryFace, name: str) -> Scope:
    if memory.scope is None:
        raise InvalidInput(field="memory", problem="has no space: open it with one")
    return Scope.model_validate(memory.scope.model_dump() | {"agent": name, "conversation": name, "chat": None})


def _block_label(label: str) -> str:
    """Return a valid block label, without empty or dotted parts between the slashes."""
    return "/".join(part for part in label.split("/") if part.strip(".")) or "block"


def _block_draft(label: str, value: str, element: Json) -> BlockDraft:
    file_limit: Any = element.get("limit")
    limit = file_limit if isinstance(file_limit, int) else limits.BLOCK_CHARS
    return BlockDraft(
        label=label,
        value=value,
        description=strip_own_output(str(element.get("description") or "")).text[: limits.BLOCK_DESCRIPTION_CHARS],
        limit=max(1, min(max(limit, len(value)), limits.BLOCK_CHARS_MAX)),
        read_only=element.get("read_only") is True,
    )


def _message_turn(place: int, message: Json) -> TurnDraft | None:
    """Return a message with text as a turn whose content is untrusted, or None if it has no text."""
    role, words = role_of(message), strip_own_output(words_of(message)).text[: core_limits.MESSAGE_CHARS]
    if role is None or similarity.is_blank(words):
        return None
    turn_message = Message(role=role, text=words, at=moment_of(message), authority=EvidenceAuthority.EXTERNAL_CONTENT)
    return TurnDraft(
        messages=(turn_message,),
        host_id=f"agent file {place}",
        items=_opaque_items(json.dumps(of_others(message), ensure_ascii=False)),
        external_content_used=True,
        metadata={"source": SOURCE, "place": place},
    )


def _opaque_items(body: str) -> tuple[OpaqueItem, ...]:
    """Return a message as the opaque items of one turn, or nothing if it is too large."""
    pieces = (body[start : start + FILE_PIECE_CHARS] for start in range(0, len(body), FILE_PIECE_CHARS))
    items = [OpaqueItem(kind=MESSAGE, issuer=ISSUER, body=json.dumps(piece, ensure_ascii=False)) for piece in pieces]
    has_room = sum(len(item.body.encode()) for item in items) <= core_limits.OPAQUE_ITEMS_BYTES
    return tuple(items) if has_room else ()
