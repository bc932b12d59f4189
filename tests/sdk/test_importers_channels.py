"""Slack, Discord, mail, Gemini and agents' histories: who said what, and what is left out and why."""

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.foreign_exports import (
    DISCORD,
    EXPORTS,
    GEMINI,
    LANGCHAIN,
    MAILBOX,
    RESPONSES,
    SLACK,
    write_folder,
    write_json,
    write_zip,
)
from tests.sdk.opened_transcripts import opened

import elytron
from elytron.importers.chats import gemini, mailbox, slack
from elytron.importers.detection import open_transcripts
from elytron.importers.format_table import TranscriptFormat
from elytron.importers.message_shape import OmissionReason
from elytron_core import limits
from elytron_core.clock import instant
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.scope import ConversationKey

HOME = ConversationKey("default", "home")
Spoken = tuple[str | None, str]
Outcome = tuple[list[Spoken], dict[OmissionReason, int], list[str]]


def outcome(path: Path) -> Outcome:
    """Return speakers and words, what is left out, and the places of bad records."""
    with opened(path) as transcript:
        messages = [item.turn.messages[0] for item in transcript.messages(HOME)]
        skipped = [record.place for record in transcript.skipped]
        return [(one.speaker, one.text) for one in messages], dict(transcript.left_out), skipped


def roles(path: Path) -> list[tuple[EvidenceRole, str]]:
    with opened(path) as transcript:
        messages = [item.turn.messages[0] for item in transcript.messages(HOME, include=EvidenceRole, strict=True)]
        return [(one.role, one.text) for one in messages]


def test_slack_messages_have_author_names_and_readable_links_and_mentions(tmp_path: Path) -> None:
    assert outcome(EXPORTS[TranscriptFormat.SLACK](tmp_path)) == (
        [("Ada", "@noor see the list (https://a.example) & go"), ("deploys", "done")],
        {OmissionReason.SERVICE: 1, OmissionReason.DELETED: 1, OmissionReason.MEDIA: 1},
        [],
    )


def test_a_bots_messages_are_from_outside_and_a_renamed_channel_keeps_its_id(tmp_path: Path) -> None:
    with opened(EXPORTS[TranscriptFormat.SLACK](tmp_path)) as transcript:
        person, bot = transcript.messages(HOME)
    assert person.conversation == bot.conversation == ConversationKey("slack", "C1")
    assert (person.title, person.turn.host_id) == ("harbour", "C1.1777626000.000200")
    assert person.turn.messages[0].at == 1_777_626_000_000
    assert person.turn.messages[0].authority is None
    assert bot.turn.messages[0].authority is EvidenceAuthority.EXTERNAL_CONTENT


def test_a_damaged_slack_day_or_message_blocks_no_other(tmp_path: Path) -> None:
    day = [
        {"type": "message", "user": "U9", "text": "hi"},
        7,
        {"type": "message", "user": "U9", "text": "a", "ts": "1"},
    ]
    members = SLACK | {"harbour/2026-05-01.json": day, "harbour/2026-05-02.json": "{", "users.json": "["}
    assert outcome(write_folder(tmp_path / "slack", members)) == (
        [("U9", "a")],
        {},
        [
            "harbour/2026-05-01.json, message 1",
            "harbour/2026-05-01.json, message 2",
            "harbour/2026-05-02.json",
        ],
    )


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        ("<!here> <#C2|pier> <#C3>", "@here #pier #C3"),
        ("<!subteam^S1|@crew>", "@crew"),
        ("<https://a.example>", "https://a.example"),
        ("2 &lt; 3", "2 < 3"),
        ("<@U8>", "@U8"),
        ("<" * 5_000, "<" * 5_000),
    ],
)
def test_slack_markup_becomes_plain_text(words: str, plain: str, tmp_path: Path) -> None:
    day = [{"type": "message", "user": "U1", "text": words, "ts": "1"}]
    path = write_zip(tmp_path / "slack.zip", SLACK | {"harbour/2026-05-01.json": day})
    assert outcome(path)[0] == [("Ada", plain)]
    assert slack.CHANNEL == "slack"


