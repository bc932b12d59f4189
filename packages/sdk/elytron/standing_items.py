"""Items of every block: the speaker, private documents, beliefs, procedures, and the state of work."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import Final, TypeVar

from elytron.documents.stored_values import documents_at
from elytron.indexing.units import is_standing
from elytron.recall.filters import fact_passes, index_filters, message_passes, skill_passes, wants_plane
from elytron.recall.space_reader import SpaceReader
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.projection import MemoryProjectionRequest, PrivateContext
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.skills import AgentSkillHit
from elytron_core.contracts.tools import AgentToolHint
from elytron_core.evidence import TrustLevel
from elytron_core.ids import ConversationTag, TurnId
from elytron_core.planes import continuity, subjects, transcript
from elytron_core.planes.continuity import GardenRole
from elytron_core.planes.facts import FACTS, Fact, FactKind, FactPrivacy, fact_freshness
from elytron_core.planes.skills import SKILLS, Skill
from elytron_core.policy import continuity as capsule_policy
from elytron_core.policy.extraction.wishes import PersonMessage, standing_wishes
from elytron_core.policy.maintenance import BUDGETS
from elytron_core.policy.projection.sections import (
    LabelledItem,
    RecentMessage,
    StandingFact,
    StandingSkill,
    WishItem,
)
from elytron_core.ports.store import Document, DocumentRef
from elytron_core.scope import ConversationKey, Scope
from elytron_core.text.traits import TextTrait
from elytron_index import UnitView, latest_first

WISHES_READ: Final = 48
"""Of the messages that say what is to hold, the last ones that are read for a block; as many that speak of a change."""
FACTS_STANDING: Final = 96
"""Most standing facts of a block; further ones answer when they are asked for."""


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
"""Kinds that come first if not all facts fit."""


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


@dataclass(frozen=True, slots=True)
class StandingItems:
    """Items of a block that do not depend on recall."""

    mount: tuple[LabelledItem, ...] = ()
    wishes: tuple[WishItem, ...] = ()
    work: ConversationWork = NO_WORK
    facts: tuple[StandingFact, ...] = ()
    skills: tuple[StandingSkill, ...] = ()
    recent: tuple[RecentMessage, ...] = ()
    private: tuple[continuity.GardenDocument, ...] = ()


async def standing_items(
    reader: SpaceReader, scope: Scope, request: MemoryProjectionRequest, key: ConversationKey | None, /
) -> StandingItems:
    """Return the items of a block of the conversation `key`; None: it is not trusted, and nothing of it is shown."""
    if request.answers_only:
        return StandingItems()
    items = StandingItems(
        mount=await _mount_items(reader, scope, request),
        facts=await _standing_facts(reader, request, key),
        skills=await _standing_skills(reader, request),
    )
    if key is None:
        return items
    tag = reader.record.conversation_tag(key)
    documents = await _conversation_documents(reader, tag)
    return replace(
        items,
        wishes=await _standing_wishes(reader, request, key),
        work=work_of(documents, request, now=reader.ctx.clock.now()),
        recent=await _recent_messages(reader, tag, request),
        private=documents.private,
    )


async def _standing_facts(
    reader: SpaceReader, request: MemoryProjectionRequest, key: ConversationKey | None, /
) -> tuple[StandingFact, ...]:
    """Return the facts of every block, of each kind up to its budget, in a fixed order.

    It changes only when they do. Private ones are shown only if private context is allowed, and facts limited to a chat
    only there; `key` is the conversation, None if it is not trusted.
    """
    if not wants_plane(request.filters, RecallPlane.LONG_TERM):
        return ()
    now = reader.ctx.clock.now()
    selected_facts: list[Fact] = []
    for kind, facts in groupby(await _facts_by_kind(reader), key=attrgetter("kind")):
        passing_facts = (
            fact
            for fact in facts
            if fact.counts_in(key) and may_be_shown(fact, request) and fact_passes(fact, request.filters, now)
        )
        selected_facts += sorted(islice(passing_facts, BUDGETS[kind]), key=attrgetter("topic", "id"))
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
        for fact in selected_facts[:FACTS_STANDING]
    )


async def _facts_by_kind(reader: SpaceReader) -> Sequence[Fact]:
    """Return the newest facts, kind by kind; within a kind, the most recently confirmed come first."""

    async def read() -> list[Fact]:
        documents = await reader.ctx.store.scan(reader.space, FACTS, limit=SCANNED, descending=True)
        facts = [Fact.from_bytes(document.body) for document in documents]
        facts.sort(key=attrgetter("last_confirmed_at", "id"), reverse=True)
        return sorted(facts, key=lambda fact: KIND_ORDER.index(fact.kind))

    return await reader.listed(FACTS, (FACTS,), read)


async def _standing_skills(reader: SpaceReader, request: MemoryProjectionRequest, /) -> tuple[StandingSkill, ...]:
    """Return the titles of the procedures, in an order that changes only when they do."""
    if not wants_plane(request.filters, RecallPlane.PROCEDURAL):
        return ()

    async def read() -> list[Skill]:
        documents = await reader.ctx.store.scan(reader.space, SKILLS, limit=SCANNED)
        skills = [Skill.from_bytes(document.body) for document in documents]
        return sorted(skills, key=attrgetter("topic", "name"))

    skills = await reader.listed(SKILLS, (SKILLS,), read)
    visible_skills = islice((skill for skill in skills if skill_passes(skill, request.filters)), SKILLS_STANDING)
    return tuple(StandingSkill(id=skill.name, title=skill.title, summary=skill.summary) for skill in visible_skills)


async def _mount_items(reader: SpaceReader, scope: Scope, request: MemoryProjectionRequest) -> tuple[LabelledItem, ...]:
    """Return the active subject that speaks; nothing if none is named or known."""
    name = request.subject or (f"agent:{scope.agent}" if scope.agent is not None else None)
    if name is None:
        return ()
    ref = DocumentRef(subjects.SUBJECTS, reader.record.tag("subject", name))
    subject = await reader.value_at(ref, subjects.Subject)
    if subject is None or subject.lifecycle is not subjects.SubjectLifecycle.ACTIVE:
        return ()
    mount = subject.mount
    labelled_texts = (
        ("identity", mount.identity),
        ("relationship", mount.relationship),
        ("situated now", mount.situated_now),
        ("reasoning basis", mount.reasoning_basis),
        ("reply stance", mount.reply_stance),
        ("initiative", mount.initiative),
        ("boundary", mount.boundary),
    )
    return tuple(LabelledItem(id=subject.id, label=label, text=text) for label, text in labelled_texts if text)


@dataclass(frozen=True, slots=True)
class ConversationDocuments:
    """Stored documents of one conversation in addition to its turns, without hidden ones."""

    state: continuity.ExecutionState | None
    summary: continuity.SessionSummary | None
    capsules: tuple[continuity.ContinuityCapsule, ...]
    private: tuple[continuity.GardenDocument, ...]
    """Private documents, by name."""


_STORED: Final = (continuity.EXECUTION, continuity.SUMMARIES, continuity.CAPSULES, continuity.GARDEN)


async def _conversation_documents(reader: SpaceReader, tag: ConversationTag) -> ConversationDocuments:
    store, space, prefix = reader.ctx.store, reader.space, f"{tag}."

    async def read() -> list[ConversationDocuments]:
        refs = (DocumentRef(continuity.EXECUTION, tag), DocumentRef(continuity.SUMMARIES, tag))
        state_document, summary_document = await store.get(space, refs)
        capsules = await store.scan(space, continuity.CAPSULES, prefix=prefix, limit=limits.CAPSULES_PER_SPACE)
        garden_page = await store.scan(space, continuity.GARDEN, prefix=prefix, limit=limits.GARDEN_DOCUMENTS)
        documents = (continuity.GardenDocument.from_bytes(document.body) for document in garden_page)
        return [
            ConversationDocuments(
                _open_value(state_document, continuity.ExecutionState),
                _open_value(summary_document, continuity.SessionSummary),
                tuple(continuity.ContinuityCapsule.from_bytes(document.body) for document in capsules),
                tuple(sorted((one for one in documents if one.forgotten_at is None), key=attrgetter("name"))),
            )
        ]

    (documents,) = await reader.listed(tag, _STORED, read)
    return documents


def _open_value(document: Document | None, kind: type[StateT]) -> StateT | None:
    """Return the value of a document; None if there is none, or it is hidden."""
    value = kind.from_bytes(document.body) if document is not None else None
    return value if value is not None and value.forgotten_at is None else None


def private_of(
    documents: Sequence[continuity.GardenDocument], request: MemoryProjectionRequest, private_facts: Sequence[str], /
) -> PrivateItems:
    """Return the private documents that may be shown, and `private_facts` if these may not be."""
    if request.private_context is PrivateContext.ALLOWED:
        visible_documents = [document for document in documents if document.role is not GardenRole.SEALED]
        items = tuple(
            LabelledItem(id=document.id, label=document.role.value, text=f"{document.name}: {document.text}")
            for document in visible_documents
        )
        return PrivateItems(items, documents_withheld=len(documents) - len(visible_documents))
    return PrivateItems((), tuple(private_facts), documents_withheld=len(documents))


def work_of(documents: ConversationDocuments, request: MemoryProjectionRequest, /, *, now: Instant) -> ConversationWork:
    """Return the state of a conversation: its work, its summary, and up to three of its capsules."""
    items: list[LabelledItem] = []
    execution_state, summary = documents.state, documents.summary
    if execution_state is not None and wants_plane(request.filters, RecallPlane.EXECUTION):
        items.append(
            LabelledItem(
                id=execution_state.id, label=f"work, {execution_state.status.value}", text=execution_state.text
            )
        )
    if summary is not None and wants_plane(request.filters, RecallPlane.SUMMARY):
        items.append(LabelledItem(id=summary.id, label="so far", text=summary.text))
    has_work = bool(items) and items[0].label != "so far"
    if documents.capsules and wants_plane(request.filters, RecallPlane.CONTINUITY):
        capsules = _selected_capsules(documents.capsules, request.query, now=now)
        items += [
            LabelledItem(id=one.id, label=f"{one.kind.value}, {one.state.value}", text=f"{one.topic}: {one.text}")
            for one in capsules
        ]
        has_work = has_work or bool(capsules)
    return ConversationWork(tuple(items), has_work)


def may_be_shown(fact: Fact, request: MemoryProjectionRequest, /) -> bool:
    """Return whether a fact's privacy allows it in a block."""
    return fact.privacy is not FactPrivacy.PRIVATE or request.private_context is PrivateContext.ALLOWED


