"""Control of facts: list, read, change and forget by query, and what is not to be learned."""

from functools import partial

from elytron.context import OperationContext
from elytron.documents.hits import CursorForm
from elytron.documents.stored_values import ChangeSet, key_of, read_slot, versions_of
from elytron.intake import admit_texts
from elytron.memories.audit_trail import event_of, note_events
from elytron.memories.chat_aliases import meant_conversation
from elytron.memories.links import RestingMemory, link_written, unlink_left
from elytron.memories.lookup import FactMemory, may_disclose, must_find, require_disclosed, tag_of
from elytron.memories.tombstones import LEARNING, add_tombstones, read_learning, stones_of_topic
from elytron.writes.commit import SettledChanges, settle_report
from elytron.writes.facts import plan_change, uses_of
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.facts import (
    FactChangeReport,
    FactChangeRequest,
    FactDetailReport,
    FactDetailRequest,
    FactEntry,
    FactForgetReport,
    FactForgetRequest,
    FactListReport,
    FactListRequest,
    LearningReport,
    LearningRequest,
    MemoryMergeReport,
    MemoryMergeRequest,
    MergedPair,
)
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound, PreconditionFailed
from elytron_core.ids import ID, FactId, is_id
from elytron_core.planes import facts as planes_facts
from elytron_core.planes.audit_trail import AuditAction
from elytron_core.planes.facts import (
    Fact,
    FactState,
    LearningAction,
    LearningEvent,
    LearningRules,
    fact_freshness,
    fact_holds,
    is_taken,
)
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import DerivedMemoryPlane
from elytron_core.policy.admission.facts import SLOT_TAKEN, fact_matches, require_fields
from elytron_core.policy.admission.learning_rules import rules_after, with_event
from elytron_core.policy.admission.near_duplicates import fold_facts, similar_pairs, unfold_facts
from elytron_core.ports import store
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.scope import Scope
from elytron_core.text import similarity


def entry_of(
    record: SpaceRecord, fact: planes_facts.Fact, revision: int, /, *, now: Instant, last_used_at: Instant | None = None
) -> FactEntry:
    """Return the entry of a stored fact."""
    freshness = fact_freshness(fact, now)
    home_key = fact.home
    return FactEntry(
        id=fact.id,
        kind=fact.kind,
        topic=fact.topic,
        content=fact.content,
        keywords=fact.keywords,
        entities=fact.entities,
        state=fact.state,
        confidence=fact.confidence,
        tier=fact.tier,
        certainty=fact.certainty,
        authority=fact.authority,
        trust=fact.trust,
        privacy=fact.privacy,
        reach=fact.reach,
        channel=home_key.channel if home_key is not None else None,
        chat=home_key.conversation if home_key is not None else None,
        evidence=fact.citations,
        evidence_count=fact.evidence_count,
        observed_at=fact.observed_at,
        recorded_at=fact.recorded_at,
        confirmed_at=fact.confirmed_at,
        valid_from=fact.valid_from,
        valid_to=fact.valid_to,
        last_used_at=last_used_at,
        freshness=freshness.state,
        hint=freshness.hint,
        closed_at=fact.closed_at,
        closed_because=fact.closed_because,
        supersedes=fact.supersedes,
        superseded_by=fact.superseded_by,
        version=tag_of(record, DocumentRef(planes_facts.FACTS, fact.id), revision),
    )


_CURSOR = CursorForm(ID, "a list report")


async def list_facts(ctx: OperationContext, request: FactListRequest, /) -> FactListReport:
    """Return the page of facts after the cursor, and the learning rules."""
    scope = ctx.scope_of(request)
    start_key = _CURSOR.key(request.cursor)
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return FactListReport(space=scope.space, items=())
    rules, _ = await read_learning(ctx, scope.space)
    now = ctx.clock.now()
    matches: list[tuple[Fact, int]] = []
    withheld_count, last_key, has_more = 0, "", False
    async for document in store.scan_documents(ctx.store, scope.space, planes_facts.FACTS, after=start_key):
        fact = Fact.from_bytes(document.body)
        if not _is_meant(fact, request, now):
            continue
        if len(matches) == request.limit:
            has_more = True
            break
        if may_disclose(fact, include_private=request.include_private):
            matches.append((fact, document.revision))
        else:
            withheld_count += 1
        last_key = document.ref.key
    last_uses = await uses_of(ctx, scope.space, (fact.id for fact, _ in matches))
    return FactListReport(
        space=scope.space,
        items=tuple(
            entry_of(record, fact, revision, now=now, last_used_at=last_uses.get(fact.id)) for fact, revision in matches
        ),
        withheld=withheld_count,
        learning=rules,
        next_cursor=last_key if has_more else None,
        has_more=has_more,
    )