def test_discords_exporter_yields_nicknames_and_omits_notices(tmp_path: Path) -> None:
    path = EXPORTS[TranscriptFormat.DISCORD](tmp_path)
    assert outcome(path) == ([("Ada", "The boat is blue.")], {OmissionReason.SERVICE: 1}, [])
    messages: list[Any] = [
        {"id": "1", "content": "Beep.", "author": {"name": "bot", "isBot": True}, "timestamp": "2026-05-01T10:00:00"},
        {"id": "2", "content": "", "attachments": [{"id": "a"}], "author": {}},
        {"id": "3", "content": "", "author": {}},
        {"content": "no id", "author": {"name": "ada"}},
    ]
    with opened(write_json(tmp_path / "b.json", DISCORD | {"messages": messages})) as transcript:
        (bot,) = transcript.messages(HOME)
        assert bot.turn.messages[0].authority is EvidenceAuthority.EXTERNAL_CONTENT
        assert transcript.left_out == {OmissionReason.MEDIA: 1, OmissionReason.NO_WORDS: 1}
        assert [record.place for record in transcript.skipped] == ["message 4"]
        assert transcript.remarks.naive_times == 1


def test_discords_own_package_yields_the_users_messages_oldest_first(tmp_path: Path) -> None:
    messages = [
        {"ID": 3, "Timestamp": "2026-05-01 11:00:00", "Contents": "", "Attachments": "https://a.example/x.png"},
        {"ID": 2, "Timestamp": "2026-05-01 10:00:00", "Contents": "At pier 3.", "Attachments": ""},
        {"ID": 1, "Timestamp": "2026-05-01 09:00:00", "Contents": "Where?", "Attachments": ""},
        {"Timestamp": "2026-05-01 09:00:00", "Contents": "no id"},
    ]
    members = {
        "messages/index.json": {"77": "harbour in Boats"},
        "messages/c77/messages.json": messages,
        "messages/c77/channel.json": {"id": "77"},
        "messages/c78/messages.json": "{",
    }
    path = write_zip(tmp_path / "package.zip", members)
    with opened(path) as transcript:
        first, second = transcript.messages(HOME)
        assert (first.turn.messages[0].text, second.turn.messages[0].text) == ("Where?", "At pier 3.")
        assert (first.conversation, first.title) == (ConversationKey("discord", "77"), "harbour in Boats")
        assert first.turn.messages[0].at == instant("2026-05-01T09:00:00Z")
        assert transcript.left_out == {OmissionReason.MEDIA: 1}
        assert len(transcript.skipped) == 2


def test_an_email_is_read_without_quotations_and_signature(tmp_path: Path) -> None:
    with opened(EXPORTS[TranscriptFormat.MBOX](tmp_path)) as transcript:
        first, second = transcript.messages(HOME)
    assert first.turn.messages[0].text == "Boat\n\nThe boat is blue.\nFrom here you see it."
    assert (first.turn.messages[0].speaker, second.turn.messages[0].speaker) == ("Adá", "noor@example.com")
    assert second.turn.messages[0].text == "Good."
    assert first.conversation == second.conversation
    assert (first.title, first.turn.host_id) == ("Boat", "m1@example.com")
    assert first.turn.messages[0].at == instant("2026-05-01T08:00:00Z")
    assert first.turn.messages[0].authority is EvidenceAuthority.EXTERNAL_CONTENT


HEADER = "From x Fri May  1 10:00:00 2026\nFrom: a@example.com\n"


@pytest.mark.parametrize(
    ("mail", "text"),
    [
        (HEADER + "Content-Type: text/html\n\n<p>The <b>boat</b></p><style>x</style>is blue", "The boat\nis blue"),
        (HEADER + "Content-Type: text/plain; charset=unheard-of\n\nBlue.", "Blue."),
        (HEADER + "Date: no date\nMessage-ID: <broken\n\nBlue.", "Blue."),
        (HEADER + "Date: Fri, 01 May 2026 10:00:00 -0000\n\nBlue.", "Blue."),
        (HEADER + "Content-Transfer-Encoding: base64\n\nQmx1ZS4=", "Blue."),
    ],
)
def test_emails_are_read_in_common_formats(tmp_path: Path, mail: str, text: str) -> None:
    assert [words for _, words in outcome(write_json(tmp_path / "a.mbox", mail))[0]] == [text]


