"""The journal of a device that erases what it reads stays bounded and readable."""

import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sdk.kill_points import compacting, exit_code

import elytron
from elytron import ImportMode, MemoryImportRequest, MemoryInspectionRequest, MemoryRuntime
from elytron.journal.compaction import EntrySums, compact_space
from elytron.state.space_records import REF
from elytron.transfer.migration import migrate_store
from elytron_core.clock import FrozenClock
from elytron_core.contracts.inspection import HeadStanding
from elytron_core.errors import Conflict
from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Batch, CompactedRun, DocumentRef, EntryDraft, JournalAction, JournalEntry, Store
from elytron_store import open_store
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
ESP = "esp-embedded-sdk"
KEYS = LocalKeys({"k": b"0" * 32}, current="k")
URLS = ["memory:", "file:{}/files", "sqlite:{}/m.db", "embedded:{}/embedded", "sqlite:{}/sealed.db"]


@asynccontextmanager
async def device(folder: Path, url: str) -> AsyncGenerator[MemoryRuntime]:
    """Open a store of any engine with the bounds of the smallest device."""
    clock = FrozenClock(step_ms=1)
    keys = KEYS if "sealed" in url else None
    store = await open_store(url.format(str(folder).replace("/", "%2F")), clock=clock, keys=keys)
    async with elytron.open(store, space=ADA, clock=clock, profile=ESP) as memory:
        yield memory


async def read_and_erase(memory: MemoryRuntime, texts: Sequence[str]) -> None:
    written = await memory.add(list(texts))
    assert (await memory.recall(texts[0])).hits
    await memory.erase(written.ids)


async def journal(store: Store) -> list[JournalEntry]:
    return list(await store.journal(ADA, after=0, limit=10_000))


def size_of(folder: Path) -> int:
    """Return the bytes of all files, except SQLite's record of its last commits."""
    return sum(found.stat().st_size for found in folder.rglob("*") if found.is_file() and "-" not in found.name)


async def of_runs(memory: MemoryRuntime) -> tuple[str, ...]:
    """Leave texts in the space between erased ones; return their ids."""
    kept: list[str] = []
    for number in range(4):
        written = await memory.add([f"mine {number}", f"passing {number}", f"gone {number}"])
        kept.append(written.ids[0])
        await memory.erase(written.ids[1:])
    return tuple(kept)


@pytest.mark.parametrize("url", URLS)
async def test_a_device_that_erases_what_it_reads_keeps_its_size(url: str, tmp_path: Path) -> None:
    sizes: list[int] = []
    longest = 0
    async with device(tmp_path, url) as memory:
        kept = await memory.add("The boat key is under the oar.")
        for number in range(14):
            await read_and_erase(memory, [f"reading {number} of sensor {sensor}" for sensor in range(50)])
            longest = max(longest, len(await journal(memory.context.store)))
            sizes.append(size_of(tmp_path))
        told = await memory.inspect(MemoryInspectionRequest(check=True))
        assert told.store_check is not None
        assert told.store_check.ok
        assert told.journal_account is not None
        assert told.journal_account.ok
        assert (told.sequence > 700, told.journal_account.compacted > 600) == (True, True)
        assert [hit.id for hit in (await memory.recall("Where is the boat key?")).hits] == list(kept.ids)
    assert longest < 256
    assert max(sizes) < 256 * 1024


@pytest.mark.parametrize("url", URLS)
async def test_a_compaction_leaves_the_memory_unchanged(url: str, tmp_path: Path) -> None:
    async with device(tmp_path, url) as memory:
        kept = await of_runs(memory)
        before, heads = await memory.inspect(fingerprints=True), (await memory.inspect(fingerprints=True)).head
        first = len(await journal(memory.context.store))
        gone = await compact_space(memory.context.store, ADA)
        entries = await journal(memory.context.store)
        assert (gone > 4, len(entries)) == (True, first - gone)
        after = await memory.inspect(MemoryInspectionRequest(head=heads, check=True))
        assert (after.head, after.head_standing) == (before.head, HeadStanding.CURRENT)
        assert (after.sequence, after.state_fingerprint) == (before.sequence, before.state_fingerprint)
        assert after.store_check is not None
        assert after.store_check.ok
        assert {item.id for item in (await memory.list()).items} == set(kept)
        assert await compact_space(memory.context.store, ADA) == 0
        await memory.add("one more")
        assert (await memory.inspect(MemoryInspectionRequest(head=heads))).head_standing is HeadStanding.CONTAINED


