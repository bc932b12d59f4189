"""Recall filters: conditions for the index, and conditions read from the stored documents."""

from elytron.documents.planes import (
    OF_CONVERSATIONS,
    PLANES_IF_NAMED,
    WITH_PRIVACY,
    PlaneReach,
    StoredMemory,
    conversation_of,
    is_expired,
    is_forgotten,
)
from elytron.indexing.units import PRIVATE_TALK, home_of, namespace_tag
from elytron.memories.lookup import OPEN_PRIVACIES, FactMemory, Memory, MessageMemory, SkillMemory
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.evidence import TrustLevel
from elytron_core.planes import facts, skills, transcript
from elytron_core.planes.facts import fact_holds
from elytron_core.policy.ranking.filters import filters_hold
from elytron_core.scope import ConversationKey
from elytron_core.tags import tag_forms
from elytron_index import UnitFilters

_UNASKED = tuple(plane for plane in RecallPlane if plane not in PLANES_IF_NAMED)


def wants_plane(filters: RecallFilters, plane: RecallPlane, /) -> bool:
    """Return whether `filters` allow anything of `plane`."""
    is_excluded = (
        plane in PLANES_IF_NAMED if not (filters.planes or filters.namespace) else plane not in asked_planes(filters)
    )
    if is_excluded:
        return False
    turn_filters = (
        filters.agents,
        filters.apps,
        filters.projects,
        filters.speakers,
        filters.roles,
        filters.tags_any,
        filters.tags_all,
    )
    fact_filters = (filters.kinds, filters.authorities, filters.confidences)
    if any(fact_filters) and plane is not RecallPlane.LONG_TERM:
        return False
    conversation_filters = (filters.channels, filters.conversations)
    if plane in OF_CONVERSATIONS:
        return not any(turn_filters)
    return plane is RecallPlane.TRANSCRIPT or not any((*turn_filters, *conversation_filters))


def asked_planes(filters: RecallFilters, /) -> tuple[RecallPlane, ...]:
    """Return the planes that `filters` name, by default all except those that are read only if named."""
    if not filters.namespace:
        return filters.planes or _UNASKED
    return tuple(plane for plane in filters.planes or PLANES_IF_NAMED if plane is RecallPlane.RECORDS)


def index_filters(
    filters: RecallFilters,
    plane: RecallPlane,
    now: Instant,
    key: ConversationKey | None,
    /,
    *,
    include_private: bool = False,
) -> UnitFilters:
    """Return the index filters: `filters` for one plane, by default what holds and is believed now.

    `key` is the conversation that it is for, None where it cannot be trusted.
    """
    planes = (plane, PRIVATE_TALK) if plane is RecallPlane.TRANSCRIPT and include_private else (plane,)
    if plane not in WITH_PRIVACY and not filters.model_fields_set:
        return UnitFilters(planes=planes, as_of=now)
    home_forms = (home_of(None), *((home_of(key),) if key is not None else ()))
    scope_filters = (
        ("agent", filters.agents),
        ("app", filters.apps),
        ("project", filters.projects),
        ("channel", filters.channels),
        ("conversation", filters.conversations),
        ("kind", filters.kinds),
        ("authority", filters.authorities),
        ("confidence", filters.confidences),
        ("home", home_forms if plane is RecallPlane.LONG_TERM else ()),
        ("privacy", OPEN_PRIVACIES if plane in WITH_PRIVACY and not include_private else ()),
    )
    return UnitFilters(
        planes=planes,
        scope=tuple((name, values) for name, values in scope_filters if values),
        speakers=filters.speakers,
        roles=filters.roles,
        since=filters.since,
        until=filters.until,
        tags_any=filters.tags_any,
        tags_all=(*filters.tags_all, *((namespace_tag(filters.namespace),) if filters.namespace else ())),
        where=filters.where,
        as_of=filters.as_of if filters.as_of is not None else now,
        known_at=filters.known_at,
        min_trust=filters.trust.rank if filters.trust is not None else None,
    )


def passes_filters(memory: Memory, filters: RecallFilters, now: Instant, /) -> bool:
    """Return whether a memory may be shown under `filters`; a private one only if the caller requests private ones."""
    match memory:
        case MessageMemory():
            return message_passes(memory.turn, memory.part, filters, include_private=True)
        case FactMemory():
            return fact_passes(memory.fact, filters, now)
        case SkillMemory():
            return skill_passes(memory.skill, filters)
        case StoredMemory(value=value):
            is_hidden = is_forgotten(value) or is_expired(value, now) or memory.home.is_replaced(value)
            return not is_hidden and _kept_is_meant(memory, filters)


