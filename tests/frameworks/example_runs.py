"""Runs of the examples of adapters."""

import subprocess
import sys

from tests.gates.tree import ROOT


def example_output(name: str, /) -> str:
    """Return what an example prints, which must end well and print nothing to its standard error."""
    path = ROOT / "examples" / "frameworks" / f"{name}.py"
    process = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=60, check=False)
    assert (process.returncode, process.stderr) == (0, ""), process.stderr
    return process.stdout
