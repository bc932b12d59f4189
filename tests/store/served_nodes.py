"""Servers of one database, each a separate process."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RUN = "from elytron_cli.main import run_command_line; run_command_line()"


@contextmanager
def served_nodes(folder: Path, nodes: Sequence[Sequence[str]], /) -> Generator[list[dict[str, Any]]]:
    """Run `elytron serve` with the arguments of each of `nodes`, from `folder`; yield their reports."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
    command = [sys.executable, "-c", RUN, "serve", "--port", "0", "--json", "--log-level", "error"]
    processes = [
        subprocess.Popen(
            [*command, *node], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for node in nodes
    ]
    try:
        yield [_report_of(process) for process in processes]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.communicate(timeout=60)


def _report_of(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """Return the report that a server prints when it listens."""
    assert process.stdout is not None
    text = ""
    while True:
        line = process.stdout.readline()
        assert line, "the server ended"
        text += line.decode()
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            continue
        return found
