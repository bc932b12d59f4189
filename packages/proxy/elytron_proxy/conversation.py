"""Conversations of the proxy: named by the request, or recognised by digests of their messages."""

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from elytron_core.lru_cache import LruCache
from elytron_core.planes.records import COPIES_OF_BLOCKS, Record
from elytron_models.dialect import Fields, object_fields, text_field
from elytron_proxy import limits
from elytron_proxy.caller import ProxyCaller
from elytron_proxy.memory import NAMESPACE, MemoryDown, NamespacePath, PromptBlock, ProxyMemory
from elytron_proxy.prompts import CallPrompt
from elytron_proxy.prompts.prompt import decode_stored_block, encode_stored_block
from elytron_proxy.prompts.request_turn import START, end_of, question_of, start_of

BLOCKS_BEFORE: Final = 16
"""Earlier turns with tools whose blocks stay in their places."""
MAX_QUOTES: Final = 8
QUOTED_CHARS: Final = 40
"""Last turns that a task of a program may quote, and how long one must be to tell."""
OPEN_TURN_TTL_S: Final = 24 * 3600
"""So long an answer completes the turn whose tools ran; later it is a turn of its own."""
NODE_TTL_S: Final = 90 * 24 * 3600
"""So long a conversation is known by its messages; later it counts as a new one."""


_NODES: Final = (NAMESPACE, "conversations")
_OPEN_TURNS: Final = (NAMESPACE, "open-turns")
_BLOCKS: Final = (*COPIES_OF_BLOCKS, *_OPEN_TURNS)
"""Blocks of open turns: an erasure removes them, and their turns get new ones."""
_TAG: Final = "llm proxy"


@dataclass(frozen=True, slots=True)
class ParentTurn:
    """The stored turn that a request continues."""

    digest: bytes
    version: int
    conversation: str


@dataclass(frozen=True, slots=True)
class RequestThread:
    """Position of a request: its conversation, the id of its turn, and the digests of its messages.

    `is_shown` is true if the request itself has all earlier messages of the conversation.
    """

    conversation: str
    turn: str
    start: bytes
    question_digest: bytes
    is_named: bool = False
    is_shown: bool = False
    is_open: bool = False
    """True if the turn is already stored with only the person's message, because its tools are running."""
    parent: ParentTurn | None = None


@dataclass(frozen=True, slots=True)
class _OpenTurn:
    """A turn whose tools run."""

    conversation: str
    turn: str


