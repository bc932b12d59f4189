"""Long-term control: facts are read completely, changed, forgotten by query, and not learned again."""

import pytest
from tests.sdk.told import believe, texts

import elytron
from elytron import FactAction, FactChangeRequest, FactListRequest, FactPrivacy, FactReach, LearningAction
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.contracts.recall import RecallFilters
from elytron_core.errors import InvalidInput, PreconditionFailed
from elytron_core.planes.facts import FactKind, FactOperation, FactState
from elytron_core.planes.jobs import MaintenancePass

pytestmark = pytest.mark.anyio


async def change(memory: elytron.MemoryRuntime, fact: str, action: FactAction, **more: object) -> str | None:
    report = await memory.change_fact(FactChangeRequest(id=fact, action=action, **more))  # type: ignore[arg-type]
    assert report.changed
    return report.new_id


async def told(memory: elytron.MemoryRuntime, fact: str) -> list[tuple[str, str, str]]:
    return [(item.event.value, item.by, item.reason) for item in (await memory.history(fact)).items]


async def proposed(memory: elytron.MemoryRuntime, content: str, *, kind: str = "preference", text: str = "") -> str:
    """Store `text`, propose a fact that cites it, and return the outcome."""
    cited = (await memory.add(text)).ids if text else ()
    report = await memory.add_fact("drink", content, kind=elytron.FactKind(kind), citations=cited)
    return report.decisions[0].outcome.value


