"""Projection: the bounded block a model may see."""

from elytron.aliases import meant
from elytron.context import OperationContext
from elytron.filtering import fact_passes, message_passes, skill_passes, wants
from elytron.gathering import gather
from elytron.hinting import hint_of_skill, hint_of_tool, hints_beside
from elytron.profiling import rendered_chars
from elytron.writes.reuse import touch_skills
from elytron_core.contracts.projecting import MemoryProjectionReport, MemoryProjectionRequest, SectionName
from elytron_core.contracts.recalling import Plane, RecallHit, RecallOutcome
from elytron_core.ids import TurnId
from elytron_core.planes import long_term, procedural, transcript
from elytron_core.policy import projection
from elytron_core.scope import Scope

STANDING_FACTS = 24
STANDING_SKILLS = 16
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
    # What stands in the block already is not recalled twice, so more is gathered than will be shown.
    limit = max(request.recall_limit, 1) + request.recent_messages_limit + STANDING_FACTS
    gathered = await gather(ctx, scope, request.user_query, request.filters, limit=limit)
    conversation = await meant(ctx, scope)
    recent = await _recent(ctx, conversation.within(scope), request) if conversation.is_trusted else ()
    max_len, by_profile = rendered_chars(ctx.profile, request.system_max_len)
    beside = await hints_beside(
        ctx, scope, request.user_query, request.filters, request.tool_registry_refs, sequence=gathered.sequence
    )
    built = projection.build(
        projection.ProjectionInputs(
            system_max_len=max_len,
            pressure=request.pressure,
            facts=await _standing_facts(ctx, scope, request),
            skills=await _standing_skills(ctx, scope, request),
            agent_skills=tuple(map(hint_of_skill, beside.agent_skills)),
            agent_tools=tuple(map(hint_of_tool, beside.agent_tools)),
            recent=recent,
            recalled=tuple(_recalled(hit) for hit in gathered.hits),
            recall_limit=request.recall_limit,
            space_is_empty=gathered.outcome is RecallOutcome.EMPTY_SPACE,
        ),
        mark=ctx.ids.secret(MARK_BYTES).hex(),
    )
    shown = {name for section in built.sections if section.name is SectionName.RECALLED for name in section.included}
    await touch_skills(ctx, scope, [hit for hit in gathered.hits if hit.id in shown])
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
        limited_by=(*by_profile, *built.limited_by),
        miss_reason=built.miss_reason,
        alias=conversation.trust,
        sequence=gathered.sequence,
        agent_skill_hits=beside.agent_skills,
        agent_tool_hints=beside.agent_tools,
        tool_experience_status=beside.tool_status,
    )


def _recalled(hit: RecallHit) -> projection.RecalledItem:
    return projection.RecalledItem(
        id=hit.id, plane=hit.plane, text=hit.text, speaker=hit.speaker or hit.role, at=hit.at, score=hit.score
    )


async def _recent(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest
) -> tuple[projection.RecentMessage, ...]:
    """Return the conversation's last messages that pass the filters, oldest first."""
    record = await ctx.spaces.find(scope.space)
    limit = request.recent_messages_limit
    if record is None or limit == 0 or not wants(request.filters, Plane.TRANSCRIPT):
        return ()
    tag = record.conversation_tag(scope.conversation_key)
    documents = await ctx.store.scan(
        scope.space, transcript.TURNS, prefix=f"{tag}.", limit=limit, descending=True
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
            if message_passes(turn, part, request.filters)
        ]
    return tuple(messages[-limit:])


async def _standing_facts(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest
) -> tuple[projection.StandingFact, ...]:
    """Return the facts that stand in every block, in an order that changes only when they do."""
    if not wants(request.filters, Plane.LONG_TERM):
        return ()
    documents = await ctx.store.scan(scope.space, long_term.FACTS, limit=STANDING_SCANNED, descending=True)
    now = ctx.clock.now()
    facts = [long_term.Fact.from_bytes(document.body) for document in documents]
    current = [fact for fact in facts if fact_passes(fact, request.filters, now)]
    current.sort(key=lambda fact: (KIND_ORDER.index(fact.kind), fact.topic, fact.id))
    return tuple(
        projection.StandingFact(
            id=fact.id, kind=fact.kind, topic=fact.topic, content=fact.content, at=fact.observed_at
        )
        for fact in current[:STANDING_FACTS]
    )


async def _standing_skills(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest
) -> tuple[projection.StandingSkill, ...]:
    """Return the titles of the procedures there are, in an order that changes only when they do."""
    if not wants(request.filters, Plane.PROCEDURAL):
        return ()
    documents = await ctx.store.scan(scope.space, procedural.SKILLS, limit=STANDING_SCANNED)
    skills = [procedural.Skill.from_bytes(document.body) for document in documents]
    shown = sorted(
        (skill for skill in skills if skill_passes(skill, request.filters)), key=lambda skill: (skill.topic, skill.name)
    )
    return tuple(
        projection.StandingSkill(id=skill.name, title=skill.title, summary=skill.summary)
        for skill in shown[:STANDING_SKILLS]
    )
