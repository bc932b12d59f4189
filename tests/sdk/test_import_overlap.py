"""Reimporting a conversation: stored messages are recognised by speaker, time, and text, and only the rest is new."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.sdk.chat_exports import FORMS, ChatLine, conversation, exported
from tests.sdk.opened_transcripts import opened

import elytron
from elytron import MemoryRuntime, import_transcript
from elytron.flows.transcript_import import TranscriptImportReport
from elytron.state import stored_messages
from elytron.state.stored_messages import align_keys
from elytron.writes import imported_messages
from elytron_core import limits
from elytron_core.clock import format_instant, instant
from elytron_core.errors import TurnConflict
from elytron_core.ids import ConversationTag, SpaceId
from elytron_core.ports.store import Store
from elytron_core.scope import ConversationKey

pytestmark = pytest.mark.anyio


async def taken(memory: MemoryRuntime, folder: Path, name: str, content: str) -> TranscriptImportReport:
    """Import a file of this name and content."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content, "utf-8")
    return await import_transcript(memory, folder / name)


async def stored(memory: MemoryRuntime) -> Counter[tuple[str | None, str, str]]:
    """Return how often each message is stored: speaker, minute and text."""
    found: Counter[tuple[str | None, str, str]] = Counter()
    cursor = None
    while True:
        page = await memory.list(limit=limits.PAGE_MAX, cursor=cursor)
        found.update(
            (item.speaker, item.when.strftime("%Y-%m-%d %H:%M") if item.when else "", item.text) for item in page.items
        )
        if (cursor := page.next_cursor) is None:
            return found


def expected(lines: Sequence[ChatLine]) -> Counter[tuple[str | None, str, str]]:
    return Counter((line.speaker, line.at.strftime("%Y-%m-%d %H:%M"), line.text) for line in lines)


def rows(path: Path) -> list[tuple[str | None, str, str]]:
    with opened(path) as transcript:
        found = [said.turn.messages[0] for said in transcript.messages(ConversationKey("default", "home"), strict=True)]
    return [(each.speaker, format_instant(each.at)[:16] if each.at is not None else "", each.text) for each in found]


@pytest.mark.parametrize("form", FORMS)
def test_every_export_format_of_a_conversation_is_read_identically(tmp_path: Path, form: str) -> None:
    lines = conversation(60, minutes=700)
    (tmp_path / "chat.txt").write_text(exported(lines, form), "utf-8")
    assert rows(tmp_path / "chat.txt") == [(line.speaker, f"{line.at:%Y-%m-%dT%H:%M}", line.text) for line in lines]


async def test_an_export_of_the_same_chat_from_another_phone_adds_nothing(tmp_path: Path) -> None:
    lines = conversation(30, minutes=700)
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "WhatsApp Chat with Mila.txt", exported(lines))
        for number, form in enumerate(FORMS):
            report = await taken(memory, tmp_path / str(number), "_chat.txt", exported(lines, form))
            assert (form, report.stored, report.duplicates) == (form, 0, 30)
        assert await stored(memory) == expected(lines)


@pytest.mark.parametrize("seed", range(6))
async def test_importing_any_two_parts_of_a_conversation_yields_their_union(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    lines = conversation(120, minutes=draw.choice([1, 37, 400]))
    forms = ["British, 24 hours", "Indian, 12 hours", "Chinese iPhone", "German iPhone", "Korean"]
    names = ["chat.txt", "chat (1).txt", "WhatsApp Chat with Mila.txt", "_chat.txt"]
    present: set[int] = set()
    async with elytron.open("memory:", space="ada") as memory:
        for step in range(4):
            start = draw.randrange(len(lines) - 12)
            end = draw.randrange(start + 12, len(lines) + 1)
            if present:  # a part that shares nothing could be another conversation
                start, end = min(start, max(present) - 9), max(end, min(present) + 9)
            part = [number for number in range(max(start, 0), end) if draw.random() > 0.02]
            content = exported([lines[number] for number in part], draw.choice(forms))
            before = await stored(memory)
            report = await taken(memory, tmp_path / str(step), draw.choice(names), content)
            present |= set(part)
            after = await stored(memory)
            union = before | expected([lines[number] for number in part])
            assert after == union
            assert (report.stored, report.stored + report.duplicates) == (after.total() - before.total(), len(part))
        assert len((await memory.inspect()).conversations) == 1


@pytest.mark.parametrize("hours", [-8, -5.5, 1, 2, 9])
async def test_an_export_from_another_time_zone_is_recognised_and_reported(tmp_path: Path, hours: float) -> None:
    lines = conversation(120)
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "chat.txt", exported(lines[:90]))
        report = await taken(memory, tmp_path, "chat (1).txt", exported(lines[30:], hours=hours))
        assert (report.stored, report.duplicates) == (30, 60)
        assert [each.offset_minutes for each in report.resumed] == [-60 * hours]
        assert await stored(memory) == expected(lines)


