"""What recall offers besides hits: pages, neighbours, why not, diversity, conditions, latest statements, a reranker."""

from collections.abc import Sequence

import pytest
from tests.sdk.told import believe, learn

import elytron
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.contracts.recall import (
    WHY_NOT_IDS,
    AbsenceReason,
    AnyOf,
    ComparisonOperator,
    FieldCondition,
    HitDiversity,
    RecallExtent,
    RecallOutcome,
    RerankUse,
)
from elytron_core.errors import InvalidInput, ModelUnavailable
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.facts import FactAuthority, FactConfidence, FactKind
from elytron_core.policy.ranking.outcome import FOUND_SCORE

pytestmark = pytest.mark.anyio

F = elytron.RecallFilters


class Shortest:
    """A reranker that prefers short texts, unless it is told to fail."""

    def __init__(self, answers: Sequence[float] | Exception | None = None) -> None:
        self.answers = answers
        self.seen: list[str] = []

    @property
    def name(self) -> str:
        return "shortest"

    async def rerank(self, _query: str, texts: Sequence[str], /) -> Sequence[float]:
        self.seen = list(texts)
        if isinstance(self.answers, Exception):
            raise self.answers
        return [-float(len(text)) for text in texts] if self.answers is None else self.answers


def texts(report: elytron.MemoryRecallReport) -> list[str]:
    return [hit.text for hit in report.hits]


async def test_the_needed_extent_returns_all_distinct_items_of_a_list(memory: elytron.MemoryRuntime) -> None:
    towns = ("Bremen", "Goslar", "Lisbon", "Porto", "Oslo", "Bergen", "Turku", "Riga", "Vilnius", "Tartu")
    for town in towns:
        await memory.add([f"I visited {town} by train.", f"I visited {town} by train!"], speaker="Ada")
    several, one = "Which towns did I visit by train?", "When did I visit Riga by train?"

    listed = await memory.recall(several, extent=RecallExtent.NEEDED)
    assert sorted(text.split()[2] for text in texts(listed)) == sorted(towns)
    assert listed.next_cursor is None
    assert len((await memory.recall(several, extent=RecallExtent.NEEDED, max_tokens=20)).hits) == 3
    assert texts(await memory.recall(one, extent=RecallExtent.NEEDED)) == texts(await memory.recall(one))


async def test_an_account_is_in_the_order_of_time(memory: elytron.MemoryRuntime) -> None:
    for day, text in (
        (3, "The roof leaked again."),
        (1, "We bought the house with the old roof."),
        (2, "The roof was repaired."),
    ):
        await memory.add(text, speaker="Ada", at=f"2025-02-0{day}")

    report = await memory.recall("Summarise what happened to the roof, in order.", extent=RecallExtent.NEEDED)
    assert [hit.text.split()[-1] for hit in report.hits] == ["roof.", "repaired.", "again."]


async def test_pages_join_to_the_full_order(memory: elytron.MemoryRuntime) -> None:
    await memory.add([f"tea number {number}" for number in range(10)])
    whole = texts(await memory.recall("tea", limit=10))
    paged: list[str] = []
    cursor = None
    while True:
        report = await memory.recall("tea", limit=3, cursor=cursor)
        paged += texts(report)
        cursor = report.next_cursor
        if cursor is None:
            break
    assert paged == whole


async def test_a_page_continues_if_a_write_changed_nothing_before_it(memory: elytron.MemoryRuntime) -> None:
    await memory.add([f"tea number {number}" for number in range(6)])
    first = await memory.recall("tea", limit=3)
    await memory.add("The ferry leaves at six.", conversation="other")
    second = await memory.recall("tea", limit=3, cursor=first.next_cursor)
    assert set(texts(first)).isdisjoint(texts(second))
    assert second.sequence > first.sequence


async def test_a_cursor_of_an_outdated_state_is_rejected(memory: elytron.MemoryRuntime) -> None:
    await memory.add([f"tea number {number}" for number in range(6)])
    first = await memory.recall("tea", limit=3)
    await memory.add("tea tea tea")
    with pytest.raises(InvalidInput, match="earlier state"):
        await memory.recall("tea", limit=3, cursor=first.next_cursor)


