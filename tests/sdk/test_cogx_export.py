"""An archive as COGX, and back: the folder's content, omissions, and that a reread duplicates nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.foreign_exports import MEM0, write_json

import elytron
from elytron import MemoryRuntime
from elytron.transfer.cogx_archive import CogxExportReport, write_cogx
from elytron_core.clock import Instant, instant
from elytron_core.contracts.facts import FactAction, FactChangeRequest
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.facts import FactPrivacy

pytestmark = pytest.mark.anyio

AT = instant("2026-06-01T10:00:00Z")


async def written(memory: MemoryRuntime, folder: Path, **choices: Any) -> CogxExportReport:
    archive = folder / "space.ely"
    await memory.export(archive, overwrite=True)
    return write_cogx(archive, folder / "cogx", at=Instant(AT), **choices)


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / "cogx" / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


async def test_turns_facts_and_imported_memories_are_records_of_their_kinds(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("I moved to Porto.", speaker="Ada", at="2026-05-01T10:00:00Z")
        await memory.add_fact("residence", "Porto")
        await elytron.import_transcript(memory, write_json(tmp_path / "a.json", MEM0))
        report = await written(memory, tmp_path)
    assert report.records == {"episode": 1, "fact": 1, "memory": 1}
    assert report.left_out == {"hidden messages": 1}
    (episode,), (fact,), (imported,) = (
        records(tmp_path, name) for name in ("episodes.jsonl", "facts.jsonl", "memories.jsonl")
    )
    (turn,) = episode["turns"]
    assert (turn["role"], turn["content"], turn["speaker"], turn["occurred_at"]) == (
        "user", "I moved to Porto.", "Ada", "2026-05-01T10:00:00Z",
    )  # fmt: skip
    assert (fact["fact_text"], fact["predicate"], fact["external_system"]) == (
        "residence: Porto",
        "residence",
        "elytron",
    )
    assert (imported["external_system"], imported["external_id"]) == ("mem0", "mem-1")
    manifest = json.loads((tmp_path / "cogx" / "manifest.json").read_text("utf-8"))
    assert manifest["cogx_version"] == "0.1"
    assert manifest["counts"] == report.records
    assert manifest["exported_at"] == "2026-06-01T10:00:00Z"


async def test_the_folder_is_read_by_another_space_and_reading_it_twice_changes_nothing(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("I moved to Porto.", at="2026-05-01T10:00:00Z")
        await memory.add_fact("residence", "Porto")
        await written(memory, tmp_path)
    async with elytron.open("memory:", space="copy") as copy:
        first = await elytron.import_transcript(copy, tmp_path / "cogx")
        again = await elytron.import_transcript(copy, tmp_path / "cogx")
        texts = [hit.text for hit in (await copy.recall("Where did I move? residence", limit=5)).hits]
    assert (first.stored, again.stored, again.duplicates) == (2, 0, 2)
    assert set(texts) == {"I moved to Porto.", "residence: Porto"}


async def test_private_hidden_and_invalid_content_is_omitted_and_counted(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("The gate code is 4417.", metadata={"private": True})
        await memory.add("The boat is red.")
        (hit,) = (await memory.recall("What colour is the boat?")).hits
        await memory.forget(hit.id)
        pin = await memory.add_fact("pin", "4417")
        change = FactChangeRequest(id=pin.ids[0], action=FactAction.CHANGE_PRIVACY, privacy=FactPrivacy.PRIVATE)
        await memory.operate(change)
        wrong = await memory.add_fact("colour", "red")
        await memory.correct(wrong.ids[0], "blue")
        report = await written(memory, tmp_path)
    assert report.records == {"fact": 1}
    assert report.left_out == {
        "facts that are not believed": 1, "hidden messages": 1, "private facts": 1, "private turns": 1,
    }  # fmt: skip
    for path in (tmp_path / "cogx").iterdir():
        text = path.read_text("utf-8")
        assert "4417" not in text
        assert 'red"' not in text


async def test_an_existing_folder_is_replaced_on_request_unless_it_has_other_files(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("The boat is red.")
        await written(memory, tmp_path)
        with pytest.raises(InvalidInput, match="not a usable folder"):
            await written(memory, tmp_path)
        await memory.add("The sea is calm.")
        await written(memory, tmp_path, overwrite=True)
        (episode,) = records(tmp_path, "episodes.jsonl")
        assert len(episode["turns"]) == 2
        write_json(tmp_path / "cogx" / "own.txt", "mine")
        with pytest.raises(InvalidInput, match="holds other files"):
            await written(memory, tmp_path, overwrite=True)
    assert (tmp_path / "cogx" / "own.txt").read_text("utf-8") == "mine"


async def test_a_long_conversation_is_split_into_episodes_at_fixed_points(tmp_path: Path) -> None:
    lines = "".join(json.dumps({"role": "user", "content": f"Berth {n} is free."}) + "\n" for n in range(900))
    async with elytron.open("memory:", space="ada") as memory:
        await elytron.import_transcript(memory, write_json(tmp_path / "a.jsonl", lines))
        report = await written(memory, tmp_path)
    assert report.records == {"episode": 3}
    assert [len(episode["turns"]) for episode in records(tmp_path, "episodes.jsonl")] == [399, 400, 101]


async def test_only_procedures_in_use_are_exported_as_documents(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        for name, topic, steps in (
            ("moor", "boat", "1. Tie the bow line.\n2. Stop the engine."),
            ("brew", "tea", "Boil water twice."),
        ):
            write = elytron.RuntimeSkillWrite(name=name, topic=topic, title=name.title(), summary=topic, content=steps)
            await memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=(write,))))
        await memory.set_runtime_skill_enabled("runtime_skill__brew", enabled=False)
        report = await written(memory, tmp_path)
    assert (report.records, report.left_out) == ({"document": 1}, {"skills that are not in use": 1})
    (document,) = records(tmp_path, "documents.jsonl")
    assert (document["title"], document["content"]) == ("Moor", "boat\n\n1. Tie the bow line.\n2. Stop the engine.")


async def test_tool_messages_are_omitted_and_counted(tmp_path: Path) -> None:
    lines = json.dumps({"role": "tool", "content": "pier 3"}) + "\n" + json.dumps({"role": "user", "content": "Where?"})
    async with elytron.open("memory:", space="ada") as memory:
        await elytron.import_transcript(memory, write_json(tmp_path / "a.jsonl", lines), include=[EvidenceRole.TOOL])
        report = await written(memory, tmp_path)
    assert (report.records, report.left_out) == ({"episode": 1}, {"tool messages": 1})
