"""The part of a space that may be published: beliefs that hold now, unless private or a chat's own, and public records.

Turns stay with their owner, and so does every belief that was deleted, corrected, replaced or has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from elytron_core.clock import Instant
from elytron_core.ids import FactId
from elytron_core.planes.knowledge import long_term, procedural, records


def public_record(record: records.Record, /) -> records.Record | None:
    """Return the record without earlier versions; None unless it is called public and may be read."""
    if record.privacy is not long_term.Privacy.PUBLIC or record.forgotten_at is not None:
        return None
    return record.model_copy(update={"earlier": ()})


@dataclass(slots=True)
class Publisher:
    """Makes the public form of a space's documents, facts before their slots."""

    planes: Callable[[str, bytes], bytes | None]
    """The public form of a document of another plane."""
    now: Instant
    _facts: set[FactId] = field(default_factory=set[FactId])

    def public(self, collection: str, body: bytes, /) -> bytes | None:
        """Return the public form of the document; None if it has none.

        A plane without a rule here is private. Citations go, for they name conversations.
        """
        match collection:
            case long_term.FACTS:
                fact = long_term.Fact.from_bytes(body)
                if not self._is_public(fact):
                    return None
                self._facts.add(fact.id)
                return fact.model_copy(update={"citations": (), "chat": None, "supersedes": None}).to_bytes()
            case long_term.SLOTS:
                slot = long_term.Slot.from_bytes(body)
                kept = tuple(fact for fact in slot.facts if fact in self._facts)
                return slot.model_copy(update={"facts": kept}).to_bytes() if kept else None
            case procedural.SKILLS:
                skill = procedural.Skill.from_bytes(body)
                if not skill.is_recallable:
                    return None
                return skill.model_copy(update={"citations": (), "source_chat_id": None}).to_bytes()
            case _:
                return self.planes(collection, body)

    def _is_public(self, fact: long_term.Fact) -> bool:
        """Return whether `fact` is the current one of its slot, has not ended, and is neither private nor a chat's own.

        What is open is listed, so a state that is added later stays out.
        """
        has_ended = fact.valid_to is not None and fact.valid_to <= self.now
        is_shared = fact.privacy is not long_term.Privacy.PRIVATE and fact.home is None
        return fact.state is long_term.State.ACTIVE and not has_ended and is_shared
