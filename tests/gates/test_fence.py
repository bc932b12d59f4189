"""One module writes and reads the fence around recalled text; every entry of a turn goes through one pipeline."""

from pathlib import Path

from benchmarks.house import source_files
from tests.gates.tree import ROOT

FENCE = Path("packages/core/elytron_core/policy/projection/fence.py")
ENTRIES = ("agent", "proxy", "cli")
PIPELINE = frozenset({"MemoryProjectionRequest", "MemoryFinalizeTurnRequest"})
"""What an entry would build to go around the turn's memory."""
ALLOWED = frozenset({"commands/memories.py"})


def test_the_fence_is_spelled_in_one_module() -> None:
    spelled = [path.relative_to(ROOT) for path in source_files() if "<memory-" in path.read_text(encoding="utf-8")]
    assert spelled == [FENCE]
