"""Rates over a host's own turns (row G31): what they count, what they omit, and which files are rejected."""

import json
from pathlib import Path
from typing import Any

import pytest

from elytron_core.errors import UnreadableFile
from elytron_evaluation.hook_rates import CEILINGS, FLOORS, HookRates, evaluate_turns, read_script

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "turns.jsonl"
SECRET = "AKIAIOSFODNN7EXAMPLE"
NAME: dict[str, Any] = {"kind": "turn", "user": "My name is Ada Byron.", "assistant": "Hello."}
BREAD: dict[str, Any] = {"kind": "turn", "user": "Today I need to buy bread.", "assistant": "I see."}


def file_of(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "turns.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


async def rates_of(folder: Path, *lines: dict[str, Any]) -> HookRates:
    return await evaluate_turns(read_script(file_of(folder, *lines)))


def asked(*, expects: tuple[str, ...] = (), excludes: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"kind": "question", "user": "Who am I?", "expects": expects, "excludes": excludes}


async def test_the_example_measures_every_rate_and_meets_every_threshold() -> None:
    found = await evaluate_turns(read_script(EXAMPLE))
    assert {rate.name for rate in found.rates} == {*CEILINGS, *FLOORS}
    assert (found.hold, found.unmeasured) == (True, ())


async def test_missing_expected_and_recalled_excluded_memories_are_counted(tmp_path: Path) -> None:
    question = asked(expects=("Ada Byron", "the boat house"), excludes=("bread",))
    found = await rates_of(tmp_path, NAME, BREAD, question, {"kind": "wait", "days": 2}, question)
    assert found.of("fact_recall_recall") == 0.5
    assert found.of("fact_recall_precision") == 2 / 3
    assert found.of("durable_fact_survival") == 0.5
    assert found.of("expired_fact_suppression") == 1.0
    assert not found.hold


async def test_a_rate_without_measurements_is_reported_and_misses_no_threshold(tmp_path: Path) -> None:
    found = await rates_of(tmp_path, NAME)
    assert found.hold
    assert set(found.unmeasured) == {
        "session_isolation_leak",
        "fact_recall_precision",
        "fact_recall_recall",
        "durable_fact_survival",
        "expired_fact_suppression",
        "compaction_triggers",
    }


async def test_the_setup_defines_settings_and_thresholds(tmp_path: Path) -> None:
    question = asked(expects=("Ada Byron", "bread"))
    bars = {"kind": "setup", "bars": {"fact_recall_recall": 0.4}}
    assert (await rates_of(tmp_path, NAME, BREAD, question)).hold
    few = bars | {"settings": {"recall_facts": 1}}
    found = await rates_of(tmp_path, few, NAME, BREAD, question)
    assert (found.of("fact_recall_recall"), found.hold) == (0.5, True)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"kind": "turn", "user": SECRET}, "assistant is not valid"),
        ({"kind": "turn", "user": "  ", "assistant": "Hello."}, "no visible character"),
        ({"kind": SECRET, "user": "Hi", "assistant": "Hello."}, "turn, question, wait, setup"),
        (NAME | {"assistent": SECRET}, "not a field"),
        (NAME | {"session": f"a/{SECRET}"}, "slashes"),
        ({"kind": "wait", "days": 0}, "days"),
        ({"kind": "wait", "days": "2"}, "days"),
        (asked(expects=("",)), "expects"),
        ({"kind": "setup"}, "belongs on the first line"),
    ],
)
async def test_an_invalid_line_is_rejected_by_number_without_echoing_it(
    tmp_path: Path, line: dict[str, Any], problem: str
) -> None:
    with pytest.raises(UnreadableFile, match=problem) as refused:
        read_script(file_of(tmp_path, NAME, line))
    assert refused.value.line == 2
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "setup",
    [
        {"bars": {"speed": 1.0}},
        {"bars": {"idempotency": -1}},
        {"settings": {"memory_recal": 3}},
        {"settings": {"memory_storage": "mcp", "memory_storage_mcp_url": "https://files.example"}},
        {"settings": {"enable_memory": False}},
    ],
)
async def test_an_invalid_setup_is_rejected(tmp_path: Path, setup: dict[str, Any]) -> None:
    with pytest.raises(UnreadableFile, match="line 1"):
        read_script(file_of(tmp_path, {"kind": "setup"} | setup, NAME))


@pytest.mark.parametrize("data", [b"", b"\n\n", b'{"kind": "wait", "days": 1}', b"no JSON", b"\xff", b"[1]"])
async def test_an_invalid_file_is_rejected(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_bytes(data)
    with pytest.raises(UnreadableFile):
        read_script(path)


async def test_a_missing_or_oversized_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="does not exist"):
        read_script(tmp_path / "absent.jsonl")
    with pytest.raises(UnreadableFile, match="lines"):
        read_script(file_of(tmp_path, *[NAME] * 1_001))
