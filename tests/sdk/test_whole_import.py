"""A bootstrap import is complete or absent: killed, refused, or conflicting with another writer."""

import asyncio
import json
import signal
import threading
from collections import Counter
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sdk.kill_points import exit_code, importing
from tests.sdk.meanwhile import Meanwhile
from tests.sdk.told import believe, learn, texts

import elytron
from elytron.state import change_lines
from elytron.transfer import bootstrap
from elytron.transfer.bootstrap import RehearsalStore
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import Conflict, LimitExceeded
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    JournalEntry,
    PutChange,
    RequireRevision,
    Store,
    scan_entries,
)
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
BOOTSTRAP = elytron.ImportMode.BOOTSTRAP
STEPS = "1. Heat water.\n2. Add tea.\n3. Wait."
CONVERSATIONS = 3
BROUGHT = {"turns": 2 * CONVERSATIONS + 1, "facts": 2, "skills": 1}


@pytest.fixture
async def archive(tmp_path: Path) -> Path:
    """An archive of several conversations, facts and a skill: more than one write."""
    path = tmp_path / "a.elytron"
    async with elytron.open("memory:", space="elsewhere") as memory:
        for number in range(CONVERSATIONS):
            await memory.add([f"herring {number}", f"tern {number}"], conversation=f"c{number}")
        (cited,) = (await memory.add("I moved to Porto", conversation="c0")).ids
        await believe(memory, "home", "Porto", citations=(cited,))
        await believe(memory, "drink", "tea")
        await learn(memory, "brew", STEPS)
        await memory.export(path, include_private=True)
    return path


async def journal(store: Store) -> list[JournalEntry]:
    return [entry async for entry in scan_entries(store, ADA)]


def imported(
    memory: elytron.MemoryRuntime, archive: Path, *, dry_run: bool = False
) -> Awaitable[elytron.MemoryImportReport]:
    return memory.import_archive(elytron.MemoryImportRequest(path=str(archive), mode=BOOTSTRAP, dry_run=dry_run))


@pytest.mark.parametrize(
    ("url", "point", "number"),
    [
        ("sqlite:{}/m.db", "write", 2),
        ("sqlite:{}/m.db", "write", CONVERSATIONS),
        ("sqlite:{}/m.db", "journal", 1),
        ("file:{}/files", "write", 2),
        ("file:{}/files", "fsync", 1),
        ("file:{}/files", "fsync", 2),
    ],
)
async def test_a_killed_import_is_complete_or_absent(
    url: str, point: str, number: int, archive: Path, tmp_path: Path
) -> None:
    place = url.format(str(tmp_path).replace("/", "%2F"))
    async with elytron.open(place, space=ADA) as memory:
        await memory.add("mine", conversation="c1")
        before = await journal(memory.context.store)
    assert exit_code(importing, place, str(archive), point, number) == -signal.SIGKILL
    async with elytron.open(place, space=ADA) as memory:
        inspected = await memory.inspect(check=True)
        assert inspected.store_check is not None
        assert inspected.store_check.ok
        was_absent = await journal(memory.context.store) == before
        assert inspected.documents["turns"] == (1 if was_absent else 1 + BROUGHT["turns"])
        assert was_absent or point == "fsync"
        report = await imported(memory, archive)
        assert report.imported == (BROUGHT if was_absent else {})
        assert (await memory.inspect()).documents["turns"] == 1 + BROUGHT["turns"]


async def test_an_import_that_conflicts_with_a_writer_is_redone(archive: Path) -> None:
    shared = MemoryStore()
    meanwhile = Meanwhile(shared)
    async with elytron.open(meanwhile, space=ADA) as ours:
        await ours.add("mine", conversation="c1")
        theirs = await elytron.open(shared, space=ADA)
        meanwhile.before_commit("turns", lambda: theirs.add("theirs", conversation="c1"))
        report = await imported(ours, archive)
        assert meanwhile.is_over
        assert (report.imported, report.sequence) == (BROUGHT, (await ours.inspect()).sequence)
        said = [message.text for turn in (await ours.replay("c1")).turns for message in turn.messages]
        assert said == ["mine", "theirs", "herring 1", "tern 1"]
        assert not (await imported(ours, archive)).changed


async def test_an_import_succeeds_under_steady_writers(archive: Path) -> None:
    async with elytron.open("memory:", space=ADA) as memory:
        done = asyncio.Event()

        async def write(conversation: str) -> int:
            count = 0
            while not done.is_set():
                await memory.add(f"{conversation} {count}", conversation=conversation)
                await asyncio.sleep(0)
                count += 1
            return count

        writers = [asyncio.create_task(write(name)) for name in ("c1", "c1", "other")]
        report = await imported(memory, archive)
        done.set()
        written = [await writer for writer in writers]
        assert report.imported == BROUGHT
        assert (await memory.inspect()).documents["turns"] == BROUGHT["turns"] + sum(written)
        assert written[2] > max(written[:2])


