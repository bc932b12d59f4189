"""How an import handles messages that were erased, hidden, or changed since the last one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.chat_exports import FORMS, conversation, exported
from tests.sdk.test_import_overlap import stored, taken

import elytron
from elytron import MemoryRuntime, import_transcript
from elytron.flows.transcript_import import ImportNoteKind
from elytron_core.contracts.transcript import MemoryTranscriptLifecycleRequest, TranscriptLifecycleTransition
from elytron_core.errors import InvalidInput, TurnConflict
from elytron_core.scope import Scope

pytestmark = pytest.mark.anyio

SECRET = "The code of the gate is vq4417x."


def chatgpt(*texts: str) -> str:
    nodes = {
        f"n{number}": {
            "parent": f"n{number - 1}" if number else None,
            "message": {
                "id": f"m{number}",
                "author": {"role": "user"},
                "create_time": 1_700_000_000 + 60 * number,
                "content": {"content_type": "text", "parts": [text]},
            },
        }
        for number, text in enumerate(texts)
    }
    return json.dumps([{"conversation_id": "c", "mapping": nodes, "current_node": f"n{len(texts) - 1}"}])


def claude(*texts: str) -> str:
    said = [{"uuid": f"m{n}", "sender": "human", "text": text} for n, text in enumerate(texts)]
    return json.dumps([{"uuid": "c", "name": "Gate", "chat_messages": said}])


def telegram(*texts: str) -> str:
    said = [
        {"id": n, "type": "message", "date": f"2025-01-15T10:{n:02}:00", "from": "Noor", "text": text}
        for n, text in enumerate(texts)
    ]
    return json.dumps({"name": "Gate", "id": 7, "messages": said})


def whatsapp(*texts: str) -> str:
    return "".join(f"14/05/2024, 15:{n:02} - Mila: {text}\n" for n, text in enumerate(texts))


def json_lines(*texts: str) -> str:
    return "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)


WRITERS = [("conversations.json", chatgpt), ("c.json", claude), ("result.json", telegram), ("chat.txt", whatsapp),
           ("chat.jsonl", json_lines)]  # fmt: skip
TEXTS = ("The boat leaves at ten.", SECRET, "ok")


async def texts_of(memory: MemoryRuntime) -> list[str]:
    return sorted(text for (_, _, text), count in (await stored(memory)).items() for _ in range(count))


async def id_of(memory: MemoryRuntime, text: str) -> str:
    return next(item.id for item in (await memory.list(limit=100)).items if item.text == text)


async def change_lifecycle(memory: MemoryRuntime, memory_id: str, transition: TranscriptLifecycleTransition) -> None:
    (conversation,) = (await memory.inspect()).conversations
    assert memory.scope is not None
    scope = Scope(space=memory.scope.space, channel=conversation.channel, conversation=conversation.conversation)
    request = MemoryTranscriptLifecycleRequest(
        scope=scope, transition=transition, turn_ids=(memory_id.partition("#")[0],), reason="by request"
    )
    assert (await memory.request_transcript_lifecycle(request)).changed


@pytest.mark.parametrize("way", ["erase", "forget", "mask", "delete_raw", "archive"])
@pytest.mark.parametrize(("name", "write"), WRITERS)
async def test_removed_messages_stay_removed_when_the_file_is_read_again(
    tmp_path: Path, name: str, write: Any, way: str
) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, name, write(*TEXTS))
        memory_id = await id_of(memory, SECRET)
        if way == "erase":
            await memory.erase(memory_id)
        elif way == "forget":
            await memory.forget(memory_id)
        else:
            await change_lifecycle(memory, memory_id, TranscriptLifecycleTransition(way))
        left = await texts_of(memory)
        report = await taken(memory, tmp_path, name, write(*TEXTS, "The boat left late."))
        assert (report.stored, report.erased + report.duplicates) == (1, 3)
        assert await texts_of(memory) == sorted([*left, "The boat left late."])


@pytest.mark.parametrize("form", [*FORMS][::7])
async def test_an_erased_conversation_stays_erased_under_any_file_name(tmp_path: Path, form: str) -> None:
    lines = conversation(12, minutes=700)
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "chat.txt", exported(lines))
        for item in (await memory.list(limit=100)).items:
            await memory.erase(item.id)
        report = await taken(memory, tmp_path, "other.txt", exported(lines, form))
        assert (report.stored, report.erased, await texts_of(memory)) == (0, 12, [])
        again = await import_transcript(memory, tmp_path / "other.txt", restore_erased=True)
        assert (again.stored, again.erased) == (12, 0)


async def test_no_text_of_an_erased_message_remains_in_the_store(tmp_path: Path) -> None:
    async with elytron.open(tmp_path / "m.db", space="ada") as memory:
        await taken(memory, tmp_path / "in", "chat.txt", whatsapp(*TEXTS))
        await memory.erase(await id_of(memory, SECRET))
        await taken(memory, tmp_path / "in", "chat.txt", whatsapp(*TEXTS))
    assert all(b"vq4417x" not in path.read_bytes() for path in tmp_path.glob("m.db*"))


@pytest.mark.parametrize(("name", "write"), WRITERS[:3])
async def test_a_changed_message_is_shown_in_its_new_version_and_blocks_no_other(
    tmp_path: Path, name: str, write: Any
) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, name, write("The boat leaves at te", "ok"))
        (tmp_path / name).write_text(write("The boat leaves at ten.", "ok", "See you there."))
        with pytest.raises(TurnConflict):
            await import_transcript(memory, tmp_path / name, strict=True)
        report = await import_transcript(memory, tmp_path / name)
        assert (report.stored, report.updated, report.duplicates, report.changed) == (1, 1, 1, True)
        assert [note.kind for note in report.notes] == [ImportNoteKind.UPDATED]
        assert await texts_of(memory) == ["See you there.", "The boat leaves at ten.", "ok"]
        again = await import_transcript(memory, tmp_path / name)
        assert (again.stored, again.updated, again.duplicates, again.changed) == (0, 0, 3, False)


@pytest.mark.parametrize(("name", "write"), WRITERS[:3])
async def test_a_changed_message_is_erased_in_all_versions_and_restored_on_request(
    tmp_path: Path, name: str, write: Any
) -> None:
    async with elytron.open(tmp_path / "m.db", space="ada") as memory:
        await taken(memory, tmp_path / "in", name, write("The code is vq4417x.", "ok"))
        await taken(memory, tmp_path / "in", name, write("The code is vq5528x.", "ok"))
        await memory.erase(await id_of(memory, "The code is vq5528x."))
        assert not any(b"vq4417x" in path.read_bytes() for path in tmp_path.glob("m.db*"))
        report = await taken(memory, tmp_path / "in", name, write("The code is vq5528x.", "ok"))
        assert (report.stored, report.erased, report.duplicates) == (0, 1, 1)
        assert await texts_of(memory) == ["ok"]
        restored = await import_transcript(memory, tmp_path / "in" / name, restore_erased=True)
        assert (restored.stored, restored.duplicates) == (1, 1)
        assert await texts_of(memory) == ["The code is vq5528x.", "ok"]


async def test_the_owners_edit_of_a_message_survives_a_change_in_the_export(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "c.json", claude("The boat leaves at te", "ok"))
        await memory.update(await id_of(memory, "The boat leaves at te"), "The boat leaves at eleven.")
        report = await taken(memory, tmp_path, "c.json", claude("The boat leaves at ten.", "ok"))
        assert (report.stored, report.updated, report.unchanged) == (0, 0, 1)
        assert await texts_of(memory) == ["The boat leaves at eleven.", "ok"]


def hostile(good: Sequence[Any]) -> list[Any]:
    return [None, 7, "text", [], {}, *good, {"mapping": 7}, {"uuid": 7, "chat_messages": {}}]


@pytest.mark.parametrize(("name", "write"), WRITERS[:2])
async def test_invalid_conversations_block_no_valid_one(tmp_path: Path, name: str, write: Any) -> None:
    content = json.dumps([*json.loads(write(*TEXTS)), *hostile([])])
    async with elytron.open("memory:", space="ada") as memory:
        report = await taken(memory, tmp_path, name, content)
        assert (report.stored, report.skipped) == (3, 7)
        assert all(note.file == name and note.place.startswith("conversation ") for note in report.notes)


BAD_MESSAGES: list[Any] = [None, 7, "x", [], {"id": []}, {"author": "x"}, {"author": {"role": "user"}, "content": 7},
                {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [7]}},
                {"author": {"role": "user"}, "create_time": "x", "content": "words"}]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_MESSAGES)
async def test_an_invalid_message_blocks_no_valid_one(tmp_path: Path, bad: Any) -> None:
    (exported_conversation,) = json.loads(chatgpt(*TEXTS))
    exported_conversation["mapping"]["n1"]["message"] = bad
    async with elytron.open("memory:", space="ada") as memory:
        report = await taken(memory, tmp_path, "conversations.json", json.dumps([exported_conversation]))
        assert (report.stored, await texts_of(memory)) == (2, ["The boat leaves at ten.", "ok"])


async def test_a_split_emoji_becomes_a_replacement_character(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        content = claude("boat HALF").replace("HALF", "\\ud83d")
        assert (await taken(memory, tmp_path, "c.json", content)).stored == 1
        (tmp_path / "chat.txt").write_bytes(whatsapp("oar HALF").encode().replace(b"HALF", b"\xed\xa0\xbd"))
        assert (await import_transcript(memory, tmp_path / "chat.txt")).stored == 1
        assert await texts_of(memory) == ["boat \ufffd", "oar \ufffd"]


async def test_an_unknown_date_order_is_rejected(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        with pytest.raises(InvalidInput, match="auto, dmy, mdy, ymd"):
            await import_transcript(memory, tmp_path, date_order="ydm")
