"""Conversation heads that this runtime has read or is writing, so that appends need no read before each."""

from collections.abc import AsyncIterator, Iterable
from itertools import accumulate
from typing import NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import ConversationTag, FactId, SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.planes import transcript
from elytron_core.ports.store import DocumentRef, RequireRevision, Store, scan_documents
from elytron_core.scope import ConversationKey, Scope

HEADS_KEPT = 10_000


class HeadLine:
    """Heads that were built one on another since one was read; a Conflict of one breaks all behind it."""


class KnownHead(NamedTuple):
    """A head to build on, its revision, and what a batch must demand so that it is built on this very head."""

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
    reads again. The other writers of that line lose too; they keep the new line that the first of them has begun.
    The revision alone is not enough: if the write before was refused, another writer's may be stored at the same
    revision. So a batch also requires the last turn of the head that it builds on.

    The other writer may even have stored as many turns as the refused write had. Then a batch built on the refused
    write is accepted on top of the other: its numbers are right, but its head lacks the speakers, times and title
    of the other's turns. So a reader of a head behind such a broken line reads the turns from there on, until a
    head that was made in this way is committed.
    """

    def __init__(self, store: Store, /) -> None:
        self._store = store
        self._kept: LruCache[tuple[SpaceId, ConversationTag], KnownHead] = LruCache(HEADS_KEPT)
        self._unmet: dict[tuple[SpaceId, ConversationTag], int] = {}
        """For broken lines that went on: the first sequence whose turns the stored head may lack."""
        self._refused: set[tuple[SpaceId, ConversationTag]] = set()
        """Conversations with a refused write: their stored head may be behind their turns, after a repair."""

    async def of(self, space: SpaceId, tag: ConversationTag, key: ConversationKey, /) -> KnownHead:
        """Return the head of a conversation and its revision; a fresh one at revision 0 if there is none."""
        kept = self._kept.get((space, tag))
        if kept is not None:
            return kept
        found = await read_head(self._store, space, tag)
        if found is not None:
            found = await self._whole(space, tag, found[0]), found[1]
        if (space, tag) in self._refused:
            self._refused.discard((space, tag))
            head, revision = found or (_fresh_head(key), 0)
            found = await self._caught_up(space, tag, head), revision
        # Another writer may have gone ahead while this one was reading.
        kept = self._kept.get((space, tag))
        if kept is not None:
            return kept
        if found is None:
            return KnownHead(_fresh_head(key), 0, HeadLine())
        return KnownHead(*found, HeadLine())

    async def _whole(
        self, space: SpaceId, tag: ConversationTag, head: transcript.Conversation
    ) -> transcript.Conversation:
        """Return `head` with all turns met."""
        first = self._unmet.get((space, tag), head.next_sequence)
        for start in range(first, head.next_sequence, limits.SCAN_MAX):
            turns = await self._turns(space, tag, start, min(start + limits.SCAN_MAX, head.next_sequence))
            head = transcript.note_turns(head, list(turns.values()))
        return head

    async def _caught_up(
        self, space: SpaceId, tag: ConversationTag, head: transcript.Conversation
    ) -> transcript.Conversation:
        """Return `head` with the turns that are stored behind its end: damage took newer heads, and left the turns."""
        while turns := await self._turns(space, tag, head.next_sequence, head.next_sequence + limits.SCAN_MAX):
            head = transcript.append_turns(head, list(turns.values()))
            head = head.model_copy(update={"next_sequence": max(turns) + 1})
        return head

    async def _turns(self, space: SpaceId, tag: ConversationTag, first: int, end: int) -> dict[int, transcript.Turn]:
        """Return the stored turns from sequence `first` to before `end`."""
        page = range(first, end)
        refs = [DocumentRef(transcript.TURNS, transcript.turn_id(tag, sequence)) for sequence in page]
        found = zip(page, await self._store.get(space, refs), strict=True)
        return {at: transcript.Turn.from_bytes(document.body) for at, document in found if document is not None}

    def expect(self, space: SpaceId, grown: GrownHead, /) -> None:
        """Assume that `grown` will be stored, and build on it."""
        tag, head, revision, _, line = grown
        last = DocumentRef(transcript.TURNS, transcript.turn_id(tag, head.next_sequence - 1))
        self._kept[space, tag] = KnownHead(head, revision, line, (RequireRevision(last, 1),))

    def drop(self, space: SpaceId, grown: GrownHead, /) -> None:
        """Stop building on `grown`: read the conversation's head again at next use."""
        place = space, grown.tag
        self._refused.add(place)
        kept = self._kept.get(place)
        if kept is not None and kept.line is grown.line:
            del self._kept[place]
            if kept.revision > grown.revision:
                self._unmet[place] = min(self._unmet.get(place, grown.first), grown.first)

    def confirm(self, space: SpaceId, grown: GrownHead, /) -> None:
        """Note that `grown` was committed: if its line is unbroken, it contains all turns."""
        place = space, grown.tag
        if place in self._unmet and (kept := self._kept.get(place)) is not None and kept.line is grown.line:
            del self._unmet[place]

    def drop_space(self, space: SpaceId, /) -> None:
        """Read every head of `space` again at next use."""
        for kept in (self._kept, self._unmet):
            for key in [key for key in kept if key[0] == space]:
                del kept[key]
        self._refused = {place for place in self._refused if place[0] != space}


