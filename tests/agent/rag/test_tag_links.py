"""Tag filters in a space under a secret open the tagged turns, miss nothing, and leave nothing behind."""

import asyncio
import re
import sqlite3
from array import array
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.rag.served_rag import RagUser, served_rag
from tests.sdk.encoders import WordEmbedder
from tests.sdk.meanwhile import Meanwhile
from tests.store.postgres_rig import empty_store

import elytron
from elytron import MemoryRuntime
from elytron.journal.follower import inner_store
from elytron.memories.tag_links import tagged_turns
from elytron_agent.rag.rows import row_pages, turn_pages, turns_of
from elytron_agent.rag.vector_table import RowFilter, VectorKind, VectorTable
from elytron_core.clock import FrozenClock
from elytron_core.errors import SpaceLocked, StoreFull
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import TAG_LINKS
from elytron_core.planes.transcript import TURNS
from elytron_core.ports.store import Batch, CommitReceipt, Document, DocumentRef, Store, scan_documents
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import LocalKeys
from elytron_store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
OTHER_WORDS = "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic"
CANARY = "heronsnest"


class CountingStore(PassingStore):
    """Records the documents that it returns, each of which is opened above it."""

    def __init__(self, store: Store, /) -> None:
        super().__init__(store)
        self.given: set[DocumentRef] = set()

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        return self._note(await super().get(space, refs))

    async def scan(self, space: SpaceId, collection: str, /, **asked: Any) -> Sequence[Document]:
        return self._note(await super().scan(space, collection, **asked))

    def _note(self, found: Sequence[Any]) -> Sequence[Any]:
        self.given |= {document.ref for document in found if document is not None}
        return found


class FullStore(PassingStore):
    """A store without room for links."""

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if any(put.ref.collection == TAG_LINKS for put in batch.puts):
            raise StoreFull(engine="memory")
        return await super().commit(batch)


async def stored_links(store: Store) -> dict[str, set[str]]:
    """Return the keys of all links in a store as a thief sees them, by the name of their space."""
    found: dict[str, set[str]] = {}
    for space in await store.spaces(limit=100):
        links = {document.ref.key async for document in scan_documents(store, space, TAG_LINKS)}
        if links:
            found[space] = links
    return found


def seals_in(keys: Iterable[str]) -> set[str]:
    """Return the seals of tags in the keys of links."""
    return {key.partition(".")[0] for key in keys if key.count(".") == 2}


async def answer_to(memory: MemoryRuntime, tag: str, kind: VectorKind, *, linked: bool) -> tuple[object, ...]:
    """Return the answer of a tag search over all rows, or over the linked turns."""
    store, wanted = memory.context.store, RowFilter(tags=frozenset((tag,)))
    turns, record = await tagged_turns(memory.context, ADA, [tag]), await memory.context.spaces.find(ADA)
    assert turns is not None
    assert record is not None
    pages = turn_pages(store, ADA, turns, record.model_tag(kind.model)) if linked else row_pages(store, ADA)
    rows = [row async for page in pages for row in page if wanted.passes(row)]
    query = array("f", WordEmbedder(dimensions=kind.dimension).vector("text first"))
    found = VectorTable.of(kind, rows).search(query.tobytes(), RowFilter(), limit=4)
    return [(score, row.id) for score, row in found.ranked], found.compared, found.skipped


@asynccontextmanager
async def sealed_memory(store: str | Store = "memory:") -> AsyncGenerator[MemoryRuntime]:
    """Open a memory whose space is under a secret."""
    async with elytron.open(store, space="ada", clock=FrozenClock(step_ms=1)) as memory:
        await memory.secrets.seal("ada", words=WORDS)
        yield memory


async def fill(user: RagUser) -> list[str]:
    """Insert twelve texts, every fourth of which has the tag blue."""
    rows = [
        await user.insert(f"The boat number {number} is fast.", tags=["Boat", "red" if number % 4 else " Blue "])
        for number in range(12)
    ]
    return [row["id"] for row in rows]