class ConversationFinder:
    """Finds the conversation of a request, and remembers turns whose tools are running, with their blocks."""

    def __init__(self, memory: ProxyMemory, /) -> None:
        self._memory = memory
        self._blocks: LruCache[tuple[str, bytes], PromptBlock] = LruCache(limits.BLOCKS)
        self._exchanges: LruCache[str, list[tuple[str, str]]] = LruCache(limits.BLOCKS)
        self._open: LruCache[tuple[str, bytes], _OpenTurn] = LruCache(limits.BLOCKS)

    async def find(self, caller: ProxyCaller, prompt: CallPrompt, /, *, name: str | None) -> RequestThread:
        """Return the position of the request; `name` is its conversation, if the request names one.

        Messages that continue the last turn of a known conversation continue it; those that continue an earlier one, or
        none, start another. Raises MemoryDown.
        """
        start_digest = start_of(prompt)
        question_digest = question_of(start_digest, prompt.text)
        open_turn = await self._opened(caller, question_digest) if prompt.has_tools_used else None
        if open_turn is not None and name in {None, open_turn.conversation}:
            return RequestThread(
                open_turn.conversation,
                open_turn.turn,
                start_digest,
                question_digest,
                is_named=name is not None,
                is_shown=name is None,
                is_open=True,
            )
        turn_id = _turn_of(caller, question_digest) or self._memory.new_id()
        if name is not None:
            return RequestThread(name, turn_id, start_digest, question_digest, is_named=True)
        fresh_thread = RequestThread(f"chat-{turn_id}", turn_id, start_digest, question_digest)
        # Without earlier messages, it could continue any conversation.
        if start_digest == START:
            return fresh_thread
        item = await self._read(caller, _NODES, start_digest)
        if item is None:
            return fresh_thread
        node = object_fields(item.value)
        # Another turn already continues it: this one is a branch.
        if text_field(node, "next") not in {"", turn_id}:
            return fresh_thread
        conversation = text_field(node, "conversation")
        parent = ParentTurn(start_digest, item.version, conversation)
        return RequestThread(conversation, turn_id, start_digest, question_digest, is_shown=True, parent=parent)

    async def is_kept(self, caller: ProxyCaller, end: bytes, /) -> bool:
        """Return whether the turn with this end is stored already. Raises MemoryDown."""
        secret = await self._memory.secret_of(caller)
        if secret is None:
            return False
        return await self._memory.has(caller, _NODES, secret.tag(_TAG, end.hex()))

    async def claim(self, caller: ProxyCaller, thread: RequestThread, /) -> RequestThread:
        """Return `thread` continuing its parent, or as a separate branch if another was quicker."""
        if thread.parent is None:
            return thread
        try:
            await self._note(
                caller, thread.parent.digest, thread.conversation, then=thread.turn, of=thread.parent.version
            )
        except MemoryDown:
            return RequestThread(f"chat-{thread.turn}", thread.turn, thread.start, thread.question_digest)
        return thread

    async def note(self, caller: ProxyCaller, thread: RequestThread, end: bytes, /) -> None:
        """Record that the conversation ends with this turn. Raises MemoryDown."""
        await self._note(caller, end, thread.conversation)

    async def _note(
        self, caller: ProxyCaller, digest: bytes, conversation: str, *, then: str = "", of: int | None = None
    ) -> None:
        value = {"conversation": conversation, "next": then}
        key = await self._key(caller, digest)
        await self._memory.put(caller, _NODES, key, value, ttl_s=NODE_TTL_S, expected_version=of)

    async def block_of(self, caller: ProxyCaller, thread: RequestThread, /) -> PromptBlock | None:
        """Return the block given to the first call of a turn. Raises MemoryDown.

        None if it is unknown, or if a memory that it cites was since erased or made private.
        """
        if await self._opened(caller, thread.question_digest) is None:
            return await self._cached_block(caller, thread)
        return await self._stored(caller, thread.question_digest)

    async def blocks_before(self, caller: ProxyCaller, prompt: CallPrompt, /) -> list[tuple[int, PromptBlock]]:
        """Return the blocks of earlier turns with tool calls, with the positions of their messages, oldest first.

        They stay in place, because all tool results follow them, and the provider has cached them together. An erasure
        removes them like memories. Raises MemoryDown.
        """
        question_digests: list[tuple[int, bytes]] = []
        digest = START
        for exchange in prompt.earlier:
            question_digest = question_of(digest, exchange.prompt)
            digest = end_of(question_digest, exchange.answer)
            if exchange.has_tools_used and exchange.at >= 0:
                question_digests.append((exchange.at, question_digest))
        blocks = [
            (position, await self._stored(caller, question_digest))
            for position, question_digest in question_digests[-BLOCKS_BEFORE:]
        ]
        return [(position, block) for position, block in blocks if block is not None and block.text]

    async def _stored(self, caller: ProxyCaller, question_digest: bytes) -> PromptBlock | None:
        item = await self._read(caller, _BLOCKS, question_digest)
        if item is None:
            return None
        fields: Fields = object_fields(item.value)
        recalled = fields.get("recalled")
        return PromptBlock(
            decode_stored_block(text_field(fields, "text")), recalled if isinstance(recalled, int) else 0
        )

    def remember(self, caller: ProxyCaller, thread: RequestThread, block: PromptBlock, /) -> None:
        """Cache the block of a turn for its further calls."""
        self._blocks[caller.space, thread.question_digest] = block

    def note_said(self, caller: ProxyCaller, prompt: CallPrompt, answer: str, /) -> None:
        """Remember the last messages of a person and the model, because a program may quote them."""
        if not prompt.is_task and len(prompt.text) + len(answer) >= QUOTED_CHARS:
            self._exchanges[caller.space] = [*self._exchanges.get(caller.space, []), (prompt.text, answer)][
                -MAX_QUOTES:
            ]

    def is_quoted(self, caller: ProxyCaller, prompt: CallPrompt, /) -> bool:
        """Return whether a first message quotes both sides of a turn: then a program asks about the chat, not a
        person."""
        exchanges = () if prompt.earlier else self._exchanges.get(caller.space, ())
        return any(answer and question in prompt.text and answer in prompt.text for question, answer in exchanges)

    async def reopened(self, caller: ProxyCaller, thread: RequestThread, /) -> RequestThread | None:
        """Return `thread` as the open turn with the same question; None if there is none. Raises MemoryDown."""
        open_turn = await self._opened(caller, thread.question_digest)
        if open_turn is None or (thread.is_named and thread.conversation != open_turn.conversation):
            return None
        return replace(thread, conversation=open_turn.conversation, turn=open_turn.turn, is_open=True)

    async def open(self, caller: ProxyCaller, thread: RequestThread, /) -> None:
        """Store what the further calls of a turn with running tools need, even across a restart of the proxy.

        Messages that continue without its answer continue the conversation. Raises MemoryDown.
        """
        open_turn = _OpenTurn(thread.conversation, thread.turn)
        self._open[caller.space, thread.question_digest] = open_turn
        block = await self._cached_block(caller, thread) or PromptBlock()
        key, ttl_s = await self._key(caller, thread.question_digest), OPEN_TURN_TTL_S
        block_fields: dict[str, JsonValue] = {"text": encode_stored_block(block.text), "recalled": block.recalled}
        # The block first, because an open turn is read together with it.
        await self._memory.put(caller, _BLOCKS, key, block_fields, ttl_s=ttl_s)
        turn_fields: dict[str, JsonValue] = {"conversation": open_turn.conversation, "turn": open_turn.turn}
        await self._memory.put(caller, _OPEN_TURNS, key, turn_fields, ttl_s=ttl_s)
        if not thread.is_named:
            await self.note(caller, thread, end_of(thread.question_digest, ""))

    async def close(self, caller: ProxyCaller, thread: RequestThread, /) -> None:
        """Forget that the turn's tools are running; its block stays for later turns. Raises MemoryDown."""
        self._open.pop((caller.space, thread.question_digest), None)
        self._blocks.pop((caller.space, thread.question_digest), None)
        await self._memory.erase(caller, _OPEN_TURNS, await self._key(caller, thread.question_digest))

    async def _cached_block(self, caller: ProxyCaller, thread: RequestThread) -> PromptBlock | None:
        """Return this process's cached block of a turn; an erasure does not reach what is not stored."""
        block = self._blocks.get((caller.space, thread.question_digest))
        return block if block is not None and await self._memory.has_all(caller, block) else None

    async def _opened(self, caller: ProxyCaller, question_digest: bytes) -> _OpenTurn | None:
        open_turn = self._open.get((caller.space, question_digest))
        if open_turn is not None:
            return open_turn
        item = await self._read(caller, _OPEN_TURNS, question_digest)
        if item is None:
            return None
        fields: Fields = object_fields(item.value)
        return _OpenTurn(text_field(fields, "conversation"), text_field(fields, "turn"))

    async def _read(self, caller: ProxyCaller, namespace: NamespacePath, digest: bytes) -> Record | None:
        """Return the record under this digest; None if there is none, as before the first write of a space."""
        secret = await self._memory.secret_of(caller)
        return None if secret is None else await self._memory.get(caller, namespace, secret.tag(_TAG, digest.hex()))

    async def _key(self, caller: ProxyCaller, digest: bytes) -> str:
        """Return the key of a record for this digest, under the space's own secret."""
        secret = await self._memory.secret_of(caller)
        assert secret is not None  # something of the space was written before
        return secret.tag(_TAG, digest.hex())


def _turn_of(caller: ProxyCaller, question_digest: bytes) -> str | None:
    """Return the id of the turn of a call that its client names, so that a repeat has the same id."""
    if caller.call_id is None:
        return None
    call_id = caller.call_id.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(call_id, digest_size=16, key=question_digest).hexdigest()