async def test_every_journal_head_is_valid_or_reported_as_compacted() -> None:
    store = MemoryStore()
    async with elytron.open(store, space=ADA) as memory:
        heads: list[str] = []
        for number in range(5):
            written = await memory.add([f"mine {number}", f"passing {number}"])
            heads.append((await memory.inspect(fingerprints=True)).head)
            await memory.erase(written.ids[1:])
            heads.append((await memory.inspect(fingerprints=True)).head)
        await compact_space(store, ADA)
        runs = [entry for entry in await journal(store) if entry.covers > 1]
        assert runs
        for head in heads:
            sequence = int(head.partition(".")[0])
            lies_within = any(run.first <= sequence < run.sequence for run in runs)
            standing = (await memory.inspect(MemoryInspectionRequest(head=head))).head_standing
            assert standing is not None
            assert standing.is_sound
            assert (standing is HeadStanding.COMPACTED) is lies_within


async def test_a_forged_run_is_detected() -> None:
    store = MemoryStore()
    async with elytron.open(store, space=ADA) as memory:
        await of_runs(memory)
        head = (await memory.inspect(fingerprints=True)).head
        spent = next(
            CompactedRun(one.first, other.sequence, "0" * 96)
            for one, other in zip(await journal(store), (await journal(store))[1:], strict=False)
            if not one.digest and not other.digest
        )
        await store.compact(ADA, [spent])
        told = await memory.inspect(MemoryInspectionRequest(head=head, check=True))
        assert told.head_standing is HeadStanding.FORKED
        assert told.journal_account is not None
        assert (told.journal_account.ok, told.journal_account.unproven) == (False, 1)
        early = f"{spent.first}.{head.partition('.')[2]}"
        assert (await memory.inspect(MemoryInspectionRequest(head=early))).head_standing is HeadStanding.FORKED


async def test_a_compacted_space_is_exported_restored_and_copied_unchanged(tmp_path: Path) -> None:
    archive = tmp_path / "ada.elytron"
    source = f"sqlite:{str(tmp_path / 'm.db').replace('/', '%2F')}"
    async with elytron.open(source, space=ADA) as memory:
        await of_runs(memory)
        await compact_space(memory.context.store, ADA)
        there = await memory.inspect(fingerprints=True)
        entries = await journal(memory.context.store)
        await memory.export(archive, include_private=True)
    async with elytron.open("memory:", space=ADA) as memory:
        await memory.import_archive(archive)
        restored = await memory.inspect(MemoryInspectionRequest(head=there.head))
        assert await journal(memory.context.store) == entries
        assert restored.head_standing is HeadStanding.CURRENT
        assert (restored.event_fingerprint, restored.sequence) == (there.event_fingerprint, there.sequence)
    (copied,) = await migrate_store(source, f"file:{str(tmp_path / 'copy').replace('/', '%2F')}", clock=FrozenClock())
    assert (copied.entries, copied.sequence) == (len(entries), there.sequence)


async def test_an_archive_does_not_restore_erased_and_compacted_content(tmp_path: Path) -> None:
    archive = tmp_path / "ada.elytron"
    async with elytron.open("memory:", space=ADA) as memory:
        written = await memory.add(["The boat key is under the oar.", "The ferry leaves at seven.", "Tea at four."])
        await memory.export(archive, include_private=True)
        await memory.erase(written.ids[:2])
        await compact_space(memory.context.store, ADA)
        assert not {written.ids[0], written.ids[1]} & {
            f"{entry.ref.key}" for entry in await journal(memory.context.store)
        }
        report = await memory.import_archive(MemoryImportRequest(path=str(archive), mode=ImportMode.BOOTSTRAP))
        assert (report.changed, report.skipped) == (False, {"turns": 3})


