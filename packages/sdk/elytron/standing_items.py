"""Items of every block: the speaker, private documents, beliefs, procedures, and the state of work."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Final, TypeGuard, TypeVar

from elytron.documents.planes import OF_CONVERSATIONS
from elytron.documents.stored_values import documents_at
from elytron.indexing.units import is_standing
from elytron.recall.filters import fact_passes, index_filters, skill_passes, wants_plane
from elytron.recall.space_reader import SpaceReader
from elytron_core import limits
from elytron_core.contracts.projection import MemoryProjectionRequest, PrivateContext
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.skills import AgentSkillHit
from elytron_core.contracts.tools import AgentToolHint
from elytron_core.evidence import TrustLevel
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes import continuity, subjects
from elytron_core.planes.continuity import GardenRole
from elytron_core.planes.facts import FACTS, Fact, FactKind, FactPrivacy, fact_freshness
from elytron_core.planes.skills import SKILLS, Skill
from elytron_core.policy import continuity as capsule_policy
from elytron_core.policy.extraction.wishes import PersonMessage, standing_wishes
from elytron_core.policy.maintenance import BUDGETS
from elytron_core.policy.projection.sections import LabelledItem, StandingFact, StandingSkill, WishItem
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import ConversationKey, Scope
from elytron_core.text.traits import TextTrait
from elytron_index import UnitView, latest_first

StateT = TypeVar("StateT", continuity.ExecutionState, continuity.SessionSummary)
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


NO_WORK: Final = ConversationWork()


async def standing_facts(
    reader: SpaceReader, request: MemoryProjectionRequest, key: ConversationKey | None, /
) -> tuple[StandingFact, ...]:
    """Return the facts of every block, of each kind up to its budget, in a fixed order.

    It changes only when they do. Private ones are shown only if private context is allowed, a chat's own only there;
    `key` is the conversation, None if it cannot be trusted.
    """
    if not wants_plane(request.filters, RecallPlane.LONG_TERM):
        return ()
    now = reader.ctx.clock.now()
    chosen: list[Fact] = []
    for kind, facts in groupby(await _facts_by_kind(reader), key=attrgetter("kind")):
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


async def _facts_by_kind(reader: SpaceReader) -> Sequence[Fact]:
    """Return the newest facts, kind by kind; of a kind those come first that were confirmed last."""

    async def read() -> list[Fact]:
        documents = await reader.ctx.store.scan(reader.space, FACTS, limit=SCANNED, descending=True)
        facts = [Fact.from_bytes(document.body) for document in documents]
        facts.sort(key=attrgetter("last_confirmed_at", "id"), reverse=True)
        return sorted(facts, key=lambda fact: KIND_ORDER.index(fact.kind))

    return await reader.listed(FACTS, (FACTS,), read)


async def standing_skills(reader: SpaceReader, request: MemoryProjectionRequest, /) -> tuple[StandingSkill, ...]:
    """Return the titles of the procedures there are, in an order that changes only when they do."""
    if not wants_plane(request.filters, RecallPlane.PROCEDURAL):
        return ()

    async def read() -> list[Skill]:
        documents = await reader.ctx.store.scan(reader.space, SKILLS, limit=SCANNED)
        skills = [Skill.from_bytes(document.body) for document in documents]
        return sorted(skills, key=attrgetter("topic", "name"))

    skills = await reader.listed(SKILLS, (SKILLS,), read)
    shown = islice((skill for skill in skills if skill_passes(skill, request.filters)), SKILLS_STANDING)
    return tuple(StandingSkill(id=skill.name, title=skill.title, summary=skill.summary) for skill in shown)


async def mount_of(reader: SpaceReader, scope: Scope, request: MemoryProjectionRequest, /) -> tuple[LabelledItem, ...]:
    """Return the active subject that speaks; nothing if none is named or known."""
    name = request.subject or (f"agent:{scope.agent}" if scope.agent is not None else None)
    if name is None:
        return ()
    ref = DocumentRef(subjects.SUBJECTS, reader.record.tag("subject", name))
    (subject,) = await reader.values_at((ref,), subjects.Subject)
    if not isinstance(subject, subjects.Subject) or subject.lifecycle is not subjects.SubjectLifecycle.ACTIVE:
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
    reader: SpaceReader,
    scope: Scope,
    request: MemoryProjectionRequest,
    private_facts: Sequence[str],
    *,
    is_trusted: bool,
) -> PrivateItems:
    """Return the private documents that may be shown, and `private_facts` if these may not be.

    If the owner of the scope's conversation is not trusted, its documents are left out.
    """
    documents = await _garden_documents(reader, scope) if is_trusted else []
    if request.private_context is PrivateContext.ALLOWED:
        shown = [document for document in documents if document.role is not GardenRole.SEALED]
        items = tuple(
            LabelledItem(id=document.id, label=document.role.value, text=f"{document.name}: {document.text}")
            for document in shown
        )
        return PrivateItems(items, documents_withheld=len(documents) - len(shown))
    return PrivateItems((), tuple(private_facts), documents_withheld=len(documents))


async def work_of(reader: SpaceReader, scope: Scope, request: MemoryProjectionRequest, /) -> ConversationWork:
    """Return the state of the scope's conversation: its work, its summary, and up to three of its capsules."""
    if not any(wants_plane(request.filters, plane) for plane in OF_CONVERSATIONS):
        return ConversationWork()
    tag = reader.record.conversation_tag(scope.conversation_key)
    refs = (DocumentRef(continuity.EXECUTION, tag), DocumentRef(continuity.SUMMARIES, tag))
    state, summary = await reader.values_at(refs, continuity.ExecutionState, continuity.SessionSummary)
    items: list[LabelledItem] = []
    if _is_open(state, continuity.ExecutionState) and wants_plane(request.filters, RecallPlane.EXECUTION):
        items.append(LabelledItem(id=state.id, label=f"work, {state.status.value}", text=state.text))
    if _is_open(summary, continuity.SessionSummary) and wants_plane(request.filters, RecallPlane.SUMMARY):
        items.append(LabelledItem(id=summary.id, label="so far", text=summary.text))
    has_work = bool(items) and items[0].label != "so far"
    if wants_plane(request.filters, RecallPlane.CONTINUITY):
        capsules = await _selected_capsules(reader, tag, request.query)
        items += [
            LabelledItem(id=one.id, label=f"{one.kind.value}, {one.state.value}", text=f"{one.topic}: {one.text}")
            for one in capsules
        ]
        has_work = has_work or bool(capsules)
    return ConversationWork(tuple(items), has_work)