@pytest.mark.anyio
async def test_a_thread_is_recalled_by_its_subject(tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await elytron.import_transcript(memory, EXPORTS[TranscriptFormat.MBOX](tmp_path))
        await memory.add("We had soup.")
        mail = HEADER + "Subject: Project Heron budget\nMessage-ID: <h@x>\n\nYes, at one."
        await elytron.import_transcript(memory, write_json(tmp_path / "b.mbox", mail))
        report = await memory.recall("Project Heron budget")
        assert report.hits[0].text == "Project Heron budget\n\nYes, at one."


@pytest.mark.anyio
async def test_messages_without_a_time_are_counted_and_bad_times_named(tmp_path: Path) -> None:
    mails = [HEADER + "\nBlue.\n", HEADER + "Date: no date\n\nRed.\n", "From here on it is text.\nGreen.\n"]
    path = write_json(tmp_path / "a.mbox", "\n".join(mails))
    async with elytron.open("memory:", space="ada") as memory:
        report = await elytron.import_transcript(memory, path)
    assert (report.stored, report.undated, report.skipped) == (2, 2, 1)
    assert [(note.kind.value, note.place, note.problem) for note in report.notes] == [
        ("skipped", "mail 3", "has none of the headers From, Date, Message-ID"),
        ("time", "mail 2", "Date is not a time"),
    ]


def test_a_daily_note_has_the_day_of_its_name_and_an_embedded_file_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "v" / ".obsidian").mkdir(parents=True)
    notes = {
        "2026-05-01.md": "Sailed with Noor.",
        "Bad.md": "---\ncreated: : :\n---\nBroken head.",
        "Photo.md": "![[photo.png|300]]",
        "Sail.md": "Blue sail ![[sail.jpg]] and ![[Boat]].",
    }
    for name, text in notes.items():
        (tmp_path / "v" / name).write_text(text, "utf-8")
    with opened(tmp_path / "v") as transcript:
        texts = {item.turn.messages[0].text: item.turn.messages[0].at for item in transcript.messages(HOME)}
    assert texts == {
        "Sailed with Noor.": instant("2026-05-01T00:00:00Z"),
        "Broken head.": None,
        "Blue sail  and Boat.": None,
    }
    assert transcript.left_out[OmissionReason.ATTACHMENT] == 2
    assert [(record.place, record.problem) for record in transcript.remarks.unread_times] == [
        ("Bad.md", "created is not a time")
    ]


def test_attachments_are_counted_and_emails_without_text_omitted(tmp_path: Path) -> None:
    mail = (
        HEADER + 'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/plain\n\n> only quoted\n'
        '--b\nContent-Type: image/png; name="a.png"\nContent-Disposition: attachment; filename="a.png"\n\nx\n--b--\n'
    )
    assert outcome(write_json(tmp_path / "a.mbox", MAILBOX + "\n" + mail))[1] == {
        OmissionReason.ATTACHMENT: 1,
        OmissionReason.NO_WORDS: 1,
    }


def test_gemini_yields_prompts_and_answers_oldest_first(tmp_path: Path) -> None:
    path = write_json(
        tmp_path / "MyActivity.json", [*GEMINI, {"header": "Gemini Apps", "title": "Prompted ", "time": 1}]
    )
    assert roles(path) == [
        (EvidenceRole.USER, "Where is Lisbon?"),
        (EvidenceRole.ASSISTANT, "In Portugal.\nBy the sea."),
    ]
    assert outcome(path)[1] == {OmissionReason.SERVICE: 2}


ANSWERED = [
    (EvidenceRole.SYSTEM, "Be brief."),
    (EvidenceRole.USER, "Where is it?"),
    (EvidenceRole.TOOL, "pier 3"),
    (EvidenceRole.ASSISTANT, "At pier 3."),
]