async def get_fact(ctx: OperationContext, request: FactDetailRequest, /) -> FactDetailReport:
    """Return one fact in full. Raises NotFound, InvalidInput for a private one that was not requested by name."""
    scope = ctx.scope_of(request)
    memory = await must_find(ctx, scope, request.id)
    record = await ctx.spaces.find(scope.space)
    if not isinstance(memory, FactMemory):
        raise InvalidInput(field="id", problem="does not name a fact: use get for other memories")
    require_disclosed(memory, include_private=request.include_private)
    if record is None:
        raise NotFound(what="memory", name=request.id)
    last_used_at = (await uses_of(ctx, scope.space, (memory.fact.id,))).get(memory.fact.id)
    entry = entry_of(record, memory.fact, memory.revision, now=ctx.clock.now(), last_used_at=last_used_at)
    return FactDetailReport(space=scope.space, fact=entry)


@admit_texts
async def change_fact(ctx: OperationContext, request: FactChangeRequest, /) -> FactChangeReport:
    """Change one fact that is believed to hold at some time. Raises NotFound, InvalidInput, PreconditionFailed."""
    scope = ctx.scope_of(request)
    require_fields(request)
    conversation = await meant_conversation(ctx, scope)
    if request.reach is planes_facts.FactReach.CHAT and not conversation.is_trusted:
        raise InvalidInput(field="scope", problem="names a chat without a conversation: name the conversation")
    return await settle_report(ctx, scope.space, partial(plan_change, ctx, scope, conversation.key, request))


@admit_texts
async def forget_facts(ctx: OperationContext, request: FactForgetRequest, /) -> FactForgetReport:
    """Forget what a dry run of the same query listed. Raises PreconditionFailed if other facts match by now."""
    scope = ctx.scope_of(request)
    if similarity.is_blank(similarity.normalise_text(request.query)):
        raise InvalidInput(field="query", problem="has no words: name what to forget")
    if request.token is None and not request.dry_run:
        raise InvalidInput(field="token", problem="is missing: run it with dry_run first, then with its token")
    if await ctx.spaces.find(scope.space) is None:
        return FactForgetReport(space=scope.space, items=(), changed=False, dry_run=request.dry_run)
    plan_forgetting = partial(_plan_forgetting, ctx, scope, request)
    return await settle_report(ctx, scope.space, plan_forgetting, takes_back=True)


@admit_texts
async def set_learning(ctx: OperationContext, request: LearningRequest, /) -> LearningReport:
    """Pause, resume, suppress or allow learning. Raises InvalidInput if a topic is missing."""
    scope = ctx.scope_of(request)
    if request.action in {LearningAction.SUPPRESS, LearningAction.ALLOW} and request.topic is None:
        raise InvalidInput(field="topic", problem=f"is required for {request.action.value!r}")
    if request.topic is not None and not similarity.normalise_text(request.topic):
        raise InvalidInput(field="topic", problem="has no words: name a topic")
    return await settle_report(ctx, scope.space, partial(_plan_learning, ctx, scope, request))


async def _plan_forgetting(
    ctx: OperationContext, scope: Scope, request: FactForgetRequest, record: SpaceRecord
) -> SettledChanges[FactForgetReport]:
    now = ctx.clock.now()
    matches: list[tuple[Fact, int]] = []
    withheld_count, has_more = 0, False
    async for document in store.scan_documents(ctx.store, scope.space, planes_facts.FACTS):
        fact = Fact.from_bytes(document.body)
        is_in_question = fact.is_believed and (not request.kinds or fact.kind in request.kinds)
        if not is_in_question or not fact_matches(fact, request.query):
            continue
        if not may_disclose(fact, include_private=request.include_private):
            withheld_count += 1
        elif len(matches) == limits.WRITES_PER_REQUEST:
            has_more = True
            break
        else:
            matches.append((fact, document.revision))
    token = _facts_token(record, request, matches)
    if request.token not in {None, token}:
        raise PreconditionFailed
    report = FactForgetReport(
        space=scope.space,
        items=tuple(entry_of(record, fact, revision, now=now) for fact, revision in matches),
        withheld=withheld_count,
        has_more=has_more,
        token=token if request.dry_run else None,
        changed=bool(matches) and not request.dry_run,
        dry_run=request.dry_run,
    )
    if not report.changed:
        return SettledChanges(report)
    changes = ChangeSet(record)
    closing_reason = request.reason or "forgotten"
    for fact, revision in matches:
        closed_fact = planes_facts.close_fact(fact, at=now, because=closing_reason, state=FactState.FORGOTTEN)
        changes.put(
            DocumentRef(planes_facts.FACTS, fact.id), closed_fact, expects=revision, action=JournalAction.DELETE
        )
    await add_tombstones(ctx, scope.space, record, changes, (fact for fact, _ in matches), at=now)
    event = event_of(ctx, AuditAction.FORGOTTEN, at=now, reason=request.reason)
    await note_events(
        ctx, scope.space, record, changes, {DocumentRef(planes_facts.FACTS, fact.id): (event,) for fact, _ in matches}
    )
    return SettledChanges(report, changes)


