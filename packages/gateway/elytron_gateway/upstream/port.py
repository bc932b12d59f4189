"""The gateway's upstream: the port to a memory service, and the runtime in this process as one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from elytron.erasure.removal import erase_many
from elytron.recall.retrieval import covered
from elytron.runtime import MemoryRuntime
from elytron_core import limits
from elytron_core.contracts.control import ControlOutcome, MemoryForgetRequest, MemoryGetRequest
from elytron_core.contracts.maintenance import MemoryMaintainRequest
from elytron_core.contracts.recall import MemoryRecallRequest, Plane, RecallFilters, RecallHit
from elytron_core.contracts.transcript import MemoryWriteRequest, Outcome, TranscriptWrite, TurnDraft
from elytron_core.errors import InvalidInput, NotFound, PermissionRefused
from elytron_core.ids import TurnId
from elytron_core.planes.gateway import MessageItem
from elytron_core.planes.transcript import TURNS, Message, Metadata, Turn, message_id
from elytron_core.ports import store
from elytron_core.ports.store import Document
from elytron_core.scope import Scope
from elytron_gateway import names
from elytron_gateway.names import Owner

CHAT = "chat:"
RESOURCE = "resource:"
DRAWN = frozenset({Outcome.STORED, Outcome.UPDATED})


@dataclass(frozen=True, slots=True)
class Item:
    """A part of a message, with the bytes if it is a file."""

    said: MessageItem
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Told:
    """A message for the upstream. `key` makes a repeat of the same message one.

    `items` are its parts if there are files among them, for an upstream that reads these itself; the message
    has what can be read of them here.
    """

    message: Message
    items: tuple[Item, ...] = ()
    key: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict[str, str | int | float | bool | None])
    is_outside: bool = False
    """True if it rests on untrusted content: a page, a file, a tool's answer."""
    is_file_alone: bool = False
    """True if its words mean nothing without its files, so that an upstream that cannot read these refuses it."""


@dataclass(frozen=True, slots=True)
class Added:
    """Outcome of messages: the ids of their memories if the upstream has any, or that they wait for it."""

    ids: tuple[str, ...] = ()
    is_queued: bool = False


@dataclass(frozen=True, slots=True)
class Flushed:
    """Outcome of a flush: whether there was anything to extract from, and how many memories were drawn from it.

    `extracted` is None if the upstream has nothing to do for such a session.
    """

    extracted: bool | None
    memories: int = 0


@dataclass(frozen=True, slots=True)
class Where:
    """Scope of a search: one session, memories with a tag, or all of the owner's."""

    session: str | None = None
    tag: str | None = None
    sessions: tuple[str, ...] = ()
    """The sessions with the tag, for an upstream that knows no tags."""


@dataclass(frozen=True, slots=True)
class Found:
    """A memory that the upstream gave, as it said it in `raw`."""

    id: str
    session: str | None
    text: str
    score: float
    metadata: Metadata
    raw: dict[str, Any]


class Upstream(Protocol):
    """A memory service that keeps messages and finds them. Raises Unreachable if it does not answer."""

    @property
    def reads_media(self) -> bool:
        """True if it may read pictures and sounds; it refuses one that it does not read."""
        ...

    async def add(self, owner: Owner, session: str, told: Sequence[Told], /) -> Added:
        """Keep the messages, in their order."""
        ...

    async def flush(self, owner: Owner, session: str, /) -> Flushed:
        """Extract from what was added."""
        ...

    async def search(self, owner: Owner, query: str, where: Where, /, *, limit: int) -> Sequence[Found]:
        """Return up to `limit` memories that answer `query`, best first."""
        ...

    async def session_of(self, owner: Owner, memory_id: str, /) -> str | None:
        """Return the session of a memory, None if it is unknown. Raises NotFound."""
        ...

    async def hide(self, owner: Owner, memory_id: str, /, *, undo: bool) -> None:
        """Keep a memory out of every search, or, with `undo`, let it back in."""
        ...

    async def erase(self, owner: Owner, memory_ids: Sequence[str], /) -> int:
        """Remove memories for good; return how many there were. Raises Unsupported where it cannot."""
        ...

    async def healthy(self) -> bool:
        """Return whether it answers, and is not paused after repeated failures."""
        ...

    async def resume(self) -> None:
        """Leave it alone no longer."""
        ...


