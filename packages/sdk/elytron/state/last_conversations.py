"""The conversation of each subject's last committed turn, while this runtime is open."""

from elytron_core import limits
from elytron_core.caches.lru import LruCache
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope

_Place = tuple[SpaceId, str | None, str]


class LastConversations:
    """The last conversation of each space, agent and channel; the oldest goes beyond the bound."""

    def __init__(self) -> None:
        self._known: LruCache[_Place, str] = LruCache(limits.LAST_CONVERSATIONS)

    def note(self, scope: Scope, /) -> None:
        """Remember that a turn was committed to the conversation of `scope`."""
        self._known[_place(scope)] = scope.conversation_key.conversation

    def of(self, scope: Scope, /) -> str | None:
        """Return the last conversation of the subject of `scope`."""
        return self._known.get(_place(scope))


def _place(scope: Scope) -> _Place:
    return scope.space, scope.agent, scope.channel