def _fresh_head(key: ConversationKey) -> transcript.Conversation:
    return transcript.Conversation(channel=key.channel, conversation=key.conversation)


async def read_head(
    store: Store, space: SpaceId, tag: ConversationTag, /
) -> tuple[transcript.Conversation, int] | None:
    """Return a conversation's head as stored, with its revision."""
    (document,) = await store.get(space, (DocumentRef(transcript.CONVERSATIONS, tag),))
    if document is None:
        return None
    return transcript.Conversation.from_bytes(document.body), document.revision


async def read_heads(store: Store, space: SpaceId, /) -> AsyncIterator[transcript.Conversation]:
    """Yield the head of every conversation of `space` that has a turn, as stored.

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
        self._known: LruCache[tuple[SpaceId, ConversationKey], tuple[int, ...]] = LruCache(CONVERSATIONS_KEPT)

    def unchanged_bytes(self, space: SpaceId, key: ConversationKey, block: str, /) -> int:
        """Return how many leading bytes of `block`, in whole lines, the last one had too; remember `block`."""
        lines = block.splitlines(keepends=True)
        hashes = tuple(accumulate((hash(line) for line in lines), lambda before, line: hash((before, line))))
        before = self._known.get((space, key), ())
        self._known[space, key] = hashes
        same = 0
        for line, new, old in zip(lines, hashes, before, strict=False):
            if new != old:
                break
            same += len(line.encode())
        return same


_Place = tuple[SpaceId, str | None, str]


class LastConversations:
    """The last conversation of each space, agent and channel; the oldest goes beyond the bound."""

    def __init__(self) -> None:
        self._known: LruCache[_Place, str] = LruCache(limits.LAST_CONVERSATIONS)

    def note(self, scope: Scope, /) -> None:
        """Remember that a turn was committed to the conversation of `scope`."""
        self._known[_scope_place(scope)] = scope.conversation_key.conversation

    def of(self, scope: Scope, /) -> str | None:
        """Return the last conversation of the subject of `scope`."""
        return self._known.get(_scope_place(scope))

    def forget(self, space: SpaceId, /) -> None:
        """Let go of all that is remembered of `space`."""
        for place in [place for place in self._known if place[0] == space]:
            del self._known[place]


def _scope_place(scope: Scope) -> _Place:
    return scope.space, scope.agent, scope.channel


class FactUses:
    """The last use of facts by this runtime since it was stored last, for the newest uses of all spaces."""

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
        """Return the spaces of which something is remembered."""
        return tuple(dict.fromkeys(space for space, _ in self._pending))

    def of(self, space: SpaceId, /) -> dict[FactId, Instant]:
        """Return what is remembered of a space."""
        return {fact: at for (where, fact), at in self._pending.items() if where == space}

    def forget(self, space: SpaceId, /) -> None:
        """Let go of all that is remembered of `space`."""
        self.drop(space, [fact for where, fact in self._pending if where == space])

    def drop(self, space: SpaceId, facts: Iterable[FactId], /) -> None:
        """Forget what is stored by now."""
        for fact in facts:
            self._pending.pop((space, fact), None)
