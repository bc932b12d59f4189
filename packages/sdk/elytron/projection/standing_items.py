"""Items of every block: the speaker, private documents, beliefs, procedures, and the state of work."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from elytron.context import OperationContext
from elytron.documents.planes import OF_CONVERSATIONS
from elytron.documents.stored_values import value_at, values_at
from elytron.recall.filters import fact_passes, skill_passes, wants
from elytron_core import limits
from elytron_core.contracts.conversation.projection import MemoryProjectionRequest, PrivateContext
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.ids import FactId
from elytron_core.planes.conversation import continuity, execution, summaries
from elytron_core.planes.evidence import Trust
from elytron_core.planes.knowledge import garden, long_term, procedural, subjects
from elytron_core.planes.knowledge.garden import GardenRole
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.continuity import capsules as capsule_policy
from elytron_core.policy.maintenance.due import BUDGETS
from elytron_core.policy.projection import builder
from elytron_core.policy.temporal.freshness import freshness
from elytron_core.ports.store import Ref
from elytron_core.scope import ConversationKey, Scope

SKILLS_STANDING = 16
SCANNED = 1_000
KIND_ORDER = (
    long_term.Kind.CONSTRAINT,
    long_term.Kind.PROFILE,
    long_term.Kind.PREFERENCE,
    long_term.Kind.RELATIONSHIP,
    long_term.Kind.PROJECT,
    long_term.Kind.TASK,
    long_term.Kind.FACT,
)
"""Kinds that come first when there are more facts than room."""


@dataclass(frozen=True, slots=True)
class Private:
    """Private documents that may be shown, and the ids of those that must not be."""

    items: tuple[builder.LabelledItem, ...] = ()
    withheld: tuple[str, ...] = ()
    documents_withheld: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """State of the conversation."""

    items: tuple[builder.LabelledItem, ...] = ()
    has_work: bool = False


async def standing_facts(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest, key: ConversationKey | None
) -> tuple[builder.StandingFact, ...]:
    """Return the facts of every block, of each kind up to its budget, in a fixed order.

    It changes only when they do. Private ones are shown only if private context is allowed, a chat's own only there;
    `key` is the conversation, None if it cannot be trusted.
    """
    if not wants(request.filters, Plane.LONG_TERM):
        return ()
    documents = await ctx.store.scan(scope.space, long_term.FACTS, limit=SCANNED, descending=True)
    now = ctx.clock.now()
    facts = [long_term.Fact.from_bytes(document.body) for document in documents]
    here = [fact for fact in facts if fact.counts_in(key) and may_be_shown(fact, request)]
    current = [fact for fact in here if fact_passes(fact, request.filters, now)]
    # Of a kind beyond its budget, those stand that were confirmed last.
    current.sort(key=lambda fact: (-fact.confirmed_at, fact.id))
    held: Counter[long_term.Kind] = Counter()
    chosen: list[long_term.Fact] = []
    for fact in current:
        held[fact.kind] += 1
        if held[fact.kind] <= BUDGETS[fact.kind]:
            chosen.append(fact)
    chosen.sort(key=lambda fact: (KIND_ORDER.index(fact.kind), fact.topic, fact.id))
    return tuple(
        builder.StandingFact(
            id=fact.id,
            kind=fact.kind,
            topic=fact.topic,
            content=fact.content,
            at=fact.observed_at,
            is_outside=fact.trust is Trust.OUTSIDE,
            hint=freshness(fact, now).hint,
        )
        for fact in chosen[: limits.FACTS_STANDING]
    )


async def standing_skills(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest
) -> tuple[builder.StandingSkill, ...]:
    """Return the titles of the procedures there are, in an order that changes only when they do."""
    if not wants(request.filters, Plane.PROCEDURAL):
        return ()
    documents = await ctx.store.scan(scope.space, procedural.SKILLS, limit=SCANNED)
    skills = [procedural.Skill.from_bytes(document.body) for document in documents]
    shown = sorted(
        (skill for skill in skills if skill_passes(skill, request.filters)), key=lambda skill: (skill.topic, skill.name)
    )
    return tuple(
        builder.StandingSkill(id=skill.name, title=skill.title, summary=skill.summary)
        for skill in shown[:SKILLS_STANDING]
    )


async def mount_of(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest
) -> tuple[builder.LabelledItem, ...]:
    """Return the active subject that speaks; nothing if none is named or known."""
    name = request.subject or (f"agent:{scope.agent}" if scope.agent is not None else None)
    record = await ctx.spaces.find(scope.space)
    if name is None or record is None:
        return ()
    ref = Ref(subjects.SUBJECTS, record.tag("subject", name))
    subject, _ = await value_at(ctx.store, scope.space, ref, subjects.Subject)
    if subject is None or subject.lifecycle is not subjects.SubjectLifecycle.ACTIVE:
        return ()
    mount = subject.mount
    parts = (
        ("identity", mount.identity),
        ("relationship", mount.relationship),
        ("situated now", mount.situated_now),
        ("reasoning basis", mount.reasoning_basis),
        ("reply stance", mount.reply_stance),
        ("initiative", mount.initiative),
        ("boundary", mount.boundary),
    )
    return tuple(builder.LabelledItem(id=subject.id, label=label, text=text) for label, text in parts if text)


async def private_of(
    ctx: OperationContext,
    scope: Scope,
    request: MemoryProjectionRequest,
    hits: Sequence[RecallHit],
    *,
    is_trusted: bool,
) -> Private:
    """Return the private documents that may be shown, and those of `hits` that may not be.

    If the owner of the scope's conversation is not trusted, its documents are left out.
    """
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return Private()
    documents = await _garden(ctx, scope, record) if is_trusted else []
    if request.private_context is PrivateContext.ALLOWED:
        shown = [document for document in documents if document.role is not GardenRole.SEALED]
        items = tuple(
            builder.LabelledItem(id=document.id, label=document.role.value, text=f"{document.name}: {document.text}")
            for document in shown
        )
        return Private(items, documents_withheld=len(documents) - len(shown))
    refs = [Ref(long_term.FACTS, FactId(hit.id)) for hit in hits if hit.plane is Plane.LONG_TERM]
    facts = await values_at(ctx.store, scope.space, refs, long_term.Fact)
    withheld = tuple(fact.id for fact in facts.values() if fact.privacy is long_term.Privacy.PRIVATE)
    return Private((), withheld, documents_withheld=len(documents))


async def work_of(ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest) -> Work:
    """Return the state of the scope's conversation: its work, its summary, and up to three of its capsules."""
    record = await ctx.spaces.find(scope.space)
    if record is None or not any(wants(request.filters, plane) for plane in OF_CONVERSATIONS):
        return Work()
    tag = record.conversation_tag(scope.conversation_key)
    refs = (Ref(execution.EXECUTION, tag), Ref(summaries.SUMMARIES, tag))
    kept, summed = await ctx.store.get(scope.space, refs)
    items: list[builder.LabelledItem] = []
    state = execution.ExecutionState.from_bytes(kept.body) if kept is not None else None
    if state is not None and state.forgotten_at is None and wants(request.filters, Plane.EXECUTION):
        items.append(builder.LabelledItem(id=state.id, label=f"work, {state.status.value}", text=state.text))
    summary = summaries.SessionSummary.from_bytes(summed.body) if summed is not None else None
    if summary is not None and summary.forgotten_at is None and wants(request.filters, Plane.SUMMARY):
        items.append(builder.LabelledItem(id=summary.id, label="so far", text=summary.text))
    has_work = bool(items) and items[0].label != "so far"
    if wants(request.filters, Plane.CONTINUITY):
        capsules = await _capsules(ctx, scope, tag, request.query)
        items += [
            builder.LabelledItem(
                id=one.id, label=f"{one.kind.value}, {one.state.value}", text=f"{one.topic}: {one.text}"
            )
            for one in capsules
        ]
        has_work = has_work or bool(capsules)
    return Work(tuple(items), has_work)


