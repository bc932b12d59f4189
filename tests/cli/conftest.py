"""The command line in this process: in a folder of its own, with nothing configured."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from elytron_cli.app import elytron_group


@dataclass(frozen=True)
class CommandLine:
    """Runs `elytron` on the store m.db of the test's folder."""

    folder: Path

    def __call__(self, *arguments: str, standard_input: bytes | None = None, expect: int = 0) -> Result:
        """Return the result of a run, which must end with the exit code `expect`."""
        result = CliRunner().invoke(elytron_group, arguments, input=standard_input)
        assert result.exit_code == expect, result.output
        return result

    def json(self, *arguments: str, standard_input: bytes | None = None, expect: int = 0) -> Any:
        """Return the report of a run that succeeds."""
        return json.loads(self(*arguments, standard_input=standard_input, expect=expect).stdout)

    def error(self, *arguments: str, expect: int, standard_input: bytes | None = None) -> dict[str, Any]:
        """Return what a run says of its failure; it prints nothing else."""
        result = self(*arguments, standard_input=standard_input, expect=expect)
        assert result.stdout == ""
        error: dict[str, Any] = json.loads(result.stderr)["error"]
        return error

    def write(self, name: str, content: bytes) -> str:
        """Leave a file in the folder and return its path."""
        (self.folder / name).write_bytes(content)
        return str(self.folder / name)

    def make(self) -> None:
        """Make the store, with nothing in the space that commands use."""
        self("add", "made", "--space", "another")

    def state(self) -> tuple[str, int]:
        """Return what changes with any change of the space."""
        report = self.json("inspect", "--fingerprints")
        return report["state_fingerprint"], report["sequence"]


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the standard streams of commands count as a terminal."""

    def is_terminal(_: object) -> bool:
        return True

    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", is_terminal, raising=False)


@pytest.fixture
def elytron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in [name for name in os.environ if name.startswith("ELYTRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("ELYTRON_STORE", "m.db")
    monkeypatch.setenv("COLUMNS", "100")
    return CommandLine(tmp_path)
