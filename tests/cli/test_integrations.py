"""`elytron integrations`: which framework adapters there are, and whether they conform."""

from tests.cli.conftest import CommandLine

from elytron_integrations.integration_table import INTEGRATIONS


def test_every_adapter_is_listed(elytron: CommandLine) -> None:
    listed = elytron.json("integrations")["integrations"]
    assert [status["module"] for status in listed] == [row.module for row in INTEGRATIONS]
