"""What of this checkout needs agent frameworks, by the table of adapters. Uses the standard library only."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tests/frameworks", "examples/frameworks", "benchmarks/frameworks.py")
"""Programs that use the adapters."""
_PACKAGE = ROOT / "packages" / "integrations"


def integration_rows():
    """Return the rows of the table of adapters."""
    return runpy.run_path(str(_PACKAGE / "elytron_integrations" / "integration_table.py"))["INTEGRATIONS"]


def adapter_modules():
    """Return the files of the adapters that need a framework, in a stable order."""
    homes = {_PACKAGE.joinpath(*row.module.split(".")[:2]) for row in integration_rows()}
    modules = {path for home in homes for path in (home.with_suffix(".py"), *home.glob("**/*.py"))}
    return sorted(path for path in modules if path.is_file())


def adapter_pages():
    """Return the pages of the adapters, whose programs need a framework."""
    return sorted({ROOT / "docs" / row.page for row in integration_rows()})
