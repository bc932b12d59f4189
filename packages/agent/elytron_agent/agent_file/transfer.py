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
    import_head = await shell.get(HEAD)
    parts = {key: part async for key, part in shell.parts()} if import_head is not None else {}
    if import_head is None:
        return await _own_document(memory, name, scope, blocks)
    agent_names = cast("list[str]", import_head["agents"])
    lists = {key: _file_elements(key, parts) for key in cast("Json", import_head["lists"])}
    agents: list[Json] = []
    file_blocks: dict[str, Json] = {}
    for index, agent_name in enumerate(agent_names):
        agent = dict(cast("Json", lists["agents"][index]["element"]))
        agent_blocks = await (
            blocks if blocks is not None and index == 0 else BlockRepository(memory, agent=agent_name)
        ).list()
        agent["block_ids"] = _with_blocks(agent, agent_blocks, lists.get("blocks", []), file_blocks)
        agent_scope = scope.model_copy(update={"agent": agent_name, "conversation": agent_name})
        agent["messages"] = await _thread_messages(
            memory, agent_scope, _wordless_parts(parts, index), agent_id=str(agent["id"])
        )
        agents.append(agent)
    document: dict[str, Any] = cast("Json", import_head["rest"]) | {
        key: [part["element"] for part in elements] for key, elements in lists.items()
    }
    document |= {"agents": agents, "blocks": _in_order(file_blocks, lists.get("blocks", []))}
    return read_agent_file({key: document[key] for key in cast("list[str]", import_head["keys"])})


async def _own_document(memory: MemoryFace, name: str, scope: Scope, blocks: BlockRepository | None) -> AgentFile:
    agent_blocks = await (blocks or BlockRepository(memory, agent=name)).list()
    messages = await _thread_messages(memory, scope, [], agent_id="agent-0")
    if not messages and not agent_blocks:
        raise NotFound(what="agent", name=name)
    if not agent_blocks and blocks is None:
        agent_blocks = await BlockRepository(memory).list()
    block_elements = [_new_block(index, block) for index, block in enumerate(agent_blocks)]
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
        "block_ids": [block["id"] for block in block_elements],
        "group_ids": [],
        "files_agents": [],
        "tool_exec_environment_variables": {},
        "timezone": "UTC",
        "in_context_message_ids": [message["id"] for message in messages],
        "messages": messages,
    }
    document: Json = {key: [] for key in LISTS if key != "skills"}
    return read_agent_file(document | {"agents": [agent], "blocks": block_elements, "metadata": {}})


def _file_elements(key: str, parts: dict[str, Json]) -> list[Json]:
    return [part for name, part in sorted(parts.items()) if name.startswith(f"{key}.") and "element" in part]


def _with_blocks(
    agent: Json, agent_blocks: Sequence[MemoryBlock], elements: list[Json], file_blocks: dict[str, Json]
) -> list[str]:
    """Add an agent's current blocks to `file_blocks` by id, and return these ids in the order of the file."""
    file_ids = cast("list[str]", agent.get("block_ids") or [])
    blocks_by_label = {block.label: block for block in agent_blocks}
    block_ids: list[str] = []
    parts_by_id = {str(part["element"]["id"]): part for part in elements}
    for block_id in file_ids:
        part = parts_by_id.get(block_id)
        label = part.get("label") if part is not None else None
        if part is None or label is None:  # it was never stored
            block_ids.append(block_id)
            continue
        block, element = blocks_by_label.pop(str(label), None), cast("Json", part["element"])
        if block is None:
            file_blocks.setdefault(block_id, {})
            continue
        # If several agents of the file shared a block, the first one that changed it wins.
        if file_blocks.get(block_id) in ({}, None, element):
            file_blocks[block_id] = _changed_element(element, block)
        block_ids.append(block_id)
    used_ids = {*parts_by_id, *file_blocks}
    for block in blocks_by_label.values():
        number = next(
            number for number in range(len(used_ids) + len(blocks_by_label) + 1) if f"block-{number}" not in used_ids
        )
        used_ids.add(f"block-{number}")
        file_blocks[f"block-{number}"] = _new_block(number, block)
        block_ids.append(f"block-{number}")
    return block_ids


