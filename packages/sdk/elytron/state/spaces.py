"""State of spaces in this runtime: records, conversation heads, last blocks, uses of facts, and queues of changes.

Every operation begins with a space record. Cached heads let appends skip the read before each. A change that lost a
race is retried with growing delay, a bounded number of times, in one queue per document.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from itertools import accumulate
from time import monotonic
from types import TracebackType
from typing import Any, Final, NamedTuple, ParamSpec, Self, TypeVar

from elytron_core import limits
from elytron_core.clock import Clock, Instant
from elytron_core.errors import (
    Conflict,
    ElytronError,
    InvalidInput,
    SpaceIncomplete,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
)
from elytron_core.ids import ConversationTag, FactId, IdSource, SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.planes import transcript
from elytron_core.planes.space import KEY, SPACE, SpaceRecord
from elytron_core.ports.store import (
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
    Store,
    scan_documents,
)
from elytron_core.scope import ConversationKey, Scope

ArgumentsP = ParamSpec("ArgumentsP")
ResultT = TypeVar("ResultT")
REF = DocumentRef(SPACE, KEY)
FILLING = DocumentRef(SPACE, "1")
"""Mark of a space that is or was partly restored or copied in several batches: no other writer begins here."""
ERASING = DocumentRef(SPACE, "2")
"""Marks an erasure in progress: if its process dies, the next process that reads the space finishes it."""
MARK: Final = "the mark of an erasure that began"
"""Named if `ERASING` cannot be read."""
SPACES_KEPT = 65_536
FRESH_S = 0.005
"""How long a record compared with a store of many nodes is not compared again."""


_ENDS: ContextVar[SpaceId | None] = ContextVar("elytron_ends", default=None)
"""The space in which this task finishes an erasure."""


class _CachedRecord(NamedTuple):
    """A record, its bytes, and when they were last read from the store."""

    record: SpaceRecord
    body: bytes
    seen_at: float


class SpaceRecords:
    """Finds and creates space records, and caches up to `SPACES_KEPT`.

    Over a store of many nodes, the cache is compared with the store: a space that another node erased as a whole may
    have been recreated, with another secret and a record of the same revision.
    """

    def __init__(self, store: Store, clock: Clock, ids: IdSource, /) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._has_nodes = store.capabilities.nodes
        self._cache: LruCache[SpaceId, _CachedRecord] = LruCache(SPACES_KEPT)
        self._erasing: Counter[SpaceId] = Counter()
        self._ending: dict[SpaceId, asyncio.Event] = {}
        self._marks_seen: dict[SpaceId, Instant] = {}
        """When other processes' marks were found in spaces that were read before."""
        self.ender: Callable[[SpaceId], Awaitable[None]] | None = None
        """Finishes the interrupted erasures of a space."""

    async def find(self, space: SpaceId, /) -> SpaceRecord | None:
        """Return the record of `space`, or None if nothing was ever written.

        Interrupted erasures are finished first, so that nobody sees them undone.
        """
        if space in self._ending and _ENDS.get() != space:
            await self._ending[space].wait()
        cached_record = self._cache.get(space)
        is_fresh = cached_record is not None and (not self._has_nodes or monotonic() - cached_record.seen_at < FRESH_S)
        if cached_record is not None and is_fresh and not self._is_overdue(space):
            return cached_record.record
        document, erasing = await self._store.get(space, (REF, ERASING))
        if document is None:
            self.forget(space)
            return None
        same = self._cache.get(space)
        if same is not None and same.body == document.body:
            record = same.record
        else:
            record = SpaceRecord.from_bytes(document.body)
        self._cache[space] = _CachedRecord(record, document.body, monotonic())
        if erasing is None:
            self._marks_seen.pop(space, None)
        elif space not in self._erasing and _ENDS.get() != space:
            # A later mark may belong to a live process, which gets its time.
            if space in self._ending:
                return await self.find(space)  # another call began to finish it during the read
            if cached_record is None or self._is_overdue(space):
                await self._end(space)
            else:
                self._marks_seen.setdefault(space, self._clock.now())
        return record

    def meet_mark(self, space: SpaceId, /) -> None:
        """Record that another process may have begun or ended an erasure, so that the mark is checked after a while."""
        self._marks_seen[space] = self._clock.now()

    def _is_overdue(self, space: SpaceId) -> bool:
        """Return whether a mark was found so long ago that its process is presumed dead."""
        mark_time = self._marks_seen.get(space)
        return mark_time is not None and self._clock.now() - mark_time >= limits.ERASING_MS

    @contextmanager
    def erasing(self, space: SpaceId, /) -> Generator[None]:
        """Run an erasure in the block, which itself finishes what it marks as begun."""
        self._erasing[space] += 1
        try:
            yield
        finally:
            self._erasing[space] -= 1
            if not self._erasing[space]:
                del self._erasing[space]

    async def _end(self, space: SpaceId) -> None:
        if self.ender is None:
            return
        self._marks_seen.pop(space, None)
        over = self._ending[space] = asyncio.Event()
        token = _ENDS.set(space)
        try:
            # A read-only store is still read: whoever opens it for writing finishes the erasure.
            with suppress(StoreReadOnly, StoreFull):
                await self.ender(space)
        except InvalidInput as error:
            self.forget(space)
            raise StoreCorrupt(what=MARK) from error
        except BaseException:
            self.forget(space)
            raise
        finally:
            _ENDS.reset(token)
            del self._ending[space]
            over.set()

    async def settle(self, space: SpaceId, /) -> None:
        """Finish the interrupted erasures of `space`, before anything is answered from it.

        Raises StoreCorrupt if it is not known what they were of. Other errors are for what reads the space then.
        """
        if space in self._cache and space not in self._ending and not self._is_overdue(space):
            return
        try:
            await self.find(space)
        except StoreCorrupt as error:
            if error.what == MARK:
                raise
        except ElytronError:
            return

    async def found_or_new(self, space: SpaceId, /) -> tuple[SpaceRecord, bool]:
        """Return the record to write with, and whether the write must include it (see `opening_changes`).

        Raises SpaceIncomplete in a space that holds a part of what it is being filled with.
        """
        record = await self.find(space)
        if record is not None:
            return record, False
        (mark,) = await self._store.get(space, (FILLING,))
        # Between the two reads the filling may have ended, with its record.
        if mark is not None and await self.find(space) is None:
            raise SpaceIncomplete(space=space)
        return SpaceRecord(secret=self._ids.secret(32).hex(), created_at=self._clock.now()), True

    def forget(self, space: SpaceId, /) -> None:
        """Read the record again at its next use."""
        self._cache.pop(space, None)
        self._marks_seen.pop(space, None)