def _selected_capsules(
    capsules: Sequence[continuity.ContinuityCapsule], query: str, *, now: Instant
) -> list[continuity.ContinuityCapsule]:
    """Return the selected capsules that together have at most 900 characters."""
    remaining_chars = limits.CAPSULE_BLOCK_CHARS
    fitting_capsules: list[continuity.ContinuityCapsule] = []
    for capsule in capsule_policy.select_capsules(capsules, query, now=now):
        capsule_chars = len(capsule.topic) + len(capsule.text)
        if capsule_chars <= remaining_chars:
            fitting_capsules.append(capsule)
            remaining_chars -= capsule_chars
    return fitting_capsules


_LEAST: Final = TrustLevel.VOUCHED.rank


async def _standing_wishes(
    reader: SpaceReader, request: MemoryProjectionRequest, key: ConversationKey
) -> tuple[WishItem, ...]:
    """Return the standing wishes that people expressed and have not revoked since, latest first.

    Text from outside, from a tool or a page, is no wish and takes none back. `key` is the conversation of the block.
    """
    if not wants_plane(request.filters, RecallPlane.TRANSCRIPT):
        return ()
    ctx, index = reader.ctx, reader.index
    filters = index_filters(request.filters, RecallPlane.TRANSCRIPT, ctx.clock.now(), key)
    traits = TextTrait.STANDING, TextTrait.CHANGE
    latest_views = partial(index.latest, filters, limit=WISHES_READ, least_trust=_LEAST)
    index_version = partial(index.latest_version, filters, limit=WISHES_READ, least_trust=_LEAST)

    async def read() -> tuple[WishItem, ...]:
        standing_views = latest_views(TextTrait.STANDING)
        if not standing_views:
            return ()
        # Changes from before the oldest of these revoke none of them.
        later_changes = [
            view for view in latest_views(TextTrait.CHANGE) if view.ordered_at >= standing_views[-1].ordered_at
        ]
        views = {(view.ref, view.part): view for view in (*standing_views, *later_changes)}
        messages = await _said_messages(reader, latest_first(views.values()))
        return standing_wishes(messages, is_standing=partial(is_standing, ctx.models.statements))

    kept_filters = replace(filters, as_of=None)
    return tuple(await ctx.folds.readings.listed(reader.space, kept_filters, tuple(map(index_version, traits)), read))


