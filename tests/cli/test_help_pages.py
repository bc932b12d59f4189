"""The stored help pages are regenerated as a whole, and one is read without loading a command."""

from pathlib import Path

from elytron_cli.help_pages import every_text, keep_pages
from elytron_cli.terminal.help_page import kept_page


def test_pages_are_written_and_pages_of_removed_commands_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "help"
    folder.mkdir()
    (folder / "gone.txt").write_text("old")
    (folder / "add.txt").write_text("old")
    keep_pages(str(folder))
    assert {page.name: page.read_text("utf-8") for page in folder.iterdir()} == every_text()


def test_a_help_page_is_found_by_its_command() -> None:
    page = kept_page(["facts", "list"])
    assert page is not None
    assert page.startswith("Usage: elytron facts list")
    assert [kept_page(words) for words in ([], ["nothing"], ["facts", "nothing"])] == [None, None, None]
