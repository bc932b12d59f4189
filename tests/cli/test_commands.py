"""Commands on memories: what they store, find, show, hide, correct, and erase."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

import elytron as sdk
from elytron_cli.terminal.help_page import COMMANDS


def added(elytron: CommandLine, text: str, *options: str) -> str:
    """Store a text and return its id."""
    memory: str = elytron.json("add", text, *options)["decisions"][0]["id"]
    return memory


def stored_fact(folder: Path) -> str:
    """Store a fact and return its id."""
    with sdk.open(folder / "m.db") as memory:
        draft = sdk.FactDraft.model_validate(
            {"topic": "drink", "content": "Ada likes tea", "authority": "user_asserted", "confidence": "high"}
        )
        report = memory.write(sdk.MemoryWriteRequest(write=sdk.LongTermExtraction(facts=(draft,))))
        return report.ids[0]


class TestAdd:
    def test_a_text_is_stored_with_all_given_options(self, elytron: CommandLine) -> None:
        memory = added(
            elytron, "We moved to Lisbon.", "--speaker", "Ada", "--at", "2025-05-01T10:00:00Z", "--tag", "home",
            "--conversation", "family", "--role", "assistant",
        )  # fmt: skip
        hit = elytron.json("get", memory)
        assert (hit["text"], hit["speaker"], hit["at"], hit["tags"], hit["conversation"], hit["role"]) == (
            "We moved to Lisbon.", "Ada", 1_746_093_600_000, ["home"], "family", "assistant",
        )  # fmt: skip

    def test_a_dash_reads_standard_input(self, elytron: CommandLine) -> None:
        memory = elytron.json("add", "-", standard_input="外婆\n".encode())["decisions"][0]["id"]
        assert elytron.json("get", memory)["text"] == "外婆"

    def test_under_an_idempotency_key_it_is_stored_once(self, elytron: CommandLine) -> None:
        first = elytron.json("add", "tea", "--idempotency-key", "k")
        again = elytron.json("add", "tea", "--idempotency-key", "k")
        assert again == first | {"duplicated": True}
        assert elytron.error("add", "coffee", "--idempotency-key", "k", expect=4)["key"] == "idempotency_conflict"

    @pytest.mark.parametrize(
        ("arguments", "standard_input", "problem"),
        [
            (["x", "--at", "s3cret" * 11], None, "--at is not an ISO 8601 timestamp"),
            (["x", "--speaker", "s3cret\x00"], None, "speaker has control characters or surrounding white space"),
            (["x", "--tag", ""], None, "tags.0 is not valid: string should have at least 1 character"),
            (["x", "--conversation", " "], None, "conversation has control characters or surrounding white space"),
            (["x", "--role", "king"], None, "Invalid value for '--role'"),
            (["-"], b"s3cret\xff", "standard input is not UTF-8"),
            (["-"], b" \n", "the text is empty"),
            ([""], None, "the text is empty"),
            ([], None, "Missing argument 'TEXT'"),
        ],
    )  # fmt: skip
    def test_invalid_input_is_reported_and_nothing_is_stored(
        self, elytron: CommandLine, arguments: list[str], standard_input: bytes | None, problem: str
    ) -> None:
        elytron.make()
        error = elytron.error("add", *arguments, standard_input=standard_input, expect=2)
        assert error["key"] == "invalid_input"
        assert problem in error["reason"]
        assert "s3cret" not in json.dumps(error)
        assert elytron.json("inspect")["exists"] is False

    def test_oversized_standard_input_is_rejected(self, elytron: CommandLine) -> None:
        assert elytron.error("add", "-", standard_input=b"x" * 4_000_001, expect=7)["key"] == "payload_too_large"

    def test_people_see_the_id(self, elytron: CommandLine) -> None:
        assert elytron("add", "tea", "--no-json").stdout.startswith("stored  ")


class TestRecall:
    def test_the_best_answer_comes_first(self, elytron: CommandLine) -> None:
        added(elytron, "The cello is a rental.", "--speaker", "Mina")
        added(elytron, "The dog sleeps.", "--speaker", "Tomas")
        report = elytron.json("recall", "cello rental")
        assert (report["outcome"], report["hits"][0]["text"]) == ("found", "The cello is a rental.")

    def test_filters_narrow_recall(self, elytron: CommandLine) -> None:
        added(elytron, "The ferry leaves at six.", "--speaker", "Mina", "--at", "2025-01-01", "--conversation", "a")
        added(elytron, "The ferry leaves at nine.", "--speaker", "Tomas", "--at", "2025-02-01", "--tag", "late")

        def texts(*options: str) -> list[str]:
            return [hit["text"][20:-1] for hit in elytron.json("recall", "ferry", *options)["hits"]]

        assert texts("--speaker", "Mina") == ["six"]
        assert sorted(texts("--speaker", "Mina", "--speaker", "Tomas")) == ["nine", "six"]
        assert texts("--since", "2025-01-15") == ["nine"]
        assert texts("--until", "2025-01-15T12:00:00+02:00") == ["six"]
        assert texts("--conversation", "a") == ["six"]
        assert texts("--tag", "late") == ["nine"]
        assert len(texts("--limit", "1")) == 1
        assert len(texts("--max-tokens", "12")) == 1

    def test_people_see_a_table_and_with_explain_the_signals(self, elytron: CommandLine) -> None:
        memory = added(elytron, "The ferry leaves at six.", "--speaker", "Mina", "--at", "2025-01-01T09:30")
        shown = elytron("recall", "ferry", "--no-json").stdout
        assert "2025-01-01 09:30" in shown
        assert "Mina" in shown
        assert "The ferry leaves at six." in shown
        explained = elytron("recall", "ferry", "--no-json", "--explain").stdout
        assert "█" in explained
        assert memory in explained

    def test_explain_shows_cutoff_neighbours_pages_and_missing_information(self, elytron: CommandLine) -> None:
        added(elytron, "Shall we go by sea?", "--speaker", "Tomas")
        memory = added(elytron, "The ferry leaves at six.", "--speaker", "Mina")
        other = added(elytron, "The ferry is late.")
        shown = elytron(
            "recall", "ferry", "--limit", "1", "--explain", "--neighbours", "1", "--no-json",
            "--why-not", memory, "--why-not", other, "--why-not", "nobody",
        ).stdout  # fmt: skip
        assert "cut off at" in shown
        assert "ranked below the limit" in shown
        assert "no such memory" in shown
        (cursor,) = [line.partition("--cursor ")[2] for line in shown.splitlines() if "--cursor" in line]
        assert "The ferry" in elytron("recall", "ferry", "--limit", "1", "--cursor", cursor, "--no-json").stdout
        beside = elytron("recall", "ferry", "--limit", "1", "--neighbours", "1", "--no-json").stdout
        assert "Shall we go by sea?" in beside or "The ferry is late." in beside

    def test_conditions_on_metadata_are_json(self, elytron: CommandLine) -> None:
        added(elytron, "The ferry leaves at six.")
        assert elytron.json("recall", "ferry", "--where", '{"NOT": [{"team": "red"}]}')["outcome"] == "found"
        assert elytron.json("recall", "ferry", "--where", '{"team": "red"}')["reason"] == "nothing_matches_filters"
        assert elytron.error("recall", "ferry", "--where", "[1]", expect=2)["key"] == "invalid_input"

    def test_omissions_are_reported(self, elytron: CommandLine) -> None:
        for number in range(3):
            added(elytron, f"The ferry leaves at {number}.")
        assert "omitted: limit 1" in elytron("recall", "ferry", "--limit", "1", "--no-json").stdout

    def test_the_full_id_is_shown_below_the_text_or_next_to_it_if_there_is_room(
        self, elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        memory = added(elytron, "The ferry leaves at six.")
        monkeypatch.setenv("COLUMNS", "80")
        told = elytron("recall", "ferry", "--no-json").stdout
        assert told.partition("The ferry leaves at six.")[2].split()[0] == memory
        assert all(memory not in line for line in told.splitlines() if "ferry" in line)
        monkeypatch.setenv("COLUMNS", "140")
        told = elytron("recall", "ferry", "--no-json").stdout
        assert [line.split()[-1] for line in told.splitlines() if "ferry" in line] == [memory]
        assert elytron.json("recall", "ferry", "--why-not", memory)["why_not"][0]["absence"] == "shown"

    @pytest.mark.parametrize(
        ("stored", "query", "told"),
        [
            (False, "tea", "nothing has been stored"),
            (True, "zebra", "no memory answers"),
            (True, " ", "has no words"),
        ],
    )
    def test_an_empty_result_is_reported_and_is_not_a_failure(
        self, elytron: CommandLine, *, stored: bool, query: str, told: str
    ) -> None:
        elytron.make()
        if stored:
            added(elytron, "The ferry leaves at six.")
        assert told in elytron("recall", query, "--no-json").stdout

    def test_stored_text_cannot_steer_the_terminal(self, elytron: CommandLine) -> None:
        added(elytron, "tea \x1b]0;owned\x07 \u202e[bold]x[/bold] :smile:")
        for options in (["--no-json"], ["--json"], ["--no-json", "--explain"]):
            shown = elytron("recall", "tea", *options).stdout
            assert not {"\x1b", "\x07", "\u202e"} & set(shown)
        assert "[bold]x[/bold] :smile:" in elytron("recall", "tea", "--no-json").stdout

    @pytest.mark.parametrize(
        "arguments",
        [["x", "--limit", "0"], ["x", "--since", "soon"], ["x", "--speaker", ""], ["x", "--max-tokens", "no"]],
    )
    def test_invalid_options_are_usage_errors(self, elytron: CommandLine, arguments: list[str]) -> None:
        assert elytron.error("recall", *arguments, expect=2)["key"] == "invalid_input"


def test_a_block_into_which_nothing_fits_is_reported(elytron: CommandLine) -> None:
    added(elytron, "tea is green")
    result = elytron("project", "tea", "--max-chars", "3")
    report = json.loads(result.stdout)
    assert (report["miss_reason"], report["system_memory_block"]) == ("no_budget", "")
    assert "no memory fits into a block of 3 characters" in json.loads(result.stderr)["hint"]
    assert elytron("project", "tea").stderr == ""


def test_recall_in_an_unused_space_names_the_others(elytron: CommandLine) -> None:
    added(elytron, "tea is green")
    result = elytron("recall", "tea", "--space", "eve")
    assert json.loads(result.stdout)["reason"] == "empty_space"
    assert "the space 'eve' is empty; this store has 'default'" in json.loads(result.stderr)["hint"]


def test_a_projection_is_shown_with_its_budget(elytron: CommandLine) -> None:
    added(elytron, "The ferry leaves at six.")
    report = elytron.json("project", "ferry", "--max-chars", "1000", "--pressure", "cautious")
    assert len(report["system_memory_block"]) <= report["budget"] == 600
    shown = elytron("project", "ferry", "--max-chars", "1000", "--no-json").stdout
    assert "The ferry leaves at six." in shown
    assert "recalled" in shown
    assert "/1000" in shown


class TestReading:
    def test_lists_are_paged(self, elytron: CommandLine) -> None:
        ids = [added(elytron, f"text {number}") for number in range(3)]
        first = elytron.json("list", "--limit", "2")
        rest = elytron.json("list", "--cursor", first["next_cursor"])
        assert [item["id"] for item in (*first["items"], *rest["items"])] == ids
        shown = elytron("list", "--limit", "2", "--no-json").stdout
        assert f"more: --cursor {first['next_cursor']}" in shown
        assert ids[0] in shown

    def test_a_memory_is_shown_completely(self, elytron: CommandLine) -> None:
        memory = added(elytron, "one\ntwo", "--speaker", "Ada", "--tag", "t")
        shown = elytron("get", memory, "--no-json").stdout
        assert shown.endswith("one\ntwo\n")
        assert "Ada" in shown

    def test_a_history_tells_what_happened(self, elytron: CommandLine, tmp_path: Path) -> None:
        fact = stored_fact(tmp_path)
        elytron("correct", fact, "Ada likes coffee", "--reason", "she said so")
        events = [item["event"] for item in elytron.json("history", fact)["items"]]
        assert events[0] == "added"
        assert len(events) > 1
        assert "she said so" in elytron("history", fact, "--no-json").stdout

    @pytest.mark.parametrize("command", ["get", "history"])
    def test_an_unknown_id_is_not_found(self, elytron: CommandLine, command: str) -> None:
        elytron.make()
        assert elytron.error(command, "nobody", expect=3)["key"] == "not_found"


class TestControl:
    def test_forget_hides_and_undo_restores(self, elytron: CommandLine) -> None:
        memory = added(elytron, "The ferry leaves at six.")
        assert elytron.json("forget", memory, "--dry-run")["dry_run"] is True
        assert elytron.json("recall", "ferry")["outcome"] == "found"
        elytron("forget", memory)
        assert elytron.json("recall", "ferry")["outcome"] != "found"
        assert elytron.json("forget", memory, "--undo")["decisions"][0]["outcome"] == "changed"
        assert elytron.json("recall", "ferry")["outcome"] == "found"

    def test_a_correction_supersedes(self, elytron: CommandLine, tmp_path: Path) -> None:
        fact = stored_fact(tmp_path)
        report = elytron.json("correct", fact, "Ada likes coffee")
        assert elytron.json("get", report["decisions"][0]["new_id"])["text"] == "Ada likes coffee"

    def test_a_corrected_message_has_its_new_text(self, elytron: CommandLine) -> None:
        report = elytron.json("correct", added(elytron, "tea"), "coffee")
        assert elytron.json("get", report["decisions"][0]["new_id"])["text"] == "coffee"

    def test_erased_memories_are_gone(self, elytron: CommandLine) -> None:
        memory = added(elytron, "tea")
        elytron.json("erase", memory, "--dry-run")
        assert elytron.json("get", memory)["text"] == "tea"
        shown = elytron("erase", memory, "--no-json").stdout
        assert "removed 1 from turns" in shown
        elytron("get", memory, expect=3)

    def test_everything_is_erased_only_with_yes(self, elytron: CommandLine) -> None:
        added(elytron, "tea")
        before = elytron.state()
        assert "pass --yes" in elytron.error("erase", "--all", expect=2)["reason"]
        assert "or --all" in elytron.error("erase", expect=2)["reason"]
        assert "or --all" in elytron.error("erase", "x", "--all", "--yes", expect=2)["reason"]
        elytron("erase", "--all", "--dry-run")
        assert elytron.state() == before
        assert elytron.json("erase", "--all", "--yes")["changed"] is True
        assert elytron.json("inspect")["exists"] is False

    def test_unknown_ids_alone_exit_with_3_and_are_reported(self, elytron: CommandLine) -> None:
        memory = added(elytron, "tea")
        report = elytron.json("forget", "nobody", expect=3)
        assert report["decisions"] == [{"id": "nobody", "outcome": "not_found", "remaining": []}]
        assert "nothing was changed" in elytron("forget", "nobody", "--no-json", expect=3).stdout
        assert elytron.json("forget", "nobody", memory)["changed"] is True


class TestInspect:
    def test_a_sound_store_is_checked_and_shown(self, elytron: CommandLine) -> None:
        added(elytron, "tea", "--speaker", "Ada", "--conversation", "kitchen")
        assert elytron.json("inspect")["documents"]["turns"] == 1
        shown = elytron("inspect", "--check", "--no-json").stdout
        assert "default/kitchen" in shown
        assert "store: sound" in shown

    def test_damage_is_reported_exits_with_13_and_can_be_quarantined(self, elytron: CommandLine) -> None:
        added(elytron, "tea")
        damage(elytron.folder / "m.db", b'"tea"', b'"pea"')
        report = elytron.json("inspect", "--check", expect=13)
        assert report["store_check"]["ok"] is False
        assert "DAMAGED" in elytron("inspect", "--check", "--no-json", expect=13).stdout
        repaired = elytron.json("inspect", "--repair", expect=13)
        assert repaired["store_check"]["repaired"]
        assert [problem["quarantined"] for problem in repaired["store_check"]["problems"]]

    def test_an_empty_space_is_reported_as_empty(self, elytron: CommandLine) -> None:
        elytron.make()
        assert "nothing stored yet" in elytron("inspect", "--no-json").stdout


def damage(file: Path, old: bytes, new: bytes) -> None:
    """Alter bytes of a stored body directly in the file."""
    data = file.read_bytes()
    assert data.count(old) == 1
    file.write_bytes(data.replace(old, new))


class TestMoving:
    def test_an_archive_round_trips_unchanged(self, elytron: CommandLine) -> None:
        elytron("import", elytron.write("t.jsonl", b'{"role": "user", "content": "tea", "timestamp": 1}'))
        exported = elytron.json("export", "a.zip")
        imported = elytron.json("--store", "other.db", "import", "a.zip")
        assert imported["state_fingerprint"] == exported["state_fingerprint"]
        assert elytron.json("import", "a.zip", "--mode", "bootstrap")["changed"] is False
        assert elytron.error("import", "a.zip", expect=4)["key"] == "space_in_use"

    def test_people_see_what_was_imported(self, elytron: CommandLine) -> None:
        added(elytron, "tea")
        assert "turns" in elytron("export", "a.zip", "--no-json").stdout
        assert "imported" in elytron("--store", "other.db", "import", "a.zip", "--no-json").stdout
        shown = elytron("import", "a.zip", "--mode", "bootstrap", "--dry-run", "--no-json").stdout
        assert "would import" in shown

    def test_an_empty_space_has_nothing_to_export(self, elytron: CommandLine) -> None:
        elytron.make()
        assert elytron.error("export", "a.zip", expect=3)["key"] == "not_found"


class TestGlobalOptions:
    def test_options_may_precede_or_follow_the_command_and_the_last_wins(self, elytron: CommandLine) -> None:
        elytron("--store", "b.db", "add", "tea")
        elytron("add", "coffee", "--store", "b.db", "--space", "other")
        found = elytron.json("--store", "wrong.db", "recall", "tea", "--store", "b.db")
        assert [hit["text"] for hit in found["hits"]] == ["tea"]
        assert not (elytron.folder / "wrong.db").exists()

    def test_a_configuration_file_in_the_folder_is_used(
        self, elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("ELYTRON_STORE")
        elytron.write("elytron.toml", b'store = "toml.db"\n')
        elytron("add", "tea")
        assert (elytron.folder / "toml.db").exists()

    def test_the_default_store_gets_its_folder(self, elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ELYTRON_STORE")
        elytron("add", "tea")
        assert (elytron.folder / "data" / "elytron" / "memory.db").exists()

    def test_a_folder_that_cannot_be_created_is_reported(
        self, elytron: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("ELYTRON_STORE")
        elytron.write("data", b"a file in the way")
        assert elytron.error("add", "tea", expect=9)["key"] == "store_unavailable"

    @pytest.mark.parametrize(
        ("options", "code", "key"),
        [
            (["--store", "redis://s3cret"], 2, "store_url_invalid"),
            (["--store", "notes.txt"], 2, "store_url_invalid"),
            (["--space", "a\nb"], 2, "invalid_input"),
            (["--key-file", "missing"], 14, "key_missing"),
            (["--store", "/nowhere/at/all/m.db"], 3, "store_missing"),
        ],
    )
    def test_invalid_filters_are_typed_errors(
        self, elytron: CommandLine, options: list[str], code: int, key: str
    ) -> None:
        error = elytron.error("recall", "x", *options, expect=code)
        assert error["key"] == key
        assert "s3cret" not in json.dumps(error)

    def test_an_unknown_command_or_option_is_a_usage_error(self, elytron: CommandLine) -> None:
        assert elytron.error("dance", expect=2)["reason"].startswith("No such command 'dance'. See ")
        assert "--dance" in elytron.error("recall", "x", "--dance", expect=2)["reason"]

    def test_a_file_that_is_not_a_store_is_rejected(self, elytron: CommandLine) -> None:
        elytron.write("m.db", b"not a database at all" * 100)
        error: dict[str, Any] = elytron.error("recall", "x", expect=12)
        assert error["key"] == "store_foreign"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(elytron: CommandLine, name: str) -> None:
    shown = elytron(name, "--help").stdout
    assert f"Usage: elytron {name}" in shown or f"Usage: cli {name}" in shown
    assert "--store" in shown


def test_the_help_lists_every_command(elytron: CommandLine) -> None:
    assert COMMANDS.keys() <= set(elytron("--help").stdout.split())


def test_hidden_memories_are_listed_on_request(elytron: CommandLine) -> None:
    memory = elytron.json("add", "tea")["decisions"][0]["id"]
    elytron("forget", memory)
    assert elytron.json("list")["items"] == []
    assert [item["id"] for item in elytron.json("list", "--hidden")["items"]] == [memory]


def test_names_from_other_hosts_are_accepted(elytron: CommandLine) -> None:
    elytron("add", "The boiler code is 4417.")
    for option in ("--max-chars", "--max-len"):
        assert elytron.json("project", "boiler code", option, "1500")["requested_chars"] == 1_500
    short = elytron.json("platform", "capability-snapshot", "--profile", "server-linux-memory-gateway")
    assert elytron.json("platform", "capability-snapshot", "--profile", "profile-server-linux-memory-gateway") == short
    elytron("add", "tea", "--store", "p.db", "--profile", "profile-server-linux-memory-gateway")
