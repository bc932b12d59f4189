"""What of this checkout needs agent frameworks, by the table of adapters. Uses the standard library only."""

import runpy
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ("frameworks", "frameworks-apart", "claude-agent")
"""Dependency groups of the environments; what is in none of the others is tested in the first."""
FOLDERS = ("tests/frameworks", "examples/frameworks", "benchmarks/frameworks.py")
"""Programs that use the adapters."""
_PACKAGE = ROOT / "packages" / "integrations"


def integration_rows(environment=None):
    """Return the rows of the table of adapters, or those that are tested in an environment."""
    rows = runpy.run_path(str(_PACKAGE / "elytron_integrations" / "integration_table.py"))["INTEGRATIONS"]
    return [row for row in rows if environment in {None, _environment_of(row)}]


def adapter_modules(environment=None):
    """Return the files of the adapters that need a framework, in a stable order."""
    homes = {_PACKAGE.joinpath(*row.module.split(".")[:2]) for row in integration_rows(environment)}
    modules = {path for home in homes for path in (home.with_suffix(".py"), *home.glob("**/*.py"))}
    return sorted(path for path in modules if path.is_file())


def adapter_pages(environment=None):
    """Return the pages of the adapters, whose programs need a framework."""
    return sorted({ROOT / "docs" / row.page for row in integration_rows(environment)})


def adapter_programs(environment):
    """Return the tests, examples and benchmarks of the adapters that are tested in an environment."""
    rows = integration_rows(environment)
    names = [f"elytron_integrations.{row.module.split('.')[1]}" for row in rows]
    tests = [ROOT / "tests" / "frameworks" / row.conformance for row in rows]
    examples = [
        path
        for path in sorted((ROOT / "examples" / "frameworks").glob("*.py"))
        if any(name in path.read_text(encoding="utf-8") for name in names)
    ]
    benchmarks = [ROOT / "benchmarks" / "frameworks.py"] if environment == ENVIRONMENTS[0] else []
    return [path for path in (*tests, *examples, *benchmarks) if path.exists()]


def _environment_of(row):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    others = (name for name in ENVIRONMENTS[1:] for each in groups[name] if each.startswith(f"{row.distribution}>="))
    return next(others, ENVIRONMENTS[0])