def opening_changes(
    record: SpaceRecord, /, *, is_new: bool
) -> tuple[tuple[PutChange, ...], tuple[RequireRevision, ...], tuple[EntryDraft, ...]]:
    """Return the changes that tie a write's batch to this space and to no successor of it.

    A new space is created by its first write, unless it is being filled; later ones require that the record that keyed
    their tags is still stored.
    """
    if not is_new:
        return (), (RequireRevision(REF, 1),), ()
    body = record.to_bytes()
    return (
        (PutChange(REF, body, 0),),
        (RequireRevision(FILLING, 0),),
        (EntryDraft(JournalAction.LIFECYCLE, REF, record.digest(body)),),
    )


_DocumentPlace = tuple[SpaceId, DocumentRef]

RACES = 64
_STEP_ASIDE_S = 0.001
_STEPS_MAX = 16


class LostRaces:
    """The races that one change has lost."""

    def __init__(self) -> None:
        self._lost = 0

    async def lost(self, conflict: Conflict, /) -> None:
        """Wait until it is time to read and plan again. Raises `conflict` after `RACES`, and if a retry is useless."""
        self._lost += 1
        if not conflict.retryable or self._lost >= RACES:
            raise conflict
        if self._lost > 1:
            # A change that reads again at once may do so after each running group of others, and lose again.
            await asyncio.sleep(_STEP_ASIDE_S * min(self._lost, _STEPS_MAX))


def retry_lost_races(
    change: Callable[ArgumentsP, Awaitable[ResultT]],
) -> Callable[ArgumentsP, Coroutine[Any, Any, ResultT]]:
    """Repeat a change that reads, plans and commits if another commit came first. Raises Conflict in the end."""

    @wraps(change)
    async def made(*args: ArgumentsP.args, **kwargs: ArgumentsP.kwargs) -> ResultT:
        race = LostRaces()
        while True:
            try:
                return await change(*args, **kwargs)
            except Conflict as conflict:
                await race.lost(conflict)

    return made