async def test_a_search_by_a_tag_opens_the_turns_that_have_it_and_no_others() -> None:
    counted = CountingStore(MemoryStore())
    async with served_rag(store=counted) as server:
        ada = await server.user("ada")
        rows = await fill(ada)
        with ada.acting():
            await server.memory.secrets.seal("ada", words=WORDS)
        # Earlier sealed content has no links; the first search creates them.
        assert await stored_links(counted) == {}
        assert len(await ada.texts("boat", tags=["blue"])) == 3
        counted.given.clear()
        answer = await ada.search("boat", tags=["BLUE "], top_k=20)
        opened = turns_of(list(counted.given))
        await server.memory.secrets.lock("ada")
        with ada.acting():
            await server.memory.secrets.unlock("ada", words=WORDS)
        counted.given.clear()
        assert len(await ada.texts("boat", tags=["blue"])) == 3
        again = turns_of(list(counted.given))
        counted.given.clear()
        assert await ada.texts("boat", tags=["green"]) == []
        assert turns_of(list(counted.given)) == set()
    assert {hit["id"] for hit in answer["data"]} == set(rows[::4]) == opened == again
    assert answer["compared"] == 3


async def test_answers_equal_those_of_a_plain_space() -> None:
    asked: list[dict[str, Any]] = [
        {"tags": ["blue"]},
        {"tags": ["RED", "blue "], "top_k": 20},
        {"tags": ["boat"], "source_types": ["document"]},
        {"tags": ["none"]},
        {"tags": ["red"], "max_tokens": 12},
    ]
    async with served_rag() as server:
        answers: dict[str, list[Any]] = {}
        for name in ("ada", "bob"):
            user = await server.user(name)
            await fill(user)
            await user.insert("A manual of the boat.", source_type="document", tags=["boat", "red"])
            if name == "ada":
                with user.acting():
                    await server.memory.secrets.seal("ada", words=WORDS)
            await user.insert("Said under the secret, of a boat.", tags=["blue"])
            found = [await user.search("fast boat", **fields) for fields in asked]
            for answer in found:
                for hit in answer["data"]:
                    del hit["id"], hit["created_at"]
            answers[name] = found
    assert answers["ada"] == answers["bob"]
    assert [len(answer["data"]) for answer in answers["ada"]] == [4, 14, 1, 0, 2]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "private", "erase", "forget", "restore", "search", "open", "embed"]),
        st.lists(st.sampled_from(["Red", "red ", "BLUE", "boat", "ß", "Straße"]), max_size=3),
        st.integers(0, 30),
    ),
    max_size=16,
)
KINDS = (VectorKind("words-1", 32), VectorKind("words-2", 32), VectorKind("words-2", 16), VectorKind("words-3", 32))


async def compared_answers(steps: Sequence[tuple[str, list[str], int]]) -> None:
    store, embedders = MemoryStore(), (WordEmbedder("words-1"), WordEmbedder("words-2"))
    one, other = (
        elytron.open(store, space="ada", clock=FrozenClock(step_ms=1), embedder=embedder) for embedder in embedders
    )
    async with one as memory, other as second:
        await memory.secrets.seal("ada", words=WORDS)
        await second.secrets.unlock("ada", words=WORDS)
        for embedder in embedders:
            embedder.is_down = True
        ids = list((await memory.add("first")).ids)
        for number, (step, tags, place) in enumerate(steps):
            match step:
                case "add" | "private":
                    metadata = {"private": True} if step == "private" else {}
                    ids += (await memory.add(f"text {number}", tags=tags, metadata=metadata)).ids
                case "search":
                    await tagged_turns((memory, second)[place % 2].context, ADA, tags)
                case "open":
                    await memory.secrets.lock("ada")
                    for each in (memory, second):
                        await each.secrets.unlock("ada", words=WORDS)
                case "embed":
                    await memory.context.encoders.settled(ADA)
                    embedders[place % 2].is_down = False
                    # Interrupted after a few texts, it leaves the vectors of two models.
                    await (memory, second)[place % 2].switch_model(elytron.ModelSwitchRequest(texts=1 + place % 5))
                    embedders[place % 2].is_down = True
                case "erase" if ids:
                    await memory.erase(ids[place % len(ids)])
                case "forget" | "restore" if ids:
                    await memory.forget(ids[place % len(ids)], undo=step == "restore")
                case _:
                    pass
        await memory.context.encoders.settled(ADA)
        for tag, kind in product(("red", "blue", "boat", "ss", "strasse", "green"), KINDS):
            assert await answer_to(memory, tag, kind, linked=True) == await answer_to(memory, tag, kind, linked=False)