def _is_open(value: Value | None, kind: type[StateT], /) -> TypeGuard[StateT]:
    """Return whether there is a document of this kind, and it is not hidden."""
    return isinstance(value, kind) and value.forgotten_at is None


def may_be_shown(fact: Fact, request: MemoryProjectionRequest, /) -> bool:
    """Return whether a fact's privacy lets it into a block."""
    return fact.privacy is not FactPrivacy.PRIVATE or request.private_context is PrivateContext.ALLOWED


async def _garden_documents(reader: SpaceReader, scope: Scope) -> list[continuity.GardenDocument]:
    prefix = f"{reader.record.conversation_tag(scope.conversation_key)}."
    documents = await reader.values_under(
        continuity.GARDEN, prefix, continuity.GardenDocument, limit=limits.GARDEN_DOCUMENTS
    )
    return sorted((one for one in documents if one.forgotten_at is None), key=lambda one: one.name)


async def _selected_capsules(reader: SpaceReader, tag: str, query: str) -> list[continuity.ContinuityCapsule]:
    """Return the selected capsules that together have at most 900 characters."""
    stored = await reader.values_under(
        continuity.CAPSULES, f"{tag}.", continuity.ContinuityCapsule, limit=limits.CAPSULES_PER_SPACE
    )
    left = limits.CAPSULE_BLOCK_CHARS
    fitting: list[continuity.ContinuityCapsule] = []
    for capsule in capsule_policy.select_capsules(stored, query, now=reader.ctx.clock.now()):
        size = len(capsule.topic) + len(capsule.text)
        if size <= left:
            fitting.append(capsule)
            left -= size
    return fitting


_LEAST: Final = TrustLevel.VOUCHED.rank


async def wishes_of(
    reader: SpaceReader, request: MemoryProjectionRequest, key: ConversationKey | None, /
) -> tuple[WishItem, ...]:
    """Return what people said is to hold and have not taken back since, latest first.

    Text from outside, from a tool or a page, is no wish and takes none back. `key` is the conversation of the block,
    None if it cannot be trusted: then no wish is shown.
    """
    if key is None or not wants_plane(request.filters, RecallPlane.TRANSCRIPT):
        return ()
    ctx, index = reader.ctx, reader.index
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
        messages = await _said_messages(reader, latest_first(views.values()))
        return standing_wishes(messages, is_standing=partial(is_standing, ctx.models.statements))

    kept_filters = replace(filters, as_of=None)
    return tuple(await ctx.folds.readings.listed(reader.space, kept_filters, tuple(map(version, traits)), read))


async def _said_messages(reader: SpaceReader, views: Sequence[UnitView]) -> list[PersonMessage]:
    """Return the messages, those left out that may not be recalled any more."""
    documents = await documents_at(reader.ctx.store, reader.space, (view.ref for view in views))
    turns = {ref: reader.ctx.folds.readings.turn(reader.space, document) for ref, document in documents.items()}
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