@pytest.mark.parametrize("cursor", ["", "x", "1.2", "1.x.y", "-1.2.3"])
async def test_invalid_cursors_are_rejected(memory: elytron.MemoryRuntime, cursor: str) -> None:
    await memory.add("tea")
    with pytest.raises(InvalidInput, match="cursor"):
        await memory.recall("tea", cursor=cursor)


async def test_a_cursor_of_another_query_is_rejected(memory: elytron.MemoryRuntime) -> None:
    await memory.add([f"tea and cake number {number}" for number in range(6)])
    first = await memory.recall("tea", limit=3)
    with pytest.raises(InvalidInput, match="different query"):
        await memory.recall("cake", limit=3, cursor=first.next_cursor)


async def test_a_page_reports_its_cutoff(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["tea", "I like tea in the morning"])
    report = await memory.recall("tea", limit=1)
    assert report.cut is not None
    assert report.cut <= report.hits[0].score
    assert (await memory.recall("tea", limit=2)).cut is None


async def test_neighbours_are_in_order_and_exclude_hidden_messages(memory: elytron.MemoryRuntime) -> None:
    told = await memory.add(["one", "two", "The ferry leaves at six.", "four", "five"], conversation="c")
    await memory.forget(elytron.MemoryForgetRequest(ids=(told.ids[3],), reason="asked"))
    (hit,) = (await memory.recall("ferry", limit=1, neighbours=2)).hits
    assert ([turn.text for turn in hit.before], [turn.text for turn in hit.after]) == (["one", "two"], ["five"])
    (bare,) = (await memory.recall("ferry", limit=1)).hits
    assert (bare.before, bare.after) == ((), ())


async def test_facts_have_no_neighbours(memory: elytron.MemoryRuntime) -> None:
    await believe(memory, "shoe size", "Emil wears size 43")
    (hit,) = (await memory.recall("shoe size", neighbours=3)).hits
    assert (hit.before, hit.after) == ((), ())


async def test_why_not_explains_each_memorys_absence(memory: elytron.MemoryRuntime) -> None:
    told = await memory.add(
        ["tea", "I like tea a lot", "tea with milk and honey", "Stones are heavy", "tea in a red cup"], tags=["hot"]
    )
    other = await memory.add("tea elsewhere", tags=["cold"], conversation="far")
    await memory.forget(elytron.MemoryForgetRequest(ids=(told.ids[4],), reason="asked"))
    asked = (*told.ids, *other.ids, "nobody")
    report = await memory.recall("tea", limit=1, filters=F(tags_any=("hot",)), why_not=asked)
    found = {each.id: each.absence for each in report.why_not}
    shown = report.hits[0].id
    assert found[shown] is AbsenceReason.SHOWN
    rest = [found[each] for each in told.ids[:3] if each != shown]
    assert rest == [AbsenceReason.LIMIT, AbsenceReason.LIMIT]
    assert (found[told.ids[4]], found[other.ids[0]], found["nobody"]) == (
        AbsenceReason.HIDDEN, AbsenceReason.FILTERED, AbsenceReason.UNKNOWN,
    )  # fmt: skip
    places = {each.id: each.place for each in report.why_not if each.place is not None}
    assert places[shown] == 1


async def test_why_not_knows_earlier_pages_tokens_and_other_planes(memory: elytron.MemoryRuntime) -> None:
    told = await memory.add(["tea tea", "tea at home", "tea by the sea with all of my friends"])
    fact = await believe(memory, "drink", "Ada drinks coffee")
    skill = await learn(memory, "brew", "Boil water")
    first = await memory.recall("tea", limit=1)
    why = (*told.ids, *fact.ids, *skill.ids)
    second = await memory.recall("tea", limit=2, cursor=first.next_cursor, max_tokens=4, why_not=why)
    found = {each.id: each.absence for each in second.why_not}
    assert found[first.hits[0].id] is AbsenceReason.EARLIER_PAGE
    assert AbsenceReason.TOKENS in found.values()
    assert {found[fact.ids[0]], found[skill.ids[0]]} <= {AbsenceReason.LIMIT, AbsenceReason.TOKENS}
    said = await memory.recall("tea", filters=F(planes=(elytron.RecallPlane.TRANSCRIPT,)), why_not=fact.ids)
    assert said.why_not[0].absence is AbsenceReason.FILTERED


