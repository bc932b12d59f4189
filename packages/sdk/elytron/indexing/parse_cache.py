"""Cache of parsed turns and facts, so that an unchanged one is not parsed again."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from elytron.documents.hits import turn_hit
from elytron_core import limits
from elytron_core.contracts.recall import RecallHit
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes.facts import Fact
from elytron_core.planes.transcript import Turn
from elytron_core.policy.ranking.excerpts import ScoredSentence
from elytron_core.policy.ranking.facts import PreparedFact, prepare_fact
from elytron_core.ports.store import Document, DocumentRef


@dataclass(frozen=True, slots=True)
class ReadTurn:
    """A turn, and the hits and sentences of its messages that were asked for."""

    turn: Turn
    _hits: dict[int, RecallHit | None] = field(default_factory=dict[int, RecallHit | None])
    _sentences: dict[int, tuple[ScoredSentence, ...]] = field(default_factory=dict[int, tuple[ScoredSentence, ...]])

    def hit(self, turn_id: TurnId, part: int, /) -> RecallHit | None:
        """Return the hit of a message, without a score; None for one that may not be recalled.

        A private one is among those that a search finds only if it asks for them. It is shared:
        a caller that shows it gives it a score and copies its metadata.
        """
        try:
            return self._hits[part]
        except KeyError:
            hit = turn_hit(turn_id, self.turn, part) if self._is_shown(part) else None
            return self._hits.setdefault(part, hit)

    def sentences(self, part: int, read: Callable[[str], tuple[ScoredSentence, ...]], /) -> tuple[ScoredSentence, ...]:
        """Return the sentences of a message as `read` gives them; none of one that may not be recalled."""
        known = self._sentences.get(part)
        if known is None:
            known = read(self.turn.messages[part].text) if self._is_shown(part) else ()
            self._sentences[part] = known
        return known

    def _is_shown(self, part: int) -> bool:
        return self.turn.is_recallable(part, include_private=True)


ReadT = TypeVar("ReadT", ReadTurn, PreparedFact)
_Shelf = OrderedDict[DocumentRef, tuple[bytes, ReadTurn | PreparedFact]]


class ParseCache:
    """Stores parsed values with their bytes: changed bytes are parsed again.

    They have words, so a space's are to be dropped with its index.
    """

    def __init__(self, most: int = limits.READINGS_KEPT, /) -> None:
        self._most = most
        self._shelves: OrderedDict[SpaceId, _Shelf] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def turn(self, space: SpaceId, document: Document, /) -> ReadTurn:
        """Return the turn that `document` holds."""
        known = self._known(space, document)
        if isinstance(known, ReadTurn):
            return known
        return self._keep(space, document, ReadTurn(Turn.from_bytes(document.body)))

    def fact(self, space: SpaceId, document: Document, /) -> PreparedFact:
        """Return the fact that `document` holds, with what it says."""
        known = self._known(space, document)
        if isinstance(known, PreparedFact):
            return known
        return self._keep(space, document, prepare_fact(Fact.from_bytes(document.body)))

    def forget(self, space: SpaceId, /) -> None:
        """Keep nothing of `space`."""
        self._count -= len(self._shelves.pop(space, ()))

    def _known(self, space: SpaceId, document: Document) -> ReadTurn | PreparedFact | None:
        shelf = self._shelves.get(space)
        known = shelf.get(document.ref) if shelf is not None else None
        return known[1] if known is not None and known[0] == document.body else None

    def _keep(self, space: SpaceId, document: Document, value: ReadT) -> ReadT:
        if len(document.body) > limits.READING_BYTES:
            return value
        shelf = self._shelves.setdefault(space, OrderedDict())
        self._shelves.move_to_end(space)
        self._count += document.ref not in shelf
        shelf[document.ref] = (document.body, value)
        while self._count > self._most:
            oldest, others = next(iter(self._shelves.items()))
            if oldest == space:
                shelf.popitem(last=False)
                self._count -= 1
            else:
                self._count -= len(others)
                del self._shelves[oldest]
        return value