def test_langchain_messages_are_read_in_all_its_formats(tmp_path: Path) -> None:
    flat: list[Any] = [message["data"] for message in LANGCHAIN]
    classes = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    built: list[Any] = [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", classes[str(data["type"])]],
         "kwargs": data}
        for data in flat
    ]  # fmt: skip
    for number, document in enumerate((LANGCHAIN, flat, built, {"messages": LANGCHAIN})):
        path = write_json(tmp_path / f"{number}.json", document)
        assert roles(path) == ANSWERED
        with opened(path) as transcript:
            assert transcript.format is TranscriptFormat.LANGCHAIN


def test_pydantic_ai_parts_are_read_without_thoughts_and_calls(tmp_path: Path) -> None:
    path = EXPORTS[TranscriptFormat.PYDANTIC_AI](tmp_path)
    assert roles(path) == [ANSWERED[0], ANSWERED[1], ANSWERED[3]]
    assert outcome(path)[1] == {OmissionReason.SYSTEM: 1, OmissionReason.HIDDEN: 1, OmissionReason.TOOL: 1}
    parts: list[Any] = [
        {"part_kind": "tool-return", "tool_name": "look", "content": "pier 3"},
        {"part_kind": "tool-return", "tool_name": "look", "content": {"a": 1}},
        {"part_kind": "retry-prompt", "content": "again"},
        {"part_kind": "file", "content": {}},
        {"part_kind": "user-prompt", "content": [{"kind": "text", "content": "Here?"}, 7]},
    ]
    history = [{"kind": "request", "parts": parts}, {"kind": "request", "parts": 7}]
    with opened(write_json(tmp_path / "b.json", history)) as transcript:
        words = [item.turn.messages[0].text for item in transcript.messages(HOME, include=EvidenceRole)]
        assert words == ["pier 3", "Here?"]
        assert transcript.left_out == {OmissionReason.TOOL: 2, OmissionReason.NO_WORDS: 1}
        assert len(transcript.skipped) == 1


def test_items_of_the_responses_api_are_read_as_a_list_a_response_and_a_stored_session(tmp_path: Path) -> None:
    spoken = [ANSWERED[1], ANSWERED[2], ANSWERED[3]]
    assert roles(EXPORTS[TranscriptFormat.RESPONSES](tmp_path)) == spoken
    response = {"id": "resp_1", "object": "response", "output": RESPONSES[1:]}
    assert roles(write_json(tmp_path / "response.json", response)) == spoken[1:]
    sessions = EXPORTS[TranscriptFormat.AGENTS_SDK](tmp_path)
    assert roles(sessions) == spoken
    with opened(sessions) as transcript:
        first = next(transcript.messages(HOME))
        assert (first.conversation, first.turn.host_id) == (ConversationKey("openai-agents", "s1"), "item-1")
        assert transcript.left_out == {}
    bad = write_json(tmp_path / "bad.json", [*RESPONSES, {"type": "message", "role": "nobody", "content": "x"}])
    assert outcome(bad)[2] == ["message 6"]


def test_each_file_in_a_folder_of_exports_is_a_separate_transcript(tmp_path: Path) -> None:
    for form in (TranscriptFormat.MEM0, TranscriptFormat.MEM0_HISTORY, TranscriptFormat.MBOX):
        EXPORTS[form](tmp_path)
    with open_transcripts(tmp_path) as source:
        forms = [transcript.format for transcript in source.transcripts]
    assert forms == [TranscriptFormat.MEM0_HISTORY, TranscriptFormat.MBOX, TranscriptFormat.MEM0]


def test_an_email_that_cannot_be_stored_blocks_no_other(tmp_path: Path) -> None:
    long_mail = HEADER + "\n" + ("x" * 60_000 + "\n") * 20
    path = write_json(tmp_path / "a.mbox", long_mail + "\n" + HEADER + "\nBlue.\n")
    spoken, _, places = outcome(path)
    assert ([words for _, words in spoken], places) == (["Blue."], ["mail 1"])


def test_only_the_beginning_of_an_email_with_a_huge_attachment_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "_MAIL_BYTES", 1_000)
    mail = (
        HEADER + 'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/plain\n\nBlue.\n'
        '--b\nContent-Type: image/png; name="a.png"\nContent-Disposition: attachment; filename="a.png"\n\n'
    )
    path = write_json(tmp_path / "a.mbox", mail + "QUJD\n" * 10_000)
    assert outcome(path) == ([("a@example.com", "Blue.")], {OmissionReason.ATTACHMENT: 1}, [])


