"""Tombstones: keyed tags of forgotten content, compared with what is proposed. They store no content."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at, value_at, values_at
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes import facts, transcript
from elytron_core.planes.facts import TOMBSTONES, FactKind, FactTombstone, LearningRules
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import cited_turn
from elytron_core.policy.admission.tombstones import content_forms, message_sentences, telling_sentences
from elytron_core.ports import store
from elytron_core.ports.store import Document, DocumentRef
from elytron_core.scope import ConversationKey

LEARNING = DocumentRef(facts.LEARNING, facts.KEY)


def topic_tag(record: SpaceRecord, topic: str, /) -> str:
    """Return the tag of a topic in tombstones."""
    return _topic_tag(record, facts.topic_key(topic))


def _topic_tag(record: SpaceRecord, key: str) -> str:
    return record.tag("tombstone topic", key)


async def add_tombstones(
    ctx: OperationContext,
    space: SpaceId,
    record: SpaceRecord,
    changes: ChangeSet,
    facts: Iterable[facts.Fact],
    /,
    *,
    at: Instant,
) -> None:
    """Add tombstones of `facts` to a batch.

    The rules get another revision: a write that was judged without these tombstones is judged again.
    """
    facts_by_ref = await _tombstone_refs(ctx, space, record, facts)
    stored_tombstones = await documents_at(ctx.store, space, facts_by_ref)
    for ref, fact in facts_by_ref.items():
        tombstone = FactTombstone(fact=fact.id, topic=topic_tag(record, fact.topic), at=at)
        revision = stored_tombstones[ref].revision if ref in stored_tombstones else 0
        changes.put(ref, tombstone, expects=revision, action=None)
    if facts_by_ref:
        learning_rules, revision = await read_learning(ctx, space)
        changes.put(LEARNING, learning_rules, expects=revision, action=None)


async def remove_tombstones(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, changes: ChangeSet, facts: Iterable[facts.Fact], /
) -> None:
    """Add the deletion of the tombstones of `facts` to a batch."""
    for ref, document in (await stones_of(ctx, space, record, facts)).items():
        changes.delete(ref, expects=document.revision)


async def stones_of(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, facts: Iterable[facts.Fact], /
) -> dict[DocumentRef, Document]:
    """Return the stored tombstones of `facts`."""
    return await documents_at(ctx.store, space, await _tombstone_refs(ctx, space, record, facts))


async def stones_of_topic(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, topic: str, /
) -> dict[DocumentRef, Document]:
    """Return the stored tombstones of every fact of a topic."""
    keys = (facts.topic_key(topic), *facts.earlier_topic_keys(topic))
    tags = {_topic_tag(record, key) for key in keys}
    tombstones = store.scan_documents(ctx.store, space, TOMBSTONES)
    return {
        document.ref: document async for document in tombstones if FactTombstone.from_bytes(document.body).topic in tags
    }


async def read_learning(ctx: OperationContext, space: SpaceId, /) -> tuple[LearningRules, int]:
    """Return the rules of a space, and their revision."""
    learning_rules, revision = await value_at(ctx.store, space, LEARNING, LearningRules)
    return learning_rules or LearningRules(), revision


class ForgottenDrafts:
    """The forgotten drafts of one write."""

    def __init__(
        self, record: SpaceRecord, stored_refs: frozenset[DocumentRef], sentences: Mapping[str, tuple[str, ...]], /
    ) -> None:
        self._record = record
        self._there = stored_refs
        self._sentences = sentences

    def has(self, kind: FactKind, content: str, citations: Sequence[str], home_key: ConversationKey | None, /) -> bool:
        """Return whether this content, or a sentence that it cites, was forgotten."""
        sentences = [sentence for name in citations for sentence in self._sentences.get(name, ())]
        return not self._there.isdisjoint(_tombstone_places(self._record, kind, content, sentences, home_key))


Proposed = tuple[FactKind, str, Sequence[str], ConversationKey | None]
"""The kind, content and citations of a draft, and the only conversation that it applies to."""


async def read_forgotten(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, proposals: Sequence[Proposed], /
) -> ForgottenDrafts:
    """Return which of `proposals` were forgotten before."""
    # Most spaces have none, and their writes need not read what they cite.
    if not await ctx.store.scan(space, TOMBSTONES, limit=1):
        return ForgottenDrafts(record, frozenset(), {})
    text_by_citation = await _cited_texts(ctx, space, {name for _, _, citations, _ in proposals for name in citations})
    sentences = {name: message_sentences(text) for name, text in text_by_citation.items()}
    tombstone_refs = {
        ref
        for kind, content, citations, home_key in proposals
        for ref in _tombstone_places(
            record, kind, content, [one for name in citations for one in sentences.get(name, ())], home_key
        )
    }
    return ForgottenDrafts(record, frozenset(await documents_at(ctx.store, space, tombstone_refs)), sentences)


async def _tombstone_refs(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, facts: Iterable[facts.Fact]
) -> dict[DocumentRef, facts.Fact]:
    """Return the refs of existing or possible tombstones of `facts`."""
    all_facts = list(facts)
    texts = await _cited_texts(ctx, space, {name for fact in all_facts for name in fact.citations})
    return {ref: fact for fact in all_facts for ref in places_of(record, fact, texts, fact.home)}


def places_of(
    record: SpaceRecord, fact: facts.Fact, texts: Mapping[str, str], home_key: ConversationKey | None, /
) -> list[DocumentRef]:
    """Return the places of the tombstones of a fact that applies in `home_key`; `texts` contains what it cites."""
    sentences = telling_sentences([texts[name] for name in fact.citations if name in texts], fact.content)
    return _tombstone_places(record, fact.kind, fact.content, sentences, home_key)


def _tombstone_places(
    record: SpaceRecord, kind: FactKind, content: str, sentences: Iterable[str], home: ConversationKey | None
) -> list[DocumentRef]:
    home_key = home or ()
    tags = [record.tag("tombstone", content_form, *home_key) for content_form in content_forms(content)]
    tags += [record.tag("tombstone sentence", kind.value, sentence, *home_key) for sentence in sentences]
    return [DocumentRef(TOMBSTONES, tag) for tag in tags]


async def _cited_texts(ctx: OperationContext, space: SpaceId, citations: Collection[str]) -> dict[str, str]:
    """Return the text of each of `citations` in a space, as `cited_texts` does."""
    turn_ids = {cited_place[0] for name in citations if (cited_place := cited_turn(name)) is not None}
    turns = await values_at(
        ctx.store, space, (DocumentRef(transcript.TURNS, turn) for turn in turn_ids), transcript.Turn
    )
    return cited_texts({TurnId(ref.key): turn for ref, turn in turns.items()}, citations)


def cited_texts(turns: Mapping[TurnId, transcript.Turn], citations: Iterable[str], /) -> dict[str, str]:
    """Return the text of each readable cited message of `turns`; for a cited turn, all its messages."""
    texts: dict[str, str] = {}
    for name in citations:
        cited_place = cited_turn(name)
        turn = turns.get(cited_place[0]) if cited_place is not None else None
        if cited_place is not None and turn is not None:
            cited_part = cited_place[1]
            readable_parts = [
                part_index
                for part_index in range(len(turn.messages))
                if cited_part in {None, part_index} and turn.is_readable(part_index)
            ]
            texts[name] = "\n".join(turn.messages[part_index].text for part_index in readable_parts)
    return texts