def is_meant(memory: Memory, filters: RecallFilters, /) -> bool:
    """Return whether `filters` select a memory, shown or hidden, in any state."""
    match memory:
        case MessageMemory():
            return _message_is_meant(memory.turn, memory.part, filters)
        case FactMemory():
            return _fact_is_meant(memory.fact, filters)
        case SkillMemory():
            return _skill_is_meant(memory.skill, filters)
        case StoredMemory():
            return _kept_is_meant(memory, filters)


def message_passes(
    turn: transcript.Turn, part: int, filters: RecallFilters, /, *, include_private: bool = False
) -> bool:
    """Return whether a message may be shown under `filters`; forgotten, erased and archived ones never."""
    return turn.is_recallable(part, include_private=include_private) and _message_is_meant(turn, part, filters)


def _message_is_meant(turn: transcript.Turn, part: int, filters: RecallFilters) -> bool:
    if not filters.model_fields_set:
        return True
    message = turn.messages[part]
    return (
        _is_among(turn.agent, filters.agents)
        and _is_among(turn.app, filters.apps)
        and _is_among(turn.project, filters.projects)
        and _is_among(turn.channel, filters.channels)
        and _is_among(turn.conversation, filters.conversations)
        and _is_among(message.speaker, filters.speakers)
        and (not filters.roles or message.role in filters.roles)
        and _tags_pass(turn, filters)
        and _is_within(transcript.said_at(turn, message), filters)
        and (filters.known_at is None or turn.recorded_at <= filters.known_at)
        and turn.trust_of(part).is_at_least(filters.trust)
        and filters_hold(filters.where, turn.metadata)
    )


def _tags_pass(turn: transcript.Turn, filters: RecallFilters) -> bool:
    if not filters.tags_any and not filters.tags_all:
        return True
    # Turns of earlier builds store their tags as given.
    tags = set(tag_forms(turn.tags))
    return tags.issuperset(filters.tags_all) and (not filters.tags_any or not tags.isdisjoint(filters.tags_any))


def fact_passes(fact: facts.Fact, filters: RecallFilters, now: Instant, /) -> bool:
    """Return whether a fact holds, and was believed, at the times in `filters` (default: now)."""
    if fact.state is facts.FactState.FORGOTTEN or not _fact_is_meant(fact, filters):
        return False
    valid_at = filters.as_of if filters.as_of is not None else now
    return fact_holds(fact, as_of=valid_at, known_at=filters.known_at)


def _fact_is_meant(fact: facts.Fact, filters: RecallFilters) -> bool:
    return (
        _is_within(fact.observed_at, filters)
        and _is_among(fact.kind, filters.kinds)
        and _is_among(fact.authority, filters.authorities)
        and _is_among(fact.confidence, filters.confidences)
        and fact.trust.is_at_least(filters.trust)
        and filters_hold(filters.where, {})
    )


def skill_passes(skill: skills.Skill, filters: RecallFilters, /) -> bool:
    """Return whether a skill may be shown under `filters`."""
    return skill.is_recallable and _skill_is_meant(skill, filters)


def _skill_is_meant(skill: skills.Skill, filters: RecallFilters) -> bool:
    is_recorded_in_time = filters.known_at is None or skill.recorded_at <= filters.known_at
    is_trusted = skill.trust.is_at_least(filters.trust)
    return (
        is_recorded_in_time and is_trusted and filters_hold(filters.where, {}) and _is_within(skill.updated_at, filters)
    )


def _kept_is_meant(memory: StoredMemory, filters: RecallFilters) -> bool:
    """Return whether `filters` select a document of a conversation or of the space; never a private one."""
    plane_home, value = memory.home, memory.value
    if plane_home.reach is PlaneReach.BY_ID:
        return False
    memory_at = plane_home.at(value)
    channel, conversation = conversation_of(value)
    return (
        (filters.known_at is None or memory_at <= filters.known_at)
        and (
            plane_home.is_of_space
            or (_is_among(channel, filters.channels) and _is_among(conversation, filters.conversations))
        )
        and plane_home.namespace(value)[: len(filters.namespace)] == filters.namespace
        and TrustLevel.DRAWN.is_at_least(filters.trust)
        and filters_hold(filters.where, plane_home.fields(value))
        and _is_within(memory_at, filters)
    )


def _is_among(value: str | None, choices: tuple[str, ...]) -> bool:
    return not choices or value in choices


def _is_within(at: Instant, filters: RecallFilters) -> bool:
    return (filters.since is None or at >= filters.since) and (filters.until is None or at < filters.until)
