"""The upstream port of the gateway, and its implementation over the runtime in this process."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from elytron.erasure.removal import erase_many
from elytron.recall.retrieval import covered_overrides
from elytron.runtime import MemoryRuntime
from elytron_core import limits
from elytron_core.contracts.maintenance.maintenance import MemoryMaintainRequest
from elytron_core.contracts.memories import ControlOutcome, MemoryForgetRequest, MemoryGetRequest
from elytron_core.contracts.recall import MemoryRecallRequest, RecallFilters, RecallHit, RecallPlane
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft, WriteOutcome
from elytron_core.errors import InvalidInput, NotFound, PermissionRefused
from elytron_core.ids import TurnId
from elytron_core.planes.servers.gateway import MessageItem
from elytron_core.planes.transcript import TURNS, Message, Metadata, Turn, message_id
from elytron_core.ports import store
from elytron_core.ports.store import Document
from elytron_core.scope import Scope
from elytron_gateway import names
from elytron_gateway.names import MemoryOwner

CHAT = "chat:"
RESOURCE = "resource:"
WRITTEN_OUTCOMES = frozenset({WriteOutcome.STORED, WriteOutcome.UPDATED})


@dataclass(frozen=True, slots=True)
class UpstreamItem:
    """A part of a message, with the bytes if it is a file."""

    item: MessageItem
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class UpstreamMessage:
    """A message for the upstream. `key` identifies a repeat of the same message.

    `items` are its parts if they include files, for an upstream that reads these itself; the message contains what can
    be read of them here.
    """

    message: Message
    items: tuple[UpstreamItem, ...] = ()
    key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, str | int | float | bool | None])
    is_outside: bool = False
    """True if it is based on untrusted content: a page, a file, a tool's answer."""
    is_file_alone: bool = False
    """True if its text means nothing without its files, so that an upstream that cannot read these rejects it."""


@dataclass(frozen=True, slots=True)
class AddedMessages:
    """Outcome of messages: the ids of their memories if the upstream returns any, or that they are waiting."""

    ids: tuple[str, ...] = ()
    is_queued: bool = False


@dataclass(frozen=True, slots=True)
class FlushedSession:
    """Outcome of a flush: whether there was anything to extract from, and how many memories were extracted.

    `extracted` is None if the upstream has nothing to do for such a session.
    """

    extracted: bool | None
    memories: int = 0


@dataclass(frozen=True, slots=True)
class SearchWhere:
    """Scope of a search: one session, memories with a tag, or all of the owner's."""

    session: str | None = None
    tag: str | None = None
    sessions: tuple[str, ...] = ()
    """The sessions with the tag, for an upstream that has no tags."""


@dataclass(frozen=True, slots=True)
class FoundMemory:
    """A memory that the upstream returned, unmodified in `raw`."""

    id: str
    session: str | None
    text: str
    score: float
    metadata: Metadata
    raw: dict[str, Any]


class UpstreamMemory(Protocol):
    """A memory service that stores and finds messages. Raises Unreachable if it does not answer."""

    @property
    def reads_media(self) -> bool:
        """True if it may read images and sounds; it rejects those that it does not read."""
        ...

    async def add(self, owner: MemoryOwner, session: str, messages: Sequence[UpstreamMessage], /) -> AddedMessages:
        """Store the messages, in order."""
        ...

    async def flush(self, owner: MemoryOwner, session: str, /) -> FlushedSession:
        """Extract from what was added."""
        ...

    async def search(
        self, owner: MemoryOwner, query: str, search_where: SearchWhere, /, *, limit: int
    ) -> Sequence[FoundMemory]:
        """Return up to `limit` memories that answer `query`, best first."""
        ...

    async def session_of(self, owner: MemoryOwner, memory_id: str, /) -> str | None:
        """Return the session of a memory, None if it is unknown. Raises NotFound."""
        ...

    async def hide(self, owner: MemoryOwner, memory_id: str, /, *, undo: bool) -> None:
        """Exclude a memory from every search, or, with `undo`, include it again."""
        ...

    async def erase(self, owner: MemoryOwner, memory_ids: Sequence[str], /) -> int:
        """Permanently remove memories; return their number. Raises Unsupported if it cannot."""
        ...

    async def healthy(self) -> bool:
        """Return whether it answers, and is not paused after repeated failures."""
        ...

    async def resume(self) -> None:
        """End the pause."""
        ...


