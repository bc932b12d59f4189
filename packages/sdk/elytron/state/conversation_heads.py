"""Heads of conversations: cached, read from the store, and grown by writes.

Cached heads let appends skip the read before each.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from elytron_core import limits
from elytron_core.ids import ConversationTag, SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.planes import transcript
from elytron_core.ports.store import (
    DocumentRef,
    RequireRevision,
    Store,
    scan_documents,
)
from elytron_core.scope import ConversationKey

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
        first_unmet = self._unmet.get((space, tag), head.next_sequence)
        for start in range(first_unmet, head.next_sequence, limits.SCAN_MAX):
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

    def expect(self, space: SpaceId, grown_head: GrownHead, /) -> None:
        """Assume that `grown_head` will be stored, and build on it."""
        tag, head, revision, _, line = grown_head
        last_turn_ref = DocumentRef(transcript.TURNS, transcript.turn_id(tag, head.next_sequence - 1))
        self._heads[space, tag] = KnownHead(head, revision, line, (RequireRevision(last_turn_ref, 1),))

    def drop(self, space: SpaceId, grown_head: GrownHead, /) -> None:
        """Stop building on `grown_head`: read the conversation's head again at its next use."""
        conversation_place = space, grown_head.tag
        self._refused.add(conversation_place)
        cached_head = self._heads.get(conversation_place)
        if cached_head is not None and cached_head.line is grown_head.line:
            del self._heads[conversation_place]
            if cached_head.revision > grown_head.revision:
                self._unmet[conversation_place] = min(
                    self._unmet.get(conversation_place, grown_head.first), grown_head.first
                )

    def confirm(self, space: SpaceId, grown_head: GrownHead, /) -> None:
        """Record that `grown_head` was committed: if its line is unbroken, it contains all turns."""
        conversation_place = space, grown_head.tag
        if (
            conversation_place in self._unmet
            and (cached_head := self._heads.get(conversation_place)) is not None
            and cached_head.line is grown_head.line
        ):
            del self._unmet[conversation_place]

    def drop_space(self, space: SpaceId, /) -> None:
        """Read every head of `space` again at next use."""
        for head_cache in (self._heads, self._unmet):
            for key in [key for key in head_cache if key[0] == space]:
                del head_cache[key]
        self._refused = {conversation_place for conversation_place in self._refused if conversation_place[0] != space}


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
