"""Run the conformance tests of the framework adapters, one adapter at a time."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from elytron_core.errors import Unsupported
from elytron_core.model import Value
from elytron_integrations.integration_table import INTEGRATIONS, FrameworkIntegration

RUN_WAIT_S: Final = 600
"""Maximum time for one adapter's tests."""
_ROOT: Final = Path(__file__).resolve().parents[3]
_COUNTS: Final = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


class IntegrationStatus(Value):
    """An adapter in this environment, with test counts if its tests were run."""

    name: str
    module: str
    provides: str
    distribution: str
    extra: str
    tested_range: str
    by_contract: bool = False
    """Whether the tests load only the framework's interface."""
    installed_version: str | None = None
    is_tested: bool | None = None
    """Whether the installed version is inside the tested range; None if nothing is installed."""
    passed_tests: int | None = None
    failed_tests: int | None = None
    """Number of tests that failed, ended with an error or were skipped."""

    @property
    def tested_with(self) -> str:
        """Return the tested versions of the distribution, and "contract" for those of its interface."""
        return f"{self.distribution}{self.tested_range}{', contract' if self.by_contract else ''}"

    @property
    def conforms(self) -> bool:
        """Return whether tests were run and all passed."""
        return bool(self.passed_tests) and self.failed_tests == 0


class IntegrationsReport(Value):
    """Every adapter, in table order."""

    integrations: tuple[IntegrationStatus, ...]


def integration_statuses(rows: Sequence[FrameworkIntegration] = INTEGRATIONS, /) -> IntegrationsReport:
    """Return each adapter with the installed version of its framework."""
    return IntegrationsReport(integrations=tuple(map(_status_of, rows)))


def check_integrations(
    rows: Sequence[FrameworkIntegration] = INTEGRATIONS, /, *, root: Path = _ROOT
) -> Iterator[IntegrationStatus]:
    """Yield each adapter with the counts of its conformance tests, or without counts if the framework is missing.

    Raises Unsupported outside a checkout, because wheels contain no tests.
    """
    folder = root / "tests" / "frameworks"
    if not folder.is_dir():
        raise Unsupported(
            "a wheel has no conformance tests: in a checkout of Elytron, use the checkout's own environment,"
            " such as `uv run elytron integrations --check`"
        )
    for row in rows:
        status = _status_of(row)
        if status.installed_version is not None:
            passed, failed = _test_counts(folder / row.conformance, root)
            status = status.model_copy(update={"passed_tests": passed, "failed_tests": failed})
        yield status


def _status_of(row: FrameworkIntegration) -> IntegrationStatus:
    release = row.installed_version
    return IntegrationStatus(
        name=row.name,
        module=row.module,
        provides=row.provides,
        distribution=row.distribution,
        extra=row.extra,
        tested_range=row.tested_range,
        by_contract=row.by_contract,
        installed_version=release,
        is_tested=row.is_tested(release) if release is not None else None,
    )


def _own_environment() -> dict[str, str]:
    """Return the environment without variables that an enclosing pytest or coverage run set for its own processes."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SLIPCOVER_"))}


def _test_counts(tests: Path, root: Path) -> tuple[int, int]:
    """Return how many tests passed and how many did not. A run that ends without counts is one failure."""
    options = ("-q", "-n", "0", "-p", "no:cacheprovider")
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(  # noqa: S603 - the current interpreter
            [sys.executable, "-P", "-m", "pytest", *options, f"--basetemp={folder}", tests],
            cwd=root,
            env=_own_environment(),
            capture_output=True,
            encoding="utf-8",
            timeout=RUN_WAIT_S,
            check=False,
        )
    last_line = process.stdout.strip().rpartition("\n")[2]
    counts = {word.rstrip("s"): int(count) for count, word in _COUNTS.findall(last_line)}
    passed = counts.pop("passed", 0)
    return passed, sum(counts.values()) or int(process.returncode != 0)
