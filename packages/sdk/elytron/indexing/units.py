"""The recallable parts of stored documents: their index units, their texts to embed, and a cache.

The cache holds parsed turns and facts, so an unchanged one is not parsed again.
"""

import json
import struct
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from typing import Any, Final, TypeVar

from elytron.documents.hits import turn_hit
from elytron.documents.planes import HOMES, LISTED_HOMES, conversation_of, is_forgotten
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.errors import InvalidInput, StoreCorrupt
from elytron_core.evidence import TrustLevel
from elytron_core.ids import FactId, SpaceId, TurnId, is_id
from elytron_core.model import Value
from elytron_core.planes import embedding, facts, skills, transcript
from elytron_core.planes.embedding import EMBEDDING, KEY, VECTORS
from elytron_core.planes.facts import Fact
from elytron_core.planes.servers.gateway import EDITS, EditKind, MemoryOverride
from elytron_core.planes.space import COLLECTIONS
from elytron_core.planes.subjects import SUBJECTS, Subject, SubjectVisibility
from elytron_core.planes.transcript import Turn
from elytron_core.policy.ranking.excerpts import ScoredSentence, pieces_of
from elytron_core.policy.ranking.facts import PreparedFact, prepare_fact
from elytron_core.ports.models import StatementClassifier, StatementLabel
from elytron_core.ports.store import Document, DocumentRef, require_ref
from elytron_core.scope import ConversationKey
from elytron_core.tags import tag_forms
from elytron_core.text import similarity
from elytron_core.text.traits import TextTrait
from elytron_index import METADATA, DocumentChange, EmbeddedDocument, SearchUnit

READINGS_KEPT: Final = 2_048
READING_BYTES: Final = 8_192
"""Turns and facts that a runtime keeps as it read them, and the largest of these."""


PRIVATE_TALK = "transcript.private"
"""The index plane of private messages: a search finds them only if it also names this one."""
PARTS = 1_024
"""Positions in a thread's order per turn; more than a turn has messages."""


def units_of(document: Document, /) -> tuple[SearchUnit, ...]:
    """Return the units of a document; none if nothing in it may be recalled."""
    return units_of_value(document.ref, indexed_value(document))


def indexed_value(document: Document, /) -> Value:
    """Return the recalled content of a document."""
    return INDEXED[document.ref.collection].from_bytes(document.body)


def units_of_value(ref: DocumentRef, value: Value, /) -> tuple[SearchUnit, ...]:
    """Return the units of the value stored at `ref`."""
    match value:
        case transcript.Turn():
            return _turn_units(ref, value)
        case facts.Fact():
            return _fact_units(ref, value)
        case skills.Skill():
            return _skill_units(ref, value)
        case _:
            return _kept_units(ref, value)


def value_change(
    ref: DocumentRef, value: Value | None, sequence: int, values_read: Mapping[DocumentRef, Value], /
) -> DocumentChange:
    """Return the index change for a document that the journal mentions at `sequence`; None as a value means it is gone.

    `values_read` has the fact that it replaces, if any.
    """
    if value is None:
        return DocumentChange(ref)
    replaced_ref = replaced_fact(value)
    replaced_value = values_read.get(replaced_ref) if replaced_ref is not None else None
    is_correction = (
        isinstance(replaced_value, Fact)
        and replaced_value.state is facts.FactState.CORRECTED
        and replaced_value.superseded_by == ref.key
    )
    return DocumentChange(
        ref,
        units_of_value(ref, value),
        sequence=sequence,
        origin=replaced_ref if is_correction else None,
        is_renewed=is_renewed(ref),
    )


def replaced_fact(value: Value | None, /) -> DocumentRef | None:
    """Return the place of the fact that `value` replaced in its slot; None if it replaced none."""
    if not isinstance(value, Fact) or value.supersedes is None:
        return None
    return DocumentRef(facts.FACTS, value.supersedes)


def is_renewed(ref: DocumentRef, /) -> bool:
    """Return whether the time of a document is that of its last change: a turn or fact keeps its own."""
    return ref.collection not in {transcript.TURNS, facts.FACTS}


def plane_of(plane: str, /) -> str:
    """Return the plane, as callers know it, of units stored under `plane` in the index."""
    return RecallPlane.TRANSCRIPT if plane == PRIVATE_TALK else plane


