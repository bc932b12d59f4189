"""Commands for work after a turn: maintain, and the queue of deferred jobs."""

import json

import pytest
from tests.cli.conftest import CommandLine
from tests.models.fake_server import Sent, refusal, serving_apart
from tests.models.streams import chat
from tests.sdk.turns import item, items, request

import elytron as sdk
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod

BUSY = refusal(503, {"message": "busy"}, retry_after="3600")
"""It requests a longer wait than allowed, so it is not retried."""


def put_off(elytron: CommandLine) -> str:
    """Defer a turn to a missing model, and return its job."""
    with sdk.open(elytron.folder / "m.db") as memory:
        turn = request("t1", "Well, home is Porto these days.", extraction=ExtractionMethod.MODEL)
        job = memory.finalize_turn_and_maintain(turn).job
    assert job is not None
    return job


def test_maintain_processes_additions_and_reports_each_part(elytron: CommandLine) -> None:
    elytron("add", "I live in Lisbon.")
    report = elytron.json("maintain", "--extraction", "rules")
    assert [outcome["counts"] for outcome in report["passes"] if outcome["of"] == "extraction"] == [
        {"read": 1, "stored": 1}
    ]
    shown = elytron("maintain", "--only", "extraction", "--no-json").stdout
    assert "extraction" in shown
    assert "0 turns processed" in shown
    assert "summary" not in shown


def test_a_required_but_missing_model_is_refused(elytron: CommandLine) -> None:
    elytron("add", "I live in Lisbon.")
    assert elytron.error("maintain", "--extraction", "model", expect=8)["key"] == "unsupported"


@pytest.mark.parametrize(
    ("words", "way_out"),
    [(("--all", "--conversation", "c"), "remove --conversation"), (("--dry-run",), "requires --all")],
)
def test_options_that_contradict_each_other_are_refused(
    elytron: CommandLine, words: tuple[str, ...], way_out: str
) -> None:
    elytron("add", "I live in Lisbon.")
    assert way_out in elytron("maintain", *words, expect=2).stderr


def test_jobs_are_listed_run_abandoned_and_retried(elytron: CommandLine) -> None:
    job = put_off(elytron)
    listed = elytron.json("jobs", "list")
    assert ([found["id"] for found in listed["jobs"]], listed["health"]) == ([job], "working")
    assert elytron.json("jobs", "run")["jobs"][0]["state"] == "blocked"
    assert "degraded: 1 blocked" in elytron("jobs", "list", "--no-json").stdout
    assert elytron.json("jobs", "cancel", job)["job"]["state"] == "cancelled"
    assert elytron.json("jobs", "list", "--state", "pending")["jobs"] == []
    assert job in elytron("jobs", "retry", job, "--no-json").stdout
    assert "1 jobs run, 1 waiting" in elytron("jobs", "run", "--no-json").stdout
    assert elytron.error("jobs", "retry", "abc", expect=3)["key"] == "not_found"


def test_a_model_given_by_address_runs_the_jobs(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    put_off(elytron)
    monkeypatch.setenv("ELYTRON_MODEL_KEY", "sk-test-canary")
    answer = items(item("The user lives in Porto.", "home is Porto these days"))
    with serving_apart(Sent((chat((answer,)),))) as server:
        named = ("--language-model", f"chat:m@{server.url}")
        report = elytron.json("jobs", "run", *named)
        assert server.asked[0].headers["authorization"] == "Bearer sk-test-canary"
    assert (report["jobs"][0]["state"], report["spent"]["prompt_tokens"]) == ("succeeded", 11)
    assert "The user lives in Porto." in [hit["text"] for hit in elytron.json("recall", "Porto")["hits"]]


def test_deferred_work_and_its_cost_are_shown(elytron: CommandLine) -> None:
    elytron("add", "Home is Porto these days.")
    elytron("add", "Nice.", "--role", "assistant")
    with serving_apart(BUSY) as server:
        shown = elytron("maintain", "--language-model", f"chat:m@{server.url}", "--no-json").stdout
    assert "the rest is deferred to job" in shown
    assert "1 calls" in shown


def test_every_conversation_is_maintained_by_one_command(elytron: CommandLine) -> None:
    elytron("add", "I live in Lisbon.", "--conversation", "a")
    elytron("add", "I work as a nurse.", "--conversation", "b")
    waiting = elytron.json("maintain", "--all", "--dry-run")
    assert (waiting["left"], waiting["turns"], waiting["backlog"]["calls"]) == (2, 0, 0)
    report = elytron.json("maintain", "--all")
    assert (report["conversations"], report["turns"], report["left"]) == (2, 2, 0)
    assert report["decisions"]["stored"] >= 1
    assert elytron.json("maintain", "--all")["backlog"]["turns"] == 0


def test_maintaining_an_empty_conversation_names_one_that_has_work(elytron: CommandLine) -> None:
    elytron("add", "I live in Lisbon.", "--conversation", "two words")
    told = json.loads(elytron("maintain").stderr)["hint"]
    assert told.startswith("no turns wait in 'default/default', but 1 in 1 other conversations: pass --all, or")
    assert told.endswith("--channel default --conversation 'two words'")
    elytron("maintain", "--all", "--extraction", "rules")
    assert elytron("maintain").stderr == ""


def test_the_cost_is_shown_first_and_a_stopped_run_continues(elytron: CommandLine) -> None:
    for conversation in ("a", "b"):
        elytron("add", "Well, home is Porto these days.", "--conversation", conversation)
        elytron("add", "Nice.", "--role", "assistant", "--conversation", conversation)
    with serving_apart(BUSY) as server:
        named = ("--language-model", f"chat:m@{server.url}")
        waiting = elytron.json("maintain", "--all", "--dry-run", *named)["backlog"]
        assert waiting["calls"] == 6
        assert waiting["tokens"] > 100
        stopped = elytron.json("maintain", "--all", *named)
    assert (stopped["stopped"], stopped["conversations"]) == ("model_unavailable", 1)
    answer = items(item("The user lives in Porto.", "home is Porto these days"))
    with serving_apart(Sent((chat((answer,)),))) as server:
        named = ("--language-model", f"chat:m@{server.url}")
        done = elytron.json("maintain", "--all", *named)
    assert (done["stopped"], done["left"]) == ("", 0)
