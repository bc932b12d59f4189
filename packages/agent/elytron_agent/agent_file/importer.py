"""Import of an agent file: blocks on the agents' own shelves, words as evidence from outside, the rest as records."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, NamedTuple

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent import limits as run_limits
from elytron_agent.agent_file.document import (
    BEGUN,
    HEAD,
    ISSUER,
    LISTS,
    MESSAGE,
    SOURCE,
    AgentFile,
    ImportedShell,
    Json,
    moment_of,
    role_of,
    words_of,
)
from elytron_agent.blocks.shelf import BlockDraft, BlockShelf
from elytron_agent.runs.journal import journal_of
from elytron_agent.text_checks import refusal_of
from elytron_core import limits as core_limits
from elytron_core import strict_json
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft, WriteOutcome
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.evidence import EvidenceAuthority
from elytron_core.model import Value
from elytron_core.planes.transcript import Message, OpaqueItem, TurnOrigin
from elytron_core.policy.admission.own_output import of_others, strip_own_output
from elytron_core.scope import Scope
from elytron_core.text import similarity

_USUAL: Final = "agent"


class AgentImport(Value):
    """Result of an import. `agents` are the names under which the file's agents are run, the main one first."""

    agents: tuple[str, ...]
    blocks: int = 0
    messages: int = 0
    """Messages whose words are evidence now, from outside, for recall."""
    parts: int = 0
    """Other parts that are kept for an export: tools, settings, instructions. None of them is run or shown."""
    left_out: tuple[str, ...] = ()
    """Parts that were left out, each with its reason."""
    redacted: dict[str, int] = {}
    """Credentials that were blacked out, by kind."""
    system_prompt: str = ""
    """The main agent's instruction, as a proposal: it holds for no run unless the host puts it into its settings."""


class _FileOwner(NamedTuple):
    """An agent of the file, under the name that it has here."""

    name: str
    agent: Json


async def import_agent_file(
    memory: MemoryFace, file: AgentFile, /, *, name: str | None = None, journal: MemoryFace | None = None
) -> AgentImport:
    """Take an agent file in under `name`, else under that of its first agent; its other agents become `NAME/...`.

    The same file may be imported again, which changes nothing. `journal` is that of the agent. Raises InvalidInput for
    a name that an agent has already, and what the memory raises.
    """
    owners = _file_owners(file, name)
    shell = ImportedShell(journal_of(memory, journal), owners[0].name)
    digest = strict_json.sha256_digest(strict_json.canonical_bytes(file.document))
    begun = await shell.get(BEGUN)
    if begun is None and any([await BlockShelf(memory, agent=owner.name).list() for owner in owners]):
        raise InvalidInput(field="name", problem="is that of an agent with blocks: give another name, or delete it")
    if begun is not None and begun.get("digest") != digest:
        raise InvalidInput(field="name", problem="is that of another imported agent: give another name, or delete it")
    await shell.put(BEGUN, {"digest": digest})
    done = _FileImport(memory, shell, file)
    await done.put_lists(owners)
    for place, owner in enumerate(owners):
        await done.put_blocks(owner)
        await done.put_messages(place, owner)
    await done.put_block_parts()
    rest = {key: part for key, part in file.document.items() if key not in LISTS}
    lists = {key: len(file.document[key]) for key in LISTS if key in file.document}
    names = [owner.name for owner in owners]
    await shell.put(HEAD, {"rest": of_others(rest), "lists": lists, "keys": list(file.document), "agents": names})
    return AgentImport(
        agents=tuple(names),
        blocks=done.blocks,
        messages=done.messages,
        parts=done.parts,
        left_out=tuple(done.left_out),
        redacted=file.redacted,
        system_prompt=str(owners[0].agent.get("system") or ""),
    )


