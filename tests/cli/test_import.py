"""Importing transcripts: each message is stored once, and nothing from an invalid file."""

import json
import zipfile
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

GOOD = {"role": "user", "name": "Mina", "content": "The ferry leaves at six.", "timestamp": "2025-01-01T09:30:00Z"}
OTHER = {"role": "assistant", "content": "Noted.", "timestamp": 1_735_723_860, "conversation": "notes"}


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_a_transcript_is_imported_with_times_speakers_and_conversations(elytron: CommandLine) -> None:
    report = elytron.json("import", elytron.write("chat.jsonl", lines(GOOD, OTHER)))
    assert (report["formats"], report["messages"], report["stored"], report["changed"]) == (["jsonl"], 2, 2, True)
    assert {
        (item["text"], item["conversation"].partition("-")[0], item["at"]) for item in elytron.json("list")["items"]
    } == {
        ("The ferry leaves at six.", "chat", 1_735_723_800_000),
        ("Noted.", "notes", 1_735_723_860_000),
    }


def test_a_repeated_import_changes_nothing_and_a_longer_file_adds_new_messages(elytron: CommandLine) -> None:
    file = elytron.write("chat.jsonl", lines(GOOD, OTHER))
    elytron("import", file)
    before = elytron.state()
    again = elytron.json("import", file)
    assert (again["stored"], again["duplicates"], again["changed"]) == (0, 2, False)
    assert elytron.state() == before
    elytron.write("chat.jsonl", lines(GOOD, OTHER, GOOD | {"content": "Or at nine."}))
    grown = elytron.json("import", file)
    assert (grown["stored"], grown["duplicates"]) == (1, 2)


def test_messages_without_a_conversation_go_to_the_given_one(elytron: CommandLine) -> None:
    elytron("import", elytron.write("chat.jsonl", lines(GOOD)), "--conversation", "harbour")
    assert elytron.json("list")["items"][0]["conversation"] == "harbour"


def test_a_transcript_is_imported_from_standard_input(elytron: CommandLine) -> None:
    for stored in (2, 0):
        report = elytron.json("import", "-", standard_input=lines(GOOD, OTHER))
        assert (report["messages"], report["stored"]) == (2, stored)
    places = {item["conversation"].partition("-")[0] for item in elytron.json("list")["items"]}
    assert places == {"stdin", "notes"}
    assert elytron.error("import", "-", standard_input=b"", expect=6)["key"] == "unreadable_file"


def test_an_export_is_imported_as_a_zip_file(elytron: CommandLine) -> None:
    message = {"uuid": "m1", "sender": "human", "text": "tea", "created_at": "2025-01-01T00:00:00Z"}
    with zipfile.ZipFile("data.zip", "w") as archive:
        archive.writestr("users.json", "[]")
        archive.writestr("conversations.json", json.dumps([{"uuid": "c1", "name": "", "chat_messages": [message]}]))
    assert elytron.json("import", "data.zip")["formats"] == ["claude"]
    assert elytron.json("recall", "tea")["hits"][0]["text"] == "tea"


def test_a_dry_run_reads_and_stores_nothing(elytron: CommandLine) -> None:
    file = elytron.write("chat.jsonl", lines(GOOD))
    report = elytron.json("import", file, "--dry-run")
    assert (report["messages"], report["stored"], report["dry_run"]) == (1, 0, True)
    assert elytron.error("inspect", expect=3)["key"] == "store_missing"
    assert "nothing (dry run)" in elytron("import", file, "--dry-run", "--no-json").stdout


def test_people_see_what_was_read_and_stored(elytron: CommandLine) -> None:
    shown = elytron("import", elytron.write("chat.jsonl", lines(GOOD, OTHER)), "--no-json").stdout
    assert "2 messages in 2 conversations (jsonl)" in shown
    assert "2025-01-01 09:30 to 2025-01-01 09:31" in shown


def test_people_see_every_reason_and_ambiguity(elytron: CommandLine) -> None:
    chat = (
        "02.04.24, 09:11 - Jana: Wir ziehen um.\n02.04.24, 09:12 - Jana: Diese Nachricht wurde gelöscht.\n"
        "03.04.24, 10:00 - Jana: Minka kommt mit.\n44.04.24, 10:00 - Jana: Was?\n"
    )
    file = elytron.write("chat.txt", chat.encode())
    first = elytron("import", file, "--no-json", expect=6).stdout
    assert "found    2 messages in 1 conversation (whatsapp)" in first
    skipped = [line for line in first.splitlines() if line.startswith("skipped")]
    assert [line.split(maxsplit=1)[1] for line in skipped] == [
        "1 deleted",
        "1 unreadable",
        "chat.txt, line 4: date is not a valid date in the order dmy",
    ]
    again = elytron("import", file, "--date-order", "mdy", "--no-json", expect=6).stdout
    assert "mdy, because it was requested" in again
    assert [line.startswith("updated") for line in again.splitlines()].count(True) == 2


