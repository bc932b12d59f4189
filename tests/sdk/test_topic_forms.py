"""Topics and forgotten contents are equal in every spelling, even in spaces of earlier builds."""

import unicodedata

import pytest

import elytron
from elytron import LearningAction
from elytron_core.clock import FrozenClock
from elytron_core.ids import FactId, SeededIds, SpaceId
from elytron_core.planes import facts
from elytron_core.planes.facts import Fact, FactKind, FactSlot
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission.learning_rules import FORGOTTEN_BEFORE, SUPPRESSED
from elytron_core.ports.store import Batch, DeleteChange, DocumentRef, EntryDraft, JournalAction, PutChange
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

SPACE = SpaceId("ada")
WAYS = {
    "composed": "Café au lait",
    "decomposed": unicodedata.normalize("NFD", "Café au lait"),
    "case": "CAFÉ AU LAIT",
    "spaces": "  café  au\tlait ",
    "full width": "Ｃａｆé　ａｕ　ｌａｉｔ",
    "zero width space": "Ca\u200bfé au lait",
    "joiner": "Caf\u200dé au lait",
    "non-joiner": "Café a\u200cu lait",
    "byte order mark": "\ufeffCafé au lait",
    "soft hyphen": "Ca\u00adfé au lait",
    "variation selector": "Café\ufe0f au lait",
    "mark of direction": "\u200fCafé au lait\u200e",
    "word joiner": "Café\u2060 au lait",
}


@pytest.mark.parametrize("way", WAYS)
async def test_all_spellings_of_a_topic_share_a_slot(memory: elytron.MemoryRuntime, way: str) -> None:
    await memory.add_fact("Café au lait", "it opens at nine")
    await memory.add_fact(WAYS[way], "it opens at ten")
    assert [entry.content for entry in (await memory.list_facts()).items] == ["it opens at ten"]


@pytest.mark.parametrize("way", WAYS)
async def test_forgotten_topics_stay_forgotten_in_every_spelling(memory: elytron.MemoryRuntime, way: str) -> None:
    (fact,) = (await memory.add_fact("drink", "Café au lait")).ids
    await memory.forget(fact)
    assert (await memory.add_fact("breakfast", WAYS[way])).decisions[0].reason == FORGOTTEN_BEFORE
    allowed = await memory.set_learning(LearningAction.ALLOW, "D\u200brink")
    assert allowed.changed
    assert (await memory.add_fact("breakfast", WAYS[way])).changed


@pytest.mark.parametrize("way", WAYS)
async def test_a_suppressed_topic_is_not_learned_in_any_spelling(memory: elytron.MemoryRuntime, way: str) -> None:
    await memory.set_learning(LearningAction.SUPPRESS, "Café au lait")
    assert (await memory.add_fact(WAYS[way], "it is hot")).decisions[0].reason == SUPPRESSED
    await memory.set_learning(LearningAction.ALLOW, WAYS[way])
    assert (await memory.add_fact(WAYS[way], "it is hot")).changed


@pytest.mark.parametrize("way", WAYS)
async def test_a_query_forgets_every_spelling(memory: elytron.MemoryRuntime, way: str) -> None:
    await memory.add_fact("drink", "Café au lait")
    found = await memory.forget_facts(WAYS[way])
    assert [entry.content for entry in found.items] == (["Café au lait"] if way != "non-joiner" else [])


COMPOSED = "Café"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