def subject_names(subject: Subject, /) -> tuple[str, ...]:
    """Return the names of `subject`; none if it has only one, or is not visible to all."""
    if not subject.other_names or subject.visibility is not SubjectVisibility.VISIBLE:
        return ()
    return tuple(dict.fromkeys((subject.name, *subject.other_names)))


def embedded_text(unit: SearchUnit, /) -> str:
    """Return the text of `unit` for an embedder: who says it, or what it is about, and the text."""
    return _text_to_embed(unit.speaker if unit.plane == RecallPlane.TRANSCRIPT else unit.title, unit.text)


def embedded_passages(unit: SearchUnit, passages_max: int, /) -> tuple[str, ...]:
    """Return the passages embedded in addition to `unit` itself: up to `passages_max`, none unless it is a message."""
    if unit.plane != RecallPlane.TRANSCRIPT or passages_max < 2:
        return ()
    text_pieces = pieces_of(unit.text[: limits.EMBED_TEXT_CHARS], min(passages_max, limits.EMBED_PASSAGES))
    return tuple(_text_to_embed(unit.speaker, piece) for piece in text_pieces)


def _text_to_embed(head: str, text: str) -> str:
    return f"{head}: {text}"[: limits.EMBED_TEXT_CHARS] if head else text[: limits.EMBED_TEXT_CHARS]


def _text_check(head: str, text: str) -> int:
    """Return the index's check of the text to embed; blank texts are not embedded."""
    if similarity.is_blank(text):
        return 0
    return embedding.check_to_signed(embedding.check_of(_text_to_embed(head, text)))


def _turn_units(ref: DocumentRef, turn: transcript.Turn) -> tuple[SearchUnit, ...]:
    conversation_tag = transcript.tag_of(TurnId(ref.key))
    scope_parts = (
        ("agent", turn.agent),
        ("app", turn.app),
        ("project", turn.project),
        ("channel", turn.channel),
        ("conversation", turn.conversation),
    )
    scope = (
        *((name, value) for name, value in scope_parts if value is not None),
        *((METADATA + name, json.dumps(value)) for name, value in sorted(turn.metadata.items())),
    )
    # Turns of earlier builds store their tags as given.
    tags = tag_forms(turn.tags)
    return tuple(
        SearchUnit(
            ref=ref,
            part=part,
            plane=PRIVATE_TALK if turn.is_private else RecallPlane.TRANSCRIPT,
            text=message.text,
            speaker=message.speaker or "",
            role=message.role,
            thread=conversation_tag,
            order=turn.sequence * PARTS + part,
            at=transcript.said_at(turn, message),
            scope=scope,
            tags=tags,
            recorded_at=turn.recorded_at,
            trust=turn.trust_of(part).rank,
            check=0 if turn.is_private else _text_check(message.speaker or "", message.text),
        )
        for part, message in enumerate(turn.messages)
        if turn.is_recallable(part, include_private=True) and not similarity.is_blank(message.text)
    )


def _fact_units(ref: DocumentRef, fact: facts.Fact) -> tuple[SearchUnit, ...]:
    if fact.state is facts.FactState.FORGOTTEN:
        return ()
    closed_at = None if fact.is_believed else fact.closed_at
    known_since = fact.end_known_at
    if known_since is None:
        return (
            _fact_unit(ref, fact, part=0, valid_to=fact.valid_to, recorded_at=fact.recorded_at, closed_at=closed_at),
        )
    # Before the end was known it was believed to hold on; since then, to have held until `valid_to`.
    open_unit = _fact_unit(ref, fact, part=0, valid_to=None, recorded_at=fact.recorded_at, closed_at=known_since)
    closed_unit = _fact_unit(ref, fact, part=1, valid_to=fact.valid_to, recorded_at=known_since, closed_at=closed_at)
    return (open_unit, closed_unit)


def _fact_unit(
    ref: DocumentRef,
    fact: facts.Fact,
    *,
    part: int,
    valid_to: Instant | None,
    recorded_at: Instant,
    closed_at: Instant | None,
) -> SearchUnit:
    title = " ".join((fact.topic, *fact.keywords, *fact.entities))
    return SearchUnit(
        ref=ref,
        part=part,
        plane=RecallPlane.LONG_TERM,
        text=fact.content,
        title=title,
        at=fact.observed_at,
        scope=(
            ("kind", fact.kind),
            ("authority", fact.authority),
            ("confidence", fact.confidence),
            ("privacy", fact.privacy),
            ("home", home_of(fact.home)),
        ),
        valid_from=fact.valid_from or 0,
        valid_to=valid_to or 0,
        recorded_at=recorded_at,
        closed_at=closed_at or 0,
        trust=fact.trust.rank,
        check=_text_check(title, fact.content),
    )


