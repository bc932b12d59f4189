"""Guards of an archive, brought into another space: tombstones of what was forgotten, and rules of learning."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from elytron.context import OperationContext
from elytron.documents.change_set import ChangeSet
from elytron.documents.planes import HOMES, is_expired, is_forgotten
from elytron.documents.stored_values import documents_at
from elytron.intake import OwnOutput, scrub_value
from elytron.memories.tombstones import LEARNING, cited_texts, places_of, read_learning, topic_tag
from elytron.transfer.archive import ArchiveReader
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core.clock import Instant
from elytron_core.contracts.archive import ArchiveWord
from elytron_core.ids import FactId, TurnId
from elytron_core.model import Value
from elytron_core.planes import facts as plane
from elytron_core.planes import facts as planes_facts
from elytron_core.planes import records, transcript
from elytron_core.planes.facts import Fact, FactTombstone, LearningRules
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import cited_turn
from elytron_core.policy.admission.facts import is_allowed_since, join_rules
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.scope import ConversationKey, Scope

AT_ONCE = 64
"""Documents that one batch brings."""


class BroughtCount(NamedTuple):
    """Number of stored documents, and of existing ones."""

    stored: int = 0
    skipped: int = 0


async def bring_documents(
    ctx: OperationContext, scope: Scope, collection: str, found: Iterable[Document], /
) -> BroughtCount:
    """Store each of `found`, all of `collection`, that may be read and whose name is free here."""
    told = BroughtCount()
    for part in _document_parts(collection, found):
        brought = await _bring_part(ctx, scope, collection, part)
        told = BroughtCount(told.stored + brought.stored, told.skipped + brought.skipped)
    return told


def _document_parts(collection: str, found: Iterable[Document]) -> Iterator[tuple[Value, ...]]:
    kind = HOMES[collection].kind
    # An archive may be older than a rule of scrubbing, or from elsewhere.
    clean = (scrub_value(kind.from_bytes(one.body), own=OwnOutput.STRIP)[0] for one in found)
    while part := tuple(islice(clean, AT_ONCE)):
        yield part


def _is_alive(value: Value, now: Instant) -> bool:
    return not is_forgotten(value) and not is_expired(value, now)


async def _bring_part(ctx: OperationContext, scope: Scope, collection: str, part: tuple[Value, ...]) -> BroughtCount:
    home = HOMES[collection]
    assert home.key is not None
    key_of = home.key

    async def plan(space: SpaceRecord) -> SettledChanges[BroughtCount]:
        now, changes, stored = ctx.clock.now(), ChangeSet(space), 0
        places = {DocumentRef(collection, key_of(space, one)): one for one in part}
        known = await ctx.store.get(scope.space, list(places))
        for (ref, value), document in zip(places.items(), known, strict=True):
            there = home.kind.from_bytes(document.body) if document is not None else None
            is_reserved = isinstance(value, records.Record) and records.is_reserved(value.namespace)
            if is_reserved or not _is_alive(value, now) or (there is not None and _is_alive(there, now)):
                continue
            stored += 1
            brought = home.succeeding(value, there) if there is not None else value
            changes.put(
                ref, brought, expects=document.revision if document is not None else 0, action=JournalAction.WRITE
            )
        return SettledChanges(BroughtCount(stored, len(part) - stored), changes)

    brought, _ = await settle_changes(ctx, scope.space, plan)
    return brought


FACTS_AT_ONCE = 64
"""Facts whose tombstones one batch brings."""
GUARDS = frozenset({plane.TOMBSTONES, plane.LEARNING})


class _FactBurial(NamedTuple):
    """A forgotten fact, its tombstone, and the texts that it cites."""

    fact: Fact
    stone: FactTombstone
    texts: Mapping[str, str]


class _ArchiveGuards(NamedTuple):
    """Guards of an archive."""

    rules: LearningRules
    burials: Sequence[_FactBurial]


async def bring_guards(
    ctx: OperationContext,
    scope: Scope,
    reader: ArchiveReader,
    known: Collection[DocumentRef],
    /,
    *,
    home_of: Callable[[ConversationKey], ConversationKey],
    word: ArchiveWord,
) -> dict[str, BroughtCount]:
    """Store the guards of an archive that this space does not have, except what was allowed here since.

    Tags of another space say nothing here, so tombstones are made again of the facts that were forgotten. What is
    `known` to have been erased here leaves none. `home_of` gives the conversation here of one there.
    """
    guards = await asyncio.to_thread(_read_guards, reader, known)
    brought = {plane.TOMBSTONES: BroughtCount(), plane.LEARNING: BroughtCount()}
    for start in range(0, len(guards.burials), FACTS_AT_ONCE):
        part = guards.burials[start : start + FACTS_AT_ONCE]
        made, _ = await settle_changes(ctx, scope.space, partial(_plan_tombstones, ctx, scope, part, home_of))
        before = brought[plane.TOMBSTONES]
        brought[plane.TOMBSTONES] = BroughtCount(before.stored + made.stored, before.skipped + made.skipped)
    if guards.rules.rules:
        # An archive may be older than a rule of scrubbing, or from elsewhere.
        rules, _ = scrub_value(guards.rules, own=OwnOutput.STRIP)
        by = ctx.caller if word is ArchiveWord.CLAIMED else None
        brought[plane.LEARNING], _ = await settle_changes(ctx, scope.space, partial(_plan_rules, ctx, scope, rules, by))
    return brought


def _read_guards(reader: ArchiveReader, known: Collection[DocumentRef]) -> _ArchiveGuards:
    """Return the guards of an archive; it is read again if a forgotten fact cites a turn."""
    rules, facts, stones = LearningRules(), dict[FactId, Fact](), dict[FactId, FactTombstone]()
    for document in reader.documents():
        match document.ref.collection:
            case planes_facts.FACTS if document.ref not in known:
                fact = Fact.from_bytes(document.body)
                if not fact.is_believed:
                    facts[fact.id] = fact
            case plane.TOMBSTONES if document.ref not in known:
                stone = FactTombstone.from_bytes(document.body)
                stones.setdefault(stone.fact, stone)
            case plane.LEARNING:
                rules = LearningRules.from_bytes(document.body)
            case _:
                pass
    buried = [(facts[name], stone) for name, stone in stones.items() if name in facts]
    cited = {turn for fact, _ in buried for name in fact.citations if (turn := cited_turn(name)) is not None}
    wanted = {turn for turn, _ in cited}
    turns: dict[TurnId, transcript.Turn] = {}
    for document in reader.documents() if wanted else ():
        if document.ref.collection == transcript.TURNS and document.ref.key in wanted:
            turns[TurnId(document.ref.key)] = transcript.Turn.from_bytes(document.body)
    burials = [_FactBurial(fact, stone, cited_texts(turns, fact.citations)) for fact, stone in buried]
    return _ArchiveGuards(rules, burials)


async def _plan_tombstones(
    ctx: OperationContext,
    scope: Scope,
    burials: Sequence[_FactBurial],
    home_of: Callable[[ConversationKey], ConversationKey],
    record: SpaceRecord,
) -> SettledChanges[BroughtCount]:
    rules, revision = await read_learning(ctx, scope.space)
    wanted: dict[DocumentRef, FactTombstone] = {}
    for fact, stone, texts in burials:
        home = home_of(fact.home) if fact.home is not None else None
        clean, _ = scrub_value(fact, own=OwnOutput.STRIP)
        made = stone.model_copy(update={"topic": topic_tag(record, clean.topic)})
        if not is_allowed_since(rules, clean.topic, stone.at):
            places = places_of(record, clean, texts, home)
            wanted |= dict.fromkeys(places, made)
    there = await documents_at(ctx.store, scope.space, wanted)
    changes = ChangeSet(record)
    for ref, stone in wanted.items():
        if ref not in there:
            changes.put(ref, stone, expects=0, action=None)
    if changes:
        # As at each burial: a write that was judged without these tombstones is judged again.
        changes.put(LEARNING, rules, expects=revision, action=JournalAction.OPERATOR)
    return SettledChanges(BroughtCount(len(wanted) - len(there), len(there)), changes)


async def _plan_rules(
    ctx: OperationContext, scope: Scope, found: LearningRules, by: str | None, record: SpaceRecord
) -> SettledChanges[BroughtCount]:
    before, revision = await read_learning(ctx, scope.space)
    named = [rule.model_copy(update={"by": by}) if by is not None else rule for rule in found.rules]
    after = join_rules(before, named)
    changes = ChangeSet(record)
    if after != before:
        changes.put(LEARNING, after, expects=revision, action=JournalAction.OPERATOR)
    stored = len(after.rules) - len(before.rules)
    return SettledChanges(BroughtCount(stored, len(found.rules) - stored), changes)
