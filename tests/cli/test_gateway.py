"""`memory-gateway`, as its reference documents it, against a test server."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.transports.live import Live

from elytron_cli.app import elytron_group
from elytron_cli.commands.servers.gateway import gateway_group, run_gateway
from elytron_gateway.routes.surfaces import gateway_surfaces

SAID = [{"sender_id": "u_123", "role": "user", "timestamp": 1_781_172_177_000, "content": "The boiler code is 4417."}]
SESSION = ("--session-id", "chat:c_456")


@dataclass
class Gate:
    """Runs `memory-gateway` against a server."""

    url: str
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def __call__(self, *arguments: str) -> Any:
        """Return the JSON that a successful run prints."""
        done = CliRunner().invoke(gateway_group, ["--base-url", self.url, *arguments], env=self.environment)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def refused(self, *arguments: str, code: int = 1) -> str:
        """Return the complete output of a failed run."""
        done = CliRunner().invoke(gateway_group, ["--base-url", self.url, *arguments], env=self.environment)
        assert (done.exit_code, done.stdout) == (code, "")
        told = json.loads(done.stderr)
        assert set(told) == {"error"}
        return told["error"]


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with Live(further=(gateway_surfaces(),)) as live:
        yield live


@pytest.fixture
def gate(server: Live) -> Gate:
    called = Gate(server.url)
    made = called("create-user", "u_123")
    called.environment = {"MEMORY_GATEWAY_USER_ID": made["user_id"], "MEMORY_GATEWAY_USER_KEY": made["user_key"]}
    return called


def test_every_command_prints_its_answer(gate: Gate, tmp_path: Path) -> None:
    assert gate("health")["status"] == "ok"
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps(SAID), encoding="utf-8-sig")
    assert gate("add-memory", *SESSION, "--messages", str(messages))["message_count"] == 1
    assert gate("add-memory", *SESSION, "--messages", json.dumps(SAID))["message_count"] == 1
    assert gate("flush-memory", *SESSION)["status"] == "extracted"
    asked = ("search", "boiler code", "--scope", "current_chat", "--scope", "resources", "--conversation-id", "c_456")
    first, second = gate(*asked, "--top-k", "2")["results"]
    assert first["raw"]["id"] == first["id"]
    gate("override-memory", first["id"], *SESSION, "--text", "It is 4430.")
    gate("delete-memory", second["id"], *SESSION, "--reason", "twice")
    assert [edit["kind"] for edit in gate("list-edits")["edits"]] == ["override", "tombstone"]
    gate("undo-memory", second["id"], *SESSION)
    assert gate("delete-memory", second["id"], *SESSION, "--purge")["purged"] is True
    paper = tmp_path / "terms.md"
    paper.write_text("# Terms\n\nPayment is due in thirty days.")
    made = gate("upload-resource", str(paper), "--title", "Terms", "--app-id", "default")
    assert made["status"] == "extracted"
    assert gate("search", "payment")["results"][0]["resource_id"] == made["resource_id"]
    assert gate("list-resources") == gate("get-resource", made["resource_id"])
    assert gate("delete-resource", made["resource_id"])["deleted"] is True
    assert "403" in gate.refused("register-resource", "http://localhost/x")


def test_an_operator_lists_counts_renews_and_erases_users(server: Live, gate: Gate, tmp_path: Path) -> None:
    operator = Gate(server.url)
    made = operator("create-user", "u_9")
    assert {"u_123", "u_9"} <= set(operator("list-users")["users"])
    assert operator("usage", "u_9")["messages"] == 0
    assert operator("rotate-key", "u_9")["user_key"] != made["user_key"]
    assert operator("revoke-key", "u_9")["revoked"] is True
    assert operator("drain") == {"told": 0, "backlog": 0}
    assert "--confirm" in operator.refused("erase-user", "u_9", "--confirm", "u_8", code=2)
    signed = operator("erase-user", "u_9", "--confirm", "u_9")
    assert "404" in operator.refused("usage", "u_9")
    report, key = tmp_path / "report.json", ("--public-key", signed["public_key"])
    report.write_text(json.dumps(signed))
    assert operator("check-report", str(report), *key)["user_id"] == "u_9"
    assert "was not signed with this key" in operator.refused("check-report", str(report), "--public-key", "00" * 32)
    report.write_text(json.dumps(signed).replace("u_9", "u_8"))
    assert "was not signed with this key" in operator.refused("check-report", str(report), *key)
    report.write_text("[]")
    assert operator.refused("check-report", str(report), *key)
    assert "does not exist" in operator.refused("check-report", str(tmp_path / "none.json"), *key)


def test_flags_precede_the_command_and_override_the_environment(gate: Gate) -> None:
    assert gate.refused("--user-key", "uk_wrong", "list-resources") == (
        "Memory Gateway returned HTTP 401: invalid user credentials"
    )


def test_an_error_is_one_json_object_on_stderr(gate: Gate, server: Live) -> None:
    assert "requires --conversation-id" in gate.refused("search", "x", "--scope", "current_chat", code=2)
    for given in ("[1]", '{"role": "user"}'):
        assert "JSON array" in gate.refused("add-memory", *SESSION, "--messages", given)
    assert "does not exist" in gate.refused("add-memory", *SESSION, "--messages", "no-such-file.json")
    assert "top-k" in gate.refused("search", "x", "--top-k", "0", code=2)
    assert "No such command" in gate.refused("nonsense", code=2)
    assert "file '.' is a folder" in gate.refused("upload-resource", ".")
    assert "are missing" in Gate(server.url).refused("list-resources")
    assert "did not respond" in Gate("http://127.0.0.1:9").refused("--timeout", "2", "health")


@pytest.mark.parametrize("flags", [["--nothing"], ["--timeout", "soon", "health"]])
def test_invalid_flags_are_reported_consistently_under_elytron_too(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        elytron_group.main(["gateway", *flags])
    told = json.loads(capsys.readouterr().err)["error"]
    assert (ended.value.code, flags[0] in told) == (2, True)


def test_without_a_command_the_available_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        elytron_group.main(["gateway"])
    assert "upload-resource" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "code"), [(["--version-of-what"], 2), (["--base-url", "ftp://x", "health"], 1)])
def test_the_separate_entry_point_fails_the_same_way(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["memory-gateway", *arguments])
    with pytest.raises(SystemExit) as ended:
        run_gateway()
    assert ended.value.code == code
    assert set(json.loads(capsys.readouterr().err)) == {"error"}