async def test_a_fact_is_listed_and_read_with_all_its_attributes(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    (turn,) = (await memory.add("I like green tea")).ids
    draft = elytron.FactDraft(
        fact_kind=elytron.FactKind.TASK,
        topic="drink",
        content="buy green tea",
        keywords=("tea",),
        citations=(turn,),
        confidence="high",  # type: ignore[arg-type]
    )
    write = elytron.LongTermExtraction(facts=(draft,))
    (fact,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    (entry,) = (await memory.list_facts()).items
    assert (entry.id, entry.confidence, entry.authority, entry.evidence) == (fact, "high", "extracted", (turn,))
    assert (entry.evidence_count, entry.keywords, entry.privacy, entry.state) == (1, ("tea",), "shared", "active")
    assert (entry.freshness, entry.hint) == ("fresh", "none")
    clock.advance(4 * DAY_MS)
    assert (await memory.get_fact(fact)).fact.hint == "review"
    clock.advance(20 * DAY_MS)
    assert (await memory.get_fact(fact)).fact.hint == "verify"


async def test_facts_are_listed_by_words_states_and_pages(memory: elytron.MemoryRuntime) -> None:
    for topic, content in (("drink", "green tea"), ("food", "green peas"), ("home", "Lisbon")):
        await believe(memory, topic, content)
    assert [entry.topic for entry in (await memory.list_facts(query="green")).items] == ["drink", "food"]
    page = await memory.list_facts(FactListRequest(limit=2))
    assert page.has_more
    rest = await memory.list_facts(FactListRequest(limit=2, cursor=page.next_cursor))
    assert [entry.topic for entry in (*page.items, *rest.items)] == ["drink", "food", "home"]
    assert (await memory.list_facts(FactListRequest(states=(FactState.DELETED,)))).items == ()


async def test_private_facts_are_shown_only_on_explicit_request(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    await change(memory, fact, FactAction.CHANGE_PRIVACY, privacy=FactPrivacy.PRIVATE)
    report = await memory.list_facts()
    assert (report.items, report.withheld) == ((), 1)
    with pytest.raises(InvalidInput, match="include_private"):
        await memory.get_fact(fact)
    assert (await memory.get_fact(fact, include_private=True)).fact.privacy == "private"
    assert len((await memory.list_facts(include_private=True)).items) == 1
    assert (await memory.forget_facts("tea")).items == ()


async def test_stricter_privacy_applies_to_earlier_versions_too(memory: elytron.MemoryRuntime) -> None:
    (old,) = (await believe(memory, "drink", "green tea")).ids
    new = await change(memory, old, FactAction.SUPERSEDE, content="white tea")
    assert new is not None
    await change(memory, new, FactAction.CHANGE_PRIVACY, privacy=FactPrivacy.PRIVATE)
    assert (await memory.get_fact(old, include_private=True)).fact.privacy == "private"


async def test_a_merge_guard_names_the_operation_that_changes_privacy(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    kind = (await memory.get_fact(fact)).fact.kind
    draft = elytron.FactDraft(topic="drink", content="green tea", fact_kind=kind, privacy=FactPrivacy.PUBLIC)
    write = elytron.LongTermExtraction(facts=(draft,))
    (decision,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).decisions
    assert decision.reason.endswith("use change_fact with change_privacy")
    await change(memory, fact, FactAction.CHANGE_PRIVACY, privacy=FactPrivacy.PUBLIC)
    assert (await memory.get_fact(fact)).fact.privacy == "public"


async def test_superseding_ends_the_old_value_and_correcting_invalidates_it(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    (old,) = (await believe(memory, "home", "Lisbon")).ids
    clock.advance(10 * DAY_MS)
    moved = clock.now()
    new = await change(memory, old, FactAction.SUPERSEDE, content="Porto", at=moved)
    assert await texts(memory, "home") == ["Porto"]
    before = RecallFilters(as_of=elytron.instant(moved - DAY_MS, field="t"))
    assert [hit.text for hit in (await memory.recall("home", filters=before)).hits] == ["Lisbon"]
    assert new is not None
    await change(memory, new, FactAction.CORRECT, content="Braga", reason="misheard")
    assert await texts(memory, "home") == ["Braga"]
    assert ("superseded", "host", "superseded") in await told(memory, old)
    assert ("corrected", "host", "misheard") in await told(memory, old)


async def test_an_invalid_fact_held_until_then_and_has_no_successor(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    clock.advance(10 * DAY_MS)
    await change(memory, fact, FactAction.INVALIDATE, reason="moved away")
    assert await texts(memory, "home Lisbon") == []
    before = RecallFilters(as_of=elytron.instant(clock.now() - DAY_MS, field="t"))
    assert [hit.text for hit in (await memory.recall("home", filters=before)).hits] == ["Lisbon"]
    assert (await told(memory, fact))[-1] == ("invalidated", "host", "moved away")


async def test_a_fact_marked_stale_needs_verification_until_confirmed(
    memory: elytron.MemoryRuntime,
) -> None:
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    await change(memory, fact, FactAction.MARK_STALE, reason="a year ago")
    entry = (await memory.get_fact(fact)).fact
    assert (entry.freshness, entry.hint) == ("stale", "verify")
    assert (await told(memory, fact))[-1] == ("marked_stale", "host", "a year ago")
    assert not (await memory.change_fact(FactChangeRequest(id=fact, action=FactAction.MARK_STALE))).changed
    await believe(memory, "home", "Lisbon")
    assert (await memory.get_fact(fact)).fact.hint == "none"


async def test_after_a_proposed_deletion_an_older_observation_is_not_accepted(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await believe(memory, "home", "Lisbon")
    older = clock.now()
    gone = clock.now()
    await believe(memory, "home", "", operation=FactOperation.DELETE, observed_at=gone)
    (refused,) = (await believe(memory, "home", "Lisbon", observed_at=older)).decisions
    assert (refused.outcome.value, refused.reason) == ("rejected", "it was observed before the fact was deleted")
    assert await texts(memory, "home") == []
    assert (await believe(memory, "home", "Lisbon", observed_at=gone)).changed


async def test_a_fact_changes_its_scope_and_stays_the_same_fact(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "tone", "playful")).ids
    kitchen = elytron.Scope(space="ada", conversation="kitchen")
    move = FactChangeRequest(scope=kitchen, id=fact, action=FactAction.CHANGE_SCOPE, reach=FactReach.CHAT)
    assert (await memory.change_fact(move)).changed
    assert await texts(memory, "tone") == []
    here = await memory.recall(elytron.MemoryRecallRequest(scope=kitchen, query="tone"))
    assert [hit.id for hit in here.hits] == [fact]
    entry = (await memory.get_fact(fact)).fact
    assert (entry.reach, entry.chat) == ("chat", "kitchen")
    assert "scope_changed" in [event for event, _, _ in await told(memory, fact)]
    await believe(memory, "tone", "dry")
    back = FactChangeRequest(id=fact, action=FactAction.CHANGE_SCOPE, reach=FactReach.USER)
    with pytest.raises(InvalidInput, match="current fact on this topic"):
        await memory.change_fact(back)


async def test_a_change_can_expect_a_version(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    seen = (await memory.get_fact(fact)).fact.version
    await change(memory, fact, FactAction.MARK_STALE, expected_version=seen)
    with pytest.raises(PreconditionFailed):
        await change(memory, fact, FactAction.DELETE, expected_version=seen)


@pytest.mark.parametrize(
    ("action", "more", "match"),
    [
        (FactAction.CORRECT, {}, "content is required"),
        (FactAction.CORRECT, {"content": " "}, "content is blank"),
        (FactAction.DELETE, {"content": "x"}, "content does not apply to 'delete'"),
        (FactAction.CHANGE_PRIVACY, {}, "privacy is required"),
        (FactAction.CHANGE_SCOPE, {}, "reach is required"),
        (FactAction.MARK_STALE, {"at": 5}, "at does not apply to 'mark_stale'"),
    ],
)
async def test_each_action_accepts_its_own_fields(
    memory: elytron.MemoryRuntime, action: FactAction, more: dict[str, object], match: str
) -> None:
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    with pytest.raises(InvalidInput, match=match):
        await change(memory, fact, action, **more)


async def test_only_a_current_fact_can_be_changed(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await memory.add("Hello")).ids
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    await change(memory, fact, FactAction.DELETE)
    for name, match in ((turn, "does not name a fact"), (fact, "it was deleted")):
        with pytest.raises(InvalidInput, match=match):
            await change(memory, name, FactAction.DELETE)
    with pytest.raises(InvalidInput, match="does not name a fact"):
        await memory.get_fact(turn)


async def test_facts_are_forgotten_by_query_with_the_token_of_a_dry_run(memory: elytron.MemoryRuntime) -> None:
    (tea,) = (await believe(memory, "drink", "green tea")).ids
    await believe(memory, "home", "Lisbon")
    with pytest.raises(InvalidInput, match="token is missing"):
        await memory.forget_facts(elytron.FactForgetRequest(query="tea"))
    rehearsed = await memory.forget_facts("tea")
    assert ([item.id for item in rehearsed.items], rehearsed.changed, rehearsed.dry_run) == ([tea], False, True)
    with pytest.raises(PreconditionFailed):
        await memory.forget_facts("Lisbon", token=rehearsed.token)
    report = await memory.forget_facts("tea", token=rehearsed.token, reason="asked to")
    assert report.changed
    assert [entry.topic for entry in (await memory.list_facts()).items] == ["home"]
    assert (await told(memory, tea))[-1] == ("forgotten", "host", "asked to")


async def test_a_token_is_invalid_once_other_facts_match(memory: elytron.MemoryRuntime) -> None:
    await believe(memory, "drink", "green tea")
    rehearsed = await memory.forget_facts("tea")
    await believe(memory, "shop", "the tea shop")
    with pytest.raises(PreconditionFailed):
        await memory.forget_facts("tea", token=rehearsed.token)
    assert len((await memory.list_facts()).items) == 2


async def test_forgotten_content_is_not_learned_again_until_allowed(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await memory.add_fact("drink", "Ada likes green tea", kind=elytron.FactKind.PREFERENCE)).ids
    await memory.forget(fact)
    assert await proposed(memory, "Ada  likes green tea.") == "rejected"
    (decision,) = (await memory.add_fact("tea", "Ada likes green tea", kind=elytron.FactKind.PREFERENCE)).decisions
    assert "it was forgotten" in decision.reason
    allowed = await memory.set_learning(LearningAction.ALLOW, "Drink", reason="asked to")
    assert (allowed.changed, allowed.tombstones) == (True, 1)
    assert await proposed(memory, "Ada likes green tea") == "stored"


async def test_forgotten_content_is_not_learned_paraphrased_from_a_repeated_sentence(
    memory: elytron.MemoryRuntime,
) -> None:
    said = "Good morning! I like green tea. Where is my cup?"
    assert await proposed(memory, "Ada likes green tea", text=said) == "stored"
    (entry,) = (await memory.list_facts()).items
    await change(memory, entry.id, FactAction.DELETE)
    assert await proposed(memory, "Ada enjoys tea that is green", text="i like green tea") == "rejected"
    assert await proposed(memory, "Ada drinks coffee", text="Good morning! I drink coffee.") == "stored"


async def test_a_restored_fact_may_be_learned_again(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    await memory.forget(fact)
    await memory.forget(fact, undo=True)
    (decision,) = (await believe(memory, "drink", "green tea")).decisions
    assert decision.outcome == "confirmed"
    assert "tombstones" not in (await memory.inspect()).documents


async def test_a_forgotten_fact_is_not_restored_next_to_another_value(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    await memory.forget(fact)
    await believe(memory, "drink", "coffee")
    report = await memory.forget(fact, undo=True)
    assert (report.changed, report.decisions[0].reason) == (False, "its topic now has another value")


async def test_tombstones_contain_no_content_and_are_removed_by_an_erasure(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    await memory.forget(fact)
    stones = await memory.store.scan(memory.scope.space, "tombstones", limit=10)  # type: ignore[union-attr]
    assert stones
    assert not any(b"tea" in stone.body or b"drink" in stone.body for stone in stones)
    await memory.erase([fact])
    assert "tombstones" not in (await memory.inspect()).documents


async def test_paused_learning_accepts_nothing_until_it_is_resumed(memory: elytron.MemoryRuntime) -> None:
    await memory.set_learning(LearningAction.PAUSE, reason="a guest is here")
    assert await proposed(memory, "Ada likes green tea") == "rejected"
    listed = (await memory.list_facts()).learning
    assert [(rule.state, rule.topic, rule.by, rule.reason) for rule in listed.rules] == [
        ("paused", None, "host", "a guest is here")
    ]
    assert not (await memory.set_learning(LearningAction.PAUSE)).changed
    await memory.set_learning(LearningAction.RESUME)
    assert await proposed(memory, "Ada likes green tea") == "stored"
    log = (await memory.list_facts()).learning.log
    assert [(event.action, event.by) for event in log] == [("pause", "host"), ("resume", "host")]


async def test_a_suppressed_topic_is_not_learned_until_it_is_allowed(memory: elytron.MemoryRuntime) -> None:
    await memory.set_learning(LearningAction.SUPPRESS, "tea")
    assert await proposed(memory, "Ada likes green tea") == "rejected"
    assert await proposed(memory, "Ada likes coffee") == "stored"
    await memory.set_learning(LearningAction.RESUME, "tea")
    assert await proposed(memory, "Ada likes green tea") == "rejected"
    await memory.set_learning(LearningAction.ALLOW, "Tea")
    assert await proposed(memory, "Ada likes green tea") == "updated"
    with pytest.raises(InvalidInput, match="topic is required"):
        await memory.set_learning(LearningAction.SUPPRESS)


async def test_nothing_is_extracted_while_learning_is_paused(memory: elytron.MemoryRuntime) -> None:
    await memory.set_learning(LearningAction.PAUSE)
    await memory.add("My name is Ada and I live in Lisbon.")
    outcomes = {outcome.of: outcome for outcome in (await memory.maintain()).passes}
    assert outcomes[MaintenancePass.EXTRACTION].reason == "learning_paused"
    await memory.set_learning(LearningAction.RESUME)
    await memory.maintain()
    assert (await memory.list_facts()).items == ()


async def test_repeating_a_fact_preserves_its_end(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    (fact,) = (await memory.add_fact("home", "Lisbon", authority=elytron.FactAuthority.USER_ASSERTED)).ids
    end = elytron.instant(clock.now(), field="end")
    for authority, kept in ((elytron.FactAuthority.EXTRACTED, None), (elytron.FactAuthority.USER_ASSERTED, end)):
        draft = elytron.FactDraft(topic="home", content="Lisbon", authority=authority, valid_to=end)
        write = elytron.LongTermExtraction(facts=(draft,))
        (decision,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).decisions
        assert decision.outcome == "confirmed"
        assert (await memory.get_fact(fact)).fact.valid_to == kept
    clock.advance(DAY_MS)
    assert await texts(memory, "home") == []


async def test_facts_of_one_kind_are_forgotten_by_a_query(memory: elytron.MemoryRuntime) -> None:
    await memory.add_fact("drink", "Ada likes green tea", kind=elytron.FactKind.PREFERENCE)
    await memory.add_fact("errand", "buy green tea", kind=elytron.FactKind.TASK)
    told = await memory.forget_facts("green tea", kinds=[elytron.FactKind.TASK])
    assert [entry.topic for entry in told.items] == ["errand"]
    with pytest.raises(PreconditionFailed):
        await memory.forget_facts("green tea", token=told.token)
    assert (await memory.forget_facts("green tea", kinds=[elytron.FactKind.TASK], token=told.token)).changed
    assert [entry.topic for entry in (await memory.list_facts()).items] == ["drink"]


async def test_merging_and_restoring_facts_is_in_their_history(memory: elytron.MemoryRuntime) -> None:
    for topic in ("tea", "drink"):
        await memory.add_fact(topic, "Ada drinks green tea in the morning", kind=elytron.FactKind.PREFERENCE)
    (pair,) = (await memory.merge_facts()).pairs
    assert (await told(memory, pair.folded))[-1] == ("merged", "host", "")
    await memory.merge_facts(elytron.MemoryMergeRequest(undo=(pair.folded,)))
    assert (await told(memory, pair.folded))[-1] == ("restored", "host", "")


@pytest.mark.parametrize("written_first", [True, False])
async def test_written_and_extracted_facts_share_a_slot(
    memory: elytron.MemoryRuntime, clock: FrozenClock, written_first: bool
) -> None:
    async def write() -> None:
        await memory.add_fact("residence", "The user lives in Porto")

    async def draw() -> None:
        await memory.add("I live in Porto.")
        await memory.maintain()

    for step in (write, draw) if written_first else (draw, write):
        await step()
        clock.advance(DAY_MS)
    facts = (await memory.list_facts()).items
    assert [(fact.kind, fact.topic, fact.content) for fact in facts] == [
        (FactKind.PROFILE, "residence", "The user lives in Porto")
    ]
    await memory.add_fact("garden", "The fern stands in the shade")
    assert {fact.kind for fact in (await memory.list_facts()).items} == {FactKind.PROFILE, FactKind.FACT}
