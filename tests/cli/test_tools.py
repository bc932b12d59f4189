"""`elytron tools`: registries, feedback, hints."""

import json
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

TOOL = {"tool_id": "read", "schema_fingerprint": "s1", "permission_tags": ["files"]}
SNAPSHOT = {"registry_id": "host", "namespace": "desk", "tools": [TOOL]}


@pytest.fixture
def registered(elytron: CommandLine) -> CommandLine:
    """Return a command line whose space knows the registry in host.json."""
    bare = elytron.write("bare.json", json.dumps(SNAPSHOT).encode())
    elytron.write("host.json", elytron("tools", "fingerprint", bare).stdout.encode())
    elytron("tools", "register", "host.json")
    return elytron


def feedback(elytron: CommandLine, times: int) -> str:
    snapshot: dict[str, Any] = json.loads((elytron.folder / "host.json").read_text())
    seen = {"tool_id": "read", "schema_fingerprint": "s1", "outcome": "succeeded", "summary": "read the file"}
    ref = {"registry_id": "host", "fingerprint": snapshot["fingerprint"], "scope": "global"}
    return elytron.write("f.json", json.dumps({"registry_ref": ref, "observations": [seen] * times}).encode())


def test_a_fingerprint_is_printed_and_nothing_stored(elytron: CommandLine) -> None:
    bare = elytron.write("bare.json", json.dumps(SNAPSHOT).encode())
    assert len(elytron("tools", "fingerprint", bare, "--no-json").stdout.strip()) == 16
    assert not (elytron.folder / "m.db").exists()
    told = elytron("tools", "register", bare, "--no-json", expect=2).stdout
    assert told.startswith("refused: the snapshot's fingerprint does not match")


def test_a_registry_is_listed_shown_and_deleted(registered: CommandLine) -> None:
    assert "unchanged  host" in registered("tools", "register", "host.json", "--no-json").stdout
    assert "1 registries, 1 tools (0 disabled)" in registered("tools", "list", "--no-json").stdout
    assert registered.json("tools", "show", "host")["registry"]["tools"][0]["tool_id"] == "read"
    assert "files" in registered("tools", "show", "host", "--no-json").stdout
    assert registered("tools", "delete", "host", "--no-json").stdout == "deleted host\n"
    assert registered("tools", "delete", "host", "--no-json").stdout == "no such registry host\n"
    assert registered("tools", "list", "--no-json").stdout.startswith("0 registries")
    assert registered.error("tools", "show", "host", expect=3)["key"] == "not_found"


def test_feedback_becomes_a_hint_when_it_is_repeated(registered: CommandLine) -> None:
    assert registered("tools", "hints", "--no-json").stdout == "no_governed_tool_experience\n"
    once = feedback(registered, 1)
    assert registered("tools", "feedback", once, "--dry-run", "--no-json").stdout.startswith("deferred  ")
    registered("tools", "feedback", once)
    assert registered("tools", "feedback", once, "--no-json").stdout.startswith("updated  accepted_as_evidence")
    told = registered("tools", "hints", "the file", "--no-json").stdout
    assert "read the file" in told
    assert "governed_tool_experience_available" in told


def test_drift_is_reported(registered: CommandLine) -> None:
    registered("tools", "feedback", feedback(registered, 2))
    changed = SNAPSHOT | {"tools": [TOOL | {"schema_fingerprint": "s2"}]}
    bare = registered.write("bare.json", json.dumps(changed).encode())
    registered.write("new.json", registered("tools", "fingerprint", bare).stdout.encode())
    registered("tools", "register", "new.json")
    told = registered("tools", "hints", "--no-json").stdout
    assert told == "omitted  host/read: agent_tool_experience_stale_schema\nno_governed_tool_experience\n"
    assert registered("tools", "feedback", "f.json", "--no-json", expect=2).stdout.startswith("rejected  ")
