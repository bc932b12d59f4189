"""The agent's own rules of text take time linear in it, as those of memory do."""

import pytest
from tests.core.test_hostile_texts import MOST_S, PARTS, SIZE, cpu_s

from elytron_agent.injection_scan import findings


@pytest.mark.parametrize("part", [*PARTS[::4], "![", "< ", "ignore all ", "curl "])
def test_a_scan_takes_a_hostile_text_in_its_stride(part: str) -> None:
    size = SIZE // 4
    assert cpu_s(findings, (part * (size // len(part) + 1))[:size]) < MOST_S / 4


def test_what_a_scan_looks_for_is_found_between_blanks() -> None:
    for said in ("<  /  system  >", "\n  system  prompt :", "![x](  https://evil.example)"):
        assert findings(said)