async def test_latest_memories_are_found_beyond_a_long_run() -> None:
    async with elytron.open("memory:", space=ADA) as memory:
        await memory.add("The boat key is under the oar.")
        for number in range(3):
            written = await memory.add([f"passing {number} {part}" for part in range(200)])
            await memory.erase(written.ids)
        await memory.add("The ferry leaves at seven.")
        assert await compact_space(memory.context.store, ADA) > 600
        listed = await memory.list(limit=5)
        assert {item.text for item in listed.items} == {"The boat key is under the oar.", "The ferry leaves at seven."}


async def test_a_runtime_that_was_behind_reads_no_erased_content(tmp_path: Path) -> None:
    url = f"sqlite:{str(tmp_path / 'm.db').replace('/', '%2F')}"
    async with elytron.open(url, space=ADA) as memory, elytron.open(url, space=ADA) as other:
        written = await memory.add(["The boat key is under the oar.", "The ferry leaves at seven."])
        assert (await other.recall("boat key")).hits
        await memory.erase(written.ids[:1])
        await memory.add("Tea at four.")
        await compact_space(memory.context.store, ADA)
        assert "boat" not in str((await other.recall("boat key")).hits)
        assert {item.text for item in (await other.list()).items} == {"The ferry leaves at seven.", "Tea at four."}


async def test_space_events_cause_no_growth_and_system_spaces_are_not_compacted() -> None:
    store = MemoryStore()
    async with elytron.open(store, space=ADA) as memory:
        await memory.add("Tea at four.")
        for _ in range(10):
            event = Batch(space=ADA, at=FrozenClock().now(), entries=(EntryDraft(JournalAction.OPERATOR, REF),))
            await store.commit(event)
            await store.commit(
                Batch(
                    space=SYSTEM_SPACE,
                    at=event.at,
                    entries=(EntryDraft(JournalAction.DELETE, DocumentRef("keys", "0")),),
                )
            )
        assert await compact_space(store, ADA) == 8
        assert await compact_space(store, SYSTEM_SPACE) == 0
        assert await compact_space(store, SpaceId("nobody")) == 0
        assert (await memory.recall("tea")).hits


async def test_one_of_two_concurrent_compactions_succeeds(tmp_path: Path) -> None:
    store = MemoryStore()
    async with elytron.open(store, space=ADA) as memory:
        await of_runs(memory)
        (document,) = await store.get(ADA, (REF,))
        assert document is not None
        sums = EntrySums(SpaceRecord.from_bytes(document.body))
        entries = await journal(store)
        spent = [entry for entry in entries if not entry.digest][:2]
        await compact_space(store, ADA)
        with pytest.raises(Conflict):
            await store.compact(ADA, [sums.run_of(spent)])
        assert (await store.check()).ok


@pytest.mark.parametrize(
    ("url", "point", "number"),
    [
        ("sqlite:{}/m.db", "run", 1),
        ("sqlite:{}/m.db", "run", 3),
        ("file:{}/files", "run", 2),
        ("file:{}/files", "fsync", 1),
        ("file:{}/files", "replace", 1),
    ],
)
async def test_a_killed_compaction_is_complete_or_absent(url: str, point: str, number: int, tmp_path: Path) -> None:
    place = url.format(str(tmp_path).replace("/", "%2F"))
    async with elytron.open(place, space=ADA) as memory:
        kept = await of_runs(memory)
        before, head = await journal(memory.context.store), (await memory.inspect(fingerprints=True)).head
    assert exit_code(compacting, place, point, number) == -signal.SIGKILL
    async with elytron.open(place, space=ADA) as memory:
        found = await journal(memory.context.store)
        told = await memory.inspect(MemoryInspectionRequest(head=head, check=True))
        assert told.store_check is not None
        assert (told.store_check.ok, told.head_standing) == (True, HeadStanding.CURRENT)
        if found == before:
            assert await compact_space(memory.context.store, ADA) > 0
        assert await compact_space(memory.context.store, ADA) == 0
        assert {item.id for item in (await memory.list()).items} == set(kept)
