"""Transcripts of other programs: recognised by content, read in order, rejected with the error's location."""

import codecs
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.opened_transcripts import opened

from elytron.importers.detection import TranscriptFormat, open_transcripts
from elytron.importers.message_shape import ImportedMessage
from elytron_core import limits
from elytron_core.clock import instant
from elytron_core.errors import UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey

HOME = ConversationKey("default", "home")
CANARY = "s3cret"

Row = tuple[str, EvidenceRole, str | None, str, int | None]


def row(said: ImportedMessage) -> Row:
    """Return conversation, role, speaker, text and time of a message."""
    message = said.turn.messages[0]
    return said.conversation.conversation, message.role, message.speaker, message.text, message.at


def rows(path: Path) -> list[Row]:
    with opened(path) as transcript:
        found = [row(said) for said in transcript.messages(HOME, include=EvidenceRole, strict=True)]
        assert [row(said) for said in transcript.messages(HOME, include=EvidenceRole, strict=True)] == found, (
            "a transcript can be read again"
        )
        return found


def host_ids(path: Path) -> list[str | None]:
    with opened(path) as transcript:
        return [said.turn.host_id for said in transcript.messages(HOME, include=EvidenceRole, strict=True)]


def written(folder: Path, content: Any, *, name: str = "file.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


MINA = {"role": "user", "name": "Mina", "content": "The ferry", "timestamp": "2025-01-12T19:04:00+00:00"}
TOMAS = {"role": "assistant", "content": "At nine.", "timestamp": 1_736_708_760, "conversation": "harbour"}


class TestJsonLines:
    def test_each_line_is_a_message_with_its_time_and_speaker(self, tmp_path: Path) -> None:
        path = written(tmp_path, lines(MINA, TOMAS))
        assert rows(path) == [
            ("home", EvidenceRole.USER, "Mina", "The ferry", instant("2025-01-12T19:04:00Z")),
            ("harbour", EvidenceRole.ASSISTANT, None, "At nine.", instant("2025-01-12T19:06:00Z")),
        ]

    def test_the_format_is_recognised_by_content_not_by_name(self, tmp_path: Path) -> None:
        with opened(written(tmp_path, lines(MINA), name="notes.txt")) as transcript:
            assert (transcript.format, transcript.name) == (TranscriptFormat.JSONL, "notes.txt")

    def test_a_last_line_without_line_end_and_blank_lines_are_fine(self, tmp_path: Path) -> None:
        path = written(tmp_path, b"\n" + lines(MINA) + b"\r\n  \n" + lines(TOMAS).rstrip())
        assert [text for _, _, _, text, _ in rows(path)] == ["The ferry", "At nine."]

    def test_content_may_be_parts_and_empty_messages_are_omitted(self, tmp_path: Path) -> None:
        parts = [{"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "x"}}, "two"]
        path = written(
            tmp_path,
            lines(
                {"role": "human", "content": parts}, {"role": "ai", "content": " "}, {"role": "tool", "content": None}
            ),
        )
        assert rows(path) == [("home", EvidenceRole.USER, None, "one\ntwo", None)]

    @pytest.mark.parametrize(
        "value", [1_736_708_640, 1_736_708_640.0, 1_736_708_640_000, "2025-01-12T19:04:00Z", "2025-01-12T21:04+02:00"]
    )
    def test_times_are_iso_text_or_epoch_seconds_or_milliseconds(self, tmp_path: Path, value: object) -> None:
        path = written(tmp_path, lines(MINA | {"timestamp": value}))
        assert rows(path)[0][-1] == round(datetime(2025, 1, 12, 19, 4, tzinfo=UTC).timestamp() * 1000)

    def test_progress_is_counted_in_bytes_of_the_file(self, tmp_path: Path) -> None:
        path = written(tmp_path, lines(MINA, TOMAS))
        with opened(path) as transcript:
            done = [said.done_bytes for said in transcript.messages(HOME, include=EvidenceRole, strict=True)]
        assert done == [len(lines(MINA)), path.stat().st_size]
        assert done[-1] == transcript.size_bytes

    def test_data_appended_after_opening_is_not_read(self, tmp_path: Path) -> None:
        path = written(tmp_path, lines(MINA))
        with opened(path) as transcript:
            with path.open("ab") as more:
                more.write(b'{"role": "us')
            assert [row(said)[3] for said in transcript.messages(HOME, include=EvidenceRole, strict=True)] == [
                "The ferry"
            ]

    def test_a_byte_order_mark_is_ignored(self, tmp_path: Path) -> None:
        marked = codecs.BOM_UTF8 + lines(MINA, TOMAS)
        assert rows(written(tmp_path, marked)) == rows(written(tmp_path, lines(MINA, TOMAS)))
        assert len(rows(written(tmp_path, codecs.BOM_UTF8 + json.dumps([MINA]).encode()))) == 1
        assert len(rows(written(tmp_path, codecs.BOM_UTF8 + json.dumps({"messages": [MINA]}).encode()))) == 1

    BAD = {
        "a half-written last line": (
            lines(MINA) + b'{"role": "user", "content": "s3cre',
            2,
            "the JSON cannot be parsed at line 1",
        ),
        "bytes that are not UTF-8": (
            lines(MINA, MINA) + b'{"role": "user", "content": "\xff"}',
            3,
            "JSON is not UTF-8",
        ),
        "NaN": (lines(MINA) + b'{"role": "user", "content": "x", "timestamp": NaN}', 2, "has NaN"),
        "one key twice": (lines(MINA) + b'{"role": "user", "role": "s3cret"}', 2, "duplicate key"),
        "a list": (lines(MINA, ["s3cret"]), 2, "line is not an object"),
        "no role": (lines(MINA, {"content": "s3cret"}), 2, "role must be one of user"),
        "an unknown role": (lines(MINA, MINA | {"role": "s3cret"}), 2, "role must be one of user"),
        "a role that is a list": (lines(MINA, MINA | {"role": ["s3cret"]}), 2, "role must be one of user"),
        "no content": (lines(MINA, {"role": "user", "s3cret": 1}), 2, "content is missing"),
        "content that is a number": (lines(MINA, MINA | {"content": 7}), 2, "content must be"),
        "a part that is a number": (lines(MINA, MINA | {"content": [7]}), 2, "content has a part"),
        "a text part without text": (
            lines(MINA, MINA | {"content": [{"type": "text", "text": 7}]}),
            2,
            "without text",
        ),
        "a time that is none": (lines(MINA, MINA | {"timestamp": "s3cret"}), 2, "timestamp is not an ISO 8601"),
        "a time that is true": (lines(MINA, MINA | {"timestamp": True}), 2, "timestamp must be"),
        "a time that is a list": (lines(MINA, MINA | {"timestamp": []}), 2, "timestamp must be"),
        "a time far away": (lines(MINA, MINA | {"timestamp": 1e300}), 2, "timestamp is not between"),
        "a name with a control character": (lines(MINA, MINA | {"name": "s3cret\x00"}), 2, "name has control"),
        "a name that is a number": (lines(MINA, MINA | {"name": 7}), 2, "name is not a string"),
        "a conversation that is too long": (lines(MINA, MINA | {"conversation": "s3cret" * 50}), 2, "at most 200"),
        "a text that is too long": (lines(MINA, MINA | {"content": "x" * 1_000_001}), 2, "text is not valid"),
        "a line that is too long": (lines(MINA) + b" " * (limits.IMPORT_LINE_BYTES + 1), 2, "is longer than"),
    }

    @pytest.mark.parametrize("case", BAD)
    def test_errors_name_the_line_without_the_value(self, tmp_path: Path, case: str) -> None:
        data, line, problem = self.BAD[case]
        with pytest.raises(UnreadableFile) as refused:
            rows(written(tmp_path, data))
        assert refused.value.line == line
        assert problem in refused.value.message
        assert CANARY not in refused.value.message


class TestOpenAiMessages:
    MESSAGES = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Ada", "content": [{"type": "text", "text": "Tea?"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "kettle on"},
    ]
    EXPECTED = [
        ("home", EvidenceRole.SYSTEM, None, "Be brief.", None),
        ("home", EvidenceRole.USER, "Ada", "Tea?", None),
        ("home", EvidenceRole.TOOL, None, "kettle on", None),
    ]

    @pytest.mark.parametrize("wrapped", [False, True])
    def test_a_list_of_messages_inside_a_request_is_read_too(self, tmp_path: Path, *, wrapped: bool) -> None:
        path = written(tmp_path, {"model": "m", "messages": self.MESSAGES} if wrapped else self.MESSAGES)
        assert rows(path) == self.EXPECTED
        with opened(path) as transcript:
            assert transcript.format is TranscriptFormat.OPENAI_MESSAGES

    def test_an_invalid_message_is_reported_by_position(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableFile, match=r"'file.json' message is not an object \(message 2\)"):
            rows(written(tmp_path, [self.MESSAGES[0], 7]))


def node(key: str, parent: str | None, role: str, text: str, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    message = {"id": f"m-{key}", "author": {"role": role}, "create_time": None, "content": content} | more
    return {"id": key, "message": message, "parent": parent, "children": []}


class TestChatGpt:
    TREE = {
        "root": {"id": "root", "message": None, "parent": None, "children": ["hidden"]},
        "hidden": node("hidden", "root", "user", "profile", metadata={"is_visually_hidden_from_conversation": True}),
        "sys": node("sys", "hidden", "system", "instructions"),
        "ask": node("ask", "sys", "user", "Where is the ferry?", create_time=1_700_000_000.5),
        "old": node("old", "ask", "assistant", "An answer that was replaced"),
        "call": node("call", "ask", "assistant", "search()", recipient="browser"),
        "tool": node("tool", "call", "tool", "found it"),
        "code": node("code", "tool", "assistant", "x", content={"content_type": "code", "text": "x = 1"}),
        "void": node("void", "code", "assistant", ""),
        "new": node("new", "void", "assistant", "At the pier.", metadata={}),
        "see": node(
            "see", "new", "user", "", content={"content_type": "multimodal_text", "parts": [{"asset": 1}, "This one?"]}
        ),
    }
    CONVERSATION = {
        "conversation_id": "c-1",
        "title": "The  ferry\n",
        "create_time": 1_699_999_000,
        "mapping": TREE,
        "current_node": "see",
    }

    def test_the_current_path_is_read_with_its_times_and_ids(self, tmp_path: Path) -> None:
        path = written(tmp_path, [self.CONVERSATION, {"id": "c-2", "mapping": {}, "current_node": None}])
        at = 1_700_000_000_500
        assert rows(path) == [
            ("c-1", EvidenceRole.USER, None, "Where is the ferry?", at),
            ("c-1", EvidenceRole.ASSISTANT, None, "At the pier.", at),
            ("c-1", EvidenceRole.USER, None, "This one?", at),
        ]
        assert host_ids(path) == ["m-ask", "m-new", "m-see"]
        with opened(path) as transcript:
            assert {
                (said.conversation.channel, said.title)
                for said in transcript.messages(HOME, include=EvidenceRole, strict=True)
            } == {("chatgpt", "The ferry")}

    def test_a_single_conversation_is_read_too(self, tmp_path: Path) -> None:
        assert len(rows(written(tmp_path, self.CONVERSATION))) == 3

    @pytest.mark.parametrize("named", [None, "nowhere"])
    def test_without_a_current_node_the_newest_path_is_read(self, tmp_path: Path, named: str | None) -> None:
        tree = {
            "ask": node("ask", None, "user", "Where?", create_time=1),
            "old": node("old", "ask", "assistant", "Here.", create_time=3),
            "new": node("new", "ask", "assistant", "There.", create_time=4),
            "draft": node("draft", "ask", "assistant", "Nowhere.", create_time=2),
        }
        path = written(tmp_path, self.CONVERSATION | {"mapping": tree, "current_node": named})
        assert [text for _, _, _, text, _ in rows(path)] == ["Where?", "There."]

    def test_the_remaining_part_of_a_path_is_read_and_gaps_yield_no_text(self, tmp_path: Path) -> None:
        spoken = {
            "content_type": "multimodal_text",
            "parts": [{"content_type": "audio_transcription", "text": "Out loud"}, None],
        }
        tree = {
            "a": node("a", "client-created-root", "user", "", content=spoken),
            "b": node("b", "a", "assistant", "by nobody", author=None),
            "c": node("c", "b", "assistant", "", content=None),
            "d": node("d", "c", "assistant", "Yes.", recipient=None),
        }
        path = written(tmp_path, self.CONVERSATION | {"mapping": tree, "current_node": "d"})
        assert [text for _, _, _, text, _ in rows(path)] == ["Out loud", "Yes."]

    BAD = {
        "a circle alone": ({"mapping": {"a": node("a", "a", "user", "x")}, "current_node": None}, "is not a tree"),
        "a circle": ({"mapping": {"a": node("a", "a", "user", "x")}, "current_node": "a"}, "is not a tree"),
        "no id": ({"conversation_id": None}, "conversation id is missing"),
        "a mapping that is a list": ({"mapping": [1]}, "mapping is not an object"),
        "a node that is a text": ({"mapping": {"a": "s3cret"}, "current_node": "a"}, "message is not an object"),
        "an author that is a text": (
            {"mapping": {"a": node("a", None, "user", "x", author="s3cret")}, "current_node": "a"},
            "author",
        ),
    }

    @pytest.mark.parametrize("case", BAD)
    def test_an_invalid_tree_is_reported_by_its_conversation(self, tmp_path: Path, case: str) -> None:
        change, problem = self.BAD[case]
        with pytest.raises(UnreadableFile) as refused:
            rows(written(tmp_path, [self.CONVERSATION, self.CONVERSATION | change]))
        assert problem in refused.value.message
        assert "(conversation 2" in refused.value.message
        assert CANARY not in refused.value.message


class TestClaude:
    CONVERSATION: dict[str, Any] = {
        "uuid": "u-1",
        "name": "Tides",
        "created_at": "2025-02-01T10:00:00.000000Z",
        "chat_messages": [
            {"uuid": "a", "sender": "human", "text": "When?", "created_at": "2025-02-01T10:00:01.250000Z"},
            {
                "uuid": "b",
                "sender": "assistant",
                "text": "flat",
                "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "At six."}],
            },
            {"uuid": "c", "sender": "assistant", "text": "", "content": []},
            {"uuid": "d", "sender": "assistant", "text": "(not shown here)", "content": [{"type": "tool_use"}]},
        ],
    }

    def test_only_spoken_text_is_read_not_attachments_or_tool_data(self, tmp_path: Path) -> None:
        canary = {"file_name": CANARY, "file_type": "text/plain", "extracted_content": CANARY}
        said: dict[str, Any] = {"type": "text", "flags": None, "text": "I fixed the boat.", "citations": []}
        used: dict[str, Any] = {"type": "tool_use", "name": "web_search", "input": {"query": CANARY}, "message": CANARY}
        found: dict[str, Any] = {
            "type": "tool_result",
            "content": [{"type": "knowledge", "text": CANARY}],
            "text": CANARY,
        }
        thought = {"type": "thinking", "thinking": CANARY, "summaries": [{"summary": CANARY}], "cut_off": False}
        spoken = {"type": "voice_note", "title": CANARY, "text": "And the oars."}
        messages = [
            {"uuid": "a", "sender": "human", "attachments": [canary], "files": [canary], "content": [said], "text": ""},
            {"uuid": "b", "sender": "assistant", "content": [thought, used, found, {"type": "token_budget"}, said]},
            {"uuid": "c", "sender": "human", "content": [spoken], "parent_message_uuid": "b"},
            {"uuid": "d", "sender": "human", "content": [{"type": "text", "text": None}], "files": [canary]},
            {"uuid": "e", "sender": "assistant", "content": None, "text": None, "attachments": [canary]},
        ]
        path = written(tmp_path, [self.CONVERSATION | {"chat_messages": messages, "account": {"uuid": CANARY}}])
        texts = ["I fixed the boat.", "I fixed the boat.", "And the oars."]
        assert [row[3] for row in rows(path)] == texts

    @pytest.mark.parametrize("alone", [False, True])
    def test_messages_are_read_from_text_or_blocks(self, tmp_path: Path, *, alone: bool) -> None:
        path = written(tmp_path, self.CONVERSATION if alone else [self.CONVERSATION])
        at = instant("2025-02-01T10:00:01.250Z")
        assert rows(path) == [
            ("u-1", EvidenceRole.USER, None, "When?", at),
            ("u-1", EvidenceRole.ASSISTANT, None, "At six.", at),
        ]
        assert host_ids(path) == ["a", "b"]
        with opened(path) as transcript:
            assert {
                (said.conversation.channel, said.title)
                for said in transcript.messages(HOME, include=EvidenceRole, strict=True)
            } == {("claude", "Tides")}

    @pytest.mark.parametrize(
        ("change", "problem"),
        [({"uuid": None}, "conversation uuid is missing"), ({"chat_messages": {}}, "chat_messages is not a list")],
    )
    def test_an_invalid_conversation_is_reported(self, tmp_path: Path, change: dict[str, Any], problem: str) -> None:
        with pytest.raises(UnreadableFile, match=rf"{problem} \(conversation 1\)"):
            rows(written(tmp_path, [self.CONVERSATION | change]))


UNKNOWN = {
    "nothing": (b"", "is empty"),
    "white space": (b" \n\t\n", "is empty"),
    "prose": (b"Dear diary", "is not a supported transcript; supported formats are JSON Lines"),
    "a cut zip": (b"PK\x03\x04rest", "cannot be unpacked"),
    "something packed": (b"\x1f\x8brest", "is compressed"),
    "UTF-16": ('{"role": "user"}'.encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": ('{"role": "user"}'.encode("utf-16-le"), "UTF-16"),
    "UTF-16 of a big-endian machine": ('{"role": "user"}'.encode("utf-16-be"), "UTF-16"),
    "UTF-16 in Chinese": ("茶".encode("utf-16"), "UTF-16"),
    "nothing but NUL bytes": (bytes(4096), "is not a supported transcript; supported formats are JSON Lines"),
    "NUL bytes before words": (
        bytes(3) + b"Dear diary",
        "is not a supported transcript; supported formats are JSON Lines",
    ),
    "an empty list": (b"[]", "contains no messages"),
    "a list of numbers": (b"[1]", "not a supported transcript"),
    "a cut list": (b'[{"role": "user"', "cannot be parsed at line 1"),
    "another object over several lines": (b'{\n"s3cret": 1}', "not a supported transcript"),
    "a number": (b"7", "is not a supported transcript; supported formats are JSON Lines"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_invalid_transcripts_are_rejected(tmp_path: Path, case: str) -> None:
    data, problem = UNKNOWN[case]
    with pytest.raises(UnreadableFile) as refused:
        rows(written(tmp_path, data))
    assert problem in refused.value.message
    assert CANARY not in refused.value.message


def test_a_text_file_of_nul_bytes_is_rejected_with_the_list_of_formats(tmp_path: Path) -> None:
    for data in (bytes(4096), b"Dear" + bytes(9)):
        with pytest.raises(
            UnreadableFile, match=r"not a supported transcript; supported formats are JSON Lines.* plain text"
        ):
            rows(written(tmp_path, data, name="notes.txt"))


def test_a_missing_file_a_folder_and_a_pipe_are_rejected_immediately(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for name, problem in (
        ("missing", "does not exist"),
        (".", "contains no supported transcripts"),
        ("pipe", "is not a file"),
        ("a\0b", "not a valid file name"),
    ):
        with pytest.raises(UnreadableFile, match=problem):
            open_transcripts(tmp_path / name)


def test_an_oversized_document_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_core.limits.TRANSCRIPT_JSON_BYTES", 20)
    with pytest.raises(UnreadableFile, match="more than 20 bytes"):
        rows(written(tmp_path, TestOpenAiMessages.MESSAGES))
    with pytest.raises(UnreadableFile, match="line 1"):
        rows(written(tmp_path, b'{\n"messages": [{"role": "user", "content": "hi"}]}'))
