"""What of a stored document can be recalled: each plane's documents cut into index units."""

from collections.abc import Callable

from elytron_core.clock import Instant
from elytron_core.contracts.recalling import Plane
from elytron_core.ids import TurnId
from elytron_core.planes import long_term, procedural, transcript
from elytron_core.ports.store import Document
from elytron_index import Unit

PARTS = 1_024
"""Places in a thread's order that each turn takes; more than a turn has messages."""


def units_of(document: Document, /) -> tuple[Unit, ...]:
    """Return the units of a document; none where nothing in it may be recalled."""
    return INDEXED[document.ref.collection](document)


def _turn(document: Document) -> tuple[Unit, ...]:
    turn = transcript.Turn.from_bytes(document.body)
    thread = transcript.tag_of(TurnId(document.ref.key))
    parts = (
        ("agent", turn.agent),
        ("app", turn.app),
        ("project", turn.project),
        ("channel", turn.channel),
        ("conversation", turn.conversation),
    )
    scope = tuple((name, value) for name, value in parts if value is not None)
    return tuple(
        Unit(
            ref=document.ref,
            part=part,
            plane=Plane.TRANSCRIPT,
            text=message.text,
            speaker=message.speaker or "",
            role=message.role,
            thread=thread,
            order=turn.sequence * PARTS + part,
            at=transcript.said_at(turn, message),
            scope=scope,
            tags=turn.tags,
            recorded_at=turn.recorded_at,
        )
        for part, message in enumerate(turn.messages)
        if turn.is_recallable(part)
    )


def _fact(document: Document) -> tuple[Unit, ...]:
    fact = long_term.Fact.from_bytes(document.body)
    if fact.state is long_term.State.FORGOTTEN:
        return ()
    held = _fact_unit(document, fact, part=0, valid_to=None, recorded_at=fact.recorded_at, closed_at=fact.closed_at)
    if fact.state is not long_term.State.SUPERSEDED:
        bounded = _fact_unit(
            document, fact, part=0, valid_to=fact.valid_to, recorded_at=fact.recorded_at, closed_at=fact.closed_at
        )
        return (bounded,)
    # Before the change was known it was believed to hold on; since then, to have held until `valid_to`.
    known_since = fact.closed_at or fact.recorded_at
    ended = _fact_unit(document, fact, part=1, valid_to=fact.valid_to, recorded_at=known_since, closed_at=None)
    return (held, ended)


def _fact_unit(
    document: Document,
    fact: long_term.Fact,
    *,
    part: int,
    valid_to: Instant | None,
    recorded_at: Instant,
    closed_at: Instant | None,
) -> Unit:
    return Unit(
        ref=document.ref,
        part=part,
        plane=Plane.LONG_TERM,
        text=fact.content,
        title=" ".join((fact.topic, *fact.keywords, *fact.entities)),
        at=fact.observed_at,
        valid_from=fact.valid_from or 0,
        valid_to=valid_to or 0,
        recorded_at=recorded_at,
        closed_at=closed_at or 0,
    )


def _skill(document: Document) -> tuple[Unit, ...]:
    skill = procedural.Skill.from_bytes(document.body)
    if not skill.is_recallable:
        return ()
    unit = Unit(
        ref=document.ref,
        part=0,
        plane=Plane.PROCEDURAL,
        text=f"{skill.summary}\n{skill.procedure}",
        title=f"{skill.topic} {skill.title}",
        at=skill.updated_at,
        recorded_at=skill.recorded_at,
    )
    return (unit,)


INDEXED: dict[str, Callable[[Document], tuple[Unit, ...]]] = {
    transcript.TURNS: _turn,
    long_term.FACTS: _fact,
    procedural.SKILLS: _skill,
}
