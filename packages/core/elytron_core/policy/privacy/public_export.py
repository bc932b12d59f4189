"""The part of a space that may be published: beliefs, unless private or a chat's own, and records called public.

Turns stay with their owner.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

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
    _facts: set[FactId] = field(default_factory=set[FactId])

    def public(self, collection: str, body: bytes, /) -> bytes | None:
        """Return the public form of the document; None if it has none.

        A plane without a rule here is private. Citations go, for they name conversations.
        """
        match collection:
            case long_term.FACTS:
                fact = long_term.Fact.from_bytes(body)
                if fact.privacy is long_term.Privacy.PRIVATE or fact.state is long_term.State.FORGOTTEN or fact.home:
                    return None
                self._facts.add(fact.id)
                return fact.model_copy(update={"citations": (), "chat": None}).to_bytes()
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