async def test_hits_are_spread_over_conversations_on_request(memory: elytron.MemoryRuntime) -> None:
    await memory.add([f"tea, cup {number}" for number in range(6)], conversation="a")
    await memory.add("tea in another cup", conversation="b")
    narrow = await memory.recall("tea cup", limit=3, diversity=HitDiversity.OFF)
    wide = await memory.recall("tea cup", limit=3, diversity=HitDiversity.WIDE)
    assert {hit.conversation for hit in narrow.hits} == {"a"}
    assert {hit.conversation for hit in wide.hits} == {"a", "b"}


async def test_metadata_conditions_apply_before_ranking(memory: elytron.MemoryRuntime) -> None:
    for number in range(60):
        await memory.add("tea tea tea", metadata={"size": number, "team": "red"})
    await memory.add("a single word on tea among a great many others", metadata={"size": 99, "team": "Blue"})
    await memory.add("tea without any")
    where = (AnyOf(conditions=(FieldCondition(field="size", comparison=ComparisonOperator.GT, values=(70,)),)),)
    (hit,) = (await memory.recall("tea", limit=1, filters=F(where=where))).hits
    assert hit.metadata == {"size": 99, "team": "Blue"}
    nested = {"AND": [{"team": {"icontains": "blue"}}, {"size": {"lte": 99}}]}
    assert texts(await memory.recall("tea", filters=nested)) == [hit.text]
    without = await memory.recall("tea", filters={"NOT": [{"team": "*"}]})
    assert texts(without) == ["tea without any"]
    listed = await memory.get_all(filters={"team": {"ne": "red"}})
    assert {item.text for item in listed.items} == {hit.text, "tea without any"}


async def test_facts_are_filtered_by_kind_authority_and_confidence(memory: elytron.MemoryRuntime) -> None:
    await believe(memory, "tea", "Ada likes green tea", kind=FactKind.PREFERENCE, authority=FactAuthority.USER_ASSERTED)
    await believe(
        memory, "tea shop", "The tea shop is in Rua Nova", kind=FactKind.FACT, authority=FactAuthority.PROGRAM
    )
    await memory.add("we talked about tea")
    green, shop = "Ada likes green tea", "The tea shop is in Rua Nova"
    assert texts(await memory.recall("tea", filters=F(kinds=(FactKind.PREFERENCE,)))) == [green]
    assert texts(await memory.recall("tea", filters=F(authorities=(FactAuthority.PROGRAM,)))) == [shop]
    sure = [texts(await memory.recall("tea", filters=F(confidences=(confidence,)))) for confidence in FactConfidence]
    assert sorted(text for found in sure for text in found) == [green, shop]
    listed = await memory.get_all(filters=F(kinds=(FactKind.FACT,)))
    assert [item.text for item in listed.items] == [shop]


async def test_the_latest_statement_comes_first_for_queries_about_the_present(memory: elytron.MemoryRuntime) -> None:
    old, _ = (
        await memory.add(
            ["Ring the lab: extension 4417. The extension of the lab is 4417.", "Noted."],
            speaker="Mina",
            at="2025-02-06",
        )
    ).ids
    (new,) = (await memory.add("They moved us, the lab extension is 4430 now.", speaker="Mina", at="2025-06-08")).ids
    hits = (await memory.recall("What is the lab extension now?", limit=2)).hits
    assert [(hit.id, hit.newer) for hit in hits] == [(new, None), (old, new)]
    first = (await memory.recall("What was the lab extension originally?", limit=2)).hits
    assert [(hit.id, hit.newer) for hit in first] == [(old, None), (new, None)]


async def test_the_latest_statement_comes_first_for_queries_about_the_state(memory: elytron.MemoryRuntime) -> None:
    (old,) = (await memory.add("The lab extension is 4417, the lab extension!", speaker="Mina", at="2025-02-06")).ids
    (new,) = (await memory.add("The lab extension was changed to 4430.", speaker="Mina", at="2025-06-08")).ids
    one = await memory.recall("What is the lab extension?", limit=1)
    both = (await memory.recall("What is the lab extension?", limit=2)).hits
    assert [hit.id for hit in one.hits] == [new]
    assert [(hit.id, hit.newer) for hit in both] == [(new, None), (old, new)]
    assert both[0].score >= both[1].score
    asked = elytron.MemoryProjectionRequest(query="What was the lab extension at first?", recent_messages_limit=0)
    block = await memory.project(asked)
    assert "(older statement)" not in block.system_memory_block
    asked = elytron.MemoryProjectionRequest(query="What is the lab extension?", recent_messages_limit=0)
    lines = (await memory.project(asked)).system_memory_block.split("\n")
    assert [line for line in lines if line.startswith("- ")] == [
        "- [2025-06-08 00:00 Mina] The lab extension was changed to 4430.",
        "- [2025-02-06 00:00 Mina (older statement)] The lab extension is 4417, the lab extension!",
    ]