class _ChangeLine(asyncio.Lock):
    """The first in line proceeds; the others wait in order of arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 0


class _DocumentHold(NamedTuple):
    """Documents whose changes wait until a long one is `over`."""

    space: SpaceId
    refs: Collection[DocumentRef]
    over: asyncio.Event


class ChangeLines:
    """Queues of this runtime's changes of one document, once one of them has lost a race for it.

    No change waits before: a single writer is not slowed down. Races with other processes are unaffected.
    """

    def __init__(self) -> None:
        self._lines: dict[_DocumentPlace, _ChangeLine] = {}
        self._holds: list[_DocumentHold] = []

    def race(self, space: SpaceId, /) -> "LinedRace":
        """Return the race of a change in `space`, to be held open until the change is made."""
        return LinedRace(self._lines, self._holds, space)

    @contextmanager
    def hold_documents(self, space: SpaceId, refs: Collection[DocumentRef], /) -> Generator[None]:
        """Delay changes of the documents at `refs`, for one that takes too long to win a race against many."""
        hold = _DocumentHold(space, refs, asyncio.Event())
        self._holds.append(hold)
        try:
            yield
        finally:
            self._holds.remove(hold)
            hold.over.set()


class LinedRace:
    """The race of one change, which enters the queue if it is lost, and leaves it at its end."""

    def __init__(
        self, lines: dict[_DocumentPlace, _ChangeLine], holds: Sequence[_DocumentHold], space: SpaceId, /
    ) -> None:
        self._lines = lines
        self._holds = holds
        self._space = space
        self._race = LostRaces()
        self._joined: _DocumentPlace | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._joined is not None:
            self._lines[self._joined].release()
            self._leave(self._joined)

    async def held_back(self, about: DocumentRef, /) -> bool:
        """Wait while `about` is held; return whether it was, so that everything is read again. Otherwise does not
        wait."""
        overs = [hold.over for hold in self._holds if hold.space == self._space and about in hold.refs]
        for over in overs:
            await over.wait()
        return bool(overs)

    async def waited(self, about: DocumentRef, /) -> bool:
        """Let those in the queue for `about` go first; return whether there were any, so that everything is read
        again."""
        if await self.held_back(about):
            return True
        place = self._space, about
        if self._joined is not None or place not in self._lines:
            return False
        await self._join(place)
        return True

    async def lost(self, conflict: Conflict, about: DocumentRef | None, /) -> None:
        """Wait until it is time to read and plan again: first in the queue for `about`, if named. Raises its error."""
        await self._race.lost(conflict)
        if self._joined is None and about is not None:
            await self._join((self._space, about))

    async def _join(self, place: _DocumentPlace) -> None:
        line = self._lines.setdefault(place, _ChangeLine())
        line.length += 1
        try:
            await line.acquire()
        except BaseException:
            self._leave(place)
            raise
        self._joined = place

    def _leave(self, place: _DocumentPlace) -> None:
        self._lines[place].length -= 1
        if not self._lines[place].length:
            del self._lines[place]


HEADS_KEPT = 10_000


class HeadLine:
    """Heads built one on another since one was read; a Conflict of one invalidates all after it."""


class KnownHead(NamedTuple):
    """A head to build on, its revision, and what a batch must require to be built on this very head."""

    head: transcript.Conversation
    revision: int
    line: HeadLine
    requires: tuple[RequireRevision, ...] = ()


class GrownHead(NamedTuple):
    """A head after a batch, at the revision that it will have. Its turns begin at sequence `first`."""

    tag: ConversationTag
    head: transcript.Conversation
    revision: int
    first: int
    line: HeadLine


class HeadCache:
    """A bounded cache of heads with the revisions that they will have when running batches are committed.

    The cache lets many writers append to one conversation in one group of commits. It may be wrong: a batch names the
    revision that it builds on, and after a Conflict its writer drops the line of heads that contained its own, and
    reads again. The other writers of that line lose too; they keep the new line that the first of them has begun. The
    revision alone is not enough: if the earlier write was rejected, another writer's may be stored at the same
    revision. So a batch also requires the last turn of the head that it builds on.

    The other writer may even have stored as many turns as the rejected write had. Then a batch built on the rejected
    write is accepted on top of the other: its sequences are right, but its head lacks the speakers, times and title of
    the other's turns. So a reader of a head after such a broken line reads the turns from there on, until a head made
    in this way is committed.
    """

    def __init__(self, store: Store, /) -> None:
        self._store = store
        self._heads: LruCache[tuple[SpaceId, ConversationTag], KnownHead] = LruCache(HEADS_KEPT)
        self._unmet: dict[tuple[SpaceId, ConversationTag], int] = {}
        """For broken lines that continued: the first sequence whose turns the stored head may lack."""
        self._refused: set[tuple[SpaceId, ConversationTag]] = set()
        """Conversations with a rejected write: their stored head may be behind their turns, after a repair."""

    async def of(self, space: SpaceId, tag: ConversationTag, key: ConversationKey, /) -> KnownHead:
        """Return the head of a conversation and its revision; a new one at revision 0 if there is none."""
        cached_head = self._heads.get((space, tag))
        if cached_head is not None:
            return cached_head
        stored_head = await read_head(self._store, space, tag)
        if stored_head is not None:
            # An erasure of the last turn removed the names.
            head = stored_head[0].model_copy(update=key._asdict())
            stored_head = await self._whole(space, tag, head), stored_head[1]
        if (space, tag) in self._refused:
            self._refused.discard((space, tag))
            head, revision = stored_head or (_fresh_head(key), 0)
            stored_head = await self._caught_up(space, tag, head), revision
        # Another writer may have gone ahead while this one was reading.
        cached_head = self._heads.get((space, tag))
        if cached_head is not None:
            return cached_head
        if stored_head is None:
            return KnownHead(_fresh_head(key), 0, HeadLine())
        return KnownHead(*stored_head, HeadLine())

    async def _whole(
        self, space: SpaceId, tag: ConversationTag, head: transcript.Conversation
    ) -> transcript.Conversation:
        """Return `head` updated with all turns."""
        first = self._unmet.get((space, tag), head.next_sequence)
        for start in range(first, head.next_sequence, limits.SCAN_MAX):
            turns = await self._turns(space, tag, start, min(start + limits.SCAN_MAX, head.next_sequence))
            head = transcript.note_turns(head, list(turns.values()))
        return head

    async def _caught_up(
        self, space: SpaceId, tag: ConversationTag, head: transcript.Conversation
    ) -> transcript.Conversation:
        """Return `head` with the turns stored after its end: damage removed newer heads, and left the turns."""
        while turns := await self._turns(space, tag, head.next_sequence, head.next_sequence + limits.SCAN_MAX):
            head = transcript.append_turns(head, list(turns.values()))
            head = head.model_copy(update={"next_sequence": max(turns) + 1})
        return head

    async def _turns(self, space: SpaceId, tag: ConversationTag, first: int, end: int) -> dict[int, transcript.Turn]:
        """Return the stored turns from sequence `first` to before `end`."""
        page = range(first, end)
        refs = [DocumentRef(transcript.TURNS, transcript.turn_id(tag, sequence)) for sequence in page]
        numbered_documents = zip(page, await self._store.get(space, refs), strict=True)
        return {
            at: transcript.Turn.from_bytes(document.body) for at, document in numbered_documents if document is not None
        }

    def expect(self, space: SpaceId, grown: GrownHead, /) -> None:
        """Assume that `grown` will be stored, and build on it."""
        tag, head, revision, _, line = grown
        last = DocumentRef(transcript.TURNS, transcript.turn_id(tag, head.next_sequence - 1))
        self._heads[space, tag] = KnownHead(head, revision, line, (RequireRevision(last, 1),))

    def drop(self, space: SpaceId, grown: GrownHead, /) -> None:
        """Stop building on `grown`: read the conversation's head again at its next use."""
        place = space, grown.tag
        self._refused.add(place)
        cached_head = self._heads.get(place)
        if cached_head is not None and cached_head.line is grown.line:
            del self._heads[place]
            if cached_head.revision > grown.revision:
                self._unmet[place] = min(self._unmet.get(place, grown.first), grown.first)

    def confirm(self, space: SpaceId, grown: GrownHead, /) -> None:
        """Record that `grown` was committed: if its line is unbroken, it contains all turns."""
        place = space, grown.tag
        if (
            place in self._unmet
            and (cached_head := self._heads.get(place)) is not None
            and cached_head.line is grown.line
        ):
            del self._unmet[place]

    def drop_space(self, space: SpaceId, /) -> None:
        """Read every head of `space` again at next use."""
        for cache in (self._heads, self._unmet):
            for key in [key for key in cache if key[0] == space]:
                del cache[key]
        self._refused = {place for place in self._refused if place[0] != space}