def _in_order(file_blocks: dict[str, Json], elements: list[Json]) -> list[Json]:
    """Return all blocks: the file's current ones without deleted ones, followed by new ones."""
    elements_by_id = {str(part["element"]["id"]): cast("Json", part["element"]) for part in elements} | file_blocks
    return [block for block in elements_by_id.values() if block]


def _changed_element(element: Json, block: MemoryBlock) -> Json:
    """Return a block of the file with the edits made since its import."""
    changed_fields: Json = {}
    if block.value != element["value"]:
        changed_fields["value"] = block.value
        if not isinstance(element.get("limit"), int) or element["limit"] < len(block.value):
            changed_fields["limit"] = block.limit
    if block.description != (element.get("description") or ""):
        changed_fields["description"] = block.description
    return element | changed_fields


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
    key_prefix = f"messages.{place:06}."
    return [(part["place"], part["message"]) for key, part in parts.items() if key.startswith(key_prefix)]


async def _thread_messages(
    memory: MemoryFace, scope: Scope, wordless: list[tuple[int, Json]], *, agent_id: str
) -> list[Json]:
    """Return the messages of a thread: those of the file at their positions, followed by later ones."""
    messages_by_place, new_messages = dict(wordless), list[Json]()
    async for turn in _thread_turns(memory, scope):
        if (
            any(turn.metadata.get(name) is value for name, value in _HIDDEN)
            or turn.lifecycle is not TurnLifecycle.ACTIVE
        ):
            continue
        file_index = turn.metadata.get("place") if turn.metadata.get("source") == SOURCE else None
        json_pieces = [item.body for item in turn.items if (item.kind, item.issuer) == (MESSAGE, ISSUER)]
        if json_pieces and isinstance(file_index, int):
            messages_by_place[file_index] = json.loads("".join(json.loads(piece) for piece in json_pieces))
            continue
        turn_messages = [
            _new_message(message, agent_id, turn.recorded_at)
            for message in turn.messages
            if message.text and message.role is not EvidenceRole.SYSTEM
        ]
        if isinstance(file_index, int) and turn_messages:
            messages_by_place[file_index] = turn_messages[0]
        else:
            new_messages += turn_messages
    file_messages = [messages_by_place[file_index] for file_index in sorted(messages_by_place)]
    used_ids = {str(message.get("id")) for message in file_messages}
    free_ids = (
        f"message-{file_index}"
        for file_index in range(len(file_messages) + len(new_messages) + 1)
        if f"message-{file_index}" not in used_ids
    )
    return [
        message if message["id"] else message | {"id": next(free_ids)} for message in (*file_messages, *new_messages)
    ]


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
    begun_mark = await shell.get(IMPORT_BEGUN)
    if begun_mark is None and any([await BlockRepository(memory, agent=owner.name).list() for owner in owners]):
        raise InvalidInput(field="name", problem="belongs to an agent with blocks: choose another name, or delete it")
    if begun_mark is not None and begun_mark.get("digest") != digest:
        raise InvalidInput(field="name", problem="belongs to another imported agent: choose another name, or delete it")
    # The mark is written first and the head last, so that an interrupted import is recognised and resumed.
    await shell.put(IMPORT_BEGUN, {"digest": digest})
    file_import = _FileImport(memory, shell, file)
    await file_import.put_lists(owners)
    for index, owner in enumerate(owners):
        await file_import.put_blocks(owner)
        await file_import.put_messages(index, owner)
    await file_import.put_block_parts()
    other_parts = {key: part for key, part in file.document.items() if key not in LISTS}
    list_lengths = {key: len(file.document[key]) for key in LISTS if key in file.document}
    agent_names = [owner.name for owner in owners]
    await shell.put(
        HEAD,
        {"rest": of_others(other_parts), "lists": list_lengths, "keys": list(file.document), "agents": agent_names},
    )
    return AgentImport(
        agents=tuple(agent_names),
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
        for key in (list_name for list_name in LISTS if list_name != "blocks"):
            for index, element in enumerate(self._file.document.get(key, ())):
                value: Json = {"element": element}
                if key == "agents":
                    agent_fields = {name: part for name, part in element.items() if name != "messages"}
                    value = {"element": agent_fields, "name": owners[index].name}
                if await self._shell.put(f"{key}.{index:06}", of_others(value)):
                    self.parts += key != "agents"
                else:
                    self.left_out.append(f"{key} {index}: it is too large")

    async def put_block_parts(self) -> None:
        """Store each block as it was in the file, with its label here if it was imported."""
        for index, element in enumerate(self._file.blocks):
            value: Json = {"element": element}
            if element["id"] in self._used_ids:
                value["label"] = _block_label(str(element["label"]))
            if not await self._shell.put(f"blocks.{index:06}", of_others(value)):
                self.left_out.append(f"blocks {index}: it is too large")

    async def put_blocks(self, owner: _FileOwner) -> None:
        """Store the blocks of an agent as its own."""
        repository = BlockRepository(self._memory, agent=owner.name)
        labels = {block.label for block in await repository.list()}
        block_ids = set(owner.agent.get("block_ids") or ())
        for block_element in (block for block in self._file.blocks if block["id"] in block_ids):
            label, value = _block_label(str(block_element["label"])), strip_own_output(str(block_element["value"])).text
            refusal = refusal_of(value)
            if refusal is not None:
                self.left_out.append(f"block {label!r}: {refusal}")
                continue
            if label in labels:  # the file is being imported again
                self._used_ids.add(block_element["id"])
                continue
            try:
                await repository.create(_block_draft(label, value, block_element))
            except (ElytronError, ValueError) as error:
                skip_reason = error.message if isinstance(error, ElytronError) else "it is not a valid block"
                self.left_out.append(f"block {label!r}: {skip_reason}")
                continue
            labels.add(label)
            self._used_ids.add(block_element["id"])
            self.blocks += 1

    async def put_messages(self, place: int, owner: _FileOwner) -> None:
        """Store an agent's messages as turns of its thread, and messages without text as parts."""
        async for draft_batch in self._batches(place, owner.agent):
            request = MemoryWriteRequest(
                scope=_agent_scope(self._memory, owner.name),
                write=TranscriptWrite(turns=tuple(draft_batch), origin=TurnOrigin.IMPORTED),
            )
            report = await self._memory.write(request)
            self.messages += report.count(WriteOutcome.STORED)

    async def _batches(self, place: int, agent: Json) -> AsyncIterator[list[TurnDraft]]:
        batch: list[TurnDraft] = []
        batch_chars = 0
        for index, message in enumerate(agent.get("messages") or ()):
            turn = _message_turn(index, message)
            if turn is None:
                wordless_part = {"place": index, "message": of_others(message)}
                if not await self._shell.put(f"messages.{place:06}.{index:06}", wordless_part):
                    self.left_out.append(f"message {index}: it is too large")
                continue
            batch.append(turn)
            batch_chars += len(turn.messages[0].text)
            if len(batch) == FILE_BATCH or batch_chars > FILE_BATCH_CHARS:
                yield batch
                batch, batch_chars = [], 0
        if batch:
            yield batch


def _file_owners(file: AgentFile, name: str | None) -> list[_FileOwner]:
    first_agent = file.agents[0]
    main_name = name or _owner_name(first_agent)
    owners = [_FileOwner(main_name, first_agent)]
    for agent in file.agents[1:]:
        owner_names = {owner.name for owner in owners}
        owners.append(
            _FileOwner(
                next(
                    free_name
                    for free_name in _free_names(f"{main_name}/{_owner_name(agent)}")
                    if free_name not in owner_names
                ),
                agent,
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
    role, message_text = role_of(message), strip_own_output(words_of(message)).text[: core_limits.MESSAGE_CHARS]
    if role is None or similarity.is_blank(message_text):
        return None
    turn_message = Message(
        role=role, text=message_text, at=moment_of(message), authority=EvidenceAuthority.EXTERNAL_CONTENT
    )
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
