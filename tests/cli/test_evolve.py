"""Commands on proposed changes."""

import json

from tests.cli.conftest import CommandLine
from tests.replay.test_evolve import proposal


def test_the_command_tries_and_submits(elytron: CommandLine) -> None:
    ref = elytron.json("add", "The radiator was cold and bleeding it helped.")["decisions"][0]["id"]
    path = elytron.write("p.json", proposal(ref).model_dump_json().encode())
    assert elytron.json("evolve", "try", path)["ok"] is True
    assert "full trial, passed" in elytron("evolve", "try", path, "--no-json").stdout
    assert "submitted: runtime_skill__bleed_radiator" in elytron("evolve", "submit", path, "--no-json").stdout
    bad = elytron.write("q.json", json.dumps({"id": "q"}).encode())
    assert elytron.json("evolve", "try", bad, expect=1)["ok"] is False
    shown = elytron("evolve", "try", bad, "--no-json", expect=1).stdout
    assert "rejected: empty_rationale" in shown