BAD: dict[str, tuple[bytes, str]] = {
    "a half-written last line": (lines(GOOD) + b'{"role": "user", "content": "s3cret', "line 2"),
    "bytes that are not UTF-8": (lines(GOOD) + b'{"role": "user", "content": "s3cret\xff"}', "line 2"),
    "NaN": (lines(GOOD) + b'{"role": "user", "content": "s3cret", "timestamp": NaN}', "line 2"),
    "a wrong role": (lines(GOOD, GOOD | {"role": "s3cret"}), "line 2"),
    "a wrong time": (lines(GOOD, GOOD | {"timestamp": "s3cret"}), "line 2"),
    "a list of the wrong things": (b'[{"role": "user", "content": "x"}, "s3cret"]', "message 2"),
    "something else in JSON": (b'[{"s3cret": 1}]', "not a supported transcript"),
    "nothing": (b"", "is empty"),
    "only empty messages": (lines(GOOD | {"content": " "}), "contains no messages"),
    "prose": (b"s3cret diary", "not a supported transcript; supported formats are JSON Lines"),
    "a gzip": (b"\x1f\x8bs3cret", "is compressed"),
    "a broken archive": (b"PK\x03\x04s3cret", "archive"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_reported_and_with_strict_changes_nothing(elytron: CommandLine, case: str) -> None:
    elytron("add", "tea")
    before = elytron.state()
    data, problem = BAD[case]
    error = elytron.error("import", elytron.write("bad.json", data), "--strict", expect=6)
    assert error["key"] == "unreadable_file"
    assert problem in error["reason"]
    assert "s3cret" not in json.dumps(error)
    assert elytron.state() == before


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_missing_files_are_reported(elytron: CommandLine, name: str) -> None:
    assert elytron.error("import", name, expect=6)["key"] == "unreadable_file"


def test_a_message_changed_under_its_id_is_a_conflict_with_strict(elytron: CommandLine) -> None:
    message = {"uuid": "m1", "sender": "human", "text": "tea", "created_at": "2025-01-01T00:00:00Z"}
    conversation = {"uuid": "c1", "name": "Kitchen", "chat_messages": [message]}
    elytron("import", elytron.write("claude.json", json.dumps([conversation]).encode()))
    message["text"] = "coffee"
    file = elytron.write("claude.json", json.dumps([conversation]).encode())
    assert elytron.error("import", file, "--strict", expect=4)["key"] == "turn_conflict"
    shown = elytron("replay", "--conversation", "c1", "--channel", "claude", "--no-json").stdout
    assert "tea" in shown
    assert "coffee" not in shown


MEMORIES = [
    {"id": str(number), "memory": f"{user} sails", "user_id": user, "created_at": "2026-05-01T10:00:00"}
    for number, user in enumerate(("ada", "noor"))
]


def test_a_store_of_several_users_is_imported_for_the_named_ones(elytron: CommandLine) -> None:
    file = elytron.write("mem0.json", json.dumps(MEMORIES).encode())
    error = elytron.error("import", file, expect=2)
    assert "--memories-of" in str(error)
    report = elytron.json("import", file, "--memories-of", "ada")
    assert (report["stored"], report["owners"], report["left_out"]) == (1, ["ada", "noor"], {"other_owner": 1})
    shown = elytron("import", file, "--memories-of", "*", "--dry-run", "--no-json").stdout
    assert "2 without a time zone, read as UTC" in shown


def test_a_space_is_exported_as_cogx_and_imported_elsewhere(elytron: CommandLine) -> None:
    elytron("import", elytron.write("chat.jsonl", lines(GOOD, OTHER)))
    report = elytron.json("export", "shared", "--as", "cogx")
    assert report["records"] == {"episode": 2}
    assert elytron.json("import", "shared", "--space", "copy")["stored"] == 2
    assert elytron.error("export", "shared", "--as", "cogx", expect=2)["key"] == "invalid_input"
    assert "episode" in elytron("export", "shared", "--as", "cogx", "--force", "--no-json").stdout
    assert "--as cogx" in str(elytron.error("export", "all", "--as", "cogx", "--user", expect=2))
