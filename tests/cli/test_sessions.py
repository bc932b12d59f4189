"""Sessions of coding assistants: read from files and databases, and stored once in their folder's memory."""

import json
import os
import sqlite3
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FIXTURES, Machine

import elytron
from elytron_assistants.sessions.memory_files import MemoryFile, NoteOrigin, read_notes
from elytron_assistants.sessions.session_log import ReadTally
from elytron_core.contracts.transcript import MemoryWriteRequest

SAID = {
    "claude-code": [
        ("user", "We always use ruff with line length 100."),
        ("assistant", "Ruff is set to a line length of 100."),
        ("tool", "`pytest -q` failed with exit code 2 and passed after changes to pyproject.toml."),
        ("user", "Add a cart page."),
        ("user", "And a page for orders."),
        ("assistant", "Both pages are tested too."),
    ],
    "codex": [
        ("user", "Prices are stored in cents."),
        ("assistant", "Prices are whole cents now."),
        ("tool", "`npm test` failed with exit code 1 and passed after changes to src/price.ts."),
        ("user", "Round half to even."),
        ("assistant", "Rounding is half to even."),
    ],
    "gemini": [
        ("user", "Orders older than a year are archived."),
        ("assistant", "The archive job runs nightly."),
    ],
    "opencode": [
        ("user", "Parcels leave on Tuesdays."),
        ("assistant", "The calendar has Tuesdays."),
    ],
    "cursor": [
        ("user", "Invoices start at 1000 each year."),
        ("assistant", "Invoices are numbered by year."),
    ],
}
"""The content of each assistant's sample, in order."""


@pytest.mark.parametrize("host", SAID)
def test_messages_from_every_assistant_are_stored_in_the_repositorys_memory(machine: Machine, host: str) -> None:
    machine.put_all()
    report = machine.run(host)
    assert (report["sessions"], report["duplicates"]) == (1, 0)
    assert machine.said(host) == SAID[host]


def test_text_that_no_person_wrote_is_not_stored(machine: Machine) -> None:
    machine.put_all()
    machine.put("claude-code-2.1.332-subagent.jsonl", machine.claude / "5e0c0001/subagents/agent-x2.jsonl")
    report = machine.run()
    stored = "\n".join(text for _, text in machine.said())
    for words in (
        *("prefer tabs", "prefer spaces", "secret output", "vault 9", "Four spaces", "four spaces", "They want ruff"),
        *("black", "floats", "Delete the archive", "Search for carts", "a later version", "List every page", "a.py"),
    ):
        assert words not in stored
    assert report["skipped"] == {
        "program": 4, "rewound": 6, "side_chain": 1, "subagent": 2, "no_folder": 1,
    }  # fmt: skip
    assert report["unknown"] == {
        "claude-code:holographic-note": 1,
        "codex:response_item/quantum_call": 1,
        "cursor:bubble/9": 1,
        "gemini:telepathy": 1,
        "opencode:hologram": 1,
    }
    assert report["spaces"] == [{"label": "shop", "sessions": 5, "space": machine.space, "stored": 17}]


def test_actions_are_stored_next_to_messages_without_tool_output(machine: Machine) -> None:
    machine.put_all()
    machine.run()
    where = ("--channel", "claude-code", "--conversation", "5e0c0001", "--space", machine.space)
    turns = machine.elytron.json("transcript", "replay", "--view", "raw_owner_only", *where)["slice"]["turns"]
    reply = next(turn for turn in turns if "line length of 100" in turn["messages"][0]["text"])
    assert [(seen["tool_name"], seen["summary"]) for seen in reply["tool_observations"]] == [
        ("Bash", "pytest -q (exit code 2)"),
        ("Edit", "pyproject.toml"),
        ("Bash", "pytest -q (exit code 0)"),
    ]
    assert reply["metadata"] == {"branch": "main"}
    assert reply["source"]["model_resolved"] == "sample-model"
    assert reply["messages"][0]["at"] == 1_793_527_209_000
    assert "secret output" not in json.dumps(turns)