async def earlier_space(clock: FrozenClock, *, is_composed_last: bool = False) -> tuple[MemoryStore, str, str]:
    """Return a store of an earlier build, where two spellings of a topic each had a slot and a current fact."""
    store = MemoryStore()
    memory = await elytron.open(store, space=SPACE, clock=clock, ids=SeededIds("one"))
    drafts = {COMPOSED: "it opens at nine", "elsewhere": "it opens at ten"}
    order = reversed(drafts) if is_composed_last else iter(drafts)
    ids = {topic: (await memory.add_fact(topic, drafts[topic])).ids[0] for topic in order}
    first, second = ids[COMPOSED], ids["elsewhere"]
    refs = (DocumentRef("space", "0"), DocumentRef(facts.FACTS, second))
    space, stored = await store.get(SPACE, refs)
    assert space is not None
    assert stored is not None
    record = SpaceRecord.from_bytes(space.body)
    now = DocumentRef(facts.SLOTS, record.slot_tag(FactKind.FACT, "elsewhere"))
    then = DocumentRef(facts.SLOTS, record.tag("slot", FactKind.FACT.value, DECOMPOSED.casefold()))
    fact = Fact.from_bytes(stored.body).model_copy(update={"topic": DECOMPOSED})
    slot = FactSlot(kind=FactKind.FACT, topic=DECOMPOSED, facts=(FactId(second),))
    (old,) = await store.get(SPACE, (now,))
    assert old is not None
    puts = (PutChange(refs[1], fact.to_bytes(), stored.revision), PutChange(then, slot.to_bytes(), 0))
    entry = EntryDraft(JournalAction.WRITE, refs[1], record.digest(fact.to_bytes()))
    await store.commit(Batch(SPACE, clock.now(), (entry,), puts, deletes=(DeleteChange(now, old.revision),)))
    return store, first, second


@pytest.mark.parametrize("topic", [COMPOSED, DECOMPOSED, "ＣＡＦÉ"])
async def test_coinciding_slots_have_one_value_after_the_next_write(clock: FrozenClock, topic: str) -> None:
    store, first, second = await earlier_space(clock)
    async with elytron.open(store, space=SPACE, clock=clock, ids=SeededIds("two")) as memory:
        assert len((await memory.recall("opens")).hits) == 2
        assert {item.id for item in (await memory.history(second)).items} == {first, second}
        (new,) = (await memory.add_fact(topic, "it opens at noon")).ids
        assert [entry.id for entry in (await memory.list_facts()).items] == [new]
        events = (await memory.history(second)).items
        assert {item.id for item in events} == {first, second, new}
        assert (await memory.inspect()).documents["slots"] == 1


@pytest.mark.parametrize("is_composed_last", [True, False])
async def test_separate_lists_are_merged_in_the_order_of_their_facts(
    clock: FrozenClock, is_composed_last: bool
) -> None:
    store, *facts = await earlier_space(clock, is_composed_last=is_composed_last)
    async with elytron.open(store, space=SPACE, clock=clock, ids=SeededIds("two")) as memory:
        (new,) = (await memory.add_fact(COMPOSED, "it opens at noon")).ids
        added = [item.id for item in (await memory.history(new)).items if item.event == "added"]
        assert added == [*sorted(facts), new]
        assert (await memory.get_fact(new)).fact.supersedes == max(facts)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("verb", ["forget", "correct", "erase", "delete"])
async def test_every_value_of_coinciding_slots_can_be_controlled(clock: FrozenClock, verb: str, which: int) -> None:
    store, *facts = await earlier_space(clock)
    async with elytron.open(store, space=SPACE, clock=clock, ids=SeededIds("two")) as memory:
        match verb:
            case "forget":
                assert (await memory.forget(facts[which])).changed
            case "correct":
                assert (await memory.correct(facts[which], "it opens at noon")).changed
            case "erase":
                assert (await memory.erase(facts[which])).changed
            case _:
                request = elytron.FactChangeRequest(id=facts[which], action=elytron.FactAction.DELETE)
                assert (await memory.change_fact(request)).changed
        texts = {entry.content for entry in (await memory.list_facts()).items}
        other = "it opens at ten" if which == 0 else "it opens at nine"
        assert texts == ({other, "it opens at noon"} if verb == "correct" else {other})
        assert (await memory.erase(facts)).changed
        left = (await memory.inspect()).documents
        assert (left.get("facts", 0), left.get("slots", 0)) == ((1, 1) if verb == "correct" else (0, 0))


def test_earlier_keys_cover_every_spelling_that_earlier_builds_distinguished() -> None:
    assert facts.earlier_topic_keys("plain words") == ()
    assert set(facts.earlier_topic_keys(COMPOSED)) == {DECOMPOSED.casefold()}