def _fresh_head(key: ConversationKey) -> transcript.Conversation:
    return transcript.Conversation(channel=key.channel, conversation=key.conversation)


async def read_head(
    store: Store, space: SpaceId, tag: ConversationTag, /
) -> tuple[transcript.Conversation, int] | None:
    """Return a conversation's stored head with its revision."""
    (document,) = await store.get(space, (DocumentRef(transcript.CONVERSATIONS, tag),))
    if document is None:
        return None
    return transcript.Conversation.from_bytes(document.body), document.revision


async def read_heads(store: Store, space: SpaceId, /) -> AsyncIterator[transcript.Conversation]:
    """Yield the stored head of every conversation of `space` that has a turn.

    One whose turns were all erased keeps its count of numbers, and is shown nowhere.
    """
    async for document in scan_documents(store, space, transcript.CONVERSATIONS):
        head = transcript.Conversation.from_bytes(document.body)
        if head.turns:
            yield head


CONVERSATIONS_KEPT = 1_024


class LastBlocks:
    """The running hashes of each conversation's last block, line by line; no word of it."""

    def __init__(self) -> None:
        self._hashes: LruCache[tuple[SpaceId, ConversationKey], tuple[int, ...]] = LruCache(CONVERSATIONS_KEPT)

    def unchanged_bytes(self, space: SpaceId, key: ConversationKey, block: str, /) -> int:
        """Return how many leading bytes of `block`, in whole lines, the previous one also had; remember `block`."""
        lines = block.splitlines(keepends=True)
        hashes = tuple(accumulate((hash(line) for line in lines), lambda before, line: hash((before, line))))
        before = self._hashes.get((space, key), ())
        self._hashes[space, key] = hashes
        same = 0
        for line, new, old in zip(lines, hashes, before, strict=False):
            if new != old:
                break
            same += len(line.encode())
        return same


