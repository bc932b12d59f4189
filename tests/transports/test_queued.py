"""Deferred work is reported over every transport: in the report, and with 202 where there is a status."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.transports.live import Live
from tests.transports.openers import OPENERS
from websockets.sync.client import connect

from elytron.models import ScriptedModel
from elytron_a2a_shell.app import a2a_surfaces
from elytron_mcp_shell import ToolSet
from elytron_mcp_shell.app import mcp_surfaces

FAMILIES = (mcp_surfaces(frozenset({ToolSet.ALL, ToolSet.DESTRUCTIVE})), a2a_surfaces(None))


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    """Serve a memory with a model that nobody calls before a worker runs the job."""
    with Live(further=FAMILIES, language_model=ScriptedModel([])) as server:
        yield server


def finishing(space: str) -> dict[str, Any]:
    said = {"text": "These days home is a barge in Utrecht.", "speaker": "Ada"}
    delta = {"turn_id": "t1", "input_messages": [said], "assistant_message": {"role": "assistant", "text": "How damp!"}}
    return {"scope": {"space": space}, "delta": delta}


@pytest.mark.parametrize("transport", OPENERS)
def test_the_report_names_the_job(live: Live, transport: str) -> None:
    with OPENERS[transport](live) as call:
        report = call("finalize_turn_and_maintain", finishing(f"over {transport}"))
        listed = call("list_jobs", {"scope": {"space": f"over {transport}"}})
    assert [job["id"] for job in listed["jobs"]] == [report["job"]]


def test_over_http_queued_work_is_202_once_and_repeats_use_the_stored_answer(live: Live) -> None:
    with httpx.Client(base_url=live.url, trust_env=False, timeout=30) as client:
        asked: dict[str, Any] = {"json": finishing("by status"), "headers": {"Idempotency-Key": "t1"}}
        first = client.post("/v1/finalize_turn_and_maintain", **asked)
        again = client.post("/v1/finalize_turn_and_maintain", **asked)
        nothing = client.post("/v1/maintain", json={"scope": {"space": "empty"}})
    assert (first.status_code, again.status_code, nothing.status_code) == (202, 200, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()
    assert "job" not in nothing.json()


def test_a_frame_reports_that_work_is_queued(live: Live) -> None:
    with connect(f"{live.ws_url}/v1/ws", proxy=None) as socket:
        socket.recv(timeout=30)
        payload = finishing("by frame")
        socket.send(json.dumps({"type": "command.finalize_turn_and_maintain", "id": "1", "payload": payload}))
        frame = json.loads(socket.recv(timeout=30))
    assert (frame["outcome"], bool(frame["report"]["job"])) == ("queued", True)


def test_the_description_mentions_queued_answers_where_possible(live: Live) -> None:
    paths = httpx.get(f"{live.url}/openapi/all.json", trust_env=False, timeout=60).json()["paths"]
    told = {path for path, item in paths.items() if "202" in item.get("post", {}).get("responses", {})}
    assert told >= {"/v1/maintain", "/memory/maintain", "/v1/finalize_turn_and_maintain"}
    assert "/v1/write" not in told
