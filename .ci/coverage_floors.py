"""Hold each package to its floor of covered branches. Reads the JSON report of slipcover; exits 1 below a floor.

python .ci/coverage_floors.py coverage.json
python .ci/coverage_floors.py coverage.json --frameworks

Adapters that need a framework are left out; with the option, they are all that is counted.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

from frameworks import adapter_modules

FLOORS = {"core": 95.0, "sdk": 95.0, "adapter": 95.0}
"""Where what is right is decided; the other packages have `FLOOR`."""
FLOOR = 90.0
IMPOSSIBLE = re.compile(r"assert_never\(|raise AssertionError")
"""A line that is reached by a mistake alone; so is the branch that leads to it."""


def main(report: Path, *, counts_adapters: bool = False) -> int:
    """Print one line per package; return how many are below their floor, 1 at the most."""
    adapters = set(adapter_modules())
    files = json.loads(report.read_text(encoding="utf-8"))["files"]
    counts: dict[str, Counter[str]] = {}
    for name, found in files.items():
        parts = Path(name).parts
        if "packages" in parts and (Path(name).resolve() in adapters) == counts_adapters:
            package = parts[parts.index("packages") + 1]
            lines = Path(name).read_text(encoding="utf-8").splitlines()
            missing = [to for _, to in found["missing_branches"] if not IMPOSSIBLE.search(lines[to - 1] if to else "")]
            counts.setdefault(package, Counter()).update(
                covered_lines=len(found["executed_lines"]),
                missing_lines=len(found["missing_lines"]),
                covered_branches=len(found["executed_branches"]),
                missing_branches=len(missing),
            )
    below = 0
    for package, count in sorted(counts.items()):
        floor = FLOORS.get(package, FLOOR)
        branches = share(count["covered_branches"], count["missing_branches"])
        lines = share(count["covered_lines"], count["missing_lines"])
        below += branches < floor
        verdict = "ok" if branches >= floor else "TOO LOW"
        print(f"{package:12} branches {branches:6.2f} % (floor {floor:.0f})  lines {lines:6.2f} %  {verdict}")
    return min(below, 1) if counts else 1


def share(covered: int, missing: int) -> float:
    """Return the share of what is covered, in per cent."""
    return 100.0 * covered / (covered + missing) if covered + missing else 100.0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), counts_adapters="--frameworks" in sys.argv))