def home_of(key: ConversationKey | None, /) -> str:
    """Return the index's key for the only conversation that a fact applies to; everywhere has a key too."""
    return "\n".join(key or ())


def _skill_units(ref: DocumentRef, skill: skills.Skill) -> tuple[SearchUnit, ...]:
    if not skill.is_recallable:
        return ()
    title, text = f"{skill.topic} {skill.title}", f"{skill.summary}\n{skill.procedure}"
    unit = SearchUnit(
        ref=ref,
        part=0,
        plane=RecallPlane.PROCEDURAL,
        text=text,
        title=title,
        at=skill.updated_at,
        recorded_at=skill.recorded_at,
        trust=skill.trust.rank,
        check=_text_check(title, text),
    )
    return (unit,)


def _kept_units(ref: DocumentRef, value: Value) -> tuple[SearchUnit, ...]:
    plane_home = HOMES[ref.collection]
    text, title = (plane_home.index_text or plane_home.text)(value), (plane_home.index_title or plane_home.title)(value)
    if is_forgotten(value) or plane_home.is_replaced(value) or similarity.is_blank(text):
        return ()
    channel, conversation = conversation_of(value)
    scope = (("channel", channel), ("conversation", conversation), ("privacy", plane_home.privacy(value)))
    namespace = plane_home.namespace(value)
    unit = SearchUnit(
        ref=ref,
        part=0,
        plane=plane_home.plane,
        text=text,
        title=title,
        at=plane_home.at(value),
        scope=(
            *((name, part) for name, part in scope if part is not None),
            *((METADATA + name, json.dumps(field)) for name, field in sorted(plane_home.fields(value).items())),
        ),
        tags=tuple(namespace_tag(namespace[:depth]) for depth in range(1, len(namespace) + 1)),
        valid_to=plane_home.expires_at(value) or 0,
        recorded_at=plane_home.at(value),
        trust=TrustLevel.DRAWN.rank,
        check=_text_check(title, text) if plane_home.is_embedded else 0,
    )
    return (unit,)


def embedded_of(memory_ref: DocumentRef, model_tag: str, document: Document | None, /) -> EmbeddedDocument:
    """Return the vectors in `document` for the units of `memory_ref`; none if it is gone."""
    if document is None:
        return EmbeddedDocument(memory_ref, model_tag, {})
    return embedded_of_value(memory_ref, model_tag, embedding.VectorSet.from_bytes(document.body))


def embedded_of_value(memory_ref: DocumentRef, model_tag: str, value: embedding.VectorSet, /) -> EmbeddedDocument:
    """Return the vectors of `value` in the index's form."""
    vector_struct = struct.Struct(f"<{value.dimensions}f")
    return EmbeddedDocument(
        memory_ref,
        model_tag,
        {text_digest: vector_struct.pack(*vector) for text_digest, vector in value.floats().items()},
    )


def namespace_tag(namespace: Sequence[str], /) -> str:
    """Return the index's tag for the records of a namespace, and those below it."""
    return json.dumps(namespace)


INDEXED: dict[str, type[Value]] = {
    transcript.TURNS: transcript.Turn,
    facts.FACTS: facts.Fact,
    skills.SKILLS: skills.Skill,
    **{name: home.kind for name, home in LISTED_HOMES.items()},
}
"""The collections that are recalled, and the type of their documents."""


FOLDED = frozenset({*INDEXED, SUBJECTS, EDITS, VECTORS, EMBEDDING})
"""All collections from which an index is built: an erasure names in the journal what it removes of these."""


COVERED = "covered"
"""The plane, beside those of recall."""
SESSION = "session"
"""The part of such a unit's scope that names the session in which the override applies."""


def overridden_ref(edit: MemoryOverride, /) -> DocumentRef | None:
    """Return the reference of an override's memory; None for other documents, or if it has no words."""
    if edit.kind is not EditKind.OVERRIDE:
        return None
    if is_id(edit.memory_id):
        return DocumentRef(facts.FACTS, FactId(edit.memory_id))
    ref = DocumentRef(transcript.TURNS, edit.memory_id.partition("#")[0])
    try:
        require_ref(ref)
    except InvalidInput:  # an id of another memory service
        return None
    return ref


