"""The table of framework adapters: their versions, and the run of their conformance tests."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from elytron_core.errors import MissingExtra, Unsupported
from elytron_integrations import integration_table
from elytron_integrations.conformance_runs import check_integrations, integration_statuses
from elytron_integrations.integration_table import FrameworkIntegration, require_framework

ROW = FrameworkIntegration(
    name="Pytest adapter",
    extra="langgraph",
    distribution="pytest",
    import_name="pytest",
    tested_range=">=9.0,<999",
    module="elytron_integrations.pytest",
    page="how-to/pytest.md",
    provides="tests",
    conformance="pytest",
)
ABSENT = replace(ROW, distribution="no-such-framework", import_name="no_such_framework")


@pytest.mark.parametrize(
    ("release", "is_tested"),
    [
        ("4.3.1", False),
        ("4.3.2", True),
        ("4.3.2.0", True),
        ("4.3.9rc1", True),
        ("4.4", False),
        ("4.4.0", False),
        ("?", False),
    ],
)
def test_a_version_is_tested_from_the_lowest_up_to_the_limit(release: str, is_tested: bool) -> None:
    assert replace(ROW, tested_range=">=4.3.2,<4.4").is_tested(release) is is_tested


def test_an_adapter_without_its_framework_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration_table, "INTEGRATIONS", (ABSENT,))
    with pytest.raises(MissingExtra, match="Pytest adapter needs the extra 'langgraph'"):
        require_framework(ROW.module)


def test_a_version_outside_the_tested_range_gives_a_warning_with_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration_table, "INTEGRATIONS", (replace(ROW, tested_range=">=1.0,<1.1"),))
    with pytest.warns(UserWarning, match=r"tested with pytest >=1\.0,<1\.1, but .* is installed"):
        require_framework(ROW.module)


def test_a_version_inside_the_tested_range_gives_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integration_table, "INTEGRATIONS", (ROW,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_framework(ROW.module)


def test_the_status_of_an_adapter_names_the_installed_version() -> None:
    installed, absent = integration_statuses((ROW, ABSENT)).integrations
    assert (installed.installed_version, installed.is_tested) == (pytest.__version__, True)
    assert (absent.installed_version, absent.is_tested, absent.conforms) == (None, None, False)


def test_the_status_of_an_adapter_says_whether_its_framework_was_run() -> None:
    whole, interface = integration_statuses((ROW, replace(ROW, by_contract=True))).integrations
    assert (whole.tested_with, interface.tested_with) == ("pytest>=9.0,<999", "pytest>=9.0,<999, contract")


def test_conformance_counts_passed_and_failed_tests(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "frameworks" / "pytest"
    folder.mkdir(parents=True)
    rows = [replace(ROW, conformance=f"pytest/test_{name}.py") for name in ("whole", "mixed", "missing")]
    (folder / "test_whole.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    (folder / "test_mixed.py").write_text(
        "import pytest\ndef test_one(): pass\ndef test_two(): assert 0\ndef test_three(): pytest.skip('why')\n"
    )
    whole, mixed, missing, absent = check_integrations((*rows, ABSENT), root=tmp_path)
    assert (whole.passed_tests, whole.failed_tests, whole.conforms) == (2, 0, True)
    assert (mixed.passed_tests, mixed.failed_tests, mixed.conforms) == (1, 2, False)
    assert (missing.passed_tests, missing.failed_tests, missing.conforms) == (0, 1, False)
    assert (absent.passed_tests, absent.failed_tests, absent.conforms) == (None, None, False)


def test_conformance_needs_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="in a checkout of Elytron"):
        next(check_integrations((ROW,), root=tmp_path))
