"""Guarantees of export and import: an exact round trip, a repeatable merge, no partial import."""

import errno
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sdk.meanwhile import Meanwhile
from tests.sdk.told import believe, learn, talk, texts

import elytron
from elytron.transfer import restore
from elytron.transfer.archive import ArchiveReader
from elytron_core.contracts.archive import ImportMode
from elytron_core.contracts.recall import RecallPlane
from elytron_core.errors import (
    InvalidInput,
    NotFound,
    SpaceIncomplete,
    SpaceInUse,
    StoreUnavailable,
    UnreadableFile,
)
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.skills import SkillSource
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

STEPS = "1. Heat water.\n2. Add tea.\n3. Wait."


async def lived(memory: elytron.MemoryRuntime) -> None:
    await memory.add(["I like tea", "外婆的泡菜"], speaker="Ada", at=1_000, metadata={"price": 1.5, "big": 1e22})
    (turn,) = (await talk(memory, (EvidenceRole.USER, "one"), (EvidenceRole.ASSISTANT, "two"), host_id="h")).ids
    await memory.forget(elytron.MemoryForgetRequest(ids=(turn,)))
    await believe(memory, "home", "Lisbon", observed_at=1_000)
    await believe(memory, "home", "Porto", observed_at=2_000)
    await learn(memory, "brew", STEPS)
    (gone,) = (await memory.add("gone")).ids
    await memory.delete(gone)