def covered_unit(ref: DocumentRef, edit: MemoryOverride, document: Document, /) -> SearchUnit | None:
    """Return the unit of the override at `ref`: the words of `document`; None if these are gone."""
    assert ref.collection == EDITS
    scope = ((SESSION, edit.session_id),)
    if document.ref.collection == facts.FACTS:
        fact = facts.Fact.from_bytes(document.body)
        return SearchUnit(
            ref=ref, part=0, plane=COVERED, text=fact.content, title=fact.topic, at=fact.observed_at, scope=scope
        )
    turn = transcript.Turn.from_bytes(document.body)
    _, _, part = edit.memory_id.partition("#")
    message_number = int(part) if part.isascii() and part.isdigit() else 0
    if message_number >= len(turn.messages) or not turn.messages[message_number].text.strip():
        return None
    message = turn.messages[message_number]
    at = transcript.said_at(turn, message)
    return SearchUnit(
        ref=ref, part=0, plane=COVERED, text=message.text, speaker=message.speaker or "", at=at, scope=scope
    )


_TRAITS: Final = {StatementLabel.STANDING: TextTrait.STANDING, StatementLabel.OCCASION: TextTrait.OCCASIONAL}


def label_changes(changes: Sequence[DocumentChange], statements: StatementClassifier, /) -> list[DocumentChange]:
    """Return `changes` with their units' traits completed by the labels of `statements`."""
    texts = [unit.text for change in changes for unit in change.units]
    traits = map(_label_traits, statements.classify(texts))
    return [
        replace(
            change,
            units=tuple(
                unit._replace(traits=trait)
                for unit, trait in zip(change.units, islice(traits, len(change.units)), strict=True)
            ),
        )
        for change in changes
    ]


def is_standing(statements: StatementClassifier, text: str, /) -> bool:
    """Return whether `text` states something lasting."""
    (labels,) = statements.classify([text])
    return StatementLabel.STANDING in labels


def _label_traits(labels: frozenset[StatementLabel]) -> TextTrait:
    text_traits = TextTrait.NOTHING
    for label in labels:
        text_traits |= _TRAITS[label]
    return text_traits


CHOICE = DocumentRef(EMBEDDING, KEY)
_KINDS = {name: blake2b(name.encode(), digest_size=2).hexdigest() for name in COLLECTIONS}
"""Keys have no letters beyond f, so a collection is four digits in them."""
_COLLECTIONS = {digits: name for name, digits in _KINDS.items()}
assert len(_COLLECTIONS) == len(_KINDS)


def vectors_prefix(memory_ref: DocumentRef, /) -> str:
    """Return the key prefix of all vectors of the document `memory_ref`."""
    return f"{_KINDS[memory_ref.collection]}.{memory_ref.key}."


def vectors_ref(memory_ref: DocumentRef, model_tag: str, /) -> DocumentRef:
    """Return the ref of the vectors of the document `memory_ref` by one model."""
    return DocumentRef(VECTORS, vectors_prefix(memory_ref) + model_tag)


def source_of(ref: DocumentRef, /) -> tuple[DocumentRef, str]:
    """Return the document of the vectors at `ref`, and the tag of their model. Raises StoreCorrupt."""
    kind, _, source_place = ref.key.partition(".")
    key, _, model_tag = source_place.rpartition(".")
    if kind not in _COLLECTIONS or not key:
        raise StoreCorrupt(what="the place of a stored vector")
    return DocumentRef(_COLLECTIONS[kind], key), model_tag


@dataclass(frozen=True, slots=True)
class ReadTurn:
    """A turn, and the requested hits and sentences of its messages."""

    turn: Turn
    _hits: dict[int, RecallHit | None] = field(default_factory=dict[int, RecallHit | None])
    _sentences: dict[int, tuple[ScoredSentence, ...]] = field(default_factory=dict[int, tuple[ScoredSentence, ...]])

    def hit(self, turn_id: TurnId, part: int, /) -> RecallHit | None:
        """Return the hit of a message, without a score; None for one that may not be recalled.

        A private one is among those that a search finds only on request. It is shared: a caller that shows it gives it
        a score and copies its metadata.
        """
        try:
            return self._hits[part]
        except KeyError:
            hit = turn_hit(turn_id, self.turn, part) if self._is_shown(part) else None
            return self._hits.setdefault(part, hit)

    def sentences(
        self, part: int, score_sentences: Callable[[str], tuple[ScoredSentence, ...]], /
    ) -> tuple[ScoredSentence, ...]:
        """Return the sentences of a message as `score_sentences` gives them; none of one that may not be recalled."""
        sentences = self._sentences.get(part)
        if sentences is None:
            sentences = score_sentences(self.turn.messages[part].text) if self._is_shown(part) else ()
            self._sentences[part] = sentences
        return sentences

    def _is_shown(self, part: int) -> bool:
        return self.turn.is_recallable(part, include_private=True)