GOOD = HEADER + "\nBlue.\n"
LONG = "x" * 2_001


@pytest.mark.parametrize(
    ("mail", "problem"),
    [
        (HEADER.replace("a@example.com", "(" * 2_001) + "\nRed.\n", "From has more than 2000 characters"),
        *(
            (HEADER + f"{name}: {LONG}\n\nRed.\n", f"{name} has more than 2000 characters")
            for name in ("Date", "Message-ID", "Content-Type", "Content-Disposition", "Content-Transfer-Encoding")
        ),
        (
            HEADER + "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\n\nRed.\n" * 1_000,
            "parts of a mail: at most 250, got 251",
        ),
        (
            HEADER + "Content-Type: multipart/mixed; boundary=b\n\n"
            + "".join(f"--b\nContent-Type: text/plain; a{n}={LONG[:1_900]}\n\nRed.\n" for n in range(100)),
            "characters in the headers of a mail: at most 65536, got 67077",
        ),
        (HEADER + "Content-Type: text/html\n\n&#" + "9" * 5_000, "html has an invalid character"),
    ],
)  # fmt: skip
def test_a_mail_beyond_the_limits_is_reported_by_its_place_and_the_others_are_read(
    tmp_path: Path, mail: str, problem: str
) -> None:
    with opened(write_json(tmp_path / "a.mbox", f"{GOOD}\n{mail}\n\n{GOOD}")) as transcript:
        assert [item.turn.messages[0].text for item in transcript.messages(HOME)] == ["Blue.", "Blue."]
        assert [(record.place, record.problem) for record in transcript.skipped] == [("mail 2", problem)]


def test_of_long_headers_without_structure_the_beginning_is_read(tmp_path: Path) -> None:
    references = "References: " + "".join(f"<m{number}@example.com>\n " for number in range(500))
    path = write_json(tmp_path / "a.mbox", f"{MAILBOX}\n{HEADER}Subject: {LONG}\nTo: {LONG}\n{references}\nBlue.\n")
    with opened(path) as transcript:
        *_, last = transcript.messages(HOME, strict=True)
    assert (last.turn.messages[0].text, last.title) == ("Blue.", LONG[: limits.NAME_CHARS])


def test_of_a_mail_with_many_lines_only_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "_MAIL_LINES", 4)
    assert outcome(write_json(tmp_path / "a.mbox", HEADER + "\n1\n2\n3\n\n" + GOOD)) == (
        [("a@example.com", "1\n2"), ("a@example.com", "Blue.")], {}, [],
    )  # fmt: skip


def test_mails_are_placed_by_bytes_and_those_that_arrive_during_the_import_are_not_read(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.mbox", f"{GOOD}\n{GOOD}\n")
    with opened(path) as transcript:
        path.write_text(f"{GOOD}\n{GOOD}\n{GOOD}\n", encoding="utf-8")
        places = [item.done_bytes for item in transcript.messages(HOME)]
    start = len(HEADER.partition("\n")[0]) + 1
    assert places == [start, len(GOOD) + 1 + start]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<!--[if mso]><p>x</p><![endif]-->A<!-->B<!DOCTYPE x>C<?x?>D", "ABCD"),
        ("<a title='1 > 0' href = \"x\">A</a> 1 < 2 <p class=x>B &amp; &lt;C", "A 1 < 2\nB & <C"),
        ("<script>if (a<b) '</p>'</SCRIPT >A<style>x</style><scripts>B<template><p>x</template>", "AB"),
        ("A<!--" * 200_000, "A"),
        ("<!--x>" * 200_000, ""),
        ("<![CDATA[>A" * 100_000, "A" * 100_000),
        ("<script></script " * 100_000 + ">A", "A"),
        *((begin * 200_000, begin * 200_000) for begin in ("<!", "<?", "</", "<![CDATA[", "<a b='")),
    ],
)
def test_html_becomes_its_visible_text_in_one_pass(html: str, text: str) -> None:
    assert gemini.plain_text(html) == text
