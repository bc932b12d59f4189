"""Stories with a model: recorded once, replayed identically."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.replay import stories

from elytron.models import ModelCassette, RecordingModel, ScriptedModel
from elytron_core.errors import UnreadableFile
from elytron_replay import fixture, record_fingerprints, run_matrix
from elytron_replay.fixture import load_fixture
from elytron_replay.runner import named_engine, run_fixture

ANSWER = json.dumps(
    {
        "items": [
            {
                "plane": "factual", "op": "upsert", "kind": "profile", "topic": "residence", "confidence": "high",
                "content": "Ada lives in Porto.", "quote": "home is Porto these days",
            }
        ]
    }
)  # fmt: skip
STORES = ("memory", "sqlite")
TURN: JsonValue = {
    "turn_id": "t1",
    "input_messages": [{"role": "user", "text": "Well, home is Porto these days."}],
    "assistant_message": {"role": "assistant", "text": "Nice."},
}


def written(folder: Path) -> Path:
    """Write a story with a model into `folder`, without its cassette."""
    told = stories.story(
        {"op": "finalize_turn_and_maintain", "request": {"delta": TURN}},
        {"op": "run_jobs", "expect": {"jobs": [{"state": "succeeded"}]}},
        {
            "op": "recall",
            "request": {"query": "Porto"},
            "expect": {"hits": {"$contains": {"text": "Ada lives in Porto."}}},
        },
        cassette="tapes/tea.json",
    )
    path = folder / "tea.json"
    path.write_text(json.dumps(told), "utf-8")
    return path


@pytest.mark.anyio
async def test_a_story_with_a_model_replays_identically_without_it_on_other_stores(tmp_path: Path) -> None:
    path = written(tmp_path)
    live = ScriptedModel([ANSWER], name="m")
    assert (await record_fingerprints([path], STORES, model=live)).ok
    assert len(live.prompts) == 1
    assert (await run_matrix([path], STORES)).ok
    before = (tmp_path / "tapes/tea.json").read_bytes()
    assert (await record_fingerprints([path], STORES, model=ScriptedModel([], name="m"))).ok
    assert (tmp_path / "tapes/tea.json").read_bytes() == before


@pytest.mark.anyio
async def test_an_unrecorded_call_fails_its_job_and_the_story(tmp_path: Path) -> None:
    path = written(tmp_path)
    fixture.save_cassette(tmp_path / "tapes/tea.json", ModelCassette(model="m"))
    report = await run_matrix([path], ["memory"])
    assert not report.ok
    assert "dead_letter" in report.rows[0].differences[0].right


@pytest.mark.anyio
async def test_a_story_may_be_replayed_with_a_live_model(tmp_path: Path) -> None:
    path = written(tmp_path)
    model = RecordingModel(ScriptedModel([ANSWER], name="m"))
    assert (await run_fixture(load_fixture(path), named_engine("memory"), beside=tmp_path, model=model)).ok


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "does not exist"),
        (b"{", "cannot be parsed"),
        (b'{"model":"m","calls":[{"key":"x"}]}', "calls.0.key"),
    ],
)
def test_a_damaged_cassette_is_reported(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(UnreadableFile, match=problem):
        fixture.load_cassette(tmp_path / "c.json")
