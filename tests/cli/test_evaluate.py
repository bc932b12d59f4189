"""`elytron evaluate`: rates beside their bars."""

from tests.cli.conftest import CommandLine


def test_the_rates_of_hooks_are_printed(elytron: CommandLine) -> None:
    shown = elytron("evaluate", "hooks", "--no-json").stdout
    assert "session isolation leak" in shown
    assert "missed" not in shown
    rates = elytron.json("evaluate", "hooks")["rates"]
    assert {rate["name"]: rate["value"] for rate in rates}["fact_recall_recall"] == 1.0