@pytest.mark.parametrize("mode", elytron.ImportMode)
async def test_an_archive_is_not_parsed_in_the_event_loop(
    mode: elytron.ImportMode, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: Counter[int] = Counter()
    loads = json.loads

    def noted(data: str | bytes) -> object:
        parsed[threading.get_ident()] += 1
        return loads(data)

    async with elytron.open("memory:", space=ADA) as memory:
        monkeypatch.setattr(json, "loads", noted)
        await memory.import_archive(elytron.MemoryImportRequest(path=str(archive), mode=mode))
        monkeypatch.undo()
        assert (await memory.inspect()).documents["turns"] == BROUGHT["turns"]
    assert parsed
    assert threading.get_ident() not in parsed


async def test_an_import_that_always_conflicts_leaves_nothing(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_lines, "RACES", 1)
    shared = MemoryStore()
    meanwhile = Meanwhile(shared)
    async with elytron.open(meanwhile, space=ADA) as ours:
        await ours.add("mine", conversation="c1")
        theirs = await elytron.open(shared, space=ADA)
        meanwhile.before_commit("turns", lambda: theirs.add("theirs", conversation="c1"))
        with pytest.raises(Conflict):
            await imported(ours, archive)
        assert sorted(item.text for item in (await ours.list()).items) == ["mine", "theirs"]
        assert "herring" not in " ".join(await texts(ours, "herring"))


@pytest.mark.parametrize("bound", ["IMPORT_CHANGES", "IMPORT_BYTES"])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_an_oversized_import_is_rejected_before_anything_is_stored(
    bound: str, dry_run: bool, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, bound, 25)
    async with elytron.open("memory:", space=ADA) as memory:
        with pytest.raises(LimitExceeded, match="one import: at most 25; restore it in full into an empty space"):
            await imported(memory, archive, dry_run=dry_run)
        assert await journal(memory.context.store) == []
        assert (await memory.recall("herring")).reason == "empty_space"


async def test_an_import_is_one_commit_equivalent_to_several_writes(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[str, list[str]]] = []
    for most in (200, 1):
        monkeypatch.setattr(bootstrap, "TURNS_PER_WRITE", most)
        async with elytron.open("memory:", space=ADA, clock=FrozenClock(), ids=SeededIds()) as memory:
            await imported(memory, archive)
            entries = await journal(memory.context.store)
            found.append(
                ((await memory.inspect(fingerprints=True)).state_fingerprint, [entry.digest for entry in entries])
            )
            (home,) = [item for item in (await memory.list_facts()).items if item.topic == "home"]
            (cited,) = (await memory.replay("c0")).turns[-1:]
            assert home.evidence == (cited.id,)
    assert found[0] == found[1]


async def test_a_dry_run_import_is_not_found_by_recall(archive: Path) -> None:
    async with elytron.open("memory:", space=ADA) as memory:
        dry = await imported(memory, archive, dry_run=True)
        assert (dry.imported, dry.changed, dry.sequence) == (BROUGHT, False, 0)
        assert (await memory.recall("herring")).reason == "empty_space"
        await memory.add("mine")
        assert await texts(memory, "herring") in ([], ["mine"])


COLLECTIONS = ("facts", "skills")
REFS = [DocumentRef(collection, key) for collection in COLLECTIONS for key in ("a", "a1", "a2", "b", "c1")]


class Step(NamedTuple):
    """What one batch does to some of the documents; a body of None deletes."""

    bodies: dict[DocumentRef, bytes | None]
    required: DocumentRef


STEPS_OF_BATCHES = st.lists(
    st.builds(
        Step,
        st.dictionaries(st.sampled_from(REFS), st.none() | st.binary(max_size=2), min_size=1, max_size=4),
        st.sampled_from(REFS),
    ),
    max_size=6,
)


async def made(store: Store, step: Step, at: int) -> Batch:
    """Return the batch of a step, based on the current revisions."""
    refs = list(step.bodies)
    standing = dict(zip(refs, await store.get(ADA, refs), strict=True))
    revisions = {ref: document.revision if document else 0 for ref, document in standing.items()}
    (required,) = await store.get(ADA, (step.required,))
    return Batch(
        space=ADA,
        at=Instant(at),
        entries=tuple(EntryDraft(JournalAction.WRITE, ref, f"{at:x}") for ref in refs),
        puts=tuple(PutChange(ref, body, revisions[ref]) for ref, body in step.bodies.items() if body is not None),
        deletes=tuple(
            DeleteChange(ref, revisions[ref]) for ref, body in step.bodies.items() if body is None and revisions[ref]
        ),
        requires=(RequireRevision(step.required, required.revision if required else 0),),
    )


async def scans(store: Store) -> list[list[tuple[DocumentRef, bytes]]]:
    """Return what scans of every kind find."""
    found: list[Sequence[Document]] = [
        await store.scan(ADA, collection, prefix=prefix, after=after, limit=limit, descending=descending)
        for collection in COLLECTIONS
        for prefix in ("", "a", "a1", "d")
        for after in ("", "a", "a1", "b")
        for limit in (1, 2, 9)
        for descending in (False, True)
    ]
    return [[(document.ref, document.body) for document in page] for page in found]


@given(first=STEPS_OF_BATCHES, then=STEPS_OF_BATCHES)
async def test_a_rehearsal_reads_and_merges_like_a_real_store(first: list[Step], then: list[Step]) -> None:
    direct, merged = MemoryStore(), MemoryStore()
    for at, step in enumerate(first, 1):
        for store in (direct, merged):
            await store.commit(await made(store, step, at))
    rehearsal = RehearsalStore(merged, ADA)
    for at, step in enumerate(then, 100):
        await direct.commit(await made(direct, step, at))
        await rehearsal.commit(await made(rehearsal, step, at))
    assert await scans(rehearsal) == await scans(direct)
    assert [document and document.body for document in await rehearsal.get(ADA, REFS)] == [
        document and document.body for document in await direct.get(ADA, REFS)
    ]
    assert await rehearsal.get(SpaceId("bob"), REFS[:1]) == [None]
    batch = rehearsal.merged(at=Instant(200))
    assert (batch is None) is (not then)
    if batch is not None:
        await merged.commit(batch)
    assert await scans(merged) == await scans(direct)
    assert await journal(merged) == await journal(direct)