class EmbeddedUpstream:
    """A runtime in this process: additions are found by the next search, and an erasure leaves no byte."""

    def __init__(self, runtime: MemoryRuntime, /) -> None:
        self._runtime = runtime

    @property
    def reads_media(self) -> bool:
        return False

    async def add(self, owner: MemoryOwner, session: str, messages: Sequence[UpstreamMessage], /) -> AddedMessages:
        scope = _session_scope(owner, session)
        turns = [
            TurnDraft(
                messages=(item.message,),
                host_id=item.key,
                tags=item.tags,
                metadata=item.metadata,
                external_content_used=item.is_outside or session.startswith(RESOURCE),
            )
            for item in messages
        ]
        ids: list[str] = []
        for start in range(0, len(turns), limits.TURNS_PER_COMMIT):
            write = TranscriptWrite(turns=tuple(turns[start : start + limits.TURNS_PER_COMMIT]))
            report = await self._runtime.write(MemoryWriteRequest(scope=scope, write=write))
            ids += [decision.id or "" for decision in report.decisions]
        return AddedMessages(tuple(ids))

    async def flush(self, owner: MemoryOwner, session: str, /) -> FlushedSession:
        """Maintain a chat's new turns. Added text is found at once; a resource's text is not the user's words."""
        if not session.startswith(CHAT):
            return FlushedSession(extracted=None)
        scope = _session_scope(owner, session)
        turns = memories = 0
        while True:
            report = await self._runtime.maintain(MemoryMaintainRequest(scope=scope))
            turns += report.turns
            memories += sum(decision.outcome in WRITTEN_OUTCOMES for decision in report.decisions)
            # A pass without turns made no progress, and the next would make none either.
            if not report.has_more or not report.turns:
                return FlushedSession(extracted=turns > 0, memories=memories)

    async def search(
        self, owner: MemoryOwner, query: str, search_where: SearchWhere, /, *, limit: int
    ) -> Sequence[FoundMemory]:
        filters = RecallFilters(
            planes=(RecallPlane.TRANSCRIPT, RecallPlane.LONG_TERM),
            conversations=(search_where.session,) if search_where.session is not None else (),
            tags_any=(search_where.tag,) if search_where.tag is not None else (),
        )
        request = MemoryRecallRequest(scope=Scope(space=owner.space), query=query, limit=limit, filters=filters)
        hits = (await self._runtime.recall(request)).hits
        sessions = {name: _memory_session(owner, name) for name in {hit.conversation for hit in hits}}
        return [_found_memory(hit, sessions[hit.conversation]) for hit in hits]

    async def beneath(
        self, owner: MemoryOwner, query: str, search_where: SearchWhere, /, *, limit: int
    ) -> dict[str, float]:
        """Return the keys of overrides over memories that answer `query` and are hidden by them, with their scores."""
        return await covered_overrides(
            self._runtime.context, owner.space, query, session=search_where.session, limit=limit
        )

    async def find_memory(self, owner: MemoryOwner, memory_id: str, /, *, score: float) -> FoundMemory | None:
        """Return a memory as search would have found it, hidden or not; None if there is none."""
        try:
            hit = await self._runtime.get(MemoryGetRequest(scope=Scope(space=owner.space), id=memory_id))
        except NotFound:
            return None
        return _found_memory(hit.model_copy(update={"score": score}), _memory_session(owner, hit.conversation))

    async def session_of(self, owner: MemoryOwner, memory_id: str, /) -> str | None:
        hit = await self._runtime.get(MemoryGetRequest(scope=Scope(space=owner.space), id=memory_id))
        return _memory_session(owner, hit.conversation)

    async def hide(self, owner: MemoryOwner, memory_id: str, /, *, undo: bool) -> None:
        scope = Scope(space=owner.space)
        report = await self._runtime.forget(MemoryForgetRequest(scope=scope, ids=(memory_id,), undo=undo))
        if report.decisions[0].outcome is ControlOutcome.NOT_FOUND:
            raise NotFound(what="memory", name=memory_id)

    async def erase(self, owner: MemoryOwner, memory_ids: Sequence[str], /) -> int:
        return await erase_many(self._runtime.context, Scope(space=owner.space), memory_ids)

    async def erase_session(self, owner: MemoryOwner, session: str, /) -> int:
        """Permanently remove everything of a session; return the number of memories.

        Memories that an interrupted erasure emptied are removed too, so that they can be added again.
        """
        ctx = self._runtime.context
        record = await ctx.spaces.find(owner.space)
        if record is None:
            return 0
        prefix = f"{record.conversation_tag(_session_scope(owner, session).conversation_key)}."
        turns = store.scan_documents(ctx.store, owner.space, TURNS, prefix=prefix)
        return await self.erase(owner, [memory_id async for turn in turns for memory_id in _messages_of(turn)])

    async def healthy(self) -> bool:
        await self._runtime.context.store.spaces(limit=1)
        return True

    async def resume(self) -> None:
        """Do nothing: it is never paused."""


def _session_scope(owner: MemoryOwner, session: str) -> Scope:
    return Scope(space=owner.space, app=owner.app, project=owner.project, conversation=session)


def _messages_of(document: Document) -> list[str]:
    count = len(Turn.from_bytes(document.body).messages)
    return [message_id(TurnId(document.ref.key), part) for part in range(count)]


def _memory_session(owner: MemoryOwner, conversation: str | None) -> str:
    """Return a memory's session: its own, or the user's corrections if it has none.

    So are beliefs, which belong to no single chat, and text of other transports.
    """
    try:
        return str(names.owned_session(conversation or "", owner))
    except (InvalidInput, PermissionRefused):
        return names.memory_edit(owner.user)


def _found_memory(hit: RecallHit, session: str) -> FoundMemory:
    raw = hit.model_dump(mode="json", exclude_defaults=True)
    return FoundMemory(hit.id, session, hit.text, hit.score, hit.metadata, raw)