@settings(max_examples=10, deadline=None)
@given(steps=STEPS)
def test_linked_turns_give_the_same_answers_as_all_rows(steps: list[tuple[str, list[str], int]]) -> None:
    asyncio.run(compared_answers(steps))


async def test_an_erased_turn_leaves_no_link(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    async with sealed_memory(f"sqlite:{path}") as memory:
        (gone,) = (await memory.add("one", tags=[CANARY, "red"])).ids
        (stays,) = (await memory.add("two", tags=[CANARY])).ids
        assert await tagged_turns(memory.context, ADA, [CANARY]) == sorted((gone, stays))
        ((_, before),) = (await stored_links(inner_store(memory.context.store))).items()
        assert (await memory.erase(gone)).removed["tag_links"] == 3
        ((_, after),) = (await stored_links(inner_store(memory.context.store))).items()
        left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert await tagged_turns(memory.context, ADA, [CANARY, "red"]) == [stays]
    removed = before - after
    assert after == {key for key in before if not key.endswith(gone)}
    assert len(removed) == 3
    assert [key for key in removed if key != gone and key.encode() in left] == []


@pytest.mark.parametrize("engine", ["file", "sealed", "postgres"])
async def test_every_engine_stores_links_and_erases_them(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    places = {"file": f"file:{tmp_path / 'kept'}", "sealed": f"sqlite:{tmp_path / 'kept.db'}"}
    place = places[engine] if engine in places else await empty_store(request.getfixturevalue("database"))
    keys = LocalKeys({"old": bytes(range(32))}, current="old") if engine == "sealed" else None
    async with elytron.open(place, space="ada", clock=FrozenClock(step_ms=1), keys=keys) as memory:
        (gone,) = (await memory.add("one", tags=["red", "x" * 200])).ids
        await memory.secrets.seal("ada", words=WORDS)
        (stays,) = (await memory.add("two", tags=["red"])).ids
        assert await tagged_turns(memory.context, ADA, ["x" * 200]) == [gone]
        assert await tagged_turns(memory.context, ADA, ["red"]) == sorted((gone, stays))
        assert (await memory.erase(gone)).removed["tag_links"] == 3
        assert await tagged_turns(memory.context, ADA, ["red"]) == [stays]


@pytest.mark.parametrize("moment", ["behind_reading", "before_commit", "behind_commit"])
async def test_a_turn_that_is_erased_while_it_is_linked_leaves_no_link(moment: str, tmp_path: Path) -> None:
    store = Meanwhile(await SqliteStore.open(tmp_path / "kept.db", clock=FrozenClock()))
    async with sealed_memory(store) as memory:
        (gone,) = (await memory.add("one", tags=["red"])).ids
        (stays,) = (await memory.add("two", tags=["red"])).ids
        getattr(store, moment)(TAG_LINKS, lambda: memory.erase(gone))
        found = await tagged_turns(memory.context, ADA, ["red"])
        assert store.is_over
        ((_, links),) = (await stored_links(store)).items()
        assert [key for key in links if key.endswith(gone)] == []
        left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert re.search(rf"[0-9a-f]{{32}}\.{gone}".encode(), left) is None
    assert found == [stays]


@pytest.mark.parametrize("moment", ["planned", "emptied"])
async def test_a_turn_that_is_linked_while_it_is_erased_leaves_no_link(moment: str) -> None:
    store = Meanwhile(MemoryStore())
    async with sealed_memory(store) as memory:
        (gone,) = (await memory.add("one", tags=["red"])).ids

        def link() -> Awaitable[object]:
            return tagged_turns(memory.context, ADA, ["red"])

        if moment == "planned":
            store.before_commit(TURNS, link)
        else:
            store.before_erasure(link)
        await memory.erase(gone)
        assert store.is_over
        ((_, links),) = (await stored_links(store)).items()
        assert links == {"0"}
        assert await tagged_turns(memory.context, ADA, ["red"]) == []


async def test_links_follow_a_turn_whose_tags_change() -> None:
    store = MemoryStore()
    async with sealed_memory(store) as memory:
        found: list[object] = []
        for delivery, tags in (("user_only", ["red"]), ("delivered", ["blue", "boat"])):
            turn = {"host_id": "t1", "messages": [{"text": "one"}], "tags": tags, "delivery": delivery}
            write = {"kind": "transcript", "turns": [turn]}
            await memory.write(elytron.MemoryWriteRequest.model_validate({"write": write}))
            found.append([len(await tagged_turns(memory.context, ADA, [tag]) or ()) for tag in ("red", "blue")])
        assert found == [[1, 0], [0, 1]]
        ((_, links),) = (await stored_links(store)).items()
        assert len(seals_in(links)) == 2


async def test_a_locked_space_answers_no_search_by_tags() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        await fill(ada)
        with ada.acting():
            await server.memory.secrets.seal("ada", words=WORDS)
        await ada.texts("boat", tags=["blue"])
        await server.memory.secrets.lock("ada")
        refused = await ada.call("POST", "/search", {"query": "boat", "tags": ["blue"]})
        with pytest.raises(SpaceLocked):
            await tagged_turns(server.memory.context, ADA, ["blue"])
        with ada.acting():
            await server.memory.secrets.unlock("ada", words=WORDS)
        assert len(await ada.texts("boat", tags=["blue"])) == 3
    assert (refused.status_code, refused.json()["code"]) == (423, "space_locked")


async def test_changing_the_secret_leaves_links_unchanged() -> None:
    store = MemoryStore()
    async with sealed_memory(store) as memory:
        (turn,) = (await memory.add("one", tags=["red"])).ids
        assert await tagged_turns(memory.context, ADA, ["red"]) == [turn]
        before = await stored_links(store)
        await memory.secrets.change("ada", words=WORDS, new_words=OTHER_WORDS)
        await memory.secrets.lock("ada")
        await memory.secrets.unlock("ada", words=OTHER_WORDS)
        assert await tagged_turns(memory.context, ADA, ["red"]) == [turn]
        assert await stored_links(store) == before


async def test_two_runtimes_link_and_search_concurrently(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'kept.db'}"
    async with sealed_memory(url) as one, elytron.open(url, space="ada", clock=FrozenClock(step_ms=1)) as other:
        await other.secrets.unlock("ada", words=WORDS)

        async def work(memory: MemoryRuntime, name: str) -> set[str]:
            ids: set[str] = set()
            for number in range(12):
                ids |= set((await memory.add(f"{name} {number}", conversation=name, tags=["red", name])).ids)
                own = await tagged_turns(memory.context, ADA, [name])
                assert own is not None
                assert set(own) == ids
            return ids

        ids = await asyncio.gather(work(one, "one"), work(other, "other"))
        for memory in (one, other):
            assert await tagged_turns(memory.context, ADA, ["red"]) == sorted(ids[0] | ids[1])


async def test_many_turns_are_linked_in_several_batches() -> None:
    store = MemoryStore()
    tags = [f"tag {number}" for number in range(32)]
    async with sealed_memory(store) as memory:
        for start in range(0, 300, 100):
            texts = [elytron.Message(text=f"text {number}") for number in range(start, start + 100)]
            await asyncio.gather(*(memory.add(text, tags=tags) for text in texts))
        found = [await tagged_turns(memory.context, ADA, [tag]) for tag in (tags[0], tags[31])]
        ((_, links),) = (await stored_links(store)).items()
    assert [len(turns or ()) for turns in found] == [300, 300]
    assert len(links) == 300 * 33 + 1


async def test_a_store_without_room_for_links_is_searched_as_a_whole() -> None:
    async with served_rag(store=FullStore(MemoryStore())) as server:
        ada = await server.user("ada")
        await fill(ada)
        with ada.acting():
            await server.memory.secrets.seal("ada", words=WORDS)
        assert len(await ada.texts("boat", tags=["blue"])) == 3


async def test_a_plain_space_has_no_links() -> None:
    store = MemoryStore()
    async with served_rag(store=store) as server:
        ada = await server.user("ada")
        await fill(ada)
        assert len(await ada.texts("boat", tags=["blue"])) == 3
        assert await tagged_turns(server.memory.context, ADA, ["blue"]) is None
        assert await stored_links(store) == {}


async def test_a_thief_reads_no_tag_and_cannot_correlate_links_of_two_spaces(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    async with elytron.open(f"sqlite:{path}", space=None, clock=FrozenClock(step_ms=1)) as memory:
        for name, words in (("ada", WORDS), ("bob", OTHER_WORDS)):
            await memory.add("one", user_id=name, tags=[CANARY])
            await memory.secrets.seal(name, words=words)
            await memory.add("two", user_id=name, tags=[CANARY.upper(), "red"])
            assert len(await tagged_turns(memory.context, SpaceId(name), [CANARY]) or ()) == 2
        one, other = map(seals_in, (await stored_links(inner_store(memory.context.store))).values())
    assert (len(one), len(other), one & other) == (2, 2, set())
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir()).lower()
    assert [form for form in (CANARY.encode(), CANARY.encode().hex().encode()) if form in left] == []


async def test_an_archive_includes_links_and_an_erasure_in_the_copy_removes_them(tmp_path: Path) -> None:
    path, store = str(tmp_path / "ada.zip"), MemoryStore()
    async with sealed_memory() as memory:
        (gone,) = (await memory.add("one", tags=["red"])).ids
        (stays,) = (await memory.add("two", tags=["red"])).ids
        await tagged_turns(memory.context, ADA, ["red"])
        exported = await memory.export(path, include_private=True)
        checked = await memory.inspect(elytron.MemoryInspectionRequest(check=True))
    assert checked.journal_account is not None
    assert checked.journal_account.ok
    async with elytron.open(store, space="ada", clock=FrozenClock(step_ms=1)) as plain:
        await plain.import_archive(path)
        assert (await plain.inspect(fingerprints=True)).state_fingerprint == exported.state_fingerprint
        await plain.erase(gone)
        ((_, links),) = (await stored_links(store)).items()
        assert [key for key in links if key.endswith(gone)] == []
        # Content from an archive has a key that its readers know; after resealing, links have another.
        await plain.secrets.seal("ada", words=OTHER_WORDS)
        (later,) = (await plain.add("three", tags=["red"])).ids
        assert await tagged_turns(plain.context, ADA, ["red"]) == sorted((stays, later))
        ((_, again),) = (await stored_links(store)).items()
        assert seals_in(again).isdisjoint(seals_in(links))


@pytest.mark.parametrize("change", ["body = zeroblob(length(body))", "key = 'zz.' || key", ""])
@pytest.mark.parametrize("what", ["key = '0'", "length(key) BETWEEN 2 AND 44", "length(key) > 44", "1"])
async def test_damaged_links_are_bypassed_and_recreated_by_a_repair(what: str, change: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    async with sealed_memory(f"sqlite:{path}") as memory:
        ids = [(await memory.add(f"text {number}", tags=["red", str(number)])).ids[0] for number in range(4)]
        assert await tagged_turns(memory.context, ADA, ["red"]) == sorted(ids)
    with sqlite3.connect(path) as raw:
        done = f"UPDATE documents SET {change}" if change else "DELETE FROM documents"
        assert raw.execute(f"{done} WHERE collection = 'tag_links' AND {what}").rowcount > 0
    raw.close()
    async with elytron.open(f"sqlite:{path}", space="ada", clock=FrozenClock(step_ms=1)) as memory:
        await memory.secrets.unlock("ada", words=WORDS)
        if "body" in change:
            assert await tagged_turns(memory.context, ADA, ["red"]) in (None, sorted(ids))
        await memory.inspect(elytron.MemoryInspectionRequest(check=True, repair=True))
        assert await tagged_turns(memory.context, ADA, ["red"]) == sorted(ids)
        await memory.erase(ids[0])
        assert await tagged_turns(memory.context, ADA, ["red", "0"]) == sorted(ids[1:])
        ((_, left),) = (await stored_links(inner_store(memory.context.store))).items()
        assert [key for key in left if key.endswith(ids[0])] == []
        assert (await memory.context.store.check()).ok
