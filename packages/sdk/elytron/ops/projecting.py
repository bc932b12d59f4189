"""Projection: the bounded block a model may see."""

from elytron.context import OperationContext
from elytron.filtering import fact_passes
from elytron.gathering import gather
from elytron_core import limits
from elytron_core.contracts.projecting import MemoryProjectionReport, MemoryProjectionRequest
from elytron_core.contracts.recalling import Plane, RecallFilters, RecallHit, RecallOutcome
from elytron_core.ids import TurnId
from elytron_core.planes import long_term, transcript
from elytron_core.policy import projection
from elytron_core.scope import Scope

STANDING_FACTS = 24
STANDING_SCANNED = 1_000
MARK_BYTES = 12
KIND_ORDER = (
    long_term.Kind.CONSTRAINT,
    long_term.Kind.PROFILE,
    long_term.Kind.PREFERENCE,
    long_term.Kind.RELATIONSHIP,
    long_term.Kind.PROJECT,
    long_term.Kind.TASK,
    long_term.Kind.FACT,
)
"""Which kinds stand first when there are more facts than room."""


async def project(ctx: OperationContext, request: MemoryProjectionRequest, /) -> MemoryProjectionReport:
    """Build the block for the query: standing facts, skills, what was said last, and what was recalled."""
    scope = ctx.scope_of(request)
    limit = max(request.recall_limit, 1)
    gathered = await gather(ctx, scope, request.user_query, request.filters, limit=limit)
    recent = await _recent(ctx, scope, request.recent_messages_limit)
    standing = await _standing(ctx, scope)
    shown = {item.id for item in recent} | {fact.id for fact in standing}
    recalled = [hit for hit in gathered.hits if hit.plane is not Plane.PROCEDURAL and hit.id not in shown]
    built = projection.build(
        projection.ProjectionInputs(
            system_max_len=request.system_max_len,
            pressure=request.pressure,
            facts=standing,
            skills=tuple(_skill(hit) for hit in gathered.hits if hit.plane is Plane.PROCEDURAL),
            recent=recent,
            recalled=tuple(_recalled(hit) for hit in recalled[: request.recall_limit]),
            space_is_empty=gathered.outcome is RecallOutcome.EMPTY_SPACE,
        ),
        mark=ctx.ids.secret(MARK_BYTES).hex(),
    )
    return MemoryProjectionReport(
        space=scope.space,
        projection_id=ctx.ids.new(),
        system_memory_block=built.block,
        requested_chars=request.system_max_len,
        budget=built.budget,
        stable_chars=built.stable_chars,
        pressure=request.pressure,
        sections=built.sections,
        truncated=built.truncated,
        limited_by=built.limited_by,
        miss_reason=built.miss_reason,
        sequence=gathered.sequence,
    )


def _skill(hit: RecallHit) -> projection.StandingSkill:
    return projection.StandingSkill(id=hit.id, title=hit.title or hit.id, summary=hit.text)


def _recalled(hit: RecallHit) -> projection.RecalledItem:
    return projection.RecalledItem(
        id=hit.id, plane=hit.plane, text=hit.text, speaker=hit.speaker or hit.role, at=hit.at, score=hit.score
    )


async def _recent(ctx: OperationContext, scope: Scope, limit: int) -> tuple[projection.RecentMessage, ...]:
    """Return the conversation's last `limit` messages, oldest first."""
    record = await ctx.spaces.find(scope.space)
    if record is None or limit == 0:
        return ()
    tag = record.conversation_tag(scope.conversation_key)
    documents = await ctx.store.scan(
        scope.space, transcript.TURNS, prefix=f"{tag}.", limit=min(limit, limits.SCAN_MAX), descending=True
    )
    messages: list[projection.RecentMessage] = []
    for document in reversed(documents):
        turn = transcript.Turn.from_bytes(document.body)
        messages += [
            projection.RecentMessage(
                id=transcript.message_id(TurnId(document.ref.key), part),
                role=message.role,
                text=message.text,
                speaker=message.speaker,
                at=transcript.said_at(turn, message),
            )
            for part, message in enumerate(turn.messages)
            if turn.is_recallable(part)
        ]
    return tuple(messages[-limit:])


async def _standing(ctx: OperationContext, scope: Scope) -> tuple[projection.StandingFact, ...]:
    """Return the facts that stand in every block, in an order that changes only when they do."""
    documents = await ctx.store.scan(scope.space, long_term.FACTS, limit=STANDING_SCANNED, descending=True)
    now = ctx.clock.now()
    facts = [long_term.Fact.from_bytes(document.body) for document in documents]
    current = [fact for fact in facts if fact_passes(fact, RecallFilters(), now)]
    current.sort(key=lambda fact: (KIND_ORDER.index(fact.kind), fact.topic, fact.id))
    return tuple(
        projection.StandingFact(
            id=fact.id, kind=fact.kind, topic=fact.topic, content=fact.content, at=fact.observed_at
        )
        for fact in current[:STANDING_FACTS]
    )