async def _said_messages(reader: SpaceReader, views: Sequence[UnitView]) -> list[PersonMessage]:
    """Return the messages, except those that may no longer be recalled."""
    documents = await documents_at(reader.ctx.store, reader.space, (view.ref for view in views))
    turns = {ref: reader.ctx.folds.readings.turn(reader.space, document) for ref, document in documents.items()}
    message_hits = [turns[view.ref].hit(TurnId(view.ref.key), view.part) for view in views if view.ref in turns]
    return [
        PersonMessage(id=hit.id, text=hit.text, speaker=hit.speaker, at=hit.at)
        for hit in message_hits
        if hit is not None
    ]


async def _recent_messages(
    reader: SpaceReader, tag: ConversationTag, request: MemoryProjectionRequest
) -> tuple[RecentMessage, ...]:
    """Return the conversation's last messages that pass the filters, oldest first."""
    ctx, limit = reader.ctx, request.recent_messages_limit
    if limit == 0 or not wants_plane(request.filters, RecallPlane.TRANSCRIPT):
        return ()
    documents = await ctx.store.scan(reader.space, transcript.TURNS, prefix=f"{tag}.", limit=limit, descending=True)
    is_private_shown = request.private_context is PrivateContext.ALLOWED
    messages: list[RecentMessage] = []
    for document in reversed(documents):
        turn = ctx.folds.readings.turn(reader.space, document).turn
        messages += [
            RecentMessage(
                id=transcript.message_id(TurnId(document.ref.key), part),
                role=message.role,
                text=message.text,
                speaker=message.speaker,
                at=transcript.said_at(turn, message),
                is_outside=turn.trust_of(part) is TrustLevel.OUTSIDE,
            )
            for part, message in enumerate(turn.messages)
            if message_passes(turn, part, request.filters, include_private=is_private_shown)
        ]
    return tuple(messages[-limit:])


def hint_of_skill(hit: AgentSkillHit, /) -> LabelledItem:
    """Return a block's line for an agent skill."""
    return LabelledItem(id=f"agent_skill:{hit.place}", label=hit.name, text=hit.description)


def hint_of_tool(hint: AgentToolHint, /) -> LabelledItem:
    """Return a block's line for a tool: its experience and tags, nothing of its schema."""
    hint_texts = (
        hint.reason,
        hint.guidance,
        f"confidence {hint.confidence}, {hint.success_count} successes",
        f"permissions: {', '.join(hint.permission_tags)}" if hint.permission_tags else "",
        f"risks: {', '.join(hint.risk_tags)}" if hint.risk_tags else "",
    )
    return LabelledItem(id=hint.experience_id, label=hint.tool_id, text="; ".join(part for part in hint_texts if part))