ReadT = TypeVar("ReadT", ReadTurn, PreparedFact)
ListedT = TypeVar("ListedT")
_DocumentCache = OrderedDict[DocumentRef, tuple[bytes, ReadTurn | PreparedFact]]


class ParseCache:
    """Caches parsed values with their bytes: changed bytes are parsed again. Lists belong to one state.

    They have words, so a space's are to be dropped with its index.
    """

    def __init__(self, readings_max: int = READINGS_KEPT, /) -> None:
        self._most = readings_max
        self._caches: OrderedDict[SpaceId, _DocumentCache] = OrderedDict()
        self._count = 0
        self._lists: OrderedDict[tuple[SpaceId, Hashable], tuple[Hashable, Sequence[Any]]] = OrderedDict()
        self._forgotten = 0

    def __len__(self) -> int:
        return self._count + len(self._lists)

    def turn(self, space: SpaceId, document: Document, /) -> ReadTurn:
        """Return the turn that `document` holds."""
        read_turn = self._cached(space, document)
        if isinstance(read_turn, ReadTurn):
            return read_turn
        return self._keep(space, document, ReadTurn(Turn.from_bytes(document.body)))

    def fact(self, space: SpaceId, document: Document, /) -> PreparedFact:
        """Return the fact that `document` holds, with what it says."""
        cached_fact = self._cached(space, document)
        if isinstance(cached_fact, PreparedFact):
            return cached_fact
        return self._keep(space, document, prepare_fact(Fact.from_bytes(document.body)))

    async def listed(
        self, space: SpaceId, name: Hashable, list_state: Hashable, make: Callable[[], Awaitable[Sequence[ListedT]]], /
    ) -> Sequence[ListedT]:
        """Return the result of `make`, which is called again only if the list `name` was last made of another state."""
        key = space, name
        cached_list = self._lists.get(key)
        if cached_list is not None and cached_list[0] == list_state:
            self._lists.move_to_end(key)
            return cached_list[1]
        forget_count = self._forgotten
        values = await make()
        # What was read before a space was forgotten may contain words that were erased since.
        if forget_count == self._forgotten and len(values) < self._most:
            self._lists[key] = list_state, values
            self._lists.move_to_end(key)
            while sum(1 + len(list_values) for _, list_values in self._lists.values()) > self._most:
                self._lists.popitem(last=False)
        return values

    def _forget_lists(self, space: SpaceId) -> None:
        self._forgotten += 1
        for key in [key for key in self._lists if key[0] == space]:
            del self._lists[key]

    def forget(self, space: SpaceId, /) -> None:
        """Clear the cache for `space`."""
        self._count -= len(self._caches.pop(space, ()))
        self._forget_lists(space)

    def drop(self, space: SpaceId, refs: Iterable[DocumentRef], /, *, with_lists: bool) -> None:
        """Drop some documents of `space`; with `with_lists` also all lists, which may contain their words."""
        if with_lists:
            self._forget_lists(space)
        cache = self._caches.get(space, _DocumentCache())
        self._count -= sum(cache.pop(ref, None) is not None for ref in refs)

    def _cached(self, space: SpaceId, document: Document) -> ReadTurn | PreparedFact | None:
        cache = self._caches.get(space)
        entry = cache.get(document.ref) if cache is not None else None
        return entry[1] if entry is not None and entry[0] == document.body else None

    def _keep(self, space: SpaceId, document: Document, value: ReadT) -> ReadT:
        # Long texts are rare, and a few would fill the memory of thousands of short ones.
        if len(document.body) > READING_BYTES:
            return value
        cache = self._caches.setdefault(space, OrderedDict())
        self._caches.move_to_end(space)
        self._count += document.ref not in cache
        cache[document.ref] = (document.body, value)
        while self._count > self._most:
            oldest_space, space_cache = next(iter(self._caches.items()))
            if oldest_space == space:
                cache.popitem(last=False)
                self._count -= 1
            else:
                self._count -= len(space_cache)
                del self._caches[oldest_space]
        return value
