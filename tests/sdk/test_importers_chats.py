"""WhatsApp and Telegram chats, and Markdown and plain-text notes: distinguished, read in order, counted."""

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.opened_transcripts import opened

from elytron.importers.detection import TranscriptFormat, open_transcripts
from elytron.importers.format_table import format_pages
from elytron.importers.message_shape import DateOrder, OmissionReason
from elytron_core.clock import Instant, format_instant
from elytron_core.errors import UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey

HOME = ConversationKey("default", "home")
Rows = list[tuple[str | None, str, str]]

ANDROID = """\
13/05/2025, 09:14 - Messages and calls are end-to-end encrypted. No one outside of this chat can read them.
13/05/2025, 09:14 - Noor: The van comes on Friday.
It is blue: look out for it.
13/05/2025, 09:15 - Ben: <Media omitted>
13/05/2025, 09:16 - Ben: This message was deleted
14/05/2025, 21:03 - Ben: Bring the keys \u200e<This message was edited>
"""
IPHONE = """\
\u200e[5/3/25, 9:14:33\u202fPM] Boat: \u200eMessages and calls are end-to-end encrypted.
[5/3/25, 9:14:40\u202fPM] ~\u202fNoor: High water at six
\u200e[5/3/25, 9:15:02\u202fPM] Ben: \u200eimage omitted
[5/14/25, 12:01:00\u202fAM] Ben: Thanks
"""
GERMAN = "31.12.24, 23:59 - Noor: Prost\n01.01.25, 00:01 - Ben: Danke, dir auch\n"


def read(path: Path) -> tuple[TranscriptFormat, Rows, dict[OmissionReason, int]]:
    with opened(path) as transcript:
        found = [said.turn.messages[0] for said in transcript.messages(HOME)]
        assert all(message.role is EvidenceRole.USER for message in found)
        rows = [
            (message.speaker, message.text, format_instant(message.at) if message.at is not None else "")
            for message in found
        ]
        return transcript.format, rows, dict(transcript.left_out)


def written(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, "utf-8")
    return folder / name


def test_a_whatsapp_chat_from_android_is_read(tmp_path: Path) -> None:
    assert read(written(tmp_path, "WhatsApp Chat with Ben.txt", ANDROID)) == (
        TranscriptFormat.WHATSAPP,
        [
            ("Noor", "The van comes on Friday.\nIt is blue: look out for it.", "2025-05-13T09:14:00Z"),
            ("Ben", "Bring the keys", "2025-05-14T21:03:00Z"),
        ],
        {OmissionReason.SERVICE: 1, OmissionReason.MEDIA: 1, OmissionReason.DELETED: 1},
    )


def test_a_month_first_whatsapp_chat_from_an_iphone_is_read(tmp_path: Path) -> None:
    assert read(written(tmp_path, "_chat.txt", IPHONE)) == (
        TranscriptFormat.WHATSAPP,
        [
            ("Noor", "High water at six", "2025-05-03T21:14:40Z"),
            ("Ben", "Thanks", "2025-05-14T00:01:00Z"),
        ],
        {OmissionReason.MEDIA: 2},
    )


def test_the_order_of_day_and_month_is_inferred_from_the_dates(tmp_path: Path) -> None:
    _, rows, _ = read(written(tmp_path, "chat", GERMAN))
    assert [at for _, _, at in rows] == ["2024-12-31T23:59:00Z", "2025-01-01T00:01:00Z"]
    _, rows, _ = read(written(tmp_path, "chat", "01/02/2025, 10:00 - A: x\n02/01/2025, 10:00 - A: y\n"))
    assert [at[:10] for _, _, at in rows] == ["2025-01-02", "2025-02-01"]
    with pytest.raises(UnreadableFile, match="no consistent order of day, month and year"):
        read(written(tmp_path, "chat", "31/31/2025, 10:00 - A: x\n"))


NOTICES: dict[str, dict[str, list[str]]] = tomllib.loads(
    files("elytron_core.text").joinpath("data", "chat_notices.toml").read_text("utf-8")
)


@pytest.mark.parametrize("ending", ["", ".", "。"])
@pytest.mark.parametrize("start", ["", "\u200e", "\u200f"])
def test_deleted_message_notices_are_skipped_in_every_language(tmp_path: Path, start: str, ending: str) -> None:
    forms = [form for forms in NOTICES["deleted"].values() for form in forms]
    lines = [f"13/05/2025, 09:14 - Ben: {start}{form}{ending}\n" for form in forms]
    quoted = "".join(f"13/05/2025, 09:15 - Ben: {form}: why?\n" for form in forms)
    _, rows, left_out = read(written(tmp_path, "chat.txt", "".join(lines) + quoted))
    assert left_out == {OmissionReason.DELETED: len(forms)}
    assert [text for _, text, _ in rows] == [f"{form}: why?" for form in forms]


