"""Importing is cheap: the modules that an import loads are listed, so that nothing heavy slips in."""

import subprocess
import sys
from pathlib import Path

import pytest

import elytron

PYDANTIC = {"annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}
_TELL = """
import sys
before = set(sys.modules)
import {module}
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*(name for name in loaded - sys.stdlib_module_names if not name.startswith(("elytron", "_sysconfigdata"))))
"""


def loaded_by(module: str) -> set[str]:
    """Return the third-party packages that importing `module` loads in a fresh interpreter."""
    told = subprocess.run(
        [sys.executable, "-c", _TELL.format(module=module)], capture_output=True, text=True, check=True, timeout=60
    )
    return set(told.stdout.split())


def test_importing_elytron_loads_nothing_beyond_pydantic() -> None:
    assert loaded_by("elytron") - PYDANTIC == set()


def test_the_contracts_and_errors_load_nothing_beyond_pydantic() -> None:
    assert loaded_by("elytron_core.contracts.transcript, elytron_core.errors, elytron_core.ports.store") == PYDANTIC


def test_everyday_calls_load_no_tools(tmp_path: Path) -> None:
    script = _EVERYDAY.format(place=str(tmp_path / "memory.db"))
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    loaded = told.stdout.split()
    assert "elytron.recall.retrieval" in loaded
    assert [name for name in loaded if name.startswith(TOOLS)] == []


@pytest.mark.parametrize("module", ["elytron_cli.main", "elytron_store.sealed", "elytron_http_shell", "elytron_replay"])
def test_names_that_hosts_use_first_load_nothing_heavy(module: str) -> None:
    assert loaded_by(module) - PYDANTIC == set()


TOOLS = ("elytron_conformance", "elytron_evaluation", "elytron_replay", "elytron.models.")
"""Code that tests stores, replays fixtures, rates memory, demonstrates it, and scripts models."""
_EVERYDAY = """
import sys
import elytron
with elytron.open({place!r}) as memory:
    memory.add("Our cat is called Bento.")
    assert memory.recall("What is the cat called?").hits
    memory.project("What is the cat called?")
print(*sys.modules)
"""
OF_OTHER_COMMANDS = (
    *("elytron.importers.detection", "elytron.transfer", "elytron.passes", "elytron.flows.", "elytron.remote"),
    *("elytron.ops.archive", "elytron.ops.skills", "elytron.ops.continuity"),
    *("elytron_agent", "elytron_gateway", "elytron_http_shell", "elytron_mcp_shell", "elytron_models", "elytron_proxy"),
    *(*TOOLS, "cryptography", "httpx", "starlette", "websockets"),
)
"""Modules that recalling, listing, and adding do not need."""
OF_SEARCH = ("numpy", "elytron_index.space_index", "elytron.recall.retrieval")
"""Modules that only a search needs."""
_COMMANDS = """
import sys
from elytron_cli.main import run_command_line
for arguments in {commands}:
    sys.argv = ["elytron", *arguments]
    try:
        run_command_line()
    except SystemExit as end:
        assert not end.code, arguments
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("commands", "unneeded"),
    [
        ([["recall", "tea"]], OF_OTHER_COMMANDS),
        ([["add", "Tea."], ["list"], ["facts", "list"]], OF_OTHER_COMMANDS + OF_SEARCH),
    ],
)
def test_commands_load_no_more_than_they_need(
    commands: list[list[str]], unneeded: tuple[str, ...], tmp_path: Path
) -> None:
    place = str(tmp_path / "memory.db")
    with elytron.open(place) as memory:
        memory.add("Our cat is called Bento.")
    script = _COMMANDS.format(commands=[[*command, "--store", place] for command in commands])
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    loaded = told.stderr.split()
    assert "elytron.runtime" in loaded
    assert [name for name in loaded if name.startswith(unneeded)] == []


_SERVER = """
import asyncio, sys
from elytron_cli.server.optional_surfaces import SurfaceOptions
from tests.transports.serving import served

async def serve():
    async with served(SurfaceOptions()) as server:
        print(*server.protocols)
        print(*sys.modules)

asyncio.run(serve())
"""


def test_a_server_listens_before_the_sdks_of_its_protocols_are_loaded() -> None:
    root = Path(__file__).parents[2]
    told = subprocess.run(
        [sys.executable, "-c", _SERVER], capture_output=True, text=True, check=True, timeout=60, cwd=root
    )
    protocols, loaded = told.stdout.splitlines()
    assert {"mcp", "a2a"} <= set(protocols.split())
    assert {"elytron_mcp_shell.app", "elytron_a2a_shell.app"} <= set(loaded.split())
    assert {"mcp", "mcp_types", "a2a"}.isdisjoint(loaded.split())
