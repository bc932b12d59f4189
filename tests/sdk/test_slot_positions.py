"""Each operation on each version of a slot: the current, a past, a future, and the only one."""

from enum import StrEnum
from typing import NamedTuple

import pytest
from tests.sdk.told import believe

import elytron
from elytron import FactAction, FactChangeRequest, FactForgetRequest, FactListRequest, MemoryForgetRequest
from elytron.registry import OPERATIONS
from elytron_core.clock import DAY_MS, FrozenClock, Instant
from elytron_core.contracts import facts, memories
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.memories import ControlDecision, ControlOutcome
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.contracts.transcript import LongTermExtraction, MemoryWriteRequest
from elytron_core.errors import InvalidInput
from elytron_core.ids import SpaceId
from elytron_core.planes.facts import (
    FactAuthority,
    FactKind,
    FactOperation,
    FactPrivacy,
    FactReach,
    FactState,
    FactTier,
)

pytestmark = pytest.mark.anyio

YEAR = 365 * DAY_MS


class Position(StrEnum):
    """Position of a version in its slot."""

    SOLE = "sole"
    """The only version; it is current."""
    FOLLOWED = "followed"
    """It is current, and another will follow."""
    COMING = "coming"
    """It is in the future."""
    PAST = "past"
    """It is in the past."""


class Times(NamedTuple):
    """Contents that hold a year ago, now, and in two years."""

    before: tuple[str, ...]
    now: tuple[str, ...]
    after: tuple[str, ...]


ALONE = Times((), ("Porto",), ("Porto",))
SLOT = Times(("Braga",), ("Porto",), ("Faro",))
"""The slot of every position but `SOLE`: Braga a year ago, Porto now, Faro from next year on."""

CONTENTS = {
    Position.SOLE: "Porto",
    Position.FOLLOWED: "Porto",
    Position.COMING: "Faro",
    Position.PAST: "Braga",
}


def without(content: str, times: Times) -> Times:
    return Times(*(tuple(one for one in contents if one != content) for contents in times))


def renamed(content: str, times: Times) -> Times:
    return Times(*(tuple("Lagos" if one == content else one for one in contents) for contents in times))


async def written(memory: elytron.MemoryRuntime, content: str, **more: object) -> str:
    draft = {
        "topic": "home",
        "content": content,
        "fact_kind": FactKind.PROFILE,
        "authority": FactAuthority.USER_ASSERTED,
    }
    drafts = (FactDraft.model_validate(draft | more),)
    (decision,) = (await memory.write(MemoryWriteRequest(write=LongTermExtraction(facts=drafts)))).decisions
    assert decision.id is not None
    return decision.id