async def test_a_time_described_by_an_event_is_looked_up(memory: elytron.MemoryRuntime) -> None:
    early, moved, late = "I swam in the old pool.", "Today we moved to the mill.", "I swam in the mill's pond."
    for at, text in (("2025-03-01", early), ("2025-07-04", moved), ("2025-08-01", late)):
        await memory.add(text, at=at)
    before = [text for text in texts(await memory.recall("Where did I swim before we moved?")) if text != moved]
    after = [text for text in texts(await memory.recall("Where did I swim after we moved?")) if text != moved]
    assert (before, after) == ([early, late], [late, early])
    unknown = await memory.recall("Where did I swim before the harvest festival?")
    assert not any(hit.signals.get("date") for hit in unknown.hits)


async def test_a_question_finds_an_answer_without_shared_words(memory: elytron.MemoryRuntime) -> None:
    told = ("I work as a nurse at the city hospital.", "Ben lives in Porto.", "The cat hates the new stairs.")
    await memory.add(list(told))
    for query, answer in zip(("What is my profession?", "Where is his home?", "How is our pet?"), told, strict=True):
        report = await memory.recall(query)
        assert (report.hits[0].text, len(report.hits)) == (answer, 3)


async def test_scores_estimate_how_likely_a_memory_answers(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["The ferry leaves at six.", "Tea is ready in the kitchen."])
    plain = await memory.recall("When does the ferry leave?")
    strange = await memory.recall("Which vaccine did the equine surgeon choose for the yearlings?")
    assert plain.hits[0].score > FOUND_SCORE > limits.PROJECTED_SCORE > strange.hits[0].score
    assert [hit.score for hit in plain.hits] == sorted((hit.score for hit in plain.hits), reverse=True)
    assert (plain.outcome, strange.outcome) == (RecallOutcome.FOUND, RecallOutcome.NOTHING)


async def test_a_missing_detail_of_a_known_matter_is_doubtful(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["The kiln on the left runs too hot, take off thirty degrees.", "Ravi pays half the rent."])
    outcomes = [
        (await memory.recall(query)).outcome for query in ("How much does the kiln cost?", "How much is the rent?")
    ]
    assert outcomes == [RecallOutcome.DOUBTFUL] * 2


async def test_an_answer_in_another_language_is_not_reported_as_nothing(
    memory: elytron.MemoryRuntime,
) -> None:
    await memory.add(["Frau Petersen gibt ihren Garten zum Herbst ab.", "Der Schlüssel hängt im Schuppen."])
    report = await memory.recall("Who is giving up her garden in autumn?")
    assert report.hits[0].text.startswith("Frau Petersen")
    assert report.outcome is not RecallOutcome.NOTHING


async def test_a_minimum_score_omits_lower_hits(memory: elytron.MemoryRuntime) -> None:
    ids = (await memory.add(["The ferry leaves at six.", "Tea is ready in the kitchen."])).ids
    request = elytron.MemoryRecallRequest(query="When does the ferry leave?", min_score=0.3, why_not=ids)
    report = await memory.recall(request)
    assert [hit.id for hit in report.hits] == [ids[0]]
    assert [item.absence for item in report.why_not] == [AbsenceReason.SHOWN, AbsenceReason.MIN_SCORE]
    nothing = await memory.recall(elytron.MemoryRecallRequest(query="ferry", min_score=1.0))
    assert (nothing.reason, nothing.hits) == (elytron.NothingReason.BELOW_MIN_SCORE, ())
    assert nothing.outcome is RecallOutcome.NOTHING


async def test_a_block_omits_recalled_memories_that_hardly_answer(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["The ferry leaves at six.", "Tea is ready in the kitchen."], conversation="other")
    block = (await memory.project("Which vaccine did the equine surgeon choose?")).system_memory_block
    assert "ferry" not in block
    assert "Tea" not in block


