"""Chats of WhatsApp and Telegram, and notes in Markdown and plain text: told apart, read in order, counted."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.opened_transcripts import opened

from elytron.importers.detection import TranscriptFormat
from elytron.importers.message_shape import OmissionReason
from elytron_core.clock import format_instant
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


def test_a_chat_of_whatsapp_on_android(tmp_path: Path) -> None:
    assert read(written(tmp_path, "WhatsApp Chat with Ben.txt", ANDROID)) == (
        TranscriptFormat.WHATSAPP,
        [
            ("Noor", "The van comes on Friday.\nIt is blue: look out for it.", "2025-05-13T09:14:00Z"),
            ("Ben", "Bring the keys", "2025-05-14T21:03:00Z"),
        ],
        {OmissionReason.SERVICE: 1, OmissionReason.MEDIA: 1, OmissionReason.DELETED: 1},
    )


def test_a_chat_of_whatsapp_on_an_iphone_with_months_first(tmp_path: Path) -> None:
    assert read(written(tmp_path, "_chat.txt", IPHONE)) == (
        TranscriptFormat.WHATSAPP,
        [
            ("Noor", "High water at six", "2025-05-03T21:14:40Z"),
            ("Ben", "Thanks", "2025-05-14T00:01:00Z"),
        ],
        {OmissionReason.MEDIA: 2},
    )


def test_the_order_of_day_and_month_is_told_by_the_dates(tmp_path: Path) -> None:
    _, rows, _ = read(written(tmp_path, "chat", GERMAN))
    assert [at for _, _, at in rows] == ["2024-12-31T23:59:00Z", "2025-01-01T00:01:00Z"]
    _, rows, _ = read(written(tmp_path, "chat", "01/02/2025, 10:00 - A: x\n02/01/2025, 10:00 - A: y\n"))
    assert [at[:10] for _, _, at in rows] == ["2025-01-02", "2025-02-01"]
    with pytest.raises(UnreadableFile, match="in no order of day, month and year"):
        read(written(tmp_path, "chat", "31/31/2025, 10:00 - A: x\n"))


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
def test_a_chat_of_telegram_alone_and_among_all(tmp_path: Path, document: dict[str, Any]) -> None:
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


def test_markdown_comes_in_by_sections_under_their_headings(tmp_path: Path) -> None:
    notes = "---\ntags: [x]\n---\n# Boat\n\nThe key is under the oar.\n\n## Tides\n```\n# no heading\n```\n\n## Empty\n"
    path = written(tmp_path, "notes.md", notes)
    assert read(path) == (
        TranscriptFormat.MARKDOWN,
        [(None, "# Boat\n\nThe key is under the oar.", ""), (None, "## Tides\n\n```\n# no heading\n```", "")],
        {OmissionReason.METADATA: 1},
    )
    with opened(path) as transcript:
        assert next(transcript.messages(HOME)).title == "Boat"


def test_plain_text_comes_in_by_paragraphs_none_too_long(tmp_path: Path) -> None:
    form, rows, _ = read(written(tmp_path, "diary.txt", "One day.\r\n\r\nAnother\nday.\n\n" + "word " * 1_500))
    assert form is TranscriptFormat.TEXT
    assert [text for _, text, _ in rows[:2]] == ["One day.", "Another\nday."]
    assert [len(text) <= 4_000 for _, text, _ in rows[2:]] == [True, True]


@pytest.mark.parametrize("name", ["table.csv", "page.pdf"])
def test_a_format_that_is_not_known_is_answered_by_those_that_are(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableFile, match=r"JSON Lines, .* ChatGPT, Claude, WhatsApp and Telegram .*, Markdown"):
        read(written(tmp_path, name, "a;b;c\n"))