def test_the_persons_answers_to_tool_questions_are_recalled(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    calls: list[tuple[str, dict[str, Any], str]] = [
        (
            "AskUserQuestion",
            {"questions": []},
            'User has answered your questions: "Which currency is shown?"="Euro". Go on.',
        ),
        ("ExitPlanMode", {"plan": "Show prices in euro."}, "User has approved your plan."),
        ("ExitPlanMode", {"plan": "Show prices in pounds."}, "The user does not want to proceed."),
    ]
    with file.open("a", encoding="utf-8") as opened:
        parent = "a8"
        for number, (name, arguments, result) in enumerate(calls):
            use = {"type": "tool_use", "id": f"d{number}", "name": name, "input": arguments}
            output = {"type": "tool_result", "tool_use_id": f"d{number}", "content": result, "is_error": number == 2}
            for kind, part in (("assistant", use), ("user", output)):
                uuid = f"{kind}{number}"
                line = {"type": kind, "uuid": uuid, "parentUuid": parent, "message": {"content": [part]}}
                opened.write(json.dumps(line) + "\n")
                parent = uuid
    machine.run()
    assert [text for role, text in machine.said() if role == "tool"][1:] == [
        "Decided by the user: Which currency is shown? Euro",
        "Decided by the user: Approved plan: Show prices in euro.",
    ]
    hits = machine.elytron.json("recall", "which currency is shown?", "--space", machine.space)["hits"]
    assert hits[0]["text"] == "Decided by the user: Which currency is shown? Euro"


def test_a_second_run_reads_nothing_and_changes_nothing(machine: Machine) -> None:
    machine.put_all()
    machine.run()
    before = machine.elytron.json("inspect", "--space", machine.space)["state_fingerprint"]
    again = machine.run()
    assert (again["unchanged"], again["sessions"], again["read_bytes"], again["changed"]) == (7, 0, 0, False)
    whole = machine.run("--again")
    assert (whole["stored"], whole["duplicates"], whole["changed"]) == (0, 17, False)
    assert machine.elytron.json("inspect", "--space", machine.space)["state_fingerprint"] == before


def add_turn(file: Path, parent: str, number: int, prompt: str, reply: str) -> None:
    """Append a turn to a session of Claude Code."""
    at = f"2026-11-05T10:00:{number:02}.000Z"
    lines = [
        {"type": "user", "uuid": f"p{number}", "parentUuid": parent, "timestamp": at, "message": {"content": prompt}},
        {"type": "assistant", "uuid": f"r{number}", "parentUuid": f"p{number}", "timestamp": at,
         "message": {"id": f"msg_{number}", "content": [{"type": "text", "text": reply}]}},
    ]  # fmt: skip
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(json.dumps(line) + "\n" for line in lines)


def test_only_the_new_end_of_a_session_is_read(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    machine.run()
    add_turn(file, "a8", 1, "Name the cart in the title.", "The title names it.")
    with file.open("a", encoding="utf-8") as opened:
        opened.write('{"type":"user","uuid":"half')
    grown = machine.run()
    assert (grown["stored"], grown["updated"], grown["skipped"]) == (2, 0, {"program": 2, "side_chain": 1})
    assert grown["read_bytes"] < file.stat().st_size / 2
    assert machine.said("claude-code")[-2:] == [
        ("user", "Name the cart in the title."),
        ("assistant", "The title names it."),
    ]


def test_content_retracted_after_storage_is_hidden(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    machine.run()
    add_turn(file, "a5", 1, "Leave the pages out.", "They are out.")
    report = machine.run()
    assert (report["stored"], report["hidden"]) == (2, 3)
    assert [text for _, text in machine.said("claude-code")] == [
        *(text for _, text in SAID["claude-code"][:3]),
        "Leave the pages out.",
        "They are out.",
    ]


def test_an_unfinished_reply_is_replaced_by_the_finished_one(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    lines = file.read_text("utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:6]), "utf-8")
    machine.run()
    assert machine.said()[-1] == ("assistant", "I will fix the settings.")
    file.write_text("".join(lines), "utf-8")
    assert machine.run()["updated"] == 1
    assert sorted(machine.said("claude-code")) == sorted(SAID["claude-code"])


def test_erased_content_stays_erased_when_its_session_is_reread(machine: Machine) -> None:
    machine.put_all()
    machine.run()
    erased = [
        item["id"]
        for item in machine.elytron.json("list", "--space", machine.space)["items"]
        if item["text"] in {"Add a cart page.", "Prices are stored in cents.", "The archive job runs nightly."}
    ]
    machine.elytron("erase", *erased, "--yes", "--space", machine.space)
    report = machine.run("--again")
    assert (report["erased"], report["stored"]) == (3, 0)
    assert len(machine.said()) == 14


def test_a_session_and_an_assistant_are_erased_by_their_names(machine: Machine) -> None:
    machine.put_all()
    machine.run()
    for name, left in (("session:5e0c0001", 11), ("session:codex", 6)):
        token = machine.elytron.json("erase", "--origin", name, "--dry-run", "--space", machine.space)["token"]
        machine.elytron("erase", "--origin", name, "--token", token, "--space", machine.space)
        assert len(machine.said()) == left
    assert (machine.run("--again")["stored"], len(machine.said())) == (0, 6)


def test_copies_in_a_fork_are_stored_once(machine: Machine) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    machine.run()
    fork = machine.put("claude-code-2.1.332-fork.jsonl", machine.claude / "5e0c0002.jsonl")
    os.utime(fork, (1e9, 1e9))
    machine.put("opencode-2.0.25.sql", ".local/share/opencode/opencode.db")
    report = machine.run()
    assert report["skipped"] == {"fork": 4}
    texts = [text for _, text in machine.said()]
    assert texts[6:] == [
        "Try a darker header.", "The header is dark blue.",
        "Parcels leave on Tuesdays.", "The calendar has Tuesdays.",
        "And on Fridays in December.", "December has Fridays.", "Print the labels in pairs.",
    ]  # fmt: skip


def test_opencodes_two_generations_in_one_database_are_not_counted_twice(machine: Machine) -> None:
    place = ".local/share/opencode/opencode.db"
    machine.put("opencode-1.18.33.sql", place)
    machine.run()
    assert machine.said() == SAID["opencode"]
    machine.put("opencode-2.0.25.sql", place)
    report = machine.run()
    assert (report["stored"], report["duplicates"]) == (3, 2)
    assert [text for _, text in machine.said()].count("Parcels leave on Tuesdays.") == 1


def test_turns_stored_by_a_hook_are_not_stored_again_and_stay_erased(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    event = {
        "session_id": "5e0c0001",
        "cwd": str(machine.shop),
        "hook_event_name": "Stop",
        "transcript_path": str(file),
    }
    machine.elytron("hooks", "keep", "--per-repository", standard_input=json.dumps(event).encode())
    assert sorted(machine.said()) == sorted(SAID["claude-code"])
    items = machine.elytron.json("list", "--space", machine.space)["items"]
    (prompt,) = [item for item in items if item["text"] == "And a page for orders."]
    machine.elytron("erase", prompt["id"], "--yes", "--space", machine.space)
    report = machine.run()
    assert (report["stored"], report["unchanged"]) == (0, 1)
    report = machine.run("--again")
    assert (report["stored"], report["duplicates"], report["erased"]) == (0, 5, 1)
    assert sorted(machine.said()) == sorted(row for row in SAID["claude-code"] if row[1] != "And a page for orders.")


def test_turns_stored_by_older_hooks_are_not_stored_again(machine: Machine) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    # Built as they were: from session, prompt, role, and text.
    words = b"5e0c0001\nu6\nuser\nAdd a cart page."
    turn = {
        "messages": [{"role": "user", "text": "Add a cart page."}],
        "host_id": blake2b(words, digest_size=16).hexdigest(),
    }
    scope = {"space": machine.space, "channel": "claude-code", "conversation": "5e0c0001"}
    with elytron.open("m.db", space="x").sync() as memory:
        memory.operate(
            MemoryWriteRequest.model_validate({"scope": scope, "write": {"kind": "transcript", "turns": [turn]}})
        )
    report = machine.run()
    assert (report["stored"], report["duplicates"]) == (5, 1)
    assert [text for _, text in machine.said()].count("Add a cart page.") == 1


def test_subagent_sessions_are_stored_as_assistant_text_on_request(machine: Machine) -> None:
    machine.put("claude-code-2.1.332-subagent.jsonl", machine.claude / "5e0c0001/subagents/agent-x2.jsonl")
    assert machine.run()["skipped"] == {"subagent": 1}
    assert machine.run("--subagents")["stored"] == 2
    assert machine.said() == [
        ("assistant", "List every page with a form."),
        ("assistant", "Cart and checkout have forms."),
    ]


def test_the_newer_of_two_session_formats_is_read(machine: Machine) -> None:
    thread = ".codex/sessions/2026/11/03/rollout-2026-11-03T10-00-00-0199a000.jsonl"
    machine.put("codex-0.163.0.jsonl", thread)
    (machine.home / f"{thread}.zst").write_bytes(b"\x28\xb5\x2f\xfd compressed")
    (machine.home / thread.replace("10-00-00", "11-00-00")).with_suffix(".jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    machine.put("codex-0.46.0-events.jsonl", ".codex/archived_sessions/rollout-2025-10-03T10-00-00-0199a001.jsonl")
    chats = ".gemini/tmp/shop/chats/session-2026-11-04T10-00-6e3a000"
    machine.put("gemini-old.json", f"{chats}2.json")
    machine.put("gemini-5411f113.jsonl", f"{chats}1.jsonl")
    machine.put("gemini-old.json", f"{chats}1.json")
    (machine.home / ".gemini/projects.json").write_text(json.dumps({"projects": {str(machine.shop): "shop"}}))
    report = machine.run()
    assert (report["sessions"], report["skipped"]["replaced"]) == (4, 2)
    assert report["skipped"]["compressed" if "compressed" in report["skipped"] else "unreadable"] == 1
    texts = [text for _, text in machine.said()]
    for words in ("Name the currency in each price.", "Each price has its currency.", "The shop ships to Iceland."):
        assert texts.count(words) == 1


def test_a_cursor_cli_transcript_is_assigned_by_its_paths(machine: Machine) -> None:
    name = machine.shop.as_posix().strip("/").replace("/", "-").replace("_", "-").replace(".", "-")
    machine.put("cursor-2026.07.17-cli.jsonl", f".cursor/projects/{name}/agent-transcripts/c1/c1.jsonl")
    machine.put("cursor-2026.07.17-cli.jsonl", ".cursor/projects/another/agent-transcripts/c2.jsonl")
    assert machine.run()["skipped"] == {"no_folder": 1}
    assert machine.said() == [
        ("user", "Coupons expire after thirty days."),
        ("assistant", "Coupons expire after thirty days now."),
    ]


def test_damaged_oversized_and_strange_files_are_counted_and_lose_nothing_else(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    image = b'{"type":"user","uuid":"i1","parentUuid":"u1","message":{"content":"' + b"x" * (9 * 1024 * 1024) + b'"}}\n'
    odd = [b"{broken\n", b"[1]\n", b'{"type":[],"uuid":{},"message":[[]],"parentUuid":7}\n', b"\xff\xfe\n", image]
    file.write_bytes(b"".join([*lines[:2], *odd, *lines[2:]]))
    os.mkfifo(machine.claude / "pipe.jsonl")
    (machine.claude / "link.jsonl").symlink_to(file)
    (machine.home / ".local/share/opencode").mkdir(parents=True)
    (machine.home / ".local/share/opencode/opencode.db").write_bytes(b"SQLite format 3\0 no more")
    report = machine.run()
    skipped = report["skipped"]
    assert (skipped["damaged"], skipped["too_long"], skipped["link"], skipped["unreadable"]) == (3, 1, 2, 1)
    assert machine.said() == SAID["claude-code"]


def test_odd_session_and_folder_names_abort_no_import(machine: Machine) -> None:
    text = (FIXTURES / "codex-0.46.0-events.jsonl").read_text("utf-8")
    thread = "0199a000-0000-7000-8000-000000000002"
    folder = machine.home / ".codex/sessions"
    folder.mkdir(parents=True)
    for number, (name, place) in enumerate(
        ((" a\\n" + "b" * 400, str(machine.shop)), (thread, "/a\\u0000b"), (thread, "/" + "x" * 5000))
    ):
        odd = text.replace(thread, name).replace("/w/shop", place)
        (folder / f"rollout-2025-10-0{number}T10-00-00-x.jsonl").write_text(odd, "utf-8")
    report = machine.run("codex")
    assert (report["sessions"], report["stored"], report["skipped"]) == (2, 4, {"unreadable": 1})


def test_an_older_subagent_file_is_recognised_too(machine: Machine) -> None:
    machine.put("claude-code-2.1.332-subagent.jsonl", machine.claude / "agent-x2.jsonl")
    assert machine.run()["skipped"] == {"subagent": 1}


def test_a_foreign_database_is_left_unchanged(machine: Machine) -> None:
    path = machine.put("opencode-1.18.33.sql", ".local/share/opencode/opencode.db")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE session SET title = 'x'")
    connection.close()
    before = path.read_bytes()
    assert machine.run()["sessions"] == 1
    assert [each.name for each in path.parent.iterdir()] == ["opencode.db"]
    assert path.read_bytes() == before


def test_a_foreign_database_whose_rows_never_end_is_counted_as_unreadable(machine: Machine) -> None:
    path = machine.put("opencode-1.18.33.sql", ".local/share/opencode/opencode.db")
    with sqlite3.connect(path) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(session)")]
        connection.execute("DROP TABLE session")
        numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        connection.execute(
            f"CREATE VIEW session AS {numbers} SELECT {', '.join(f'x AS {name}' for name in columns)} FROM n"
        )
    connection.close()
    report = machine.run("opencode")
    assert (report["sessions"], report["skipped"]) == (0, {"unreadable": 1})


def test_a_damaged_database_ends_no_other_assistants_import(machine: Machine) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    path = machine.home / ".config/Cursor/User/globalStorage/state.vscdb"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cursorDiskKV (key PRIMARY KEY, value)")
        rows = ((f"composerData:{number:05}", "{}" * 20) for number in range(5_000))
        connection.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
    connection.close()
    data = path.read_bytes()
    path.write_bytes(data[: 20 * 4_096] + b"Z" * (10 * 4_096) + data[30 * 4_096 :])
    report = machine.run()
    assert (report["sessions"], report["skipped"]["unreadable"]) == (1, 1)
    assert machine.said() == SAID["claude-code"]


def test_credentials_in_a_session_are_redacted_and_counted(machine: Machine) -> None:
    file = machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    key = "sk-ant-" + "api03-" + "Zk3q9LmX2v" * 9 + "AA"
    text = file.read_text("utf-8").replace("Add a cart page.", f"Add a cart page with {key}.")
    file.write_text(text.replace('"command":"pytest -q"', f'"command":"KEY={key} pytest -q"'), "utf-8")
    report = machine.run()
    assert sum(report["scrubbed"].values()) >= 2
    assert key.encode() not in (machine.elytron.folder / "m.db").read_bytes()


def test_a_dry_run_stores_nothing_and_since_excludes_older_sessions(machine: Machine) -> None:
    machine.put_all()
    report = machine.run("--dry-run")
    assert (report["stored"], report["dry_run"], report["changed"]) == (17, True, False)
    assert not (machine.elytron.folder / "m.db").exists()
    assert machine.run("--since", "2990-01-01")["skipped"]["older"] == 7
    assert machine.elytron.error("sessions", "import", "--path", "x", expect=2)["details"]["field"] == "--path"


def test_sessions_are_listed_with_their_folders_and_states(machine: Machine) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    machine.put("codex-0.163.0.jsonl", ".codex/sessions/rollout-2026-11-03T10-00-00-0199a000.jsonl")
    machine.run("codex")
    listed = machine.elytron.json("sessions", "list")["sessions"]
    assert {(each["host"], each["folder"], each["state"]) for each in listed} == {
        ("claude-code", str(machine.shop), "new"),
        ("codex", str(machine.shop), "imported"),
    }


def test_the_start_shows_the_latest_message_regardless_of_import_order(machine: Machine) -> None:
    machine.put_all()
    os.utime(machine.claude / "5e0c0001.jsonl", (4e9, 4e9))
    machine.run()
    items = machine.elytron.json("list", "--latest", "--space", machine.space)["items"]
    assert items[0]["channel"] == "claude-code"
    latest = max((each for each in items if each["role"] == "user"), key=lambda each: each["at"])
    event = json.dumps({"session_id": "new", "cwd": str(machine.shop)}).encode()
    block = machine.elytron("hooks", "start", "--per-repository", standard_input=event).stdout
    assert latest["text"] in json.loads(block)["hookSpecificOutput"]["additionalContext"]


def test_removed_projects_are_not_merged_into_their_parent_folder(machine: Machine) -> None:
    for number, name in enumerate(("shop", "bank")):
        machine.put("claude-code-2.1.332.jsonl", machine.claude / f"5e0c000{number}.jsonl")
        file = machine.claude / f"5e0c000{number}.jsonl"
        text = file.read_text("utf-8").replace(machine.shop.as_posix(), f"{machine.elytron.folder}/gone/{name}")
        file.write_text(text.replace('"u', f'"{name}-u'), "utf-8")
    spaces = machine.run()["spaces"]
    assert sorted(filed["label"] for filed in spaces) == ["bank", "shop"]
    assert len({filed["space"] for filed in spaces}) == 2


def test_a_paused_folder_is_skipped_until_it_is_resumed(machine: Machine) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    (machine.shop / "AGENTS.md").write_text("Use tabs in Makefiles.\n", "utf-8")
    machine.elytron("hooks", "pause", str(machine.shop))
    report = machine.run()
    assert (report["sessions"], report["stored"], report["skipped"]["paused"]) == (0, 0, 1)
    assert "elytron hooks resume" in machine.elytron("sessions", "import", "--no-json").output
    machine.elytron("hooks", "resume", str(machine.shop))
    assert machine.run()["sessions"] == 1
    machine.elytron("hooks", "pause", str(machine.shop))
    (machine.shop / "AGENTS.md").write_text("Use tabs in Makefiles and spaces elsewhere.\n", "utf-8")
    assert machine.run()["notes"] == 0


def test_a_note_has_the_time_of_its_file(machine: Machine) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    note = machine.shop / "AGENTS.md"
    note.write_text("The depot is in Leiden, next to the canal.\n", "utf-8")
    os.utime(note, (1_767_600_000, 1_767_600_000))
    machine.run()
    event = {"session_id": "another", "cwd": str(machine.shop), "prompt": "Where is the depot?"}
    store = f"sqlite://{machine.elytron.folder.as_posix()}/m.db"
    words = ("hooks", "recall", "--per-repository", "--store", store)
    block = machine.elytron(*words, standard_input=json.dumps(event).encode()).output
    assert "2026-01-05" in block
    assert "may be unfinished" not in block


def test_memory_files_are_notes_with_their_authors_trust(machine: Machine) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    (machine.home / ".claude/CLAUDE.md").write_text("# Me\n\n- Answer in short sentences.\n- Never use emojis.\n")
    memory = machine.claude / "memory"
    memory.mkdir()
    (memory / "MEMORY.md").write_text("# Shop\n- The build needs Node 22.\n- The database is Postgres.\n")
    (memory / "testing.md").write_text("---\nname: testing\ntype: project\n---\nRun the tests in order.\n")
    (machine.shop / "AGENTS.md").write_text("## Style\nUse tabs in Makefiles.\n")
    (machine.home / ".codex/memories").mkdir(parents=True)
    (machine.home / ".codex/memories/MEMORY.md").write_text(
        f"# A\n- Nobody knows where.\n# B\ncwd: {machine.shop}\n- Carts are lists.\n"
    )
    report = machine.run()
    assert (report["notes"], report["skipped"]["no_folder"]) == (8, 1)
    items = machine.elytron.json("list", "--space", machine.space)["items"]
    assert [(each["text"], each["trust"]) for each in items if each["channel"] == "memory-files"] == [
        ("B: cwd: " + str(machine.shop), "drawn"), ("B: Carts are lists.", "drawn"),
        ("Style: Use tabs in Makefiles.", "outside"),
        ("Shop: The build needs Node 22.", "drawn"), ("Shop: The database is Postgres.", "drawn"),
        ("Run the tests in order.", "drawn"),
    ]  # fmt: skip
    own = machine.elytron.json("list", "--space", "person")["items"]
    assert {("Me: Answer in short sentences.", "vouched"), ("Me: Never use emojis.", "vouched")} <= {
        (each["text"], each["trust"]) for each in own
    }
    (memory / "MEMORY.md").write_text("# Shop\n- The build needs Node 22.\n")
    assert machine.run()["hidden"] == 1
    (memory / "MEMORY.md").write_text("# Shop\n- The build needs Node 22.\n- The database is Postgres.\n\n")
    assert machine.run()["stored"] == 0
    texts = [text for _, text in machine.said("memory-files")]
    assert texts.count("Shop: The database is Postgres.") == 1
    (memory / "MEMORY.md").write_text("\n")
    assert machine.run()["hidden"] == 2


@pytest.mark.parametrize(
    "case",
    [
        ("CLAUDE_CONFIG_DIR", "moved", "claude-code-2.1.332.jsonl", "projects/x/5e0c0001.jsonl"),
        ("CODEX_HOME", "moved", "codex-0.163.0.jsonl", "sessions/rollout-2026-11-03T10-00-00-0199a000.jsonl"),
        ("GEMINI_CLI_HOME", "moved", "gemini-5411f113.jsonl", ".gemini/tmp/shop/chats/session-a.jsonl"),
        ("OPENCODE_DB", "moved/any.db", "opencode-1.18.33.sql", "any.db"),
        ("XDG_DATA_HOME", "moved", "opencode-2.0.25.sql", "opencode/opencode.db"),
        ("XDG_CONFIG_HOME", "moved", "cursor-2026.07.17-editor.sql", "Cursor/User/globalStorage/state.vscdb"),
    ],
)
def test_the_assistants_variables_change_the_folders_read(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, str, str]
) -> None:
    variable, value, fixture, place = case
    machine.put(fixture, f"moved/{place}")
    (machine.home / "moved/.gemini").mkdir(exist_ok=True)
    (machine.home / "moved/.gemini/projects.json").write_text(json.dumps({"projects": {str(machine.shop): "shop"}}))
    assert machine.run()["sessions"] == 0
    monkeypatch.setenv(variable, str(machine.home / value))
    assert machine.run()["sessions"] >= 1
    assert {each["state"] for each in machine.elytron.json("sessions", "list")["sessions"]} <= {"imported", "skipped"}


def test_the_report_and_the_list_are_human_readable(machine: Machine) -> None:
    machine.put_all()
    report = " ".join(machine.elytron("sessions", "import", "--no-json").stdout.split())
    for line in ("stored 17", "shop 17 messages of 5 sessions", "skipped 6 rewound"):
        assert line in report
    listed = machine.elytron("sessions", "list", "--limit", "2", "--no-json").stdout
    assert "imported" in listed
    assert "5 more: pass --limit" in listed


def test_a_repositorys_symlinks_never_lead_outside(machine: Machine, tmp_path: Path) -> None:
    machine.put("claude-code-2.1.332.jsonl", machine.claude / "5e0c0001.jsonl")
    notes = tmp_path / "private"
    notes.mkdir()
    (notes / "vault.md").write_text("- The vault code is on the fridge.\n")
    (machine.shop / ".claude").mkdir()
    (machine.shop / ".claude/rules").symlink_to(notes)
    (machine.claude / "memory").mkdir()
    (machine.claude / "memory/gone.md").symlink_to(tmp_path / "nowhere.md")
    report = machine.run()
    assert (report["notes"], report["skipped"]["unreadable"]) == (0, 1)
    assert not [text for _, text in machine.said("memory-files") if "fridge" in text]


def test_a_note_under_a_relative_folder_is_not_imported(machine: Machine) -> None:
    (machine.home / ".codex/memories").mkdir(parents=True)
    (machine.home / ".codex/memories/MEMORY.md").write_text("# A\ncwd: some/folder\n- Carts are lists.\n")
    report = machine.run()
    assert (report["notes"], report["skipped"]["no_folder"]) == (0, 2)


def test_unclosed_comments_are_read_as_text(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("<!-- not said --><!-- two\nlines -->Use tabs.\n\n" + "<!--" * 200_000)
    notes = read_notes(MemoryFile(tmp_path / "AGENTS.md", NoteOrigin.REPOSITORY, str(tmp_path)), ReadTally())
    assert (notes[0].line, notes[0].text) == (2, "Use tabs.")