async def placed(memory: elytron.MemoryRuntime, clock: FrozenClock, position: Position) -> str:
    """Store the slot of a position, and return the id of the version at it."""
    if position is Position.SOLE:
        return await written(memory, "Porto", valid_from=clock.now() - YEAR // 2)
    ids: dict[str, str] = {}
    ids["Braga"] = await written(memory, "Braga", valid_from=clock.now() - 3 * YEAR)
    ids["Porto"] = await written(memory, "Porto", valid_from=clock.now() - YEAR // 2)
    ids["Faro"] = await written(memory, "Faro", valid_from=clock.now() + YEAR)
    clock.advance(1)
    return ids[CONTENTS[position]]


async def recalled(memory: elytron.MemoryRuntime, at: Instant | None = None) -> tuple[str, ...]:
    """Return what recall returns for a time, checked against a list; a chat's own facts are in its owner's."""
    filters = RecallFilters(planes=(RecallPlane.LONG_TERM,), as_of=at)
    hits = (await memory.recall("home", filters=filters)).hits
    listed = (await memory.list(filters=filters)).items
    assert sorted(hit.text for hit in hits) == sorted(hit.text for hit in listed if hit.reach is not FactReach.CHAT)
    return tuple(sorted(hit.text for hit in hits))


async def times(memory: elytron.MemoryRuntime, clock: FrozenClock) -> Times:
    """Return what recall returns for each time, after comparing every view of the present."""
    now = await recalled(memory)
    entries = [entry for entry in (await memory.list_facts()).items if entry.reach is not FactReach.CHAT]
    assert tuple(sorted(entry.content for entry in entries)) == now
    groups = (await memory.profile()).groups
    assert tuple(sorted(line.content for group in groups for line in group.lines)) == now
    block = (await memory.project("")).system_memory_block
    assert all((content in block) == (content in now) for content in ("Braga", "Porto", "Faro", "Lagos"))
    return Times(
        await recalled(memory, Instant(clock.now() - YEAR)),
        now,
        await recalled(memory, Instant(clock.now() + 2 * YEAR)),
    )


FIELDS: dict[FactAction, dict[str, object]] = {
    FactAction.CORRECT: {"content": "Lagos"},
    FactAction.SUPERSEDE: {"content": "Lagos"},
    FactAction.DELETE: {},
    FactAction.MARK_STALE: {},
    FactAction.INVALIDATE: {},
    FactAction.CHANGE_PRIVACY: {"privacy": FactPrivacy.PRIVATE},
    FactAction.CHANGE_SCOPE: {"reach": FactReach.CHAT, "scope": elytron.Scope(space="ada", conversation="kitchen")},
}
AT = {Position.COMING: YEAR + DAY_MS, Position.PAST: -2 * YEAR}
"""When a version ends by a call; at the others now, when no such version holds."""


def expected(action: FactAction, position: Position) -> Times:
    """Return what recall returns after an action."""
    all_times, content = (ALONE if position is Position.SOLE else SLOT), CONTENTS[position]
    match action, position:
        case FactAction.CORRECT, _:
            return renamed(content, all_times)
        case FactAction.DELETE, _:
            return without(content, all_times)
        case FactAction.SUPERSEDE, _:
            return renamed(content, all_times)
        case FactAction.INVALIDATE, _:
            return without(content, all_times)
        case FactAction.MARK_STALE, _:
            return all_times
        case FactAction.CHANGE_PRIVACY, Position.PAST:
            return Times((), all_times.now, all_times.after)
        case FactAction.CHANGE_PRIVACY, _:
            return Times((), (), ())
        case FactAction.CHANGE_SCOPE, Position.COMING:
            return Times(all_times.before, all_times.now, ())
        case FactAction.CHANGE_SCOPE, _:
            return Times(all_times.before, (), ())
        case _:
            raise AssertionError(action, position)


@pytest.mark.parametrize("position", Position)
@pytest.mark.parametrize("action", FactAction)
async def test_every_action_changes_the_version_that_it_names(
    memory: elytron.MemoryRuntime, clock: FrozenClock, action: FactAction, position: Position
) -> None:
    fact = await placed(memory, clock, position)
    fields = dict(FIELDS[action])
    if action in {FactAction.SUPERSEDE, FactAction.INVALIDATE} and position in AT:
        asked = FactChangeRequest.model_validate({"id": fact, "action": action} | fields)
        if (action, position) == (FactAction.INVALIDATE, Position.PAST):
            assert (await memory.change_fact(asked)).outcome is ControlOutcome.UNCHANGED
        else:
            with pytest.raises(InvalidInput, match=r"id names a version that is (no longer|not) valid"):
                await memory.change_fact(asked)
        fields["at"] = clock.now() + AT[position]
    request = FactChangeRequest.model_validate({"id": fact, "action": action} | fields)
    if (action, position) == (FactAction.CHANGE_SCOPE, Position.PAST):
        with pytest.raises(InvalidInput, match="is no longer valid: change the current one"):
            await memory.change_fact(request)
        return
    report = await memory.change_fact(request)
    assert (report.changed, report.outcome, report.reason) == (True, ControlOutcome.CHANGED, None)
    assert await times(memory, clock) == expected(action, position)
    if action in {FactAction.CORRECT, FactAction.DELETE, FactAction.SUPERSEDE}:
        with pytest.raises(
            InvalidInput, match=r"names a fact that cannot be changed|at is after|that is (no longer|not) valid"
        ):
            await memory.change_fact(request)
    else:
        end = (await memory.get_fact(fact, include_private=True)).fact.valid_to
        ways: list[dict[str, object]] = [{"at": end}] if action is FactAction.INVALIDATE else [{}]
        if action is FactAction.INVALIDATE and position is not Position.COMING:
            ways.append({"at": None})
        for at in ways:
            again = await memory.change_fact(request.model_copy(update=at))
            assert (again.outcome, bool(again.reason)) == (ControlOutcome.UNCHANGED, True)


VERBS = ("forget", "forget_facts", "erase", "correct")
"""Operations on facts other than `change_fact`, whose actions have their own table."""


def test_every_operation_that_changes_facts_has_a_table() -> None:
    changing = {
        operation.name
        for operation in OPERATIONS
        if operation.mutates and operation.request.__module__ in {memories.__name__, facts.__name__}
    }
    of_candidates = {"merge_facts", "resolve_candidate"}  # act on what waits, and on near duplicates of any slot
    assert changing - {"set_learning"} - of_candidates == {*VERBS, "change_fact"}


@pytest.mark.parametrize("position", Position)
@pytest.mark.parametrize("way", VERBS)
async def test_every_operation_affects_the_version_that_it_names(
    memory: elytron.MemoryRuntime, clock: FrozenClock, way: str, position: Position
) -> None:
    fact, content = await placed(memory, clock, position), CONTENTS[position]
    all_times = ALONE if position is Position.SOLE else SLOT
    match way:
        case "forget":
            (decision,) = (await memory.forget(fact)).decisions
            assert decision.outcome is ControlOutcome.CHANGED
            assert len(decision.remaining) == (0 if position is Position.SOLE else 2)
            assert await times(memory, clock) == without(content, all_times)
            assert (await memory.forget(fact)).decisions[0].reason == "it is already forgotten"
            assert (await memory.forget(fact, undo=True)).changed
            assert await times(memory, clock) == all_times
            assert (await memory.forget(fact, undo=True)).decisions[0].reason == "it is not forgotten"
        case "forget_facts":
            rehearsed = await memory.forget_facts(content)
            assert [entry.id for entry in rehearsed.items] == [fact]
            assert (await memory.forget_facts(content, token=rehearsed.token)).changed
            assert await times(memory, clock) == without(content, all_times)
        case "erase":
            assert (await memory.erase(fact)).changed
            assert await times(memory, clock) == without(content, all_times)
        case _:
            (decision,) = (await memory.correct(fact, "Lagos")).decisions
            assert decision.outcome is ControlOutcome.CHANGED
            assert await times(memory, clock) == renamed(content, all_times)


@pytest.mark.parametrize("position", Position)
@pytest.mark.parametrize("verb", ["forget", "delete", "erase", None])
async def test_a_new_value_is_the_only_current_one(
    memory: elytron.MemoryRuntime, clock: FrozenClock, verb: str | None, position: Position
) -> None:
    fact = await placed(memory, clock, position)
    match verb:
        case "forget":
            await memory.forget(fact)
        case "delete":
            await memory.change_fact(FactChangeRequest(id=fact, action=FactAction.DELETE))
        case "erase":
            await memory.erase(fact)
        case _:
            pass
    await written(memory, "Lagos")
    found = await times(memory, clock)
    assert (found.now, found.after) == (("Lagos",), ("Lagos",))
    if verb == "forget":
        (decision,) = (await memory.forget(fact, undo=True)).decisions
        assert (decision.outcome is ControlOutcome.CHANGED) == (position is Position.PAST)
        assert decision.reason in {None, "its topic now has another value"}
        assert (await times(memory, clock)).now == ("Lagos",)


async def test_a_repeated_value_is_confirmed_and_planned_ones_stay(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    fact = await placed(memory, clock, Position.FOLLOWED)
    assert await written(memory, "Porto") == fact
    assert await times(memory, clock) == SLOT


async def test_a_proposed_deletion_removes_current_and_planned_values(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await placed(memory, clock, Position.FOLLOWED)
    assert (await believe(memory, "home", "", operation=FactOperation.DELETE)).changed
    assert await times(memory, clock) == Times(("Braga",), (), ())


async def test_a_value_from_a_fast_clock_can_be_controlled(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await believe(memory, "home", "Porto")
    await believe(memory, "home", "Faro", observed_at=clock.now() + 5 * 60_000)
    (hit,) = (await memory.recall("home")).hits
    assert hit.text == "Faro"
    assert (await memory.forget(hit.id)).changed
    assert (await memory.recall("home")).hits == ()


async def test_versions_forgotten_together_are_restored_individually(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    first = await written(memory, "Porto")
    await memory.forget(first)
    second = await written(memory, "Lagos")
    await memory.forget(second)
    report = await memory.forget(MemoryForgetRequest(ids=(first, second), undo=True))
    assert [decision.outcome for decision in report.decisions] == [ControlOutcome.CHANGED, ControlOutcome.UNCHANGED]
    assert (await times(memory, clock)).now == ("Porto",)


async def test_a_value_replacing_one_with_an_end_ends_it_immediately(memory: elytron.MemoryRuntime) -> None:
    await written(memory, "Porto", tier=FactTier.L2)
    await written(memory, "Lagos", tier=FactTier.L2)
    assert [hit.text for hit in (await memory.recall("home")).hits] == ["Lagos"]


async def test_a_new_value_ends_the_current_one_despite_many_forgotten_plans(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await placed(memory, clock, Position.FOLLOWED)
    for plan in ("Sines", "Tomar", "Viana", "Olhos"):
        (coming,) = (await memory.list_facts(FactListRequest(states=(FactState.ACTIVE,)))).items
        await memory.forget(coming.id)
        await written(memory, plan, valid_from=clock.now() + YEAR)
    (coming,) = (await memory.list_facts(FactListRequest(states=(FactState.ACTIVE,)))).items
    await memory.forget(coming.id)
    assert (await times(memory, clock)).now == ("Porto",)
    await written(memory, "Lagos")
    assert await times(memory, clock) == Times(("Braga",), ("Lagos",), ("Lagos",))


async def test_a_fact_moves_to_a_slot_whose_values_have_ended_and_to_no_other(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    fact = await placed(memory, clock, Position.SOLE)
    kitchen = elytron.Scope(space=SpaceId("ada"), conversation="kitchen")
    draft = FactDraft(topic="home", content="Sines", fact_kind=FactKind.PROFILE, reach=FactReach.CHAT)
    write = MemoryWriteRequest(scope=kitchen, write=LongTermExtraction(facts=(draft,)))
    (there,) = (await memory.write(write)).ids
    move = FactChangeRequest(scope=kitchen, id=fact, action=FactAction.CHANGE_SCOPE, reach=FactReach.CHAT)
    with pytest.raises(InvalidInput, match="has a current fact on this topic"):
        await memory.change_fact(move)
    await memory.change_fact(FactChangeRequest(id=there, action=FactAction.INVALIDATE))
    clock.advance(1)
    assert (await memory.change_fact(move)).changed
    here = await memory.recall(elytron.MemoryRecallRequest(scope=kitchen, query="home"))
    assert [hit.id for hit in here.hits] == [fact]


async def test_facts_are_listed_by_state_at_any_time(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await placed(memory, clock, Position.FOLLOWED)
    every = (await memory.list_facts(FactListRequest(states=()))).items
    assert [(entry.content, entry.state) for entry in every] == [
        ("Braga", FactState.SUPERSEDED),
        ("Porto", FactState.SUPERSEDED),
        ("Faro", FactState.ACTIVE),
    ]


async def test_a_query_forgets_every_version_recalled_for_any_time(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await placed(memory, clock, Position.FOLLOWED)
    rehearsed = await memory.forget_facts(FactForgetRequest(query="home", dry_run=True))
    assert len(rehearsed.items) == 3
    assert (await memory.forget_facts("home", token=rehearsed.token)).changed
    assert await times(memory, clock) == Times((), (), ())


async def test_a_correction_of_the_past_is_known_since_its_recording(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    fact = await placed(memory, clock, Position.PAST)
    before = clock.now()
    clock.advance(DAY_MS)
    await memory.correct(fact, "Lagos")
    filters = RecallFilters(as_of=Instant(clock.now() - YEAR), known_at=before)
    assert [hit.text for hit in (await memory.recall("home", filters=filters)).hits] == ["Braga"]
    filters = filters.model_copy(update={"known_at": clock.now()})
    assert [hit.text for hit in (await memory.recall("home", filters=filters)).hits] == ["Lagos"]


def test_unchanged_items_have_a_reason() -> None:
    with pytest.raises(ValueError, match="is missing: give the reason"):
        ControlDecision(id="x", outcome=ControlOutcome.UNCHANGED)
