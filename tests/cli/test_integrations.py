"""`elytron integrations`: which framework adapters there are, and whether they conform."""

import pytest
from tests.cli.conftest import CommandLine

from elytron_integrations.integration_table import INTEGRATIONS


def test_every_adapter_is_listed(elytron: CommandLine) -> None:
    listed = elytron.json("integrations")["integrations"]
    assert [status["module"] for status in listed] == [row.module for row in INTEGRATIONS]
    assert [status["name"] for status in listed if status.get("by_contract")] == ["CrewAI"]


def test_a_check_fails_where_a_framework_is_not_installed(elytron: CommandLine) -> None:
    if all(row.installed_version for row in INTEGRATIONS):
        pytest.skip("every framework is installed")
    report = elytron.json("integrations", "--check", expect=1)
    for status in report["integrations"]:
        assert ("passed_tests" in status) is ("installed_version" in status)


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("options", [(), ("--check",)])
def test_a_table_names_every_module_at_a_terminal(elytron: CommandLine, options: tuple[str, ...]) -> None:
    is_whole = all(row.installed_version for row in INTEGRATIONS)
    if options and is_whole:
        pytest.skip("every framework is installed")
    table = elytron("integrations", *options, expect=1 if options else 0).stdout
    assert [row.module for row in INTEGRATIONS if row.module not in table] == []
    assert ("no: extra" in table) is not is_whole


@pytest.mark.usefixtures("at_a_terminal")
def test_a_table_of_80_columns_breaks_no_name(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = elytron("integrations").stdout.split()
    assert {name for row in INTEGRATIONS for name in (row.module, row.distribution)} - set(words) == set()