def _facts_token(record: SpaceRecord, request: FactForgetRequest, matches: list[tuple[Fact, int]]) -> str:
    """Return the token of these facts at these revisions, selected by this query."""
    token_parts = [part for fact, revision in matches for part in (fact.id, str(revision))]
    kind_text = ",".join(sorted(kind.value for kind in request.kinds))
    return record.tag(
        "forget facts", similarity.normalise_text(request.query), kind_text, str(request.include_private), *token_parts
    )


async def _plan_learning(
    ctx: OperationContext, scope: Scope, request: LearningRequest, record: SpaceRecord
) -> SettledChanges[LearningReport]:
    rules_before, revision = await read_learning(ctx, scope.space)
    event = LearningEvent(
        action=request.action, topic=request.topic, at=ctx.clock.now(), by=ctx.caller, reason=request.reason
    )
    rules = rules_after(rules_before, event)
    if len(rules.rules) > limits.LEARNING_RULES:
        raise LimitExceeded(what="suppressed topics", limit=limits.LEARNING_RULES, found=len(rules.rules))
    changes = ChangeSet(record)
    tombstones: dict[DocumentRef, Document] = {}
    if request.action is LearningAction.ALLOW and request.topic is not None:
        tombstones = await stones_of_topic(ctx, scope.space, record, request.topic)
        # The rules get a new revision, so that a write that was judged with the tombstones is judged again.
        if tombstones and rules == rules_before:
            rules = with_event(rules_before, event)
    for ref, document in tombstones.items():
        changes.delete(ref, expects=document.revision)
    if rules != rules_before:
        changes.put(LEARNING, rules, expects=revision, action=JournalAction.OPERATOR)
    return _settle_rules(scope, request, rules, len(tombstones), changes)


def _settle_rules(
    scope: Scope, request: LearningRequest, rules: LearningRules, stones: int, changes: ChangeSet
) -> SettledChanges[LearningReport]:
    report = LearningReport(
        space=scope.space,
        learning=rules,
        tombstones=stones,
        changed=bool(changes) and not request.dry_run,
        dry_run=request.dry_run,
    )
    return SettledChanges(report, changes if report.changed else None)


def _is_meant(fact: Fact, request: FactListRequest, now: Instant) -> bool:
    is_asked = fact_holds(fact, as_of=now) if request.states is None else _is_in(fact, request.states)
    return is_asked and (not request.kinds or fact.kind in request.kinds) and fact_matches(fact, request.query)


def _is_in(fact: Fact, states: tuple[FactState, ...]) -> bool:
    return not states or fact.state in states


MISSING_FACT = "one of the two facts no longer exists"


async def merge_facts(ctx: OperationContext, request: MemoryMergeRequest, /) -> MemoryMergeReport:
    """Merge facts that say nearly the same, or restore merged ones; all in one batch."""
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> SettledChanges[MemoryMergeReport]:
        changes = ChangeSet(record)
        if request.undo:
            pairs = [await _unfold_pair(ctx, scope, name, record, changes) for name in dict.fromkeys(request.undo)]
        else:
            pairs = await _fold_pairs(ctx, scope, request.limit, changes)
            await link_written(ctx, scope.space, record, changes)
        has_changed = any(pair.changed for pair in pairs)
        now = ctx.clock.now()
        event = event_of(ctx, AuditAction.RESTORED if request.undo else AuditAction.MERGED, at=now)
        events = {DocumentRef(planes_facts.FACTS, pair.folded): (event,) for pair in pairs if pair.changed}
        await note_events(ctx, scope.space, record, changes, events)
        report = MemoryMergeReport(
            space=scope.space,
            pairs=tuple(pairs),
            changed=has_changed and not request.dry_run,
            dry_run=request.dry_run,
        )
        return SettledChanges(report, changes if report.changed else None)

    if await ctx.spaces.find(scope.space) is None and not request.undo:
        return MemoryMergeReport(space=scope.space, pairs=(), changed=False, dry_run=request.dry_run)
    return await settle_report(ctx, scope.space, plan)


