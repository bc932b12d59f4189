"""The page of framework adapters matches their table and the number of passing conformance tests.

    elytron integrations --check --json >checked.json
    python -m tests.gates.test_integration_page checked.json

rewrite it from the reports of all environments. With `--compare`, the second command exits with 1 if the page differs,
a test failed, or an adapter ran in no environment.
"""

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.gates.tree import ROOT

from elytron_integrations.integration_table import INTEGRATIONS, FrameworkIntegration

PAGE = ROOT / "docs" / "reference" / "integrations.md"
GROUPS = ("dev", "frameworks", "frameworks-apart", "claude-agent")
"""Dependency groups of the environments in which adapters are tested."""
ROWS = {row.module: row for row in INTEGRATIONS}
_ROW = re.compile(r"^\| .*`(elytron_integrations\.[\w.]+)` .*\| (\d+) \|$", re.MULTILINE)


def table_row(row: FrameworkIntegration, tests: int) -> str:
    """Return the line of an adapter, with the count of its conformance tests."""
    page = Path("..") / row.page
    cells = (
        f"[{row.name}]({page.as_posix()})",
        f"`{row.module}`",
        f"`{row.extra}`",
        f"`{row.distribution}{row.tested_range}`{', contract' if row.by_contract else ''}",
        row.provides,
        str(tests),
    )
    return f"| {' | '.join(cells)} |"


def integrations_page(tests: Mapping[str, int]) -> str:
    """Return the page with the counts of tests by module."""
    rows = "\n".join(table_row(row, tests[row.module]) for row in INTEGRATIONS)
    return f"""# Framework adapters

Install an adapter from a checkout of Elytron with the extra of its row, such as
`pip install "/path/to/elytron[langgraph]"`. With a version of the framework outside the tested range, importing it
warns once. `elytron integrations` prints this table with the installed versions. In a checkout, `elytron integrations
--check` runs the conformance tests: the framework's own suite where it has one, else the cases of its stores.
"Contract" means that they load only the framework's interface.

| adapter | module | extra | tested with | what it provides | tests |
|---|---|---|---|---|---|
{rows}
"""


def counts_on_page() -> dict[str, int]:
    """Return the counts of tests that the page shows."""
    return {module: int(count) for module, count in _ROW.findall(PAGE.read_text("utf-8"))}


def checked_counts(*reports: Path) -> dict[str, int]:
    """Return the counts of passed tests in the JSON of `elytron integrations --check`, run in each environment.

    Exits if a test failed, or an adapter ran in no environment.
    """
    statuses = [status for report in reports for status in json.loads(report.read_text("utf-8"))["integrations"]]
    ran = [status for status in statuses if status.get("passed_tests") is not None]
    if failed := sorted(
        {status["module"] for status in ran if status.get("failed_tests") or not status["passed_tests"]}
    ):
        sys.exit(f"these adapters do not conform: {failed}")
    if missing := sorted(ROWS.keys() - {status["module"] for status in ran}):
        sys.exit(f"these adapters were not run: {missing}")
    return {status["module"]: status["passed_tests"] for status in ran}


def test_the_page_matches_the_table() -> None:
    counts = dict.fromkeys(ROWS, 0) | counts_on_page()
    assert PAGE.read_text("utf-8") == integrations_page(counts), "python -m tests.gates.test_integration_page"


@pytest.mark.parametrize("module", ROWS)
def test_an_adapter_has_an_extra_a_page_an_example_and_tests(module: str) -> None:
    row = ROWS[module]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    requirements = project["project"]["optional-dependencies"][row.extra]
    groups = project["dependency-groups"]
    assert any(requirement.startswith(f"{row.distribution}>=") for requirement in requirements)
    assert any(requirement.startswith(row.distribution) for group in GROUPS for requirement in groups[group])
    assert (ROOT / "docs" / row.page).is_file()
    assert (ROOT / "tests" / "frameworks" / row.conformance).exists()
    assert f"elytron_integrations.{module.split('.')[1]}" in "".join(
        path.read_text("utf-8") for path in (ROOT / "examples" / "frameworks").glob("*.py")
    )


if __name__ == "__main__":
    new_page = integrations_page(checked_counts(*(Path(name) for name in sys.argv[1:] if name != "--compare")))
    if "--compare" in sys.argv:
        is_equal = new_page == PAGE.read_text("utf-8")
        sys.exit(0 if is_equal else f"{PAGE.relative_to(ROOT)} is out of date: write it again without --compare")
    PAGE.write_text(new_page, encoding="utf-8")
