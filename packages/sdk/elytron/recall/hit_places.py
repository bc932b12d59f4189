"""Where hits stand: their order in time, and the messages beside them."""

from collections.abc import Sequence
from functools import partial

from elytron.context import OperationContext
from elytron.documents.planes import place_of
from elytron.documents.stored_values import values_at
from elytron_core.contracts.recall import (
    NearbyTurn,
    RecallHit,
    RecallPlane,
)
from elytron_core.ids import TurnId
from elytron_core.planes import transcript
from elytron_core.planes.facts import FACTS
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import Scope
from elytron_index import UnitView
from elytron_index.space_index import SpaceIndex


async def with_neighbours(
    ctx: OperationContext, scope: Scope, hits: Sequence[RecallHit], /, *, count: int, include_private: bool = False
) -> tuple[RecallHit, ...]:
    """Return the hits, each message with up to `count` recallable ones before and after it, in order."""
    if not count or not any(hit.plane is RecallPlane.TRANSCRIPT for hit in hits):
        return tuple(hits)
    index = await ctx.folds.current(scope.space)
    neighbours: dict[str, tuple[tuple[UnitView, ...], tuple[UnitView, ...]]] = {}
    for hit in hits:
        unit = next((unit for ref in _refs_of(hit) for unit in index.units_of(ref) if _id_of(unit) == hit.id), None)
        if unit is not None:
            neighbours[hit.id] = (
                index.units_near(unit, before=count, after=0),
                index.units_near(unit, before=0, after=count),
            )
    refs = (
        unit.ref
        for neighbour_sides in neighbours.values()
        for neighbour_side in neighbour_sides
        for unit in neighbour_side
    )
    turns = await values_at(ctx.store, scope.space, refs, transcript.Turn)
    nearby_of = partial(_shown_nearby, turns=turns, include_private=include_private)
    return tuple(
        hit.model_copy(update={"before": nearby_of(neighbours[hit.id][0]), "after": nearby_of(neighbours[hit.id][1])})
        if hit.id in neighbours
        else hit
        for hit in hits
    )


def _refs_of(hit: RecallHit) -> tuple[DocumentRef, ...]:
    return (
        tuple(DocumentRef(transcript.TURNS, turn) for turn in hit.citations)
        if hit.plane is RecallPlane.TRANSCRIPT
        else ()
    )


def time_places(index: SpaceIndex, hits: Sequence[RecallHit], /) -> dict[str, int]:
    """Return the chronological position of each hit, by its id; the journal decides between equal times."""

    def moment(hit: RecallHit) -> tuple[int, int, int]:
        default_ref = DocumentRef(FACTS, hit.id) if hit.plane is RecallPlane.LONG_TERM else place_of(hit.id)
        ref = next(iter(_refs_of(hit)), default_ref)
        part = int((hit.id.partition("#")[2] if hit.plane is RecallPlane.TRANSCRIPT else "") or 0)
        index_moment = index.moment_of(ref, part) if ref is not None else None
        at, sequence = index_moment or (hit.at or 0, 0)
        return at, sequence, part

    return {hit.id: position for position, hit in enumerate(sorted(hits, key=moment))}


def _id_of(unit: UnitView) -> str:
    return transcript.message_id(TurnId(unit.ref.key), unit.part)


def _shown_nearby(
    units: Sequence[UnitView], *, turns: dict[DocumentRef, transcript.Turn], include_private: bool
) -> tuple[NearbyTurn, ...]:
    nearby_turns: list[NearbyTurn] = []
    for unit in units:
        turn = turns.get(unit.ref)
        if turn is not None and turn.is_recallable(unit.part, include_private=include_private):
            message = turn.messages[unit.part]
            nearby_turns.append(
                NearbyTurn(
                    id=_id_of(unit),
                    text=message.text,
                    speaker=message.speaker,
                    role=message.role,
                    at=transcript.said_at(turn, message),
                )
            )
    return tuple(nearby_turns)
