"""What a journal head stored elsewhere detects: a rollback, another history, a changed document."""

import shutil
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sdk.told import believe

import elytron
from elytron import MemoryEraseRequest, MemoryInspectionRequest, MemoryRuntime
from elytron.journal.verification import DigestAccount, verify_store
from elytron.state.space_records import REF
from elytron_core.clock import SystemClock
from elytron_core.contracts.inspection import HeadStanding, JournalAccount
from elytron_core.errors import InvalidInput
from elytron_core.ids import SpaceId
from elytron_core.planes.space import COLLECTIONS, SpaceRecord
from elytron_core.policy.integrity import JournalHead, standing_of
from elytron_core.ports.store import Document, DocumentRef, ErasureTarget, JournalAction, JournalEntry
from elytron_store import open_store
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio

KEYS = LocalKeys({"k": b"0" * 32}, current="k")
STORES = ["memory.db", "folder/", "sealed.db", "sealed/"]


@asynccontextmanager
async def opened(folder: Path, name: str) -> AsyncGenerator[MemoryRuntime]:
    keys = KEYS if name.startswith("sealed") else None
    async with elytron.open(f"{folder}/{name}", space="ada", keys=keys) as memory:
        yield memory


def copied(source: Path, name: str, target: Path) -> None:
    """Replace the files of a closed store with another's."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for found in source.glob(name.rstrip("/") + "*"):
        (shutil.copytree if found.is_dir() else shutil.copy2)(found, target / found.name)


async def standing(memory: MemoryRuntime, head: str) -> HeadStanding | None:
    return (await memory.inspect(MemoryInspectionRequest(head=head))).head_standing


@pytest.mark.parametrize("name", STORES)
async def test_a_head_stored_elsewhere_detects_a_rollback(tmp_path: Path, name: str) -> None:
    live, older = tmp_path / "live", tmp_path / "older"
    live.mkdir()
    async with opened(live, name) as memory:
        await memory.add("The account is 17.")
        first = (await memory.inspect(fingerprints=True)).head
    copied(live, name, older)
    async with opened(live, name) as memory:
        await believe(memory, "account", "18")
        last = await memory.inspect(fingerprints=True)
        assert await standing(memory, first) is HeadStanding.CONTAINED
        assert await standing(memory, last.head) is HeadStanding.CURRENT

    copied(older, name, live)
    async with opened(live, name) as memory:
        assert await standing(memory, first) is HeadStanding.CURRENT
        assert await standing(memory, last.head) is HeadStanding.BEHIND
        while (await memory.inspect()).sequence < last.sequence + 2:
            await memory.add("And it went on.")
        assert await standing(memory, last.head) is HeadStanding.FORKED
        assert await standing(memory, first) is HeadStanding.CONTAINED


@pytest.mark.parametrize("name", STORES)
async def test_an_erasure_preserves_the_history_of_a_head(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path, name) as memory:
        gone = (await memory.add("The safe opens with 7341.")).ids
        await memory.add("I like tea.")
        head = (await memory.inspect(fingerprints=True)).head
        await memory.erase(MemoryEraseRequest(ids=gone))
        assert await standing(memory, head) is HeadStanding.SCRUBBED
        after = await memory.inspect(MemoryInspectionRequest(check=True, head=head))
        assert after.journal_account == JournalAccount(told=2)
        await memory.erase(MemoryEraseRequest(whole_space="ada"))
        assert await standing(memory, head) is HeadStanding.ABSENT
        assert (await memory.inspect(fingerprints=True)).head == ""
        await memory.add("A new life.")
        assert await standing(memory, head) in {HeadStanding.BEHIND, HeadStanding.FORKED}


async def test_a_head_is_valid_in_every_store_the_space_is_copied_to(tmp_path: Path) -> None:
    async with opened(tmp_path, "memory.db") as memory:
        await memory.add("I like tea.")
        head = (await memory.inspect(fingerprints=True)).head
        await memory.export(tmp_path / "kept.zip", include_private=True)
    async with opened(tmp_path, "sealed/") as other:
        restored = await other.import_archive(
            elytron.MemoryImportRequest(path=str(tmp_path / "kept.zip"), mode=elytron.ImportMode.FULL_RESTORE)
        )
        assert restored.changed
        assert await standing(other, head) in {HeadStanding.CURRENT, HeadStanding.CONTAINED}


async def test_heads_of_two_spaces_with_the_same_history_differ(memory: MemoryRuntime) -> None:
    heads: list[str] = []
    for space in ("ada", "bob"):
        scope = elytron.Scope(space=SpaceId(space))
        turn = elytron.TurnDraft(messages=(elytron.Message(text="The same."),))
        await memory.write(elytron.MemoryWriteRequest(scope=scope, write=elytron.TranscriptWrite(turns=(turn,))))
        heads.append((await memory.inspect(MemoryInspectionRequest(scope=scope, fingerprints=True))).head)
    assert JournalHead.parse(heads[0]).order != JournalHead.parse(heads[1]).order


@pytest.mark.parametrize("text", ["", "1", "x.0.0", "1." + "0" * 32, f"-1.{'0' * 32}.{'0' * 32}"])
def test_invalid_heads_are_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        JournalHead.parse(text)


def _rows(path: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    raw = sqlite3.connect(path)
    try:
        found = raw.execute(statement, values).fetchall()
        raw.commit()
        return found
    finally:
        raw.close()


async def _with_older_facts(path: Path, change: Callable[[], Awaitable[object]]) -> None:
    """Restore the rows of all facts to their state before `change`, complete and with checksums."""
    kept = _rows(path, "SELECT * FROM documents WHERE collection = 'facts'")
    await change()
    for row in kept:
        marks = ", ".join("?" * len(row))
        _rows(path, f"INSERT OR REPLACE INTO documents VALUES ({marks})", *row)


@pytest.mark.parametrize("name", ["memory.db", "sealed.db"])
async def test_a_rolled_back_document_is_detected_without_a_head(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path, name) as memory:
        await believe(memory, "account", "17")
        assert (await memory.inspect(MemoryInspectionRequest(check=True))).journal_account == JournalAccount(told=2)

    async def change() -> None:
        async with opened(tmp_path, name) as memory:
            await believe(memory, "account", "18")

    await _with_older_facts(tmp_path / name, change)
    async with opened(tmp_path, name) as memory:
        report = await memory.inspect(MemoryInspectionRequest(check=True))
        assert report.store_check is not None
        assert report.store_check.ok  # each row is valid by itself
        assert report.journal_account is not None
        assert (report.journal_account.altered, report.journal_account.ok) == (1, False)


async def test_a_removed_document_is_detected(tmp_path: Path) -> None:
    async with opened(tmp_path, "memory.db") as memory:
        await memory.add("I like tea.")
    _rows(tmp_path / "memory.db", "DELETE FROM documents WHERE collection = 'turns'")
    async with opened(tmp_path, "memory.db") as memory:
        report = await memory.inspect(MemoryInspectionRequest(check=True))
        assert report.journal_account == JournalAccount(told=1, missing=1)


async def test_concurrent_writes_do_not_count_as_altered(memory: MemoryRuntime) -> None:
    await memory.add("I like tea.")
    (document,) = await memory.context.store.get(SpaceId("ada"), (REF,))
    record = SpaceRecord.from_bytes(document.body) if document is not None else None
    assert record is not None
    turn = DocumentRef("turns", "0")
    account = DigestAccount(record)
    account.tell(JournalEntry(1, SystemClock().now(), JournalAction.WRITE, turn, record.digest(b"old")))
    account.meet(Document(turn, 2, b"new"))
    assert account.report(COLLECTIONS).altered == 1
    account.retell(JournalEntry(2, SystemClock().now(), JournalAction.WRITE, turn, record.digest(b"new")))
    assert account.report(COLLECTIONS).ok


async def test_entries_reconstructed_by_a_repair_do_not_count_as_altered(memory: MemoryRuntime) -> None:
    await memory.add("I like tea.")
    (document,) = await memory.context.store.get(SpaceId("ada"), (REF,))
    record = SpaceRecord.from_bytes(document.body) if document is not None else None
    assert record is not None
    turn, now = DocumentRef("turns", "0"), SystemClock().now()
    for action, altered in ((JournalAction.MAINTENANCE, 0), (JournalAction.DELETE, 1)):
        account = DigestAccount(record)
        account.tell(JournalEntry(1, now, action, turn, ""))
        account.meet(Document(turn, 1, b"kept"))
        assert account.report(COLLECTIONS).altered == altered
    account = DigestAccount(record)
    account.tell(JournalEntry(1, now, JournalAction.MAINTENANCE, turn, ""))
    account.tell(JournalEntry(2, now, JournalAction.WRITE, turn, record.digest(b"new")))
    account.meet(Document(turn, 1, b"old"))
    assert account.report(COLLECTIONS).altered == 1


async def test_every_space_of_a_store_is_verified_and_missing_ones_reported(tmp_path: Path) -> None:
    url = f"{tmp_path}/m.db"
    async with elytron.open(url, space="ada") as memory:
        await memory.add("I like tea.")
    async with elytron.open(url, space="bob") as memory:
        await memory.add("I like coffee.")
    store = await open_store(url, clock=SystemClock())
    try:
        first = await verify_store(store, {})
        assert {(each.space, each.standing, each.is_sound) for each in first} == {
            ("ada", None, True),
            ("bob", None, True),
        }
        kept = {SpaceId(each.space): each.head for each in (*first, first[0].model_copy(update={"space": "eve"}))}
        again = {each.space: each.standing for each in await verify_store(store, kept)}
    finally:
        await store.close()
    assert again == {"ada": HeadStanding.CURRENT, "bob": HeadStanding.CURRENT, "eve": HeadStanding.ABSENT}


async def test_an_unused_space_has_no_head() -> None:
    store = MemoryStore()
    space = SpaceId("eve")
    await store.erase(ErasureTarget(space=space, at=SystemClock().now()))
    (first,) = await verify_store(store, {})
    assert (first.head, first.standing, first.is_sound) == ("", None, True)
    (again,) = await verify_store(store, {space: f"1.{'0' * 32}.{'0' * 32}"})
    assert again.standing is HeadStanding.ABSENT


@pytest.mark.parametrize(
    ("now", "then", "standing"),
    [
        (JournalHead(3, "a", "b"), JournalHead(3, "a", "b"), HeadStanding.CURRENT),
        (JournalHead(4, "c", "d"), JournalHead(3, "a", "b"), HeadStanding.CONTAINED),
        (JournalHead(4, "c", "d"), JournalHead(3, "a", "x"), HeadStanding.SCRUBBED),
        (JournalHead(3, "a", "x"), JournalHead(3, "a", "x"), HeadStanding.FORKED),
        (JournalHead(4, "c", "d"), JournalHead(3, "x", "b"), HeadStanding.FORKED),
        (JournalHead(2, "a", "b"), None, HeadStanding.BEHIND),
        (None, None, HeadStanding.ABSENT),
    ],
)
def test_a_spaces_standing_to_a_head_is_determined(
    now: JournalHead | None, then: JournalHead | None, standing: HeadStanding
) -> None:
    assert standing_of(JournalHead(3, "a", "b"), now, then) is standing
