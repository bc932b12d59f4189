"""Which conversation each subject's turn was committed to last, as long as this runtime is open."""

from collections import OrderedDict

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope

_Place = tuple[SpaceId, str | None, str]


class LastConversations:
    """The last conversation of each space, agent and channel; the oldest goes beyond the bound."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Place, str] = OrderedDict()

    def note(self, scope: Scope, /) -> None:
        """Remember that a turn was committed to the conversation of `scope`."""
        place = _place(scope)
        self._known[place] = scope.conversation_key.conversation
        self._known.move_to_end(place)
        if len(self._known) > limits.LAST_CONVERSATIONS:
            self._known.popitem(last=False)

    def of(self, scope: Scope, /) -> str | None:
        """Return the last conversation of whoever `scope` names."""
        return self._known.get(_place(scope))


def _place(scope: Scope) -> _Place:
    return scope.space, scope.agent, scope.channel