async def test_without_a_direct_match_standing_statements_come_first(memory: elytron.MemoryRuntime) -> None:
    await memory.add([f"The ferry number {number} was late again this morning." for number in range(40)])
    said = {"role": "user", "content": "Please never use poison in my garden."}
    await memory.add([said, {"role": "assistant", "content": "Noted."}])
    report = await memory.recall("There are aphids on the roses, what now?")
    assert texts(report)[0] == "Please never use poison in my garden."


async def test_typos_and_related_words_still_match(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["My dog Biscuit limps.", "The tournament begins on Friday."])
    assert texts(await memory.recall("tournamnet"))[0] == "The tournament begins on Friday."
    assert texts(await memory.recall("pet"))[0] == "My dog Biscuit limps."


async def told_to(reranker: Shortest) -> elytron.MemoryRecallReport:
    clock = FrozenClock(step_ms=1)
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds(), reranker=reranker) as memory:
        await memory.add(["tea with milk and honey and more", "tea", "tea at home"])
        return await memory.recall("tea")


async def test_a_reranker_decides_the_order_and_scores_stay_with_positions() -> None:
    report = await told_to(Shortest())
    assert report.rerank is RerankUse.RANKED
    assert texts(report) == ["tea", "tea at home", "tea with milk and honey and more"]
    scores = [hit.score for hit in report.hits]
    assert scores == sorted(scores, reverse=True)
    assert [hit.signals["rerank"] for hit in report.hits] == [-3.0, -11.0, -32.0]


@pytest.mark.parametrize("answers", [ModelUnavailable("away"), [1.0], [1.0, 2.0, float("nan")]], ids=str)
async def test_recall_continues_if_a_reranker_fails(answers: Sequence[float] | Exception) -> None:
    report = await told_to(Shortest(answers))
    assert (report.rerank, len(report.hits)) == (RerankUse.FAILED, 3)


async def test_without_a_reranker_the_report_says_so(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["tea", "tea too"])
    assert (await memory.recall("tea")).rerank is RerankUse.NONE


async def test_limits_of_neighbours_and_why_not_apply(memory: elytron.MemoryRuntime) -> None:
    await memory.add("tea")
    with pytest.raises(InvalidInput, match="neighbours"):
        await memory.recall("tea", neighbours=limits.RECALL_NEIGHBOURS + 1)
    with pytest.raises(InvalidInput, match="why_not"):
        await memory.recall("tea", why_not=["x"] * (WHY_NOT_IDS + 1))


async def test_a_short_query_is_read_with_the_recent_conversation(memory: elytron.MemoryRuntime) -> None:
    for topic, content in (("Noor", "Noor plays the oboe"), ("Ben", "Ben collects stamps"), ("Ada", "Ada rows")):
        await believe(memory, topic, content)
    await memory.add("What does Noor do in the evening?", conversation="chat")
    scope = elytron.Scope(space=SpaceId("ada"), conversation="chat")
    filters = F(planes=(elytron.RecallPlane.LONG_TERM,))
    report = await memory.recall(elytron.MemoryRecallRequest(scope=scope, query="and her?", filters=filters))
    assert report.hits[0].text == "Noor plays the oboe"


async def test_wide_recall_spreads_facts_over_their_kinds(memory: elytron.MemoryRuntime) -> None:
    for number in range(4):
        await believe(memory, f"tea {number}", f"Ada likes tea number {number}", kind=FactKind.PREFERENCE)
    await believe(memory, "shop", "The tea shop is closed", kind=FactKind.FACT)
    request = elytron.MemoryRecallRequest(
        query="tea", limit=2, diversity=HitDiversity.WIDE, filters=F(planes=(elytron.RecallPlane.LONG_TERM,))
    )
    assert {hit.kind for hit in (await memory.recall(request)).hits} == {FactKind.PREFERENCE, FactKind.FACT}


async def test_equal_scores_are_ordered_by_the_planes_fit_to_the_query(memory: elytron.MemoryRuntime) -> None:
    await memory.add("The kiln repair is going on.")
    capsule = {"capsule_kind": "work_session", "topic": "kiln repair", "summary": "The bricks are ordered."}
    write = {"kind": "capsules", "capsules": [capsule]}
    await memory.write(elytron.MemoryWriteRequest.model_validate({"write": write}))
    hits = (await memory.recall("where were we with the kiln repair?")).hits
    assert hits[0].plane is elytron.RecallPlane.CONTINUITY
