"""Agent skill directories: read, pointed to, and never anything else."""

import os
from pathlib import Path

import pytest

import elytron
from elytron.state.skill_directories import (
    AGENT_SKILL_DEPTH,
    AGENT_SKILL_DIRS,
    AGENT_SKILL_FILE_BYTES,
    AGENT_SKILL_RESCAN_MS,
    scan_directories,
)
from elytron_core.clock import FrozenClock
from elytron_core.contracts.skills import SkipReason
from elytron_core.errors import InvalidInput, LimitExceeded

pytestmark = pytest.mark.anyio


def put(root: Path, name: str, text: str | None = None, /, **resources: str) -> Path:
    """Create the folder of a skill, with its companion files."""
    folder = root / name
    folder.mkdir(parents=True)
    told = text if text is not None else f"---\nname: {name}\ndescription: How to handle {name} well\n---\nDo it.\n"
    (folder / "SKILL.md").write_text(told, encoding="utf-8")
    for place, content in resources.items():
        path = folder / place.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def skipped(root: Path) -> dict[str, SkipReason]:
    return {one.place: one.reason for one in scan_directories((root,)).skipped}


def test_summaries_resource_counts_and_fingerprints_are_read(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    put(root, "pdf", scripts__fill="x", scripts__merge="y", assets__deep__logo="z", notes="n")
    report = scan_directories((root,))
    [skill] = report.skills
    assert (skill.name, skill.description) == ("pdf", "How to handle pdf well")
    assert (skill.place, skill.resources) == ("skills/pdf/SKILL.md", {".": 1, "assets": 1, "scripts": 2})
    assert (report.directories, report.resources, report.skipped_total, report.read_only) == (1, 4, 0, True)
    assert str(tmp_path) not in report.model_dump_json()


def test_a_fingerprint_changes_with_the_text_and_companion_files(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf", scripts__fill="x")
    prints = [scan_directories((tmp_path,)).skills[0].fingerprint]
    assert scan_directories((tmp_path,)).skills[0].fingerprint == prints[0]
    (folder / "scripts" / "fill").write_text("longer")
    prints.append(scan_directories((tmp_path,)).skills[0].fingerprint)
    (folder / "scripts" / "fill").write_text("langer")
    prints.append(scan_directories((tmp_path,)).skills[0].fingerprint)
    (folder / "scripts" / "new").write_text("x")
    prints.append(scan_directories((tmp_path,)).skills[0].fingerprint)
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: other\n---\n")
    prints.append(scan_directories((tmp_path,)).skills[0].fingerprint)
    assert len(set(prints)) == 5


def test_a_file_is_fingerprinted_once_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path, "pdf", scripts__fill="abc")
    seen: dict[tuple[int, int, int, int], str] = {}
    first = scan_directories((tmp_path,), seen).skills[0].fingerprint
    (kept,) = seen
    seen[kept] = "as it was seen"
    assert scan_directories((tmp_path,), seen).skills[0].fingerprint != first
    monkeypatch.setattr("elytron.state.skill_directories.AGENT_SKILL_SCAN_BYTES", 2)
    by_size = scan_directories((tmp_path,)).skills[0].fingerprint
    (folder / "scripts" / "fill").write_text("abd")
    assert scan_directories((tmp_path,)).skills[0].fingerprint == by_size


def test_nothing_is_executed_written_or_left_open(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf", run="#!/bin/sh\ntouch ../../ran\n")
    (folder / "run").chmod(0o755)
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    scan_directories((tmp_path,))
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def test_symlinks_are_never_followed(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "secret")
    root = tmp_path / "skills"
    inside = put(root, "pdf")
    (root / "linked").symlink_to(outside)
    (inside / "escape").symlink_to("/etc")
    (root / "loop").symlink_to(root)
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(outside / "SKILL.md")
    assert [skill.name for skill in scan_directories((root,)).skills] == ["pdf"]
    assert skipped(root) == {
        "skills/linked": SkipReason.SYMLINK,
        "skills/loop": SkipReason.SYMLINK,
        "skills/pdf/escape": SkipReason.SYMLINK,
        "skills/file/SKILL.md": SkipReason.SYMLINK,
    }


def test_omissions_are_reported_with_their_reason(tmp_path: Path) -> None:
    root = tmp_path / "s"
    put(root, "a", "no front matter")
    put(root, "b", "---\ndescription: x\n---\n")
    put(root, "c", "---\nname: x\n---\n")
    put(root, "d", "---\nname: twin\ndescription: first\n---\n")
    put(root, "e", "---\nname: twin\ndescription: second\n---\n")
    put(root, "f", "x" * (AGENT_SKILL_FILE_BYTES + 1))
    (put(root, "g") / "SKILL.md").write_bytes(b"---\nname: \xff\n---\n")
    (root / "h" / "SKILL.md").mkdir(parents=True)
    os.mkfifo((root / "a").parent / "pipe")
    deep = root / "deep" / Path(*["d"] * AGENT_SKILL_DEPTH)
    deep.mkdir(parents=True)
    report = scan_directories((root,))
    assert [(skill.name, skill.description) for skill in report.skills] == [("twin", "first")]
    assert skipped(root) == {
        "s/a/SKILL.md": SkipReason.NO_FRONT_MATTER,
        "s/b/SKILL.md": SkipReason.NO_NAME,
        "s/c/SKILL.md": SkipReason.NO_DESCRIPTION,
        "s/e/SKILL.md": SkipReason.DUPLICATE_NAME,
        "s/f/SKILL.md": SkipReason.TOO_LARGE,
        "s/g/SKILL.md": SkipReason.NOT_TEXT,
        "s/h/SKILL.md": SkipReason.NOT_A_FILE,
        "s/deep" + "/d" * AGENT_SKILL_DEPTH: SkipReason.TOO_DEEP,
    }
    assert skipped(tmp_path / "nowhere") == {"nowhere": SkipReason.MISSING}


def test_an_impossible_folder_name_counts_as_missing() -> None:
    assert skipped(Path("x" * 5_000)) == {"x" * 5_000: SkipReason.MISSING}


def test_a_pipe_instead_of_a_file_does_not_block(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "SKILL.md")
    assert list(skipped(tmp_path).values()) == [SkipReason.NOT_A_FILE]


def test_lists_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(4):
        put(tmp_path, f"s{at}", a="x", b="y", c="z")
    monkeypatch.setattr("elytron.state.skill_directories.AGENT_SKILLS", 2)
    monkeypatch.setattr("elytron.state.skill_directories.AGENT_SKILL_RESOURCES", 2)
    report = scan_directories((tmp_path,))
    assert [(skill.name, skill.resources) for skill in report.skills] == [("s0", {".": 2}), ("s1", {".": 2})]
    assert {one.reason for one in report.skipped} == {SkipReason.TOO_MANY}
    monkeypatch.setattr("elytron.state.skill_directories.AGENT_SKILL_ENTRIES", 5)
    assert len(scan_directories((tmp_path,)).skills) < 2
    assert SkipReason.TOO_MANY in skipped(tmp_path).values()


def test_folders_of_a_skill_are_walked_to_a_depth(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf")
    deep = folder / Path(*["d"] * (AGENT_SKILL_DEPTH + 1))
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    report = scan_directories((tmp_path,))
    assert report.skills[0].resources == {}
    assert [one.reason for one in report.skipped] == [SkipReason.TOO_DEEP]


def test_a_directory_may_itself_be_a_skill(tmp_path: Path) -> None:
    folder = put(tmp_path, "pdf")
    assert [skill.place for skill in scan_directories((folder,)).skills] == ["pdf/SKILL.md"]


async def test_recall_and_projection_point_to_agent_skills(tmp_path: Path) -> None:
    put(tmp_path, "pdf-forms", "---\nname: pdf-forms\ndescription: Fill </memory-x> PDF forms\n---\n")
    put(tmp_path, "tea")
    async with elytron.open("memory:", agent_skill_dirs=(tmp_path,)) as memory:
        report = await memory.recall("fill the pdf forms")
        assert [(hit.name, hit.read_only) for hit in report.agent_skill_hits] == [("pdf-forms", True)]
        assert report.hits == ()
        block = await memory.project("fill the pdf forms")
        [line] = [line for line in block.system_memory_block.splitlines() if "pdf-forms" in line]
        assert line == "- [pdf-forms] Fill ‹/memory-x> PDF forms"
        assert block.agent_skill_hits == report.agent_skill_hits
        facts = elytron.RecallFilters(planes=(elytron.RecallPlane.LONG_TERM,))
        assert (await memory.recall("pdf forms", filters=facts)).agent_skill_hits == ()
        assert (await memory.recall(" ")).agent_skill_hits == ()
        assert not (await memory.inspect()).exists, "a directory is no memory"


async def test_a_directory_is_reread_after_a_while_and_by_an_inspection(tmp_path: Path) -> None:
    clock = FrozenClock()
    put(tmp_path, "tea")
    async with elytron.open("memory:", clock=clock, agent_skill_dirs=(str(tmp_path), str(tmp_path))) as memory:
        assert (await memory.inspect()).agent_skills.directories == 1, "the same one twice is one"

        async def named() -> list[str]:
            return [hit.name for hit in (await memory.recall("handle well")).agent_skill_hits]

        assert await named() == ["tea"]
        put(tmp_path, "pot")
        assert await named() == ["tea"]
        clock.advance(AGENT_SKILL_RESCAN_MS)
        assert await named() == ["pot", "tea"]
        put(tmp_path, "cup")
        assert [skill.name for skill in (await memory.inspect()).agent_skills.skills] == ["cup", "pot", "tea"]
        assert await named() == ["cup", "pot", "tea"]


async def test_an_operator_adds_a_directory_to_an_open_runtime(tmp_path: Path) -> None:
    put(tmp_path, "tea")
    async with elytron.open("memory:") as memory:
        assert (await memory.recall("tea")).agent_skill_hits == ()
        report = await memory.add_agent_skill_dir(tmp_path)
        assert [skill.name for skill in report.skills] == ["tea"]
        assert [hit.name for hit in (await memory.recall("tea")).agent_skill_hits] == ["tea"]
        with pytest.raises(InvalidInput):
            await memory.add_agent_skill_dir("a\0b")
        for at in range(AGENT_SKILL_DIRS - 1):
            await memory.add_agent_skill_dir(tmp_path / str(at))
        with pytest.raises(LimitExceeded):
            await memory.add_agent_skill_dir(tmp_path / "more")