@pytest.mark.parametrize("ending", ["", "."])
def test_edit_marks_are_removed_in_every_language(tmp_path: Path, ending: str) -> None:
    forms = [form for forms in NOTICES["edited"].values() for form in forms]
    lines = [f"13/05/2025, 09:14 - Ben: Berth {n} <{form}{ending}>\n" for n, form in enumerate(forms)]
    _, rows, _ = read(written(tmp_path, "chat.txt", "".join(lines)))
    assert [text for _, text, _ in rows] == [f"Berth {n}" for n in range(len(forms))]


def test_text_in_brackets_is_ordinary_text(tmp_path: Path) -> None:
    _, rows, _ = read(written(tmp_path, "chat.txt", "13/05/2025, 09:14 - Ben: Type <the name of the boat>\n"))
    assert [text for _, text, _ in rows] == ["Type <the name of the boat>"]


@pytest.mark.parametrize(
    "notice",
    ["IMG-20250513-WA0001.jpg (Datei angehängt)", "PTT-20250513-WA0002.opus（文件附件）",
     "\u200eVerpasster Sprachanruf",
     "\u200e<bijgevoegd: 00000012-PHOTO-2025-05-13.jpg>", "<メディアは含まれていません>"],
)  # fmt: skip
def test_media_placeholders_are_recognised_in_every_language(tmp_path: Path, notice: str) -> None:
    chat = f"13/05/2025, 09:14 - Ben: {notice}\n13/05/2025, 09:15 - Ben: report.pdf (the new one)\n"
    _, rows, left_out = read(written(tmp_path, "chat.txt", chat))
    assert [text for _, text, _ in rows] == ["report.pdf (the new one)"]
    assert left_out == {OmissionReason.MEDIA: 1}


TELEGRAM: dict[str, Any] = {
    "name": "Boat club",
    "type": "private_group",
    "id": 4_711,
    "messages": [
        {"id": 1, "type": "service", "date": "2025-01-15T09:00:00", "actor": "Noor",
         "action": "create_group", "text": ""},
        {"id": 2, "type": "message", "date": "2025-01-15T10:30:00", "date_unixtime": "1736936400", "from": "Noor",
         "from_id": "user1", "text": ["See ", {"type": "link", "text": "https://tides.example"}, " first"]},
        {"id": 3, "type": "message", "date": "2025-01-15T10:31:00", "from": None, "from_id": "user2", "text": "Fine"},
        {"id": 4, "type": "message", "date": "2025-01-15T10:32:00", "from": "Ben", "photo": "p.jpg", "text": ""},
    ],
}  # fmt: skip


@pytest.mark.parametrize("document", [TELEGRAM, {"about": "x", "chats": {"about": "y", "list": [TELEGRAM]}}])
def test_telegram_chats_are_read_from_single_and_full_exports(tmp_path: Path, document: dict[str, Any]) -> None:
    path = written(tmp_path, "result.json", json.dumps(document))
    assert read(path) == (
        TranscriptFormat.TELEGRAM,
        [
            ("Noor", "See https://tides.example first", "2025-01-15T10:20:00Z"),
            ("user2", "Fine", "2025-01-15T10:31:00Z"),
        ],
        {OmissionReason.SERVICE: 1, OmissionReason.MEDIA: 1},
    )
    with opened(path) as transcript:
        said = next(transcript.messages(HOME))
    assert (said.conversation, said.title) == (ConversationKey("telegram", "4711"), "Boat club")


def test_markdown_is_imported_by_sections_under_their_headings(tmp_path: Path) -> None:
    notes = "---\ntags: [x]\n---\n# Boat\n\nThe key is under the oar.\n\n## Tides\n```\n# no heading\n```\n\n## Empty\n"
    path = written(tmp_path, "notes.md", notes)
    assert read(path) == (
        TranscriptFormat.MARKDOWN,
        [(None, "# Boat\n\nThe key is under the oar.", ""), (None, "## Tides\n\n```\n# no heading\n```", "")],
        {OmissionReason.METADATA: 1},
    )
    with opened(path) as transcript:
        assert next(transcript.messages(HOME)).title == "Boat"


def test_plain_text_is_imported_by_paragraphs_of_limited_length(tmp_path: Path) -> None:
    form, rows, _ = read(written(tmp_path, "diary.txt", "One day.\r\n\r\nAnother\nday.\n\n" + "word " * 1_500))
    assert form is TranscriptFormat.TEXT
    assert [text for _, text, _ in rows[:2]] == ["One day.", "Another\nday."]
    assert [len(text) <= 4_000 for _, text, _ in rows[2:]] == [True, True]


@pytest.mark.parametrize("name", ["table.csv", "page.pdf"])
def test_an_unknown_format_error_lists_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableFile, match=r"JSON Lines, .*ChatGPT, Claude, WhatsApp, Telegram, Markdown") as refused:
        read(written(tmp_path, name, "a;b;c\n"))
    assert [page.name for page in format_pages().values() if page.name not in refused.value.message] == []


AMBIGUOUS = "02/04/24, 9:11 am - A: x\n03/04/24, 1:20 pm - B: y\n"


