"""`elytron evaluate`: rates next to their thresholds."""

from pathlib import Path

from tests.cli.conftest import CommandLine


def test_the_rates_of_hooks_are_printed(elytron: CommandLine) -> None:
    shown = elytron("evaluate", "hooks", "--no-json").stdout
    assert "session isolation leak" in shown
    assert "missed" not in shown
    rates = elytron.json("evaluate", "hooks")["rates"]
    assert {rate["name"]: rate["value"] for rate in rates}["fact_recall_recall"] == 1.0


def test_turn_rates_are_printed_and_a_missed_threshold_is_an_exit_code(elytron: CommandLine, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "turns.jsonl"
    rates = elytron.json("evaluate", "hooks", str(example))["rates"]
    assert {rate["name"]: rate["value"] for rate in rates}["fact_recall_recall"] == 1.0
    own = tmp_path / "own.jsonl"
    own.write_text(
        '{"kind": "turn", "user": "My name is Ada.", "assistant": "Hello."}\n'
        '{"kind": "question", "user": "Who am I?", "expects": ["Ada", "Byron"]}\n'
    )
    shown = elytron("evaluate", "hooks", str(own), "--no-json", expect=1).stdout
    assert "missed" in shown
    assert "not measurable with these turns: " in shown
    own.write_text('{"kind": "turn", "user": "Hi"}\n')
    refused = elytron.error("evaluate", "hooks", str(own), expect=6)
    assert "'own.jsonl', line 1" in refused["reason"]
    assert "assistant" in refused["reason"]
