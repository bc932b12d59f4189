"""Items of every block: the speaker, private documents, beliefs, procedures, and the state of work."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Final

from elytron.context import OperationContext
from elytron.documents.planes import OF_CONVERSATIONS
from elytron.documents.stored_values import documents_at, value_at
from elytron.indexing.units import is_standing
from elytron.recall.filters import fact_passes, index_filters, skill_passes, wants_plane
from elytron_core import limits
from elytron_core.contracts.projection import MemoryProjectionRequest, PrivateContext
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.skills import AgentSkillHit
from elytron_core.contracts.tools import AgentToolHint
from elytron_core.evidence import TrustLevel
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes import continuity, subjects
from elytron_core.planes.continuity import GardenRole
from elytron_core.planes.facts import FACTS, Fact, FactKind, FactPrivacy, fact_freshness
from elytron_core.planes.skills import SKILLS, Skill
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy import continuity as capsule_policy
from elytron_core.policy.extraction.wishes import PersonMessage, standing_wishes
from elytron_core.policy.maintenance import BUDGETS
from elytron_core.policy.projection.sections import LabelledItem, StandingFact, StandingSkill, WishItem
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import ConversationKey, Scope
from elytron_core.text.traits import TextTrait
from elytron_index import UnitView, latest_first

SKILLS_STANDING = 16
SCANNED = 1_000
KIND_ORDER = (
    FactKind.CONSTRAINT,
    FactKind.PROFILE,
    FactKind.PREFERENCE,
    FactKind.RELATIONSHIP,
    FactKind.PROJECT,
    FactKind.TASK,
    FactKind.FACT,
)
"""Kinds that come first when there are more facts than room."""


@dataclass(frozen=True, slots=True)
class PrivateItems:
    """Private documents that may be shown, and the ids of those that must not be."""

    items: tuple[LabelledItem, ...] = ()
    withheld: tuple[str, ...] = ()
    documents_withheld: int = 0


@dataclass(frozen=True, slots=True)
class ConversationWork:
    """State of the conversation."""

    items: tuple[LabelledItem, ...] = ()
    has_work: bool = False


async def standing_facts(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest, key: ConversationKey | None
) -> tuple[StandingFact, ...]:
    """Return the facts of every block, of each kind up to its budget, in a fixed order.

    It changes only when they do. Private ones are shown only if private context is allowed, a chat's own only there;
    `key` is the conversation, None if it cannot be trusted.
    """
    if not wants_plane(request.filters, RecallPlane.LONG_TERM):
        return ()
    if await ctx.spaces.find(scope.space) is None:
        return ()
    now = ctx.clock.now()
    chosen: list[Fact] = []
    for kind, facts in groupby(await _facts_by_kind(ctx, scope.space), key=attrgetter("kind")):
        passing = (
            fact
            for fact in facts
            if fact.counts_in(key) and may_be_shown(fact, request) and fact_passes(fact, request.filters, now)
        )
        chosen += sorted(islice(passing, BUDGETS[kind]), key=attrgetter("topic", "id"))
    return tuple(
        StandingFact(
            id=fact.id,
            kind=fact.kind,
            topic=fact.topic,
            content=fact.content,
            at=fact.observed_at,
            is_outside=fact.trust is TrustLevel.OUTSIDE,
            hint=fact_freshness(fact, now).hint,
        )
        for fact in chosen[: limits.FACTS_STANDING]
    )


async def _facts_by_kind(ctx: OperationContext, space: SpaceId) -> Sequence[Fact]:
    """Return the newest facts, kind by kind; of a kind those come first that were confirmed last."""

    async def read() -> list[Fact]:
        documents = await ctx.store.scan(space, FACTS, limit=SCANNED, descending=True)
        facts = [Fact.from_bytes(document.body) for document in documents]
        facts.sort(key=attrgetter("last_confirmed_at", "id"), reverse=True)
        return sorted(facts, key=lambda fact: KIND_ORDER.index(fact.kind))

    index = await ctx.folds.current(space)
    return await ctx.folds.readings.listed(space, FACTS, index.version_of(FACTS), read)


async def standing_skills(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest
) -> tuple[StandingSkill, ...]:
    """Return the titles of the procedures there are, in an order that changes only when they do."""
    if not wants_plane(request.filters, RecallPlane.PROCEDURAL):
        return ()
    if await ctx.spaces.find(scope.space) is None:
        return ()

    async def read() -> list[Skill]:
        documents = await ctx.store.scan(scope.space, SKILLS, limit=SCANNED)
        skills = [Skill.from_bytes(document.body) for document in documents]
        return sorted(skills, key=attrgetter("topic", "name"))

    index = await ctx.folds.current(scope.space)
    skills = await ctx.folds.readings.listed(scope.space, SKILLS, index.version_of(SKILLS), read)
    shown = islice((skill for skill in skills if skill_passes(skill, request.filters)), SKILLS_STANDING)
    return tuple(StandingSkill(id=skill.name, title=skill.title, summary=skill.summary) for skill in shown)


async def mount_of(ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest) -> tuple[LabelledItem, ...]:
    """Return the active subject that speaks; nothing if none is named or known."""
    name = request.subject or (f"agent:{scope.agent}" if scope.agent is not None else None)
    record = await ctx.spaces.find(scope.space)
    if name is None or record is None:
        return ()
    ref = DocumentRef(subjects.SUBJECTS, record.tag("subject", name))
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
    return tuple(LabelledItem(id=subject.id, label=label, text=text) for label, text in parts if text)


async def private_of(
    ctx: OperationContext,
    scope: Scope,
    request: MemoryProjectionRequest,
    private_facts: Sequence[str],
    *,
    is_trusted: bool,
) -> PrivateItems:
    """Return the private documents that may be shown, and `private_facts` if these may not be.

    If the owner of the scope's conversation is not trusted, its documents are left out.
    """
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return PrivateItems()
    documents = await _garden_documents(ctx, scope, record) if is_trusted else []
    if request.private_context is PrivateContext.ALLOWED:
        shown = [document for document in documents if document.role is not GardenRole.SEALED]
        items = tuple(
            LabelledItem(id=document.id, label=document.role.value, text=f"{document.name}: {document.text}")
            for document in shown
        )
        return PrivateItems(items, documents_withheld=len(documents) - len(shown))
    return PrivateItems((), tuple(private_facts), documents_withheld=len(documents))


async def work_of(ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest) -> ConversationWork:
    """Return the state of the scope's conversation: its work, its summary, and up to three of its capsules."""
    record = await ctx.spaces.find(scope.space)
    if record is None or not any(wants_plane(request.filters, plane) for plane in OF_CONVERSATIONS):
        return ConversationWork()
    tag = record.conversation_tag(scope.conversation_key)
    refs = (DocumentRef(continuity.EXECUTION, tag), DocumentRef(continuity.SUMMARIES, tag))
    kept, summed = await ctx.store.get(scope.space, refs)
    items: list[LabelledItem] = []
    state = continuity.ExecutionState.from_bytes(kept.body) if kept is not None else None
    if state is not None and state.forgotten_at is None and wants_plane(request.filters, RecallPlane.EXECUTION):
        items.append(LabelledItem(id=state.id, label=f"work, {state.status.value}", text=state.text))
    summary = continuity.SessionSummary.from_bytes(summed.body) if summed is not None else None
    if summary is not None and summary.forgotten_at is None and wants_plane(request.filters, RecallPlane.SUMMARY):
        items.append(LabelledItem(id=summary.id, label="so far", text=summary.text))
    has_work = bool(items) and items[0].label != "so far"
    if wants_plane(request.filters, RecallPlane.CONTINUITY):
        capsules = await _selected_capsules(ctx, scope, tag, request.query)
        items += [
            LabelledItem(id=one.id, label=f"{one.kind.value}, {one.state.value}", text=f"{one.topic}: {one.text}")
            for one in capsules
        ]
        has_work = has_work or bool(capsules)
    return ConversationWork(tuple(items), has_work)