async def _fold_pairs(ctx: OperationContext, scope: Scope, limit: int, changes: ChangeSet) -> list[MergedPair]:
    facts_by_id = await _stored_facts(ctx, scope)
    now = ctx.clock.now()
    current_facts = {fact_id: fact for fact_id, (fact, _) in facts_by_id.items() if fact.is_current}
    merged_pairs: list[MergedPair] = []
    for pair in similar_pairs(tuple(current_facts.values()), limit=limit):
        merged_fact, folded_fact = fold_facts(current_facts[pair.surviving.id], pair.folded, at=now)
        current_facts[merged_fact.id] = merged_fact
        for fact in (merged_fact, folded_fact):
            _, revision = facts_by_id[fact.id]
            changes.put(DocumentRef(planes_facts.FACTS, fact.id), fact, expects=revision, action=JournalAction.MERGE)
        merged_pairs.append(MergedPair(kept=merged_fact.id, folded=folded_fact.id, likeness=round(pair.likeness, 4)))
    return merged_pairs


async def _stored_facts(ctx: OperationContext, scope: Scope) -> dict[FactId, tuple[planes_facts.Fact, int]]:
    stored_documents = store.scan_documents(ctx.store, scope.space, planes_facts.FACTS)
    facts = [(planes_facts.Fact.from_bytes(document.body), document.revision) async for document in stored_documents]
    return {fact.id: (fact, revision) for fact, revision in facts}


async def _unfold_pair(
    ctx: OperationContext, scope: Scope, name: str, record: SpaceRecord, changes: ChangeSet
) -> MergedPair:
    folded_entry = await _changed_fact(ctx, scope, name, changes)
    if (
        folded_entry is None
        or folded_entry[0].state is not planes_facts.FactState.MERGED
        or folded_entry[0].superseded_by is None
    ):
        return MergedPair(kept="", folded=name, changed=False, reason="it was not merged into another fact")
    fact, revision = folded_entry
    target_entry = await _changed_fact(ctx, scope, folded_entry[0].superseded_by, changes)
    if target_entry is None:
        return MergedPair(kept=folded_entry[0].superseded_by, folded=name, changed=False, reason=MISSING_FACT)
    reduced_fact, restored_fact = unfold_facts(target_entry[0], fact)
    slot = await read_slot(ctx.store, scope.space, record, key_of(fact))
    # Earlier pairs may have filled the slot within this batch.
    pending_facts = [
        value for value in changes.folded.values() if isinstance(value, planes_facts.Fact) and value.id in slot.facts
    ]
    if is_taken(restored_fact, (*await versions_of(ctx.store, scope.space, slot), *pending_facts)):
        return MergedPair(kept=target_entry[0].id, folded=name, changed=False, reason=SLOT_TAKEN)
    # The slot gets a new revision, so that a write that was judged without this fact is judged again.
    slot.put(changes)
    changes.put(
        DocumentRef(planes_facts.FACTS, reduced_fact.id),
        reduced_fact,
        expects=target_entry[1],
        action=JournalAction.OPERATOR,
    )
    changes.put(
        DocumentRef(planes_facts.FACTS, restored_fact.id),
        restored_fact,
        expects=revision,
        action=JournalAction.OPERATOR,
    )
    target_memory = RestingMemory(DerivedMemoryPlane.SHARED_FACT, reduced_fact.id, target_entry[0].citations)
    await unlink_left(ctx, scope.space, record, changes, target_memory, after=reduced_fact.citations)
    return MergedPair(kept=reduced_fact.id, folded=restored_fact.id)


async def _changed_fact(
    ctx: OperationContext, scope: Scope, name: str, changes: ChangeSet
) -> tuple[planes_facts.Fact, int] | None:
    """Return the fact with the changes of the unfinished batch, and its stored revision."""
    if not is_id(name):
        return None
    ref = DocumentRef(planes_facts.FACTS, name)
    (document,) = await ctx.store.get(scope.space, (ref,))
    if document is None:
        return None
    changed_fact = changes.folded.get(ref)
    fact = changed_fact if isinstance(changed_fact, planes_facts.Fact) else planes_facts.Fact.from_bytes(document.body)
    return fact, document.revision
