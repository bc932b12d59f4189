"""The turns before and after a hit in its conversation."""

from collections.abc import Sequence
from functools import partial

from elytron.context import OperationContext
from elytron.documents.stored_values import values_at
from elytron_core.contracts.knowledge.recall import NearbyTurn, Plane, RecallHit
from elytron_core.ids import TurnId
from elytron_core.planes.conversation import transcript
from elytron_core.ports.store import Ref
from elytron_core.scope import Scope
from elytron_index import UnitView


async def with_neighbours(
    ctx: OperationContext, scope: Scope, hits: Sequence[RecallHit], /, *, count: int, include_private: bool = False
) -> tuple[RecallHit, ...]:
    """Return the hits, each message with up to `count` recallable ones before it and after it, in order."""
    if not count or not any(hit.plane is Plane.TRANSCRIPT for hit in hits):
        return tuple(hits)
    index = await ctx.folds.current(scope.space)
    beside: dict[str, tuple[tuple[UnitView, ...], tuple[UnitView, ...]]] = {}
    for hit in hits:
        unit = next((unit for ref in _refs_of(hit) for unit in index.units_of(ref) if _id_of(unit) == hit.id), None)
        if unit is not None:
            beside[hit.id] = (
                index.units_near(unit, before=count, after=0),
                index.units_near(unit, before=0, after=count),
            )
    refs = (unit.ref for sides in beside.values() for side in sides for unit in side)
    turns = await values_at(ctx.store, scope.space, refs, transcript.Turn)
    shown = partial(_shown, turns=turns, include_private=include_private)
    return tuple(
        hit.model_copy(update={"before": shown(beside[hit.id][0]), "after": shown(beside[hit.id][1])})
        if hit.id in beside
        else hit
        for hit in hits
    )


def _refs_of(hit: RecallHit) -> tuple[Ref, ...]:
    return tuple(Ref(transcript.TURNS, turn) for turn in hit.citations) if hit.plane is Plane.TRANSCRIPT else ()


def _id_of(unit: UnitView) -> str:
    return transcript.message_id(TurnId(unit.ref.key), unit.part)


def _shown(
    units: Sequence[UnitView], *, turns: dict[Ref, transcript.Turn], include_private: bool
) -> tuple[NearbyTurn, ...]:
    found: list[NearbyTurn] = []
    for unit in units:
        turn = turns.get(unit.ref)
        if turn is not None and turn.is_recallable(unit.part, include_private=include_private):
            message = turn.messages[unit.part]
            found.append(
                NearbyTurn(
                    id=_id_of(unit),
                    text=message.text,
                    speaker=message.speaker,
                    role=message.role,
                    at=transcript.said_at(turn, message),
                )
            )
    return tuple(found)
