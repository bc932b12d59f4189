"""Shared parts of planes with one document per matter, conversation or name.

Their memories are known by a word and a key (`capsule:3f…`), so that one look-up finds any of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from elytron.documents.planes import COLLECTION_OF_WORD, HOMES, PLANES, Home, home_of
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.control import ControlDecision, ControlOutcome
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.model import Value
from elytron_core.planes.evidence import Trust
from elytron_core.ports.store import Document, Ref


@dataclass(frozen=True, slots=True)
class KeptMemory:
    """A stored document of one of these planes."""

    ref: Ref
    revision: int
    value: Value

    @property
    def home(self) -> Home[Any]:
        return HOMES[self.ref.collection]

    @property
    def plane(self) -> Plane:
        return self.home.plane

    def found(
        self, *, score: float = 0.0, signals: Mapping[str, float] | None = None, now: Instant | None = None
    ) -> RecallHit:
        """Return its hit, with its freshness at `now` if its plane has one."""
        home, value = self.home, self.value
        fresh = home.freshness(value, now) if now is not None else None
        channel, conversation = conversation_of(value)
        return RecallHit(
            id=id_of(self.ref),
            plane=home.plane,
            text=home.text(value),
            score=round(score, 6),
            at=home.at(value),
            channel=channel,
            conversation=conversation,
            title=home.title(value),
            trust=None if home.is_of_space else Trust.DRAWN,
            freshness=fresh.state if fresh is not None else None,
            privacy=home.privacy(value),
            hint=fresh.hint if fresh is not None else None,
            citations=home.citations(value),
            signals=dict(signals or {}),
        )


def by_plane(documents: Mapping[str, int], /) -> dict[Plane, int]:
    """Return the number of memories of each plane from the number of documents of each collection."""
    return {PLANES[name]: count for name, count in sorted(documents.items()) if name in PLANES and count}


def kept(document: Document, /) -> KeptMemory:
    """Return what a document of one of these planes holds."""
    return KeptMemory(document.ref, document.revision, HOMES[document.ref.collection].kind.from_bytes(document.body))


def public(collection: str, body: bytes, /) -> bytes | None:
    """Return a document of one of these planes in the form of a public archive; None if it stays out."""
    home = HOMES.get(collection)
    value = home.public(home.kind.from_bytes(body)) if home is not None else None
    return value.to_bytes() if value is not None else None


def id_of(ref: Ref, /) -> str:
    """Return the memory id of the document at `ref`."""
    return f"{HOMES[ref.collection].word}:{ref.key}"


def place_of(memory_id: str, /) -> Ref | None:
    """Return where a memory of this id would stand; None where the id is of another form."""
    word, sign, key = memory_id.partition(":")
    collection = COLLECTION_OF_WORD.get(word)
    return Ref(collection, key) if sign and collection is not None else None


def text_of(value: Value, /) -> str:
    """Return what the document says."""
    return home_of(value).text(value)


def title_of(value: Value, /) -> str:
    """Return what the document is about, in a few words."""
    return home_of(value).title(value)


def at_of(value: Value, /) -> Instant:
    """Return when the document last changed."""
    return home_of(value).at(value)


def citations_of(value: Value, /) -> tuple[str, ...]:
    """Return the turns and other references that the document rests on."""
    return home_of(value).citations(value)


def conversation_of(value: Any, /) -> tuple[str | None, str | None]:
    """Return the channel and conversation of the document; None for both if it belongs to the whole space."""
    return (None, None) if home_of(value).is_of_space else (value.channel, value.conversation)


def touched(decisions: Iterable[ControlDecision], /) -> tuple[Plane, ...]:
    """Return the planes in which something was changed, or would be, in their order."""
    planes = {decision.plane for decision in decisions if decision.outcome is ControlOutcome.CHANGED}
    return tuple(plane for plane in Plane if plane in planes)


def forgotten_at(value: Value, /) -> Instant | None:
    """Return since when the document is hidden; subjects and candidates have states instead."""
    hidden_since = home_of(value).forgotten_at
    return hidden_since(value) if hidden_since is not None else None


def is_forgotten(value: Value, /) -> bool:
    """Return whether a caller hid the document."""
    return forgotten_at(value) is not None


def is_expired(value: Value, now: Instant, /) -> bool:
    """Return whether the document's time to live is over."""
    end = home_of(value).expires_at(value)
    return end is not None and end <= now


def hidden(value: Value, at: Instant | None, /) -> Value | None:
    """Return the document hidden since `at`, or shown again for None; None if unchanged, or if it cannot be hidden."""
    home = home_of(value)
    if home.forgotten_at is None or is_forgotten(value) is (at is not None):
        return None
    return home.unhidden(value) if at is None else value.model_copy(update={"forgotten_at": at})
