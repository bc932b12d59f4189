"""The shipped agent skill: its script accepts the argument lines of the gateway's reference."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from tests.transports.live import Live

from elytron_core.policy.skills import read_skill_file
from elytron_gateway.routes.surfaces import gateway_surfaces

SKILL = Path(__file__).parents[2] / "skill" / "memory-gateway-agent"
SCRIPT = SKILL / "scripts" / "memory_gateway.py"
SAID = [{"sender_id": "u_123", "role": "user", "timestamp": 1_781_172_177_000,
         "content": [{"type": "text", "text": "Remember this note about payment terms"}]}]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with Live(further=(gateway_surfaces(),)) as live:
        yield live


@pytest.fixture
def gateway(server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_GATEWAY_BASE_URL", server.url)


def test_the_script_runs_as_a_program(gateway: None) -> None:
    done = subprocess.run([sys.executable, SCRIPT, "health"], capture_output=True, text=True, timeout=100, check=True)
    assert json.loads(done.stdout)["status"] == "ok"


def test_the_commands_in_the_reference_run(
    gateway: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ran(line: str) -> tuple[object, str, str]:
        """Return the exit code, output and errors of the script with these arguments, in this process."""
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *shlex.split(line)])
        with pytest.raises(SystemExit) as end:
            run_path(str(SCRIPT), run_name="__main__")
        out, errors = capsys.readouterr()
        return end.value.code, out, errors

    def told(line: str) -> Any:
        code, out, errors = ran(line)
        assert (code, errors) == (0, ""), line
        return json.loads(out)

    made = told("create-user u_123")
    monkeypatch.setenv("MEMORY_GATEWAY_USER_ID", "u_123")
    monkeypatch.setenv("MEMORY_GATEWAY_USER_KEY", made["user_key"])
    document, messages = tmp_path / "document.md", tmp_path / "messages.json"
    document.write_text("# Terms\n\nPayment terms: thirty days.")
    messages.write_text(json.dumps(SAID))
    placed = '--app-id default --project-id default --title "Document title" --description "Optional description"'
    resource = told(f"upload-resource {document} {placed}")
    assert resource["status"] == "extracted"
    assert told(f"get-resource {resource['resource_id']}")["resources"] == told("list-resources")["resources"]
    told(f"add-memory --session-id chat:c_456 --messages {messages}")
    told("flush-memory --session-id chat:c_456")
    (found,) = told('search "payment terms" --scope resources --top-k 8')["results"]
    assert told('search "previous discussion" --scope current_chat --conversation-id c_456').keys() == {"results"}
    both = told('search "payment terms" --scope current_chat --scope resources --conversation-id c_456')["results"]
    assert {result["source_scope"] for result in both} == {"current_chat", "resources"}
    place = f"{found['id']} --session-id {found['session_id']}"
    told(f'override-memory {place} --text "Corrected memory text"')
    told(f'delete-memory {place} --reason "User requested deletion"')
    assert told(f"delete-resource {resource['resource_id']}")["deleted"] is True
    monkeypatch.setenv("MEMORY_GATEWAY_USER_KEY", "x")
    code, _, errors = ran('search "known preferences" --scope all_user_memory')
    assert code == 1
    assert json.loads(errors) == {"error": "Memory Gateway returned HTTP 401: invalid user credentials"}


def test_the_skill_describes_itself_and_names_existing_files() -> None:
    text = (SKILL / "SKILL.md").read_text(encoding="utf-8")
    assert read_skill_file(text) is not None
    assert f"name: {SKILL.name}\n" in text
    assert (SKILL / "references" / "api.md").is_file()