class _FileImport:
    """The work of one import, and what came of it."""

    def __init__(self, memory: MemoryFace, shell: ImportedShell, file: AgentFile) -> None:
        self._memory = memory
        self._shell = shell
        self._file = file
        self.blocks = self.messages = self.parts = 0
        self.left_out: list[str] = []
        self._taken: set[str] = set()

    async def put_lists(self, owners: list[_FileOwner]) -> None:
        """Store the elements of all lists but blocks, agents without their messages."""
        for key in (each for each in LISTS if each != "blocks"):
            for place, element in enumerate(self._file.document.get(key, ())):
                value: Json = {"element": element}
                if key == "agents":
                    kept = {name: part for name, part in element.items() if name != "messages"}
                    value = {"element": kept, "name": owners[place].name}
                if await self._shell.put(f"{key}.{place:06}", of_others(value)):
                    self.parts += key != "agents"
                else:
                    self.left_out.append(f"{key} {place}: it is too large")

    async def put_block_parts(self) -> None:
        """Store each block as it was in the file, with its label here if it is on a shelf."""
        for place, element in enumerate(self._file.blocks):
            value: Json = {"element": element}
            if element["id"] in self._taken:
                value["label"] = _block_label(str(element["label"]))
            if not await self._shell.put(f"blocks.{place:06}", of_others(value)):
                self.left_out.append(f"blocks {place}: it is too large")

    async def put_blocks(self, owner: _FileOwner) -> None:
        """Put an agent's blocks on its own shelf."""
        shelf = BlockShelf(self._memory, agent=owner.name)
        held = {block.label for block in await shelf.list()}
        wanted = set(owner.agent.get("block_ids") or ())
        for element in (block for block in self._file.blocks if block["id"] in wanted):
            label, value = _block_label(str(element["label"])), strip_own_output(str(element["value"])).text
            problem = refusal_of(value)
            if problem is not None:
                self.left_out.append(f"block {label!r}: {problem}")
                continue
            if label in held:  # a file that is imported again
                self._taken.add(element["id"])
                continue
            try:
                await shelf.create(_block_draft(label, value, element))
            except (ElytronError, ValueError) as error:
                told = error.message if isinstance(error, ElytronError) else "it is no block"
                self.left_out.append(f"block {label!r}: {told}")
                continue
            held.add(label)
            self._taken.add(element["id"])
            self.blocks += 1

    async def put_messages(self, place: int, owner: _FileOwner) -> None:
        """Store the words of an agent's messages as turns of its thread, and messages without words as parts."""
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
            if len(batch) == limits.FILE_BATCH or chars > limits.FILE_BATCH_CHARS:
                yield batch
                batch, chars = [], 0
        if batch:
            yield batch


def _file_owners(file: AgentFile, name: str | None) -> list[_FileOwner]:
    first = file.agents[0]
    main = name or _owner_name(first)
    owners = [_FileOwner(main, first)]
    for agent in file.agents[1:]:
        taken = {owner.name for owner in owners}
        owners.append(
            _FileOwner(next(each for each in _free_names(f"{main}/{_owner_name(agent)}") if each not in taken), agent)
        )
    return owners


def _owner_name(agent: Json) -> str:
    told = "".join(char for char in str(agent.get("name") or "") if char.isprintable() and char != "/")
    return " ".join(told.split())[: run_limits.SUBAGENT_NAME_CHARS] or _USUAL


def _free_names(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name} {number}" for number in range(2, limits.FILE_AGENTS + 2))


def _agent_scope(memory: MemoryFace, name: str) -> Scope:
    if memory.scope is None:
        raise InvalidInput(field="memory", problem="has no space of its own: open it with one")
    return Scope.model_validate(memory.scope.model_dump() | {"agent": name, "conversation": name, "chat": None})


def _block_label(label: str) -> str:
    """Return a label as blocks have them: no empty part between slashes."""
    return "/".join(part for part in label.split("/") if part.strip(".")) or "block"


def _block_draft(label: str, value: str, element: Json) -> BlockDraft:
    given: Any = element.get("limit")
    limit = given if isinstance(given, int) else limits.BLOCK_CHARS
    return BlockDraft(
        label=label,
        value=value,
        description=strip_own_output(str(element.get("description") or "")).text[: limits.BLOCK_DESCRIPTION_CHARS],
        limit=max(1, min(max(limit, len(value)), limits.BLOCK_CHARS_MAX)),
        read_only=element.get("read_only") is True,
    )


def _message_turn(place: int, message: Json) -> TurnDraft | None:
    """Return the turn of a message with words. It is not vouched for."""
    role, words = role_of(message), strip_own_output(words_of(message)).text[: core_limits.MESSAGE_CHARS]
    if role is None or similarity.is_blank(words):
        return None
    said = Message(role=role, text=words, at=moment_of(message), authority=EvidenceAuthority.EXTERNAL_CONTENT)
    return TurnDraft(
        messages=(said,),
        host_id=f"agent file {place}",
        items=_opaque_items(json.dumps(of_others(message), ensure_ascii=False)),
        external_content_used=True,
        metadata={"source": SOURCE, "place": place},
    )


def _opaque_items(body: str) -> tuple[OpaqueItem, ...]:
    """Return a message as items of one turn, none if it is too large for that."""
    pieces = (body[start : start + limits.FILE_PIECE_CHARS] for start in range(0, len(body), limits.FILE_PIECE_CHARS))
    items = [OpaqueItem(kind=MESSAGE, issuer=ISSUER, body=json.dumps(piece, ensure_ascii=False)) for piece in pieces]
    has_room = sum(len(item.body.encode()) for item in items) <= core_limits.OPAQUE_ITEMS_BYTES
    return tuple(items) if has_room else ()
