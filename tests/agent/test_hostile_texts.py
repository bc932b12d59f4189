"""The agent's text rules take linear time, like those of memory."""

from tests.core.test_hostile_texts import PARTS, is_linear

from elytron_agent.blocks.injections import broken_rules


def test_a_scan_takes_time_linear_in_a_hostile_text() -> None:
    parts = (*PARTS, "![", "< ", "ignore all ", "curl ")
    slow = [part for part in parts if not is_linear(broken_rules, lambda size, part=part: part * (size // len(part)))]
    assert slow == []


def test_a_scan_finds_its_target_between_blanks() -> None:
    for said in ("<  /  system  >", "\n  system  prompt :", "![x](  https://evil.example)"):
        assert broken_rules(said)
