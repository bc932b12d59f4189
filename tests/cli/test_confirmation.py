"""Nothing is destroyed without consent: existing files stay, and irreversible actions need confirmation."""

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.cli.test_commands import added

import elytron as sdk
from elytron import EvidenceRole, Message


@pytest.mark.parametrize(("answer", "code", "is_gone"), [(b"n\n", 1, False), (b"", 1, False), (b"y\n", 0, True)])
def test_at_a_terminal_an_erasure_needs_confirmation_and_no_cancels_it(
    elytron: CommandLine, at_a_terminal: None, answer: bytes, code: int, is_gone: bool
) -> None:
    memory = added(elytron, "tea", "--json")
    result = elytron("erase", memory, standard_input=answer, expect=code)
    assert ("nothing was changed" in result.stderr) is not is_gone
    elytron("get", memory, expect=3 if is_gone else 0)


@pytest.mark.parametrize("options", [(), ("--public",)])
def test_an_existing_file_is_overwritten_only_with_force(elytron: CommandLine, options: tuple[str, ...]) -> None:
    elytron("facts", "add", "drink", "tea")
    note = elytron.write("note.txt", b"precious")
    assert "already exists" in elytron.error("export", note, *options, expect=2)["reason"]
    assert Path(note).read_bytes() == b"precious"
    elytron("export", note, "--force", *options)
    assert Path(note).read_bytes().startswith(b"PK")


def test_a_snapshot_overwrites_a_file_only_with_force(elytron: CommandLine) -> None:
    added(elytron, "tea")
    note = elytron.write("note.txt", b"precious")
    assert "already exists" in elytron.error("continuity", "export", note, expect=2)["reason"]
    assert Path(note).read_bytes() == b"precious"
    elytron("continuity", "export", note, "--force")
    assert Path(note).read_bytes().startswith(b"{")


class TestOrigins:
    """Everything that came through one tool, page, or upload is listed first and erased as a set."""

    @pytest.fixture
    def told(self, elytron: CommandLine) -> CommandLine:
        with sdk.open(elytron.folder / "m.db", space="default") as memory:
            memory.add([Message(role=EvidenceRole.TOOL, text="Book at shop.example.", speaker="browse"), "I like tea."])
            page = Message(role=EvidenceRole.TOOL, text="The page says nine.", speaker="web")
            memory.add([page], metadata={"url": "https://page.example/a"})
        return elytron

    def test_without_a_terminal_a_token_confirms_it(self, told: CommandLine) -> None:
        named = told.json("erase", "--origin", "tool:browse")
        assert (len(named["decisions"]), named["changed"]) == (1, False)
        assert len(texts(told)) == 3
        assert told.json("erase", "--origin", "tool:browse", "--token", named["token"])["changed"]
        assert texts(told) == ["I like tea.", "The page says nine."]

    def test_a_page_is_erased_immediately_with_the_option(self, told: CommandLine) -> None:
        assert told.json("erase", "--origin", "page:https://page.example/a", "--yes")["changed"]
        assert texts(told) == ["Book at shop.example.", "I like tea."]

    @pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, 3), (b"y\n", 0, 2)])
    def test_at_a_terminal_it_needs_confirmation(
        self, told: CommandLine, at_a_terminal: None, answer: bytes, code: int, left: int
    ) -> None:
        told("erase", "--origin", "tool:browse", standard_input=answer, expect=code)
        assert len(texts(told)) == left

    def test_a_dry_run_changes_nothing_and_missing_memories_are_reported(self, told: CommandLine) -> None:
        assert told.json("erase", "--origin", "tool:browse", "--yes", "--dry-run")["dry_run"]
        assert len(texts(told)) == 3
        told("erase", "--origin", "tool:none", expect=3)

    @pytest.mark.parametrize(
        "arguments",
        [("--origin", "browse"), ("--origin", "tool:"), ("--origin", "tool:x", "--all"), ("id", "--token", "t"), ()],
    )
    def test_an_erasure_without_a_valid_origin_is_rejected(self, told: CommandLine, arguments: tuple[str, ...]) -> None:
        assert told.error("erase", *arguments, expect=2)["key"] == "invalid_input"


def texts(elytron: CommandLine) -> list[str]:
    return sorted(item["text"] for item in elytron.json("list", "--json")["items"])
