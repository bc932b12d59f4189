"""Long-term control: facts listed, read, changed and forgotten by query, and what is not to be learned."""

from functools import partial

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.cursor import CursorForm
from elytron.intake.texts import admitting
from elytron.memories.audit_trail import event_of, note
from elytron.memories.chat_aliases import meant
from elytron.memories.disclosure import may_disclose, require_disclosed
from elytron.memories.fact_entries import entry_of
from elytron.memories.lookup import FactMemory, must_find
from elytron.memories.tombstones import LEARNING, bury, read_learning, stones_of_topic
from elytron.writes.knowledge.fact_changes import plan_change
from elytron.writes.knowledge.fact_uses import uses_of
from elytron.writes.settlement import Settled, settle_report
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.facts import (
    FactChangeReport,
    FactChangeRequest,
    FactDetailReport,
    FactDetailRequest,
    FactForgetReport,
    FactForgetRequest,
    FactListReport,
    FactListRequest,
    LearningReport,
    LearningRequest,
)
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound, PreconditionFailed
from elytron_core.ids import ID
from elytron_core.planes.admin.audit import AuditAction
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.learning_rules import Learning, LearningAction, LearningEvent
from elytron_core.planes.knowledge.long_term import Fact, State
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import fact_control
from elytron_core.policy.admission.learning_rules import after, with_event
from elytron_core.policy.temporal import validity
from elytron_core.ports import store_pages
from elytron_core.ports.store import Action, Document, Ref
from elytron_core.scope import Scope
from elytron_core.text import similarity

_CURSOR = CursorForm(ID, "a list report")
_OF_TOPICS = frozenset({LearningAction.SUPPRESS, LearningAction.ALLOW})


async def list_facts(ctx: OperationContext, request: FactListRequest, /) -> FactListReport:
    """Return the page of facts behind the cursor, and what is not learned."""
    scope = ctx.scope_of(request)
    start = _CURSOR.key(request.cursor)
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return FactListReport(space=scope.space, items=())
    rules, _ = await read_learning(ctx, scope.space)
    now = ctx.clock.now()
    found: list[tuple[Fact, int]] = []
    withheld, last, has_more = 0, "", False
    async for document in store_pages.documents(ctx.store, scope.space, long_term.FACTS, after=start):
        fact = Fact.from_bytes(document.body)
        if not _is_meant(fact, request, now):
            continue
        if len(found) == request.limit:
            has_more = True
            break
        if may_disclose(fact, include_private=request.include_private):
            found.append((fact, document.revision))
        else:
            withheld += 1
        last = document.ref.key
    used = await uses_of(ctx, scope.space, (fact.id for fact, _ in found))
    return FactListReport(
        space=scope.space,
        items=tuple(entry_of(record, fact, revision, now=now, used=used.get(fact.id)) for fact, revision in found),
        withheld=withheld,
        learning=rules,
        next_cursor=last if has_more else None,
        has_more=has_more,
    )


async def get_fact(ctx: OperationContext, request: FactDetailRequest, /) -> FactDetailReport:
    """Return one fact in full. Raises NotFound, InvalidInput for a private one that was not asked for by name."""
    scope = ctx.scope_of(request)
    memory = await must_find(ctx, scope, request.id)
    record = await ctx.spaces.find(scope.space)
    if not isinstance(memory, FactMemory):
        raise InvalidInput(field="id", problem="names no fact: get reads other memories")
    require_disclosed(memory, include_private=request.include_private)
    if record is None:
        raise NotFound(what="memory", name=request.id)
    used = (await uses_of(ctx, scope.space, (memory.fact.id,))).get(memory.fact.id)
    entry = entry_of(record, memory.fact, memory.revision, now=ctx.clock.now(), used=used)
    return FactDetailReport(space=scope.space, fact=entry)


@admitting
async def change_fact(ctx: OperationContext, request: FactChangeRequest, /) -> FactChangeReport:
    """Change one fact that is believed to hold at some time. Raises NotFound, InvalidInput, PreconditionFailed."""
    scope = ctx.scope_of(request)
    fact_control.require_fields(request)
    conversation = await meant(ctx, scope)
    if request.reach is long_term.Reach.CHAT and not conversation.is_trusted:
        raise InvalidInput(field="scope", problem="names a chat that belongs to no conversation: name the conversation")
    return await settle_report(ctx, scope.space, partial(plan_change, ctx, scope, conversation.key, request))


@admitting
async def forget_facts(ctx: OperationContext, request: FactForgetRequest, /) -> FactForgetReport:
    """Forget what a dry run of the same query named. Raises PreconditionFailed if other facts match by now."""
    scope = ctx.scope_of(request)
    if similarity.is_blank(similarity.normalise(request.query)):
        raise InvalidInput(field="query", problem="has no word: name what is to be forgotten")
    if request.token is None and not request.dry_run:
        raise InvalidInput(field="token", problem="is missing: run it with dry_run first, and repeat it with its token")
    if await ctx.spaces.find(scope.space) is None:
        return FactForgetReport(space=scope.space, items=(), changed=False, dry_run=request.dry_run)
    plan = partial(_plan_forgetting, ctx, scope, request)
    return await settle_report(ctx, scope.space, plan, takes_back=True)


