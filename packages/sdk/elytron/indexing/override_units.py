"""Texts under a gateway's override: hidden from recall, and still used to find the override.

They are units of a separate plane, which recall never searches. Nothing is copied for them: an override's unit is made
of the memory beneath it, so that it is removed when that is erased.
"""

from elytron_core.errors import InvalidInput
from elytron_core.ids import FactId, is_id
from elytron_core.planes.admin.gateway import EDITS, Edit, EditKind
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term
from elytron_core.ports.store import Document, Ref, require_ref
from elytron_index import Unit

COVERED = "covered"
"""The plane, beside those of recall."""
SESSION = "session"
"""The part of such a unit's scope that names the session in which the override shows."""


def beneath(edit: Edit, /) -> Ref | None:
    """Return the reference of an override's memory; None for other documents, or if it has no words."""
    if edit.kind is not EditKind.OVERRIDE:
        return None
    if is_id(edit.memory_id):
        return Ref(long_term.FACTS, FactId(edit.memory_id))
    ref = Ref(transcript.TURNS, edit.memory_id.partition("#")[0])
    try:
        require_ref(ref)
    except InvalidInput:  # an id of another memory service
        return None
    return ref


def covered_unit(ref: Ref, edit: Edit, document: Document, /) -> Unit | None:
    """Return the unit of the override at `ref`: the words of what `document` holds; None where these are gone."""
    assert ref.collection == EDITS
    scope = ((SESSION, edit.session_id),)
    if document.ref.collection == long_term.FACTS:
        fact = long_term.Fact.from_bytes(document.body)
        return Unit(
            ref=ref, part=0, plane=COVERED, text=fact.content, title=fact.topic, at=fact.observed_at, scope=scope
        )
    turn = transcript.Turn.from_bytes(document.body)
    _, _, part = edit.memory_id.partition("#")
    number = int(part) if part.isascii() and part.isdigit() else 0
    if number >= len(turn.messages) or not turn.messages[number].text.strip():
        return None
    message = turn.messages[number]
    at = transcript.said_at(turn, message)
    return Unit(ref=ref, part=0, plane=COVERED, text=message.text, speaker=message.speaker or "", at=at, scope=scope)
