"""Curated memory in a folder filled by someone else: no symlink is followed, and only plain files are read."""

import os
from pathlib import Path

import pytest
from tests.agent.strategies.test_curated_memory import run_of

from elytron.api import MemoryFace
from elytron_agent import CuratedStrategy

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("planted", ["MEMORY.md", "MEMORY.md.new", ".MEMORY.md.lock"])
async def test_a_symlink_instead_of_a_file_is_neither_read_nor_written_nor_replaced(
    memory: MemoryFace, tmp_path: Path, planted: str
) -> None:
    folder, foreign = tmp_path / "notes", tmp_path / "foreign"
    folder.mkdir()
    foreign.write_text("the words of another file")
    (folder / "USER.md").write_text("Ada likes tea")
    (folder / planted).symlink_to(foreign)
    run, call = await run_of(CuratedStrategy(memory, folder=folder))
    assert "another file" not in run.system
    assert "Ada likes tea" in run.system
    answer = await call(action="add", target="memory", content="The build needs Python 3.11.")
    assert not answer["success"]
    assert "symbolic link" in answer["error"]
    assert (folder / planted).is_symlink()
    assert foreign.read_text() == "the words of another file"


async def test_special_files_are_rejected_without_blocking(memory: MemoryFace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "MEMORY.md")
    run, call = await run_of(CuratedStrategy(memory, folder=tmp_path))
    assert not run.system
    assert "something other than a file" in (await call(action="add", target="memory", content="A note."))["error"]
    assert (await call(action="add", target="user", content="Ada likes tea"))["success"]


async def test_a_folder_may_be_a_link(memory: MemoryFace, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "notes").symlink_to(tmp_path / "real")
    _, call = await run_of(CuratedStrategy(memory, folder=tmp_path / "notes"))
    assert (await call(action="add", target="user", content="Ada likes tea"))["success"]
    assert "Ada likes tea" in (tmp_path / "real" / "USER.md").read_text()
