"""Recent use that this runtime remembers: its last blocks, last conversations, and the facts that it has shown."""

from collections.abc import Iterable
from itertools import accumulate

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import FactId, SpaceId
from elytron_core.lru_cache import LruCache
from elytron_core.scope import ConversationKey, Scope

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

    def drop(self, space: SpaceId, facts: Iterable[FactId], /) -> None:
        """Forget what is stored by now."""
        for fact in facts:
            self._pending.pop((space, fact), None)
