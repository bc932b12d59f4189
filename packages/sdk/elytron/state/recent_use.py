"""What a runtime remembers of recent calls: last blocks, last conversations, and uses of facts."""

from collections.abc import Iterable
from itertools import accumulate

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import FactId, SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.scope import ConversationKey, Scope

CONVERSATIONS_KEPT = 1_024


class LastBlocks:
    """The running hashes of each conversation's last block, line by line. They contain no text."""

    def __init__(self) -> None:
        self._hashes: LruCache[tuple[SpaceId, ConversationKey], tuple[int, ...]] = LruCache(CONVERSATIONS_KEPT)

    def unchanged_bytes(self, space: SpaceId, key: ConversationKey, block: str, /) -> int:
        """Return how many leading bytes of `block`, in whole lines, the previous one also had; remember `block`."""
        lines = block.splitlines(keepends=True)
        hashes = tuple(
            accumulate((hash(line) for line in lines), lambda hashes_before, line: hash((hashes_before, line)))
        )
        hashes_before = self._hashes.get((space, key), ())
        self._hashes[space, key] = hashes
        same_bytes = 0
        for line, new_hash, old_hash in zip(lines, hashes, hashes_before, strict=False):
            if new_hash != old_hash:
                break
            same_bytes += len(line.encode())
        return same_bytes


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
        for conversation_place in [
            conversation_place for conversation_place in self._conversations if conversation_place[0] == space
        ]:
            del self._conversations[conversation_place]


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
        return {fact: at for (use_space, fact), at in self._pending.items() if use_space == space}

    def forget(self, space: SpaceId, /) -> None:
        """Clear everything remembered of `space`."""
        self.drop(space, [fact for use_space, fact in self._pending if use_space == space])

    def drop(self, space: SpaceId, facts: Iterable[FactId], /) -> None:
        """Drop what has been stored."""
        for fact in facts:
            self._pending.pop((space, fact), None)