async def test_a_round_trip_is_exact(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await lived(memory)
    first = await memory.export(tmp_path / "a.elytron", include_private=True)
    async with elytron.open("memory:", space="elsewhere") as other:
        dry = await other.import_archive(elytron.MemoryImportRequest(path=str(tmp_path / "a.elytron"), dry_run=True))
        assert (dry.changed, (await other.inspect()).exists) == (False, False)
        report = await other.import_archive(tmp_path / "a.elytron")
        assert report.imported == first.documents
        assert (await other.inspect(fingerprints=True)).state_fingerprint == first.state_fingerprint
        assert (await other.inspect(fingerprints=True)).event_fingerprint == first.event_fingerprint
        await other.export(tmp_path / "b.elytron", include_private=True)
        assert sorted(await texts(other, "tea home brew 泡菜")) == sorted(await texts(memory, "tea home brew 泡菜"))
        await other.add("and on it goes")
        assert (await other.replay()).turns[-1].sequence == 5
        with pytest.raises(SpaceInUse, match="use the mode bootstrap") as refused:
            await other.import_archive(tmp_path / "a.elytron")
        assert not refused.value.retryable
    a, b = (zipfile.ZipFile(tmp_path / name) for name in ("a.elytron", "b.elytron"))
    for member in ("documents.jsonl", "journal.jsonl"):
        assert a.read(member) == b.read(member)
    a.close()
    b.close()


async def test_remains_of_a_killed_restore_are_removed_by_the_next(
    memory: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    await lived(memory)
    await memory.export(tmp_path / "a.elytron", include_private=True)
    async with elytron.open("memory:", space="elsewhere") as other:
        leftover = Batch(
            space=elytron.Scope(space="elsewhere").space,
            at=other.context.clock.now(),
            entries=(EntryDraft(JournalAction.WRITE, DocumentRef("turns", "ab.1")),),
            puts=(PutChange(DocumentRef("turns", "ab.1"), b"{}", 0),),
        )
        await other.context.store.commit(leftover)
        report = await other.import_archive(tmp_path / "a.elytron")
        assert (await other.inspect(fingerprints=True)).state_fingerprint == report.state_fingerprint


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "BATCH", 4)


async def long_archive(path: Path, name: str) -> str:
    """Write an archive that is restored in several small batches, and return its space's state fingerprint."""
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add([f"{name} {number}" for number in range(9)])
        return (await memory.export(path, include_private=True)).state_fingerprint


@pytest.mark.usefixtures("small_batches")
async def test_one_of_two_concurrent_restores_completes(tmp_path: Path) -> None:
    first, second = tmp_path / "first.elytron", tmp_path / "second.elytron"
    await long_archive(first, "herring")
    whole = await long_archive(second, "tern")
    shared = MemoryStore()
    meanwhile = Meanwhile(shared)
    ours = await elytron.open(meanwhile, space="x")
    theirs = await elytron.open(shared, space="x")
    meanwhile.behind_commit("turns", lambda: theirs.import_archive(second))
    with pytest.raises(SpaceInUse, match="another caller during the restore"):
        await ours.import_archive(first)
    assert meanwhile.is_over
    report = await theirs.inspect(fingerprints=True)
    assert (report.state_fingerprint, report.documents["turns"], report.documents["space"]) == (whole, 9, 1)
    assert not any("herring" in hit.text for hit in (await ours.recall("herring")).hits)


@pytest.mark.usefixtures("small_batches")
async def test_a_partially_restored_space_accepts_no_writes(tmp_path: Path) -> None:
    archive = tmp_path / "long.elytron"
    whole = await long_archive(archive, "herring")
    meanwhile = Meanwhile(MemoryStore())
    memory = await elytron.open(meanwhile, space="x")

    async def broken_off() -> None:
        raise OSError(errno.EIO, "broken off")

    meanwhile.behind_commit("turns", broken_off)
    with pytest.raises(OSError, match="broken off"):
        await memory.import_archive(archive)
    assert not (await memory.inspect()).exists
    with pytest.raises(SpaceIncomplete, match="run it again, or erase the space"):
        await memory.add("a tern")
    assert (await memory.recall("herring")).reason == "empty_space"
    assert (await memory.import_archive(archive)).state_fingerprint == whole
    await memory.add("a tern")
    assert (await memory.recall("tern")).hits[0].text == "a tern"

    await memory.erase(whole_space="x")
    meanwhile.behind_commit("turns", broken_off)
    with pytest.raises(OSError, match="broken off"):
        await memory.import_archive(archive)
    assert (await memory.erase(whole_space="x")).changed
    await memory.add("a tern")
    assert [hit.text for hit in (await memory.recall("herring")).hits] == ["a tern"]


async def test_a_restore_destroys_nothing_written_while_it_reads_its_archive(
    memory: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    await lived(memory)
    await memory.export(tmp_path / "a.elytron", include_private=True)
    shared = MemoryStore()
    meanwhile = Meanwhile(shared)
    ours = await elytron.open(meanwhile, space="x")
    theirs = await elytron.open(shared, space="x")
    meanwhile.behind_reading("space", lambda: theirs.add("a tern"))
    with pytest.raises(SpaceInUse):
        await ours.import_archive(tmp_path / "a.elytron")
    assert (await theirs.recall("tern")).hits[0].text == "a tern"


async def test_a_bootstrap_adds_new_content_and_can_be_repeated(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await lived(memory)
    archive = tmp_path / "a.elytron"
    await memory.export(archive, include_private=True)
    async with elytron.open("memory:", space="elsewhere") as other:
        await other.add("I was here before")
        await believe(other, "home", "Faro", observed_at=1_500)
        request = elytron.MemoryImportRequest(path=str(archive), mode=ImportMode.BOOTSTRAP)
        dry = await other.import_archive(request.model_copy(update={"dry_run": True}))
        assert (dry.changed, dry.imported) == (False, {"turns": 3, "facts": 1, "skills": 1})
        first = await other.import_archive(request)
        assert first.imported == {"turns": 3, "facts": 1, "skills": 1}
        assert [message.text for turn in (await other.replay()).turns for message in turn.messages] == [
            "I was here before",
            "I like tea",
            "外婆的泡菜",
            "two",
        ]
        assert (await texts(other, "home"))[0] == "Porto"
        before = (await other.inspect(fingerprints=True)).state_fingerprint
        again = await other.import_archive(request)
        assert again.imported == {}
        assert again.skipped["turns"] == 3
        state = (await other.inspect()).documents
        assert state["turns"] == 4
        assert state["facts"] == 2
        assert before


async def test_a_bootstrap_preserves_origins(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    answer = elytron.Message(role=elytron.EvidenceRole.ASSISTANT, text="The ferry leaves at nine.")
    turn = elytron.TurnDraft(messages=(answer,), external_content_used=True)
    await memory.write(elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=(turn,))))
    steps = "1. Open the app.\n2. Choose the ferry.\n3. Pay."
    skill = elytron.RuntimeSkillWrite(name="book", topic="ferry", title="Book a ferry", summary="Steps", content=steps)
    learned = elytron.ProcedureSource(writes=(skill,), source=SkillSource.EXTRACTION)
    await memory.write(elytron.MemoryWriteRequest(write=learned))
    await memory.export(tmp_path / "a.elytron", include_private=True)
    async with elytron.open("memory:", space="elsewhere") as other:
        await other.import_archive(tmp_path / "a.elytron", mode=ImportMode.BOOTSTRAP)
        trusts = {item.plane: item.trust for item in (await other.list()).items}
    assert trusts == {
        RecallPlane.TRANSCRIPT: elytron.TrustLevel.OUTSIDE,
        RecallPlane.PROCEDURAL: elytron.TrustLevel.DRAWN,
    }


async def test_a_bootstrap_can_merge_all_turns_into_one_conversation(
    memory: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    for number in range(450):
        await memory.add(f"note {number}", conversation=f"c{number % 2}")
    await memory.export(tmp_path / "a.elytron", include_private=True)
    scope = elytron.Scope.model_validate({"space": "elsewhere", "conversation": "all"})
    async with elytron.open("memory:", scope=scope) as other:
        report = await other.import_archive(
            elytron.MemoryImportRequest(path=str(tmp_path / "a.elytron"), mode=ImportMode.BOOTSTRAP)
        )
        assert report.imported == {"turns": 450}
        assert (await other.replay("all")).total_turns == 450


async def test_an_export_needs_a_space_and_a_folder(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await memory.export(tmp_path / "a.elytron", include_private=True)
    await memory.add("I like tea")
    with pytest.raises(StoreUnavailable, match="cannot write"):
        await memory.export(tmp_path / "missing" / "a.elytron", include_private=True)
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnavailable, match="cannot write"):
        await memory.export(tmp_path / "folder", overwrite=True, include_private=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def rewritten(member: str, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return a function that returns an archive with one member changed and the manifest unchanged."""

    def spoil(data: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
            for name in source.namelist():
                body = source.read(name)
                target.writestr(name, change(body) if name == member else body)
        return out.getvalue()

    return spoil


def with_manifest(**fields: object) -> Callable[[bytes], bytes]:
    return rewritten("manifest.json", lambda body: json.dumps(json.loads(body) | fields).encode())


def resealed(member: str, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return a function that changes a member and fixes the manifest's digest, like a forger."""
    from hashlib import sha256

    def forge(data: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as source:
            members = {name: source.read(name) for name in source.namelist()}
        members[member] = change(members[member])
        manifest = json.loads(members["manifest.json"])
        for entry in manifest["members"]:
            entry["sha256"] = sha256(members[entry["name"]]).hexdigest()
            entry["lines"] = members[entry["name"]].count(b"\n")
        members["manifest.json"] = json.dumps(manifest).encode()
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for name, body in members.items():
                target.writestr(name, body)
        return out.getvalue()

    return forge


def encrypted(data: bytes) -> bytes:
    """Return the archive with each member's encryption flag set."""
    spoiled = bytearray(data)
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := spoiled.find(mark, at + 1)) >= 0:
            spoiled[at + place] |= 1
    return bytes(spoiled)


def of_a_later_zip(data: bytes) -> bytes:
    """Return the archive with members that require a nonexistent zip version."""
    spoiled = bytearray(data)
    at = -1
    while (at := spoiled.find(b"PK\x01\x02", at + 1)) >= 0:
        spoiled[at + 6] = 200
    return bytes(spoiled)


def extra_member(data: bytes) -> bytes:
    out = io.BytesIO(data)
    with zipfile.ZipFile(out, "a") as target:
        target.writestr("../evil", b"x")
    return out.getvalue()


SPOILS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda data: data[: len(data) // 2],
    "text": lambda _: b"this is a letter",
    "flipped": lambda data: data[:200] + bytes([data[200] ^ 0xFF]) + data[201:],
    "altered": rewritten("documents.jsonl", lambda body: body.replace(b"tea", b"ale")),
    "cut": rewritten("journal.jsonl", lambda body: body[:50]),
    "extra member": extra_member,
    "encrypted": encrypted,
    "of a later zip": of_a_later_zip,
    "newer": with_manifest(version=99),
    "foreign": with_manifest(format="other"),
    "other members": with_manifest(members=[]),
    "no manifest": rewritten("manifest.json", lambda _: b"{}"),
    "no json": resealed("documents.jsonl", lambda body: b"[" + body[1:]),
    "no object": resealed("documents.jsonl", lambda body: b"5\n" + body),
    "no document": resealed("documents.jsonl", lambda body: b'{"collection":"turns"}\n' + body),
    "bad key": resealed("documents.jsonl", lambda body: body.replace(b'"key":"', b'"key":"ZZ/../', 1)),
    "unknown collection": resealed("documents.jsonl", lambda body: body.replace(b'"turns"', b'"other"')),
    "changed body": resealed("documents.jsonl", lambda body: body.replace(b"tea", b"ale")),
    "unknown field": resealed("documents.jsonl", lambda body: body.replace(b'"key"', b'"x":1,"key"', 1)),
    "no space record": resealed("documents.jsonl", lambda body: b"\n".join(body.split(b"\n")[1:])),
    "bad entry": resealed("journal.jsonl", lambda body: body.replace(b'"write"', b'"scribble"', 1)),
    "skipped entry": resealed("journal.jsonl", lambda body: b"\n".join(body.split(b"\n")[1:])),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS.keys())
@pytest.mark.parametrize("mode", list(ImportMode))
async def test_an_invalid_archive_is_rejected_and_changes_nothing(
    memory: elytron.MemoryRuntime, tmp_path: Path, spoil: Callable[[bytes], bytes], mode: ImportMode
) -> None:
    await memory.add(["I like tea", "and tea likes me"])
    archive = tmp_path / "a.elytron"
    await memory.export(archive, include_private=True)
    archive.write_bytes(spoil(archive.read_bytes()))
    async with elytron.open("memory:", space="elsewhere") as other:
        with pytest.raises((UnreadableFile, InvalidInput)):
            await other.import_archive(elytron.MemoryImportRequest(path=str(archive), mode=mode))
        assert (await other.inspect()).sequence == 0


async def test_a_missing_archive_and_a_folder_are_rejected(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="does not exist"):
        await memory.import_archive(tmp_path / "none.elytron")
    with pytest.raises(UnreadableFile, match="is a folder"):
        await memory.import_archive(tmp_path)


async def test_importing_a_space_into_itself_duplicates_nothing(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await lived(memory)
    await memory.export(tmp_path / "a.elytron", include_private=True)
    before = (await memory.inspect(fingerprints=True)).state_fingerprint
    report = await memory.import_archive(
        elytron.MemoryImportRequest(path=str(tmp_path / "a.elytron"), mode=ImportMode.BOOTSTRAP)
    )
    assert report.imported == {}
    assert report.skipped["turns"] == 3
    after = (await memory.inspect()).documents
    assert after["turns"] == 3
    assert before


async def test_an_older_archive_does_not_restore_content_erased_since(
    memory: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    await lived(memory)
    await memory.export(tmp_path / "a.elytron", include_private=True)
    older = elytron.MemoryImportRequest(path=str(tmp_path / "a.elytron"), mode=ImportMode.BOOTSTRAP)
    held = [item.id for item in (await memory.list()).items]
    assert (await memory.erase(elytron.MemoryEraseRequest(ids=tuple(held)))).changed
    report = await memory.import_archive(older)
    assert (report.changed, report.imported) == (False, {})
    assert {"turns", "facts", "skills"} <= report.skipped.keys()
    assert (await memory.list()).items == ()
    async with elytron.open("memory:", space="elsewhere") as other:
        assert (await other.import_archive(older)).changed


async def test_a_partially_read_archive_is_closed(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    chance = random.Random(1)
    await memory.add([chance.randbytes(500).hex() for _ in range(200)])
    await memory.export(tmp_path / "a.elytron", include_private=True)
    with ArchiveReader(tmp_path / "a.elytron") as reader:
        held = reader.documents()
        next(held)
    with pytest.raises(ValueError, match="closed file"):
        list(held)
