"""Archive size limits, and when an archive counts as written."""

import errno
import os
import stat
import zipfile
from pathlib import Path

import pytest

import elytron
from elytron.transfer.archive import ArchiveReader, ArchiveWriter
from elytron_core.errors import LimitExceeded, StoreUnavailable, UnreadableFile

pytestmark = pytest.mark.anyio


async def test_an_archive_that_unpacks_too_large_is_rejected_before_it_is_read(
    memory: elytron.MemoryRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.add("x" * 5_000)
    await memory.export(tmp_path / "a.elytron", include_private=True)
    with zipfile.ZipFile(tmp_path / "a.elytron") as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    async with elytron.open("memory:", space="elsewhere") as other:
        monkeypatch.setattr("elytron.transfer.archive.ARCHIVE_BYTES", unpacked - 1)
        with pytest.raises(UnreadableFile, match=f"unpacks to more than {unpacked - 1} bytes"):
            await other.import_archive(tmp_path / "a.elytron")
        monkeypatch.setattr("elytron.transfer.archive.ARCHIVE_BYTES", unpacked)
        assert (await other.import_archive(tmp_path / "a.elytron")).changed


def test_an_export_cannot_exceed_the_archive_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron.transfer.archive.ARCHIVE_BYTES", 10)
    with ArchiveWriter(tmp_path / "a.elytron") as writer:
        writer.blob("aa").add(b"six by")
        last = writer.blob("ab")
        last.add(b"four")
        with pytest.raises(LimitExceeded, match="bytes of files in an archive: at most 10"):
            last.add(b"!")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("of_folder", [False, True], ids=["the file", "its name in the folder"])
async def test_an_export_that_is_not_durable_is_not_reported_as_done(
    memory: elytron.MemoryRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, of_folder: bool
) -> None:
    await memory.add("I like tea")

    def fail(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode) is of_folder:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreUnavailable, match=r"cannot write 'a\.elytron'"):
        await memory.export(tmp_path / "a.elytron", include_private=True)


@pytest.mark.parametrize("member", ["documents.jsonl", "journal.jsonl"])
async def test_an_archive_with_altered_members_is_not_opened(
    memory: elytron.MemoryRuntime, tmp_path: Path, member: str
) -> None:
    await memory.add("I like tea")
    await memory.export(tmp_path / "a.elytron", include_private=True)
    with zipfile.ZipFile(tmp_path / "a.elytron") as source, zipfile.ZipFile(tmp_path / "b.elytron", "w") as target:
        for name in source.namelist():
            body = source.read(name)
            target.writestr(name, body.replace(b"t", b"T", 1) if name == member else body)
    with pytest.raises(UnreadableFile, match=f"{member} does not match the manifest"):
        ArchiveReader(tmp_path / "b.elytron")