def may_be_shown(fact: Fact, request: MemoryProjectionRequest, /) -> bool:
    """Return whether a fact's privacy lets it into a block."""
    return fact.privacy is not FactPrivacy.PRIVATE or request.private_context is PrivateContext.ALLOWED


async def _garden_documents(
    ctx: OperationContext, scope: Scope, record: SpaceRecord
) -> list[continuity.GardenDocument]:
    prefix = f"{record.conversation_tag(scope.conversation_key)}."
    kept = await ctx.store.scan(scope.space, continuity.GARDEN, prefix=prefix, limit=limits.GARDEN_DOCUMENTS)
    documents = [continuity.GardenDocument.from_bytes(document.body) for document in kept]
    return sorted((one for one in documents if one.forgotten_at is None), key=lambda one: one.name)


async def _selected_capsules(
    ctx: OperationContext, scope: Scope, tag: str, query: str
) -> list[continuity.ContinuityCapsule]:
    """Return the selected capsules that together have at most 900 characters."""
    kept = await ctx.store.scan(scope.space, continuity.CAPSULES, prefix=f"{tag}.", limit=limits.CAPSULES_PER_SPACE)
    held = [continuity.ContinuityCapsule.from_bytes(document.body) for document in kept]
    left = limits.CAPSULE_BLOCK_CHARS
    fitting: list[continuity.ContinuityCapsule] = []
    for capsule in capsule_policy.select_capsules(held, query, now=ctx.clock.now()):
        size = len(capsule.topic) + len(capsule.text)
        if size <= left:
            fitting.append(capsule)
            left -= size
    return fitting


