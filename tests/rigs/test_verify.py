"""The rigs' expectations of a store: every possible violation is reported."""

import random

import pytest
from benchmarks.rigs.book import Book
from benchmarks.rigs.traffic import Place, Verb, write
from benchmarks.rigs.verify import Findings, verify

import elytron
from elytron_core.errors import StoreFull

pytestmark = pytest.mark.anyio

WHOLE = Place("whole", "alpha", "talk")


async def found(memory: elytron.MemoryRuntime, book: Book) -> Findings:
    return await verify(memory, book, chance=random.Random(1))


@pytest.fixture
async def memory() -> elytron.MemoryRuntime:
    return await elytron.open("memory:", space=None)


async def told(memory: elytron.MemoryRuntime, verb: Verb, place: Place) -> list[str]:
    """Write, and return the lines a child process would have printed."""
    report = await write(memory, verb, place)
    said = f"{verb} {place.token}"
    return [f"try {said} {place.space} {place.conversation}", f"did {said} {' '.join(report.ids)}"]


async def test_a_store_that_kept_everything_is_sound(memory: elytron.MemoryRuntime) -> None:
    book = Book()
    for number, verb in enumerate((Verb.ADD, Verb.PLAIN, Verb.TURNS, Verb.SHARED, Verb.FACT)):
        book.read(await told(memory, verb, Place(f"word{number}", "alpha", "talk")))
    assert await found(memory, book) == Findings()
    assert book.acknowledged == 7


async def test_a_missing_acknowledged_turn_is_lost(memory: elytron.MemoryRuntime) -> None:
    book = Book()
    book.read(await told(memory, Verb.ADD, WHOLE))
    book.read(["try plain gone alpha talk", "did plain gone 0.1"])
    assert await found(memory, book) == Findings(lost=["plain gone"])


async def test_an_unacknowledged_write_may_exist_and_is_repeated_if_missing(
    memory: elytron.MemoryRuntime,
) -> None:
    book = Book()
    book.read((await told(memory, Verb.ADD, WHOLE))[:1])
    book.read(["try add later alpha talk"])
    assert await found(memory, book) == Findings()
    assert {item.token: item.fate for item in book.items.values()} == {"whole": "kept", "later": "kept"}


async def test_a_write_refused_for_lack_of_room_must_not_exist(memory: elytron.MemoryRuntime) -> None:
    book = Book(tolerates=frozenset({StoreFull.key}))
    book.read([(await told(memory, Verb.ADD, WHOLE))[0], "err add whole store_full"])
    wrong = "add whole is there although its writer was told that it is not"
    assert await found(memory, book) == Findings(wrong=[wrong])


async def test_a_partially_stored_batch_is_wrong(memory: elytron.MemoryRuntime) -> None:
    book = Book()
    book.read(["try turns whole alpha talk"])
    await memory.add(f"{WHOLE.parts[0]} came alone", user_id="alpha", conversation="talk")
    assert "only a part of the turns whole is there" in (await found(memory, book)).wrong


async def test_unwritten_and_erased_content_is_wrong(memory: elytron.MemoryRuntime) -> None:
    book = Book()
    book.read([*await told(memory, Verb.PLAIN, WHOLE), "try erase whole", "did erase whole"])
    await memory.add("ghost speaks", user_id="alpha", conversation="talk")
    told_twice = ["'ghost' is there and was never written", "plain whole is there and was erased"]
    assert (await found(memory, book)).wrong == told_twice * 2


async def test_a_duplicated_turn_is_wrong(memory: elytron.MemoryRuntime) -> None:
    book = Book()
    book.read(await told(memory, Verb.PLAIN, WHOLE))
    await write(memory, Verb.PLAIN, WHOLE)
    assert (await found(memory, book)).wrong[0] == "plain whole is there 2 times"


async def test_an_undone_forget_is_lost(memory: elytron.MemoryRuntime) -> None:
    book = Book()
    book.read([*await told(memory, Verb.PLAIN, WHOLE), "try forget whole", "did forget whole"])
    assert await found(memory, book) == Findings(lost=["forget whole"])


async def test_an_answer_of_an_unknown_kind_is_wrong(memory: elytron.MemoryRuntime) -> None:
    book = Book()
    book.read([*await told(memory, Verb.PLAIN, WHOLE), "err add other store_busy"])
    assert await found(memory, book) == Findings(wrong=["add of other was answered store_busy"])