@admitting
async def set_learning(ctx: OperationContext, request: LearningRequest, /) -> LearningReport:
    """Pause, resume, suppress or allow learning. Raises InvalidInput if a topic is missing."""
    scope = ctx.scope_of(request)
    if request.action in _OF_TOPICS and request.topic is None:
        raise InvalidInput(field="topic", problem=f"is missing for {request.action.value!r}: name one")
    if request.topic is not None and not similarity.normalise(request.topic):
        raise InvalidInput(field="topic", problem="has no word: name one")
    return await settle_report(ctx, scope.space, partial(_plan_learning, ctx, scope, request))


async def _plan_forgetting(
    ctx: OperationContext, scope: Scope, request: FactForgetRequest, record: SpaceRecord
) -> Settled[FactForgetReport]:
    now = ctx.clock.now()
    found: list[tuple[Fact, int]] = []
    withheld, has_more = 0, False
    async for document in store_pages.documents(ctx.store, scope.space, long_term.FACTS):
        fact = Fact.from_bytes(document.body)
        is_meant = fact.is_believed and (not request.kinds or fact.kind in request.kinds)
        if not is_meant or not fact_control.holds(fact, request.query):
            continue
        if not may_disclose(fact, include_private=request.include_private):
            withheld += 1
        elif len(found) == limits.WRITES_PER_REQUEST:
            has_more = True
            break
        else:
            found.append((fact, document.revision))
    token = _token(record, request, found)
    if request.token not in {None, token}:
        raise PreconditionFailed
    report = FactForgetReport(
        space=scope.space,
        items=tuple(entry_of(record, fact, revision, now=now) for fact, revision in found),
        withheld=withheld,
        has_more=has_more,
        token=token if request.dry_run else None,
        changed=bool(found) and not request.dry_run,
        dry_run=request.dry_run,
    )
    if not report.changed:
        return Settled(report)
    changes = Changes(record)
    because = request.reason or "forgotten"
    for fact, revision in found:
        closed = long_term.close(fact, at=now, because=because, state=State.FORGOTTEN)
        changes.put(Ref(long_term.FACTS, fact.id), closed, expects=revision, action=Action.DELETE)
    await bury(ctx, scope.space, record, changes, (fact for fact, _ in found), at=now)
    done = event_of(ctx, AuditAction.FORGOTTEN, at=now, reason=request.reason)
    await note(ctx, scope.space, record, changes, {Ref(long_term.FACTS, fact.id): (done,) for fact, _ in found})
    return Settled(report, changes)


def _token(record: SpaceRecord, request: FactForgetRequest, found: list[tuple[Fact, int]]) -> str:
    """Return the token of these facts at these revisions, selected by this query."""
    parts = [part for fact, revision in found for part in (fact.id, str(revision))]
    kinds = ",".join(sorted(kind.value for kind in request.kinds))
    return record.tag("forget facts", similarity.normalise(request.query), kinds, str(request.include_private), *parts)


async def _plan_learning(
    ctx: OperationContext, scope: Scope, request: LearningRequest, record: SpaceRecord
) -> Settled[LearningReport]:
    before, revision = await read_learning(ctx, scope.space)
    event = LearningEvent(
        action=request.action, topic=request.topic, at=ctx.clock.now(), by=ctx.caller, reason=request.reason
    )
    rules = after(before, event)
    if len(rules.rules) > limits.LEARNING_RULES:
        raise LimitExceeded(what="topics that are not learned", limit=limits.LEARNING_RULES, found=len(rules.rules))
    changes = Changes(record)
    stones: dict[Ref, Document] = {}
    if request.action is LearningAction.ALLOW and request.topic is not None:
        stones = await stones_of_topic(ctx, scope.space, record, request.topic)
        if stones and rules == before:
            rules = with_event(before, event)
    for ref, document in stones.items():
        changes.delete(ref, expects=document.revision)
    if rules != before:
        changes.put(LEARNING, rules, expects=revision, action=Action.OPERATOR)
    return _settled(scope, request, rules, len(stones), changes)


def _settled(
    scope: Scope, request: LearningRequest, rules: Learning, stones: int, changes: Changes
) -> Settled[LearningReport]:
    report = LearningReport(
        space=scope.space,
        learning=rules,
        tombstones=stones,
        changed=bool(changes) and not request.dry_run,
        dry_run=request.dry_run,
    )
    return Settled(report, changes if report.changed else None)


def _is_meant(fact: Fact, request: FactListRequest, now: Instant) -> bool:
    is_asked = validity.holds(fact, as_of=now) if request.states is None else _is_in(fact, request.states)
    return is_asked and (not request.kinds or fact.kind in request.kinds) and fact_control.holds(fact, request.query)


def _is_in(fact: Fact, states: tuple[State, ...]) -> bool:
    return not states or fact.state in states
