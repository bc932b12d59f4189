"""Importing costs little: what an import loads is told, so that nothing heavy slips in."""

import subprocess
import sys

import pytest

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
    assert (
        loaded_by("elytron_core.contracts.conversation.write, elytron_core.errors, elytron_core.ports.store")
        == PYDANTIC
    )


@pytest.mark.parametrize("module", ["elytron_cli.main", "elytron_store.sealed", "elytron_http_shell", "elytron_replay"])
def test_what_a_host_names_first_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(module) - PYDANTIC == set()