def may_be_shown(fact: long_term.Fact, request: MemoryProjectionRequest, /) -> bool:
    """Return whether a fact's privacy lets it into a block."""
    return fact.privacy is not long_term.Privacy.PRIVATE or request.private_context is PrivateContext.ALLOWED


async def _garden(ctx: OperationContext, scope: Scope, record: SpaceRecord) -> list[garden.GardenDocument]:
    prefix = f"{record.conversation_tag(scope.conversation_key)}."
    kept = await ctx.store.scan(scope.space, garden.GARDEN, prefix=prefix, limit=limits.GARDEN_DOCUMENTS)
    documents = [garden.GardenDocument.from_bytes(document.body) for document in kept]
    return sorted((one for one in documents if one.forgotten_at is None), key=lambda one: one.name)


async def _capsules(ctx: OperationContext, scope: Scope, tag: str, query: str) -> list[continuity.ContinuityCapsule]:
    """Return the selected capsules that together have at most 900 characters."""
    kept = await ctx.store.scan(scope.space, continuity.CAPSULES, prefix=f"{tag}.", limit=limits.CAPSULES_PER_SPACE)
    held = [continuity.ContinuityCapsule.from_bytes(document.body) for document in kept]
    left = limits.CAPSULE_BLOCK_CHARS
    fitting: list[continuity.ContinuityCapsule] = []
    for capsule in capsule_policy.selected(held, query, now=ctx.clock.now()):
        size = len(capsule.topic) + len(capsule.text)
        if size <= left:
            fitting.append(capsule)
            left -= size
    return fitting
