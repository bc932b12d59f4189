"""Guarantees of recall: answers come first, filters apply, limits are reported, time can be turned back."""

import pytest
from tests.sdk.told import believe, learn, talk, texts

import elytron
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ClipReason

pytestmark = pytest.mark.anyio

F = elytron.RecallFilters


async def found(memory: elytron.MemoryRuntime, query: str, filters: elytron.RecallFilters) -> list[str]:
    return sorted(hit.text for hit in (await memory.recall(query, filters=filters)).hits)


async def test_a_hit_states_its_origin(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (
        await memory.add(
            "We moved to Lisbon in May.", speaker="Ada", at="2025-05-03T10:00:00Z", tags=["home"], conversation="c1"
        )
    ).ids
    (hit,) = (await memory.recall("when did we move?")).hits
    assert (hit.id, hit.plane, hit.speaker, hit.at, hit.channel, hit.conversation, hit.tags, hit.citations) == (
        turn,
        elytron.RecallPlane.TRANSCRIPT,
        "Ada",
        1_746_266_400_000,
        "default",
        "c1",
        ("home",),
        (turn,),
    )
    assert hit.signals["body"] > 0
    assert hit.score > 0


async def test_an_empty_result_has_a_typed_outcome(memory: elytron.MemoryRuntime) -> None:
    assert (await memory.recall("tea")).reason is elytron.NothingReason.EMPTY_SPACE
    await memory.add("I like tea")
    assert (await memory.recall("")).reason is elytron.NothingReason.EMPTY_QUERY
    assert (await memory.recall(" \n")).reason is elytron.NothingReason.EMPTY_QUERY
    nothing = await memory.recall("quantum chromodynamics")
    assert (nothing.outcome, nothing.reason) == (elytron.RecallOutcome.NOTHING, elytron.NothingReason.NO_ANSWER)
    assert len(nothing.hits) == 1
    filtered = await memory.recall("tea", filters=F(speakers=("Noor",)))
    assert (filtered.reason, filtered.hits) == (elytron.NothingReason.NOTHING_MATCHES_FILTERS, ())
    assert nothing.considered == 1


@pytest.mark.parametrize("limit", [0, -1, 1_001, 10**9])
async def test_a_limit_out_of_range_is_rejected(memory: elytron.MemoryRuntime, limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        await memory.recall("tea", limit=limit)


async def test_hits_cut_by_the_limit_are_reported(memory: elytron.MemoryRuntime) -> None:
    await memory.add([f"tea number {number}" for number in range(40)])
    report = await memory.recall("tea", limit=5)
    assert len(report.hits) == 5
    (clip,) = report.clipped
    assert (clip.what, clip.reason, clip.limit, clip.dropped) == ("hits", ClipReason.LIMIT, 5, 35)
    assert (await memory.recall("tea", limit=100)).clipped == ()


async def test_hits_stay_within_the_tokens_given(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["tea " * 10, "tea 茶茶茶茶 cup", "a cup of tea"])
    whole = await memory.recall("tea")
    report = await memory.recall("tea", max_tokens=12)
    assert report.hits == whole.hits[: len(report.hits)]
    assert len(report.hits) < 3
    assert report.clipped[-1].reason is ClipReason.TOKENS
    assert (await memory.recall("tea", max_tokens=1)).hits == ()
    assert (await memory.recall("tea", max_tokens=1_000)).hits == whole.hits


async def test_filters_are_combined_and_each_matches_any_of_its_values(memory: elytron.MemoryRuntime) -> None:
    await memory.add("tea one", speaker="Ada", at=1_000, tags=["a", "b"], agent_id="x", run_id="r1")
    await memory.add("tea two", speaker="Bob", at=2_000, tags=["b"], agent_id="y", run_id="r2")
    await memory.add({"role": "assistant", "content": "tea three"}, at=3_000, run_id="r3")
    every = ["tea one", "tea three", "tea two"]
    assert await found(memory, "tea", F()) == every
    assert await found(memory, "tea", F(speakers=("Ada",))) == ["tea one"]
    assert await found(memory, "tea", F(speakers=("Ada", "Bob"))) == ["tea one", "tea two"]
    assert await found(memory, "tea", F(roles=(EvidenceRole.ASSISTANT,))) == ["tea three"]
    assert await found(memory, "tea", F(tags_any=("a", "z"))) == ["tea one"]
    assert await found(memory, "tea", F(tags_all=("a", "b"))) == ["tea one"]
    assert await found(memory, "tea", F(agents=("x", "y"))) == ["tea one", "tea two"]
    assert await found(memory, "tea", F(conversations=("r2", "r3"))) == ["tea three", "tea two"]
    assert await found(memory, "tea", F(channels=("default",))) == every
    assert await found(memory, "tea", F(apps=("none",))) == []
    assert await found(memory, "tea", F(since=Instant(2_000_000))) == ["tea three", "tea two"]
    assert await found(memory, "tea", F(until=Instant(2_000_000))) == ["tea one"]
    assert await found(memory, "tea", F(speakers=("Ada",), since=Instant(2_000_000))) == []
    assert [hit.text for hit in (await memory.search("tea", agent_id="x", run_id="r1")).hits] == ["tea one"]
    listed = [
        [item.text for item in (await memory.get_all(filters=filters)).items]
        for filters in (F(speakers=("Ada",)), F(tags_all=("a", "b")), F(tags_any=("z",)), F(until=Instant(2_000_000)))
    ]
    assert listed == [["tea one"], ["tea one"], [], ["tea one"]]


async def test_planes_are_recalled_together_or_apart(memory: elytron.MemoryRuntime) -> None:
    await memory.add("Tea is brewed at the harbour.")
    await believe(memory, "favourite drink", "green tea")
    await learn(memory, "brew", "1. Heat water.\n2. Add tea.\n3. Wait.", topic="brewing tea")
    planes = [hit.plane for hit in (await memory.recall("tea")).hits]
    assert sorted(planes) == ["long_term", "procedural", "transcript"]
    for plane in (elytron.RecallPlane.TRANSCRIPT, elytron.RecallPlane.LONG_TERM, elytron.RecallPlane.PROCEDURAL):
        assert {hit.plane for hit in (await memory.recall("tea", filters=F(planes=(plane,)))).hits} == {plane}
        assert {item.plane for item in (await memory.get_all(filters=F(planes=(plane,)))).items} == {plane}


async def test_time_can_be_turned_back(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await believe(memory, "home city", "Lisbon", observed_at=1_000_000)
    knew_lisbon = clock.now()
    clock.advance(1_000_000)
    await believe(memory, "home city", "Porto", observed_at=2_000_000)
    assert await texts(memory, "home city") == ["Porto"]
    assert await found(memory, "home city", F(as_of=Instant(1_500_000))) == ["Lisbon"]
    assert await found(memory, "home city", F(known_at=knew_lisbon)) == ["Lisbon"]
    for filters in (F(as_of=Instant(1_500_000)), F(known_at=knew_lisbon), F()):
        listed = [item.text for item in (await memory.get_all(filters=filters)).items]
        assert listed == await found(memory, "home city", filters)


async def test_a_correction_was_never_true_but_was_once_believed(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    (wrong,) = (await believe(memory, "birthday", "14 March", observed_at=1_000)).ids
    believed = clock.now()
    await memory.correct(elytron.MemoryCorrectRequest(id=wrong, content="4 March"))
    assert await found(memory, "birthday", F(as_of=Instant(2_000_000))) == ["4 March"]
    assert await found(memory, "birthday", F(known_at=believed)) == ["14 March"]
    assert [item.text for item in (await memory.get_all(filters=F(known_at=believed))).items] == ["14 March"]


async def test_one_space_never_sees_another(memory: elytron.MemoryRuntime) -> None:
    await memory.add("Ada likes tea", user_id="ada")
    await memory.add("Anna likes tea", user_id="adaa")
    for space, text in (("ada", "Ada likes tea"), ("adaa", "Anna likes tea")):
        assert [hit.text for hit in (await memory.recall("tea", user_id=space)).hits] == [text]
    (anna,) = (await memory.get_all(user_id="adaa")).items
    assert (await memory.forget(elytron.MemoryForgetRequest(ids=(anna.id,)))).changed is False


async def test_chinese_is_found_by_words_of_two_characters(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["外婆的泡菜要放花椒", "我们去看海吧"])
    assert (await texts(memory, "泡菜"))[0] == "外婆的泡菜要放花椒"
    assert (await texts(memory, "海"))[0] == "我们去看海吧"


async def test_a_turn_with_several_messages_is_recalled_by_message(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (
        await talk(memory, (EvidenceRole.USER, "What is umami?"), (EvidenceRole.ASSISTANT, "A savoury taste."))
    ).ids
    hit = (await memory.recall("savoury")).hits[0]
    assert hit.id == f"{turn}#1"
    assert await memory.get(hit.id) == hit.model_copy(update={"score": 0.0, "signals": {}})


async def test_memories_found_only_through_neighbours_stay_in_order(memory: elytron.MemoryRuntime) -> None:
    said = ["I'm allergic to walnuts.", *(f"Never touch heap {place}." for place in range(40))]
    await memory.add({"role": "assistant", "content": "Which cake would you like?"}, at=1_000)
    for place, text in enumerate(said, 2):
        await memory.add({"role": "user", "content": text}, at=1_000 * place)
    report = await memory.recall("Which cake should I bake?")
    assert report.hits[0].text == said[0]
    assert report.hits[0].score > report.hits[-1].score > 0


STEPS = "1. Open the kiln for repair.\n2. Clean it.\n3. Close it."


@pytest.mark.parametrize("query", ["who said kiln repair?", "where did I say kiln repair?"])
async def test_a_question_for_evidence_has_evidence_first(memory: elytron.MemoryRuntime, query: str) -> None:
    skill = elytron.RuntimeSkillWrite(
        name="kiln", topic="kiln repair", title="Kiln repair", summary="Steps of a kiln repair", content=STEPS
    )
    await memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=(skill,))))
    await memory.add_fact("kiln", "the kiln repair cost forty")
    await memory.add("The kiln repair was paid by Bob", speaker="Ada")
    await memory.add("Snow fell on the hills", speaker="Ada")
    report = await memory.recall(query)
    assert (report.intent, report.hits[0].text) == ("evidence", "The kiln repair was paid by Bob")
    scores = [hit.score for hit in report.hits]
    assert scores == sorted(scores, reverse=True)
    assert [hit.plane for hit in report.hits[1:3]] == [elytron.RecallPlane.PROCEDURAL, elytron.RecallPlane.LONG_TERM]


@pytest.mark.parametrize("query", ["fact:tea", "Fact:  ＴＥＡ "])
async def test_a_kind_and_topic_find_only_that_slot(memory: elytron.MemoryRuntime, query: str) -> None:
    await memory.add_fact("tea", "green")
    await memory.add_fact("corner", "buys tea at the corner")
    await memory.add("Tea is served at four", speaker="Ada")
    assert [hit.text for hit in (await memory.recall(query)).hits] == ["green"]
    assert len((await memory.recall("fact:milk")).hits) == 3
