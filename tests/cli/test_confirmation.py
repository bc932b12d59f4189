"""Nothing is destroyed unasked: existing files stay, and what cannot be undone needs a yes."""

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.cli.test_commands import added


@pytest.mark.parametrize(("answer", "code", "is_gone"), [(b"n\n", 1, False), (b"", 1, False), (b"y\n", 0, True)])
def test_at_a_terminal_an_erasure_is_asked_about_and_a_no_does_nothing(
    elytron: CommandLine, at_a_terminal: None, answer: bytes, code: int, is_gone: bool
) -> None:
    memory = added(elytron, "tea", "--json")
    result = elytron("erase", memory, standard_input=answer, expect=code)
    assert ("nothing was done" in result.stderr) is not is_gone
    elytron("get", memory, expect=3 if is_gone else 0)


@pytest.mark.parametrize("options", [(), ("--private",)])
def test_an_existing_file_is_replaced_only_with_force(elytron: CommandLine, options: tuple[str, ...]) -> None:
    added(elytron, "tea")
    note = elytron.write("note.txt", b"precious")
    assert "is there already" in elytron.error("export", note, *options, expect=2)["reason"]
    assert Path(note).read_bytes() == b"precious"
    elytron("export", note, "--force", *options)
    assert Path(note).read_bytes().startswith(b"PK")


def test_a_snapshot_replaces_a_file_only_with_force(elytron: CommandLine) -> None:
    added(elytron, "tea")
    note = elytron.write("note.txt", b"precious")
    assert "is there already" in elytron.error("continuity", "export", note, expect=2)["reason"]
    assert Path(note).read_bytes() == b"precious"
    elytron("continuity", "export", note, "--force")
    assert Path(note).read_bytes().startswith(b"{")