class EmbeddedUpstream:
    """A runtime in this process: what was added is found by the next search, and an erasure leaves no byte."""

    def __init__(self, runtime: MemoryRuntime, /) -> None:
        self._runtime = runtime

    @property
    def reads_media(self) -> bool:
        return False

    async def add(self, owner: Owner, session: str, told: Sequence[Told], /) -> Added:
        scope = _scope(owner, session)
        turns = [
            TurnDraft(
                messages=(item.message,),
                host_id=item.key,
                tags=item.tags,
                metadata=item.metadata,
                external_content_used=item.is_outside or session.startswith(RESOURCE),
            )
            for item in told
        ]
        ids: list[str] = []
        for start in range(0, len(turns), limits.TURNS_PER_COMMIT):
            write = TranscriptWrite(turns=tuple(turns[start : start + limits.TURNS_PER_COMMIT]))
            report = await self._runtime.write(MemoryWriteRequest(scope=scope, write=write))
            ids += [decision.id or "" for decision in report.decisions]
        return Added(tuple(ids))

    async def flush(self, owner: Owner, session: str, /) -> Flushed:
        """Maintain a chat's new turns. Added text is found at once; a resource's text is not the user's words."""
        if not session.startswith(CHAT):
            return Flushed(extracted=None)
        scope = _scope(owner, session)
        turns = memories = 0
        while True:
            report = await self._runtime.maintain(MemoryMaintainRequest(scope=scope))
            turns += report.turns
            memories += sum(decision.outcome in DRAWN for decision in report.decisions)
            if not report.has_more or not report.turns:
                return Flushed(extracted=turns > 0, memories=memories)

    async def search(self, owner: Owner, query: str, where: Where, /, *, limit: int) -> Sequence[Found]:
        filters = RecallFilters(
            planes=(Plane.TRANSCRIPT, Plane.LONG_TERM),
            conversations=(where.session,) if where.session is not None else (),
            tags_any=(where.tag,) if where.tag is not None else (),
        )
        request = MemoryRecallRequest(scope=Scope(space=owner.space), query=query, limit=limit, filters=filters)
        hits = (await self._runtime.recall(request)).hits
        sessions = {name: _session(owner, name) for name in {hit.conversation for hit in hits}}
        return [_found(hit, sessions[hit.conversation]) for hit in hits]

    async def beneath(self, owner: Owner, query: str, where: Where, /, *, limit: int) -> dict[str, float]:
        """Return the keys of overrides over memories that answer `query` and are hidden by them, with their scores."""
        return await covered(self._runtime.context, owner.space, query, session=where.session, limit=limit)

    async def shown(self, owner: Owner, memory_id: str, /, *, score: float) -> Found | None:
        """Return a memory as search would have found it, hidden or not; None if there is none."""
        try:
            hit = await self._runtime.get(MemoryGetRequest(scope=Scope(space=owner.space), id=memory_id))
        except NotFound:
            return None
        return _found(hit.model_copy(update={"score": score}), _session(owner, hit.conversation))

    async def session_of(self, owner: Owner, memory_id: str, /) -> str | None:
        hit = await self._runtime.get(MemoryGetRequest(scope=Scope(space=owner.space), id=memory_id))
        return _session(owner, hit.conversation)

    async def hide(self, owner: Owner, memory_id: str, /, *, undo: bool) -> None:
        scope = Scope(space=owner.space)
        report = await self._runtime.forget(MemoryForgetRequest(scope=scope, ids=(memory_id,), undo=undo))
        if report.decisions[0].outcome is ControlOutcome.NOT_FOUND:
            raise NotFound(what="memory", name=memory_id)

    async def erase(self, owner: Owner, memory_ids: Sequence[str], /) -> int:
        return await erase_many(self._runtime.context, Scope(space=owner.space), memory_ids)

    async def erase_session(self, owner: Owner, session: str, /) -> int:
        """Remove everything of a session for good; return how many memories there were.

        Memories that an interrupted erasure emptied are removed too, so that they can be added again.
        """
        ctx = self._runtime.context
        record = await ctx.spaces.find(owner.space)
        if record is None:
            return 0
        prefix = f"{record.conversation_tag(_scope(owner, session).conversation_key)}."
        turns = store.documents(ctx.store, owner.space, TURNS, prefix=prefix)
        return await self.erase(owner, [memory_id async for turn in turns for memory_id in _messages_of(turn)])

    async def healthy(self) -> bool:
        await self._runtime.context.store.spaces(limit=1)
        return True

    async def resume(self) -> None:
        """Do nothing: it is never left alone."""


def _scope(owner: Owner, session: str) -> Scope:
    return Scope(space=owner.space, app=owner.app, project=owner.project, conversation=session)


def _messages_of(document: Document) -> list[str]:
    count = len(Turn.from_bytes(document.body).messages)
    return [message_id(TurnId(document.ref.key), part) for part in range(count)]


def _session(owner: Owner, conversation: str | None) -> str:
    """Return a memory's session: its own, or the user's corrections if it has none.

    So are beliefs, which belong to no single chat, and text of other transports.
    """
    try:
        return str(names.owned(conversation or "", owner))
    except (InvalidInput, PermissionRefused):
        return names.memory_edit(owner.user)


def _found(hit: RecallHit, session: str) -> Found:
    raw = hit.model_dump(mode="json", exclude_defaults=True)
    return Found(hit.id, session, hit.text, hit.score, hit.metadata, raw)