_LEAST: Final = TrustLevel.VOUCHED.rank


async def wishes_of(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest, key: ConversationKey | None
) -> tuple[WishItem, ...]:
    """Return what people said is to hold and have not taken back since, latest first.

    Text from outside, from a tool or a page, is no wish and takes none back. `key` is the conversation of the block,
    None if it cannot be trusted: then no wish is shown.
    """
    if (
        key is None
        or not wants_plane(request.filters, RecallPlane.TRANSCRIPT)
        or await ctx.spaces.find(scope.space) is None
    ):
        return ()
    index = await ctx.folds.current(scope.space)
    filters = index_filters(request.filters, RecallPlane.TRANSCRIPT, ctx.clock.now(), key)
    traits = TextTrait.STANDING, TextTrait.CHANGE
    latest = partial(index.latest, filters, limit=limits.WISHES_READ, least_trust=_LEAST)
    version = partial(index.latest_version, filters, limit=limits.WISHES_READ, least_trust=_LEAST)

    async def read() -> tuple[WishItem, ...]:
        standing = latest(TextTrait.STANDING)
        if not standing:
            return ()
        # Changes from before the oldest of these take none of them back.
        later = [view for view in latest(TextTrait.CHANGE) if view.ordered_at >= standing[-1].ordered_at]
        views = {(view.ref, view.part): view for view in (*standing, *later)}
        messages = await _said_messages(ctx, scope, latest_first(views.values()))
        return standing_wishes(messages, is_standing=partial(is_standing, ctx.models.statements))

    kept_filters = replace(filters, as_of=None)
    return tuple(await ctx.folds.readings.listed(scope.space, kept_filters, tuple(map(version, traits)), read))


async def _said_messages(ctx: OperationContext, scope: Scope, views: Sequence[UnitView]) -> list[PersonMessage]:
    """Return the messages, those left out that may not be recalled any more."""
    documents = await documents_at(ctx.store, scope.space, (view.ref for view in views))
    turns = {ref: ctx.folds.readings.turn(scope.space, document) for ref, document in documents.items()}
    hits = [turns[view.ref].hit(TurnId(view.ref.key), view.part) for view in views if view.ref in turns]
    return [PersonMessage(id=hit.id, text=hit.text, speaker=hit.speaker, at=hit.at) for hit in hits if hit is not None]


def hint_of_skill(hit: AgentSkillHit, /) -> LabelledItem:
    """Return the line that a block has of an agent skill."""
    return LabelledItem(id=f"agent_skill:{hit.place}", label=hit.name, text=hit.description)


def hint_of_tool(hint: AgentToolHint, /) -> LabelledItem:
    """Return the line that a block has of a tool: what experience says, its tags, nothing of its schema."""
    parts = (
        hint.reason,
        hint.guidance,
        f"confidence {hint.confidence}, {hint.success_count} successes",
        f"permissions: {', '.join(hint.permission_tags)}" if hint.permission_tags else "",
        f"risks: {', '.join(hint.risk_tags)}" if hint.risk_tags else "",
    )
    return LabelledItem(id=hint.experience_id, label=hint.tool_id, text="; ".join(part for part in parts if part))