def month_first(lines: Sequence[ChatLine]) -> str:
    return "".join(f"{line.at:%m/%d/%Y, %H:%M} - {line.speaker}: {line.text}\n" for line in lines)


@pytest.mark.parametrize("name", ["chat.txt", "chat (1).txt"])
async def test_misread_times_are_corrected_by_the_right_date_order(tmp_path: Path, name: str) -> None:
    lines = conversation(36, minutes=700)
    (tmp_path / "chat.txt").write_text(month_first(lines), "utf-8")
    (tmp_path / name).write_text(month_first(lines), "utf-8")
    same = sum(line.at.day == line.at.month for line in lines)
    async with elytron.open("memory:", space="ada") as memory:
        guessed = await import_transcript(memory, tmp_path / "chat.txt")
        assert (guessed.stored, [dates.order for dates in guessed.dates]) == (36, ["dmy"])
        with pytest.raises(TurnConflict):
            await import_transcript(memory, tmp_path / name, date_order="mdy", strict=True)
        report = await import_transcript(memory, tmp_path / name, date_order="mdy")
        assert (report.stored, report.updated, report.duplicates) == (0, 36 - same, same)
        assert await stored(memory) == expected(lines)
        for order in ("mdy", "auto"):
            again = await import_transcript(memory, tmp_path / name, date_order=order)
            assert (order, again.changed, again.duplicates) == (order, False, 36)
        assert await stored(memory) == expected(lines)
        for order in ("dmy", "mdy"):
            assert (await import_transcript(memory, tmp_path / name, date_order=order)).updated == 36 - same
        assert await stored(memory) == expected(lines)
        assert len((await memory.inspect()).conversations) == 1


async def test_a_longer_file_resolves_ambiguous_times_of_a_shorter_one(tmp_path: Path) -> None:
    lines = conversation(120, minutes=700)
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "chat.txt", month_first(lines[:60]))
        report = await taken(memory, tmp_path, "chat.txt", month_first(lines))
        assert (report.stored, report.stored + report.updated + report.duplicates) == (60, 120)
        assert await stored(memory) == expected(lines)
        assert (report.first_at, report.last_at) == (instant(lines[0].at), instant(lines[-1].at.replace(second=0)))


async def test_a_guessed_date_order_follows_the_stored_times(tmp_path: Path) -> None:
    lines = conversation(60, minutes=700)
    async with elytron.open("memory:", space="ada") as memory:
        (tmp_path / "chat.txt").write_text(month_first(lines[:45]), "utf-8")
        await import_transcript(memory, tmp_path / "chat.txt", date_order="mdy")
        report = await taken(memory, tmp_path, "chat (1).txt", month_first(lines))
        assert (report.stored, report.updated, report.duplicates) == (15, 0, 45)
        assert [(dates.order, dates.is_ambiguous) for dates in report.dates] == [("mdy", False)]
        assert report.last_at == instant(lines[-1].at.replace(second=0))
        assert await stored(memory) == expected(lines)


async def test_a_guessed_date_order_follows_corrected_times(tmp_path: Path) -> None:
    lines = conversation(60, minutes=700)
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "chat.txt", month_first(lines[:45]))
        await import_transcript(memory, tmp_path / "chat.txt", date_order="mdy")
        for content in (lines[:50], lines):
            await taken(memory, tmp_path, "chat.txt", month_first(content))
            assert await stored(memory) == expected(content)


