"""The skill for agents that is shipped: its script takes the argument lines of the gateway's reference."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.transports.live import Live

from elytron_core.policy.skills.front_matter import read
from elytron_gateway.routes.surfaces import gateway_surfaces

SKILL = Path(__file__).parents[2] / "skill" / "memory-gateway-agent"
SCRIPT = SKILL / "scripts" / "memory_gateway.py"
SAID = [{"sender_id": "u_123", "role": "user", "timestamp": 1_781_172_177_000,
         "content": [{"type": "text", "text": "Remember this note about payment terms"}]}]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with Live(further=(gateway_surfaces(),)) as live:
        yield live


def ran(live: Live, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {"PATH": os.environ["PATH"], "MEMORY_GATEWAY_BASE_URL": live.url} | environment
    return subprocess.run(
        [sys.executable, SCRIPT, *shlex.split(line)],
        env=known,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_lines_of_the_reference_run(server: Live, tmp_path: Path) -> None:
    def told(line: str) -> Any:
        done = ran(server, line, **me)
        assert (done.returncode, done.stderr) == (0, ""), line
        return json.loads(done.stdout)

    me: dict[str, str] = {}
    made = told("create-user u_123")
    me = {"MEMORY_GATEWAY_USER_ID": "u_123", "MEMORY_GATEWAY_USER_KEY": made["user_key"]}
    document, messages = tmp_path / "document.md", tmp_path / "messages.json"
    document.write_text("# Terms\n\nPayment terms: thirty days.")
    messages.write_text(json.dumps(SAID))
    placed = '--app-id default --project-id default --title "Document title" --description "Optional description"'
    resource = told(f"upload-resource {document} {placed}")
    assert (resource["status"], told("health")["status"]) == ("extracted", "ok")
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
    wrong = ran(server, 'search "known preferences" --scope all_user_memory', **(me | {"MEMORY_GATEWAY_USER_KEY": "x"}))
    assert wrong.returncode != 0
    assert json.loads(wrong.stderr) == {"error": "Memory Gateway returned HTTP 401: invalid user credentials"}


def test_the_skill_says_what_it_is_and_names_files_that_are_there() -> None:
    text = (SKILL / "SKILL.md").read_text(encoding="utf-8")
    assert read(text) is not None
    assert f"name: {SKILL.name}\n" in text
    assert (SKILL / "references" / "api.md").is_file()
