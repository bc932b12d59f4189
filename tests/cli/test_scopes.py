"""Every command can name the complete scope."""

import subprocess
import sys

import pytest
from tests.cli.conftest import CommandLine

import elytron as sdk
from elytron_cli.terminal.help_page import COMMANDS, GROUPS, OPTIONS


def test_a_text_is_added_to_the_scope_that_the_options_name(elytron: CommandLine) -> None:
    elytron("add", "tea", "--owner", "ada", "--agent", "helper", "--channel", "phone", "--chat", "family")
    (item,) = elytron.json("list", "--space", "ada")["items"]
    assert (item["channel"], item["conversation"]) == ("phone", "family")
    with sdk.open(elytron.folder / "m.db", space="ada") as memory:
        assert len(memory.list(filters={"agent_id": "helper"})) == 1
    assert elytron.json("replay", "--owner", "ada", "--channel", "phone", "--chat", "family")["total_turns"] == 1
    assert elytron.json("replay", "--owner", "ada", "--channel", "web", "--chat", "family")["total_turns"] == 0


@pytest.mark.parametrize("name", ["add", "recall", "project", "list", "facts add", "skills list", "import", "maintain"])
def test_memory_commands_accept_the_parts_of_a_scope(elytron: CommandLine, name: str) -> None:
    shown = elytron(*name.split(), "--help").stdout
    assert [option for option in ("--agent", "--owner", "--channel", "--chat") if option not in shown] == []


def test_the_help_groups_the_commands_and_names_the_common_options(elytron: CommandLine) -> None:
    shown = elytron("--help").stdout
    assert [f"{group}:" for group in GROUPS if f"\n{group}:\n" not in shown] == []
    assert [name for name, _, _ in OPTIONS if f"  {name} " not in shown] == []
    assert max(map(len, shown.splitlines())) < 80
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)


@pytest.mark.parametrize("words", [[], ["recall"], ["facts", "list"]])
def test_the_help_loads_no_library(words: list[str]) -> None:
    arguments = [*words, "--help"]
    tell = (
        f"import sys; sys.argv[1:] = {arguments!r}; from elytron_cli.main import run_command_line; "
        "run_command_line(); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", tell], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith(" ".join(["Usage: elytron", *words]))
    assert not {"click", "rich", "pydantic"} & set(done.stdout.splitlines()[-1].split("'"))