_ScopePlace = tuple[SpaceId, str | None, str]


class LastConversations:
    """The last conversation of each space, agent and channel; beyond the limit the oldest is dropped."""

    def __init__(self) -> None:
        self._conversations: LruCache[_ScopePlace, str] = LruCache(limits.LAST_CONVERSATIONS)

    def note(self, scope: Scope, /) -> None:
        """Remember that a turn was committed to the conversation of `scope`."""
        self._conversations[_scope_place(scope)] = scope.conversation_key.conversation

    def of(self, scope: Scope, /) -> str | None:
        """Return the last conversation of the subject of `scope`."""
        return self._conversations.get(_scope_place(scope))

    def forget(self, space: SpaceId, /) -> None:
        """Clear everything remembered of `space`."""
        for place in [place for place in self._conversations if place[0] == space]:
            del self._conversations[place]


def _scope_place(scope: Scope) -> _ScopePlace:
    return scope.space, scope.agent, scope.channel


class FactUses:
    """The last uses of facts in this runtime that are not stored yet, the newest of all spaces."""

    def __init__(self) -> None:
        self._pending: dict[tuple[SpaceId, FactId], Instant] = {}

    def note(self, space: SpaceId, facts: Iterable[str], /, *, at: Instant) -> None:
        """Remember that these facts were shown at `at`."""
        for fact in facts:
            key = space, FactId(fact)
            self._pending.pop(key, None)
            self._pending[key] = at
        while len(self._pending) > limits.FACT_USES_KEPT:
            del self._pending[next(iter(self._pending))]

    def spaces(self) -> tuple[SpaceId, ...]:
        """Return the spaces with remembered uses."""
        return tuple(dict.fromkeys(space for space, _ in self._pending))

    def of(self, space: SpaceId, /) -> dict[FactId, Instant]:
        """Return the remembered uses of a space."""
        return {fact: at for (where, fact), at in self._pending.items() if where == space}

    def forget(self, space: SpaceId, /) -> None:
        """Clear everything remembered of `space`."""
        self.drop(space, [fact for where, fact in self._pending if where == space])

    def drop(self, space: SpaceId, facts: Iterable[FactId], /) -> None:
        """Drop what has been stored."""
        for fact in facts:
            self._pending.pop((space, fact), None)