async def test_a_message_with_a_corrected_time_is_erased_in_both_forms_or_stays_forgotten(tmp_path: Path) -> None:
    lines = conversation(24, minutes=700)
    (tmp_path / "chat.txt").write_text(month_first(lines), "utf-8")
    async with elytron.open(tmp_path / "m.db", space="ada") as memory:
        await import_transcript(memory, tmp_path / "chat.txt")
        first, *_, last = (await memory.list(limit=100)).items
        same = sum(line.at.day == line.at.month for line in lines)
        await memory.forget(last.id)
        report = await import_transcript(memory, tmp_path / "chat.txt", date_order="mdy")
        assert (report.stored, report.updated) == (0, 24 - same)
        assert await stored(memory) == expected(lines[:-1])
        await memory.erase(first.id)
        assert await stored(memory) == expected(lines[1:-1])
        again = await import_transcript(memory, tmp_path / "chat.txt", date_order="mdy")
        assert (again.changed, again.erased) == (False, 1)
    stored_bytes = b"".join(path.read_bytes() for path in tmp_path.glob("m.db*"))
    assert lines[0].text.encode() not in stored_bytes


async def test_the_owners_edit_of_a_message_with_a_wrong_time_is_not_duplicated(tmp_path: Path) -> None:
    lines = conversation(24, minutes=700)
    (tmp_path / "chat.txt").write_text(month_first(lines), "utf-8")
    async with elytron.open("memory:", space="ada") as memory:
        await import_transcript(memory, tmp_path / "chat.txt")
        (first, *_) = (await memory.list(limit=100)).items
        await memory.update(first.id, "Berth 0 is taken.")
        for _ in range(2):
            report = await import_transcript(memory, tmp_path / "chat.txt", date_order="mdy")
            assert (report.stored, report.erased) == (0, 0)
        texts = [item.text for item in (await memory.list(limit=100)).items]
        assert (len(texts), "Berth 0 is taken." in texts, lines[0].text in texts) == (24, True, False)
        (edit,) = [item for item in (await memory.list(limit=100)).items if item.text == "Berth 0 is taken."]
        (decision,) = (await memory.update(edit.id, "Berth 0 is free.")).decisions
        assert decision.new_id is not None
        assert (await memory.erase(decision.new_id)).removed["turns"] == 4


async def test_daily_repeated_messages_are_not_confused_between_days(tmp_path: Path) -> None:
    start = datetime(2024, 1, 20, 8, 0, tzinfo=UTC)
    lines = [ChatLine(start + timedelta(days=day), "Mila", "Good morning!") for day in range(300)]
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "chat.txt", exported(lines[:200]))
        report = await taken(memory, tmp_path, "chat.txt", exported(lines))
        assert (report.stored, report.updated, report.duplicates) == (100, 0, 200)
        assert await stored(memory) == expected(lines)


async def test_no_import_moves_or_hides_messages_stored_by_a_host(tmp_path: Path) -> None:
    lines = [line for line in conversation(60, minutes=700) if line.at.day <= 12]
    (tmp_path / "chat.txt").write_text(month_first(lines), "utf-8")
    async with elytron.open("memory:", space="ada") as memory:
        for line in lines:
            answered = [
                {"role": "user", "content": line.text, "name": line.speaker},
                {"role": "assistant", "content": "Yes."},
            ]
            await memory.add(answered, conversation="chat", at=line.at)
        before = await stored(memory)
        report = await import_transcript(memory, tmp_path / "chat.txt", date_order="dmy")
        assert report.updated == 0
        assert await stored(memory) > before


async def test_a_message_erased_with_a_wrong_time_is_not_imported_with_the_right_one(tmp_path: Path) -> None:
    lines = conversation(24, minutes=700)
    (tmp_path / "chat.txt").write_text(month_first(lines), "utf-8")
    async with elytron.open("memory:", space="ada") as memory:
        await import_transcript(memory, tmp_path / "chat.txt")
        await memory.erase((await memory.list(limit=100)).items[0].id)
        for _ in range(2):
            report = await import_transcript(memory, tmp_path / "chat.txt", date_order="mdy")
            assert (report.stored, report.erased) == (0, 1)
            assert await stored(memory) == expected(lines[1:])


