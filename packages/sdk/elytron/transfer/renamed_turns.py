"""Ids of an archive's turns in the space that takes them in: what cited them there cites them here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from elytron_core.contracts.conversation.write import FactDraft, RuntimeSkillWrite, WriteDecision
from elytron_core.ids import TurnId
from elytron_core.planes.conversation import transcript
from elytron_core.planes.derived_refs import cited_turn


@dataclass(frozen=True, slots=True)
class TurnSource:
    """A turn of an archive, and which of its messages are brought along, in their order."""

    turn: TurnId
    parts: tuple[int, ...]


DraftT = TypeVar("DraftT", FactDraft, RuntimeSkillWrite)


class RenamedTurns:
    """The new ids of turns that were brought along so far."""

    def __init__(self) -> None:
        self._places: dict[tuple[TurnId, int], str] = {}
        self._turns: dict[TurnId, TurnId] = {}

    def note(self, sources: Iterable[TurnSource], decisions: Sequence[WriteDecision], /) -> None:
        """Remember what became of each of `sources`."""
        for source, decision in zip(sources, decisions, strict=True):
            if decision.id is not None:
                turn = self._turns[source.turn] = TurnId(decision.id)
                for part, old in enumerate(source.parts):
                    self._places[source.turn, old] = transcript.message_id(turn, part)

    def cited_anew(self, draft: DraftT, /) -> DraftT:
        """Return a fact or skill that cites its turns by their new ids."""
        return draft.model_copy(update={"citations": tuple(dict.fromkeys(map(self._new, draft.citations)))})

    def _new(self, citation: str) -> str:
        place = cited_turn(citation)
        if place is None:
            return citation
        turn, part = place
        return self._turns.get(turn, citation) if part is None else self._places.get((turn, part), citation)
