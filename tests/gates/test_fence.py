"""One module spells the fence around recalled text, and no turn entry point bypasses the turn's memory."""

from pathlib import Path

from benchmarks.house import fence_modules, source_files
from tests.gates.tree import ROOT

FENCE = Path("core/elytron_core/policy/projection/fence.py")
ENTRIES = ("packages/agent", "packages/proxy", "packages/cli/elytron_cli/agents")


def test_the_fence_is_spelled_in_one_module() -> None:
    assert fence_modules() == [FENCE]


def test_no_turn_entry_point_requests_a_block_itself() -> None:
    entries = [path for path in source_files() if path.relative_to(ROOT).as_posix().startswith(ENTRIES)]
    assert len(entries) > 50
    assert [path for path in entries if "MemoryProjectionRequest" in path.read_text(encoding="utf-8")] == []