async def test_daylight_saving_time_on_one_phone_duplicates_nothing(tmp_path: Path) -> None:
    lines = conversation(240, minutes=60 * 24)
    change = lines[150].at
    phone = [
        ChatLine(line.at + timedelta(hours=1 if line.at < change else 2), line.speaker, line.text) for line in lines
    ]
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "chat.txt", exported(lines[:200]))
        report = await taken(memory, tmp_path, "chat (1).txt", exported(phone))
        assert (report.stored, report.duplicates) == (40, 200)
        assert await stored(memory) == expected(lines)


async def test_two_equal_messages_of_one_minute_are_two(tmp_path: Path) -> None:
    lines = conversation(3)
    once, twice = [*lines[:2]], [*lines[:2], lines[1]]
    async with elytron.open("memory:", space="ada") as memory:
        assert (await taken(memory, tmp_path, "chat.txt", exported(once))).stored == 2
        report = await taken(memory, tmp_path, "chat.txt", exported(twice))
        assert (report.stored, report.duplicates, await stored(memory)) == (1, 2, expected(twice))


async def test_other_chats_of_the_same_people_stay_apart(tmp_path: Path) -> None:
    lines = conversation(60)
    group = [ChatLine(line.at + timedelta(minutes=13), line.speaker, f"{line.text} (club)") for line in lines]
    wish = ChatLine(lines[30].at, "Mila", "Happy new year!")
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "WhatsApp Chat with Mila.txt", exported([*lines[:30], wish, *lines[30:]]))
        report = await taken(
            memory, tmp_path, "WhatsApp Chat with Club.txt", exported([*group[:30], wish, *group[30:]])
        )
        assert (report.stored, report.duplicates) == (61, 0)
        assert len((await memory.inspect()).conversations) == 2


def as_lines(texts: Sequence[str]) -> str:
    roles = ("user", "assistant")
    return "".join(json.dumps({"role": roles[n % 2], "content": text}) + "\n" for n, text in enumerate(texts))


async def test_equal_lines_appended_to_a_file_are_new_messages(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "chat.jsonl", as_lines(["The ferry", "At nine."]))
        report = await taken(
            memory, tmp_path, "chat.jsonl", as_lines(["The ferry", "At nine.", "The ferry", "At nine."])
        )
        assert (report.stored, report.duplicates) == (2, 2)


@pytest.mark.parametrize("seed", range(8))
async def test_messages_without_times_are_recognised_by_their_order(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    texts = [draw.choice(["ok", "yes", f"The kiln fires at {number}."]) for number in range(80)]
    cut = 2 * draw.randrange(0, 20)
    longer = [*texts[cut:], "ok", "ok", "Good night."]
    async with elytron.open("memory:", space="ada") as memory:
        await taken(memory, tmp_path, "chat.jsonl", as_lines(texts))
        report = await taken(memory, tmp_path, "chat (2).jsonl", as_lines(longer))
        assert (report.stored, report.duplicates) == (3, 80 - cut)


async def test_a_long_conversation_in_many_batches_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = conversation(3_000, minutes=5)
    reads: list[str] = []
    read = stored_messages.read_messages

    async def counted(store: Store, space: SpaceId, tag: ConversationTag, /) -> stored_messages.StoredMessages:
        reads.append(tag)
        return await read(store, space, tag)

    for module in (stored_messages, imported_messages):  # each of which has the name
        monkeypatch.setattr(module, "read_messages", counted)
    async with elytron.open("memory:", space="ada") as memory:
        assert (await taken(memory, tmp_path, "chat.txt", exported(lines))).stored == 3_000
        reads.clear()
        report = await taken(memory, tmp_path, "chat (1).txt", exported(lines[100:]))
        assert (report.stored, report.duplicates, len(reads)) == (0, 2_900, 2)


@pytest.mark.parametrize("seed", range(20))
def test_an_alignment_matches_equal_keys_in_ascending_order(seed: int) -> None:
    draw = random.Random(seed)
    keys = [draw.randrange(8) for _ in range(draw.randrange(40))]
    there = [(draw.randrange(8), sequence) for sequence in range(1, draw.randrange(2, 40))]
    found = align_keys(keys, there)
    joined = [(key, sequence) for key, sequence in zip(keys, found, strict=True) if sequence is not None]
    assert all((key, sequence) in there for key, sequence in joined)
    assert [sequence for _, sequence in joined] == sorted({sequence for _, sequence in joined})