@pytest.mark.parametrize(
    ("content", "order", "dates", "is_ambiguous"),
    [
        (AMBIGUOUS, None, ["2024-04-02", "2024-04-03"], True),
        (AMBIGUOUS, DateOrder.MDY, ["2024-02-04", "2024-03-04"], False),
        ("2/4/24, 9:11 AM - A: x\n2/5/24, 1:20 PM - B: y\n", None, ["2024-02-04", "2024-02-05"], True),
        ("2/4/24, 9:11 AM - A: x\n3/4/24, 1:20 PM - B: y\n", None, ["2024-02-04", "2024-03-04"], True),
        (
            "".join(f"{day}/4/24, 9:11 AM - A: x\n" for day in range(2, 7)),
            None,
            [f"2024-04-0{day}" for day in range(2, 7)],
            True,
        ),
        ("02/04/24, 9:11 am - A: x\n13/04/24, 1:20 pm - B: y\n", None, ["2024-04-02", "2024-04-13"], False),
        ("04/02/24, 9:11 am - A: x\n04/13/24, 1:20 pm - B: y\n", None, ["2024-04-02", "2024-04-13"], False),
        ("2024/4/2 9:11 - A: x\n2024/4/3 9:12 - B: y\n", None, ["2024-04-02", "2024-04-03"], False),
        ("24/4/2 9:11 - A: x\n24/4/3 9:12 - B: y\n", None, ["2024-04-02", "2024-04-03"], False),
    ],
)
def test_the_date_order_is_reported_and_can_be_set(
    tmp_path: Path, content: str, order: DateOrder | None, dates: list[str], *, is_ambiguous: bool
) -> None:
    path = written(tmp_path, "chat.txt", content)
    with open_transcripts(path, date_order=order) as source:
        (transcript,) = source.transcripts
        found = [said.turn.messages[0].at or Instant(0) for said in transcript.messages(HOME)]
        assert [format_instant(at)[:10] for at in found] == dates
        assert transcript.dates is not None
        assert transcript.dates.is_ambiguous is is_ambiguous


def test_captions_are_kept_and_notices_with_a_colon_are_not_speakers(tmp_path: Path) -> None:
    chat = """\
13/05/2025, 09:14 - Ben created group "Trip: Lisbon"
13/05/2025, 09:14 - Ben changed the subject from “Trip” to “Trip: Porto”
13/05/2025, 09:15 - Ben: <Media omitted>
The new boat
13/05/2025, 09:16 - Noor: IMG-20250513-WA0001.jpg (file attached)
And its oars
13/05/2025, 09:17 - Ben Ash: Note: bring \"the key\"
"""
    _, rows, left_out = read(written(tmp_path, "chat.txt", chat))
    assert [(speaker, text) for speaker, text, _ in rows] == [
        ("Ben", "The new boat"),
        ("Noor", "And its oars"),
        ("Ben Ash", 'Note: bring "the key"'),
    ]
    assert left_out == {OmissionReason.SERVICE: 2}


@pytest.mark.parametrize(
    "chat",
    [
        "5 mai 2024 kl. 9:11 (vecka 18) - Noor: hej\n5 mai 2024 kl. 9:12 (vecka 18) - Ben: hej\n",
        "[令和6年4月2日 9:11:03] 美咲: こんにちは\n[令和6年4月2日 9:12:03] 健: はい\n",
        "14/5/2024, 3:45 zz - Noor: x\n14/5/2024, 3:46 zz - Ben: y\nmore of it\n",
        "Mar 5, 10:12 AM - Ben: hi\nMar 5, 10:13 AM - Noor: hello\n",
    ],
)
def test_an_unknown_chat_format_is_rejected_with_its_line(tmp_path: Path, chat: str) -> None:
    with pytest.raises(UnreadableFile, match="looks like a chat message") as refused:
        read(written(tmp_path, "chat.txt", chat))
    assert refused.value.line == 1


@pytest.mark.parametrize(
    "prose",
    [
        "2024-01-05\n\nWent to the harbour at 10:30 - it rained: no boats.\n",
        "5 January 2024, 10:30\nMet Noor.\n6 January 2024, 11:00\nMet Ben.\n",
        "10:30 - Breakfast: eggs\n11:00 - Walk: the pier\n",
        "# Log\n\n- 2024-01-05 10:30: fired the kiln\n- 2024-01-06 11:00: opened it\n",
        "In 2024, at 10:30, we said: enough.\n\nThen, on 5/1/2024 at 11:00 - a Friday - it began: the flood.\n",
        "Call 030-1234 before 10:30, says Ben: urgent\nThe rest of the page tells of boats.\nAnd oars.\nAnd tides.\n",
    ],
)
@pytest.mark.parametrize("name", ["diary.txt", "notes.md"])
def test_prose_with_dates_and_colons_is_prose(tmp_path: Path, prose: str, name: str) -> None:
    form, rows, _ = read(written(tmp_path, name, prose))
    assert form in {TranscriptFormat.TEXT, TranscriptFormat.MARKDOWN}
    assert rows
