"""Content that leaves its owner is public, unless everything was requested."""

import json
import zipfile
from pathlib import Path

import pytest
from tests.sdk.told import believe, learn, texts
from tests.sdk.transcripts import SUPPORT, commit

import elytron
from elytron_core.errors import InvalidInput, NotFound, UnreadableFile

pytestmark = pytest.mark.anyio

STEPS = "1. Run the tests.\n2. Tag the release.\n3. Push the tag."
CANARY = "xylophone"


async def lived(memory: elytron.MemoryRuntime) -> None:
    tied = SUPPORT.model_copy(update={"chat": f"chat of {CANARY}", "conversation": f"about {CANARY}"})
    report = await commit(
        memory, text=f"I play the {CANARY}", scope=tied, attributes=({"key": "host.a", "value": CANARY},)
    )
    await believe(memory, "drink", "Ada drinks green tea", citations=(str(report.turn_id),))
    await believe(memory, "drink", "Ada drinks black tea", citations=(str(report.turn_id),))
    secret = elytron.FactDraft.model_validate(
        {"topic": "music", "content": f"Ada plays the {CANARY}", "privacy": "private", "authority": "user_asserted"}
    )
    await memory.write(elytron.MemoryWriteRequest(write=elytron.LongTermExtraction(facts=(secret,))))
    (hidden,) = (await believe(memory, "age", f"as old as a {CANARY}")).ids
    await memory.forget(elytron.MemoryForgetRequest(ids=(hidden,)))
    await learn(memory, "release", STEPS)
    await learn(memory, "other", f"1. Take the {CANARY}.\n2. Play it.\n3. Stop.", topic="music")
    await memory.forget(elytron.MemoryForgetRequest(ids=("runtime_skill__other",)))


def everything_in(file: Path) -> str:
    archive = zipfile.ZipFile(file)
    return "\n".join(archive.read(name).decode() for name in archive.namelist())


async def test_a_shareable_export_contains_no_private_content(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await lived(memory)
    report = await memory.export(tmp_path / "public.elytron", include_private=False)
    assert not report.include_private
    assert report.documents == {"facts": 1, "skills": 1, "slots": 1}
    assert report.redacted["turns"] == report.redacted["chat_aliases"] == report.redacted["derived_refs"] // 2 == 1
    assert (report.redacted["facts"], report.redacted["slots"], report.redacted["skills"]) == (3, 2, 1)
    assert report.entries == 0
    written = everything_in(tmp_path / "public.elytron")
    assert CANARY not in written
    assert '"citations"' not in written
    record = await memory.context.spaces.find(SUPPORT.space)
    assert record is not None
    assert record.secret not in written


async def test_a_public_archive_can_be_added_to_a_space_and_not_restored(
    memory: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    await lived(memory)
    place = tmp_path / "public.elytron"
    await memory.export(place, include_private=False)
    async with elytron.open("memory:", space="elsewhere") as other:
        with pytest.raises(InvalidInput, match="bootstrap"):
            await other.import_archive(place)
        request = elytron.MemoryImportRequest(path=str(place), mode=elytron.ImportMode.BOOTSTRAP)
        assert (await other.import_archive(request)).changed
        assert (await texts(other, "what does Ada drink?"))[0] == "Ada drinks black tea"
        assert not (await other.import_archive(request)).changed


async def test_everything_is_exported_on_request(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await lived(memory)
    request = elytron.MemorySpaceExportRequest(path=str(tmp_path / "all.elytron"), include_private=True)
    report = await memory.export(request)
    whole = await memory.export(tmp_path / "whole.elytron", include_private=True)
    assert (report.include_private, report.redacted, report.documents) == (True, {}, whole.documents)
    assert report.state_fingerprint == whole.state_fingerprint
    async with elytron.open("memory:", space="ada") as other:
        await other.import_archive(tmp_path / "all.elytron")
        assert (await other.inspect(fingerprints=True)).state_fingerprint == whole.state_fingerprint


async def test_an_incomplete_archive_that_claims_to_be_complete_is_damaged(
    memory: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    await lived(memory)
    await memory.export(tmp_path / "public.elytron", include_private=False)
    source = zipfile.ZipFile(tmp_path / "public.elytron")
    manifest = json.loads(source.read("manifest.json")) | {"include_private": True}
    with zipfile.ZipFile(tmp_path / "false.elytron", "w") as target:
        for name in source.namelist():
            target.writestr(name, json.dumps(manifest) if name == "manifest.json" else source.read(name))
    async with elytron.open("memory:", space="elsewhere") as other:
        with pytest.raises(UnreadableFile):
            await other.import_archive(tmp_path / "false.elytron")


async def test_an_unused_space_cannot_be_exported(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await memory.export(tmp_path / "public.elytron", include_private=False)


async def test_an_export_never_overwrites_a_file_by_default(tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_bytes(b"precious")
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("tea")
        with pytest.raises(InvalidInput, match="already exists"):
            await memory.export(note)
        assert note.read_bytes() == b"precious"
        await memory.export(note, overwrite=True)
    assert note.read_bytes().startswith(b"PK")
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
