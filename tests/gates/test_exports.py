"""The origin of a package's names is written twice, for programs and for type checkers, and both agree.

    python -m tests.gates.test_exports

rewrites the tables of every `__init__.py` from the stub next to it.
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
from tests.gates.tree import ROOT

STUBS = sorted((ROOT / "packages").rglob("__init__.pyi"))
_EXPORT = re.compile(r"^from (\S+) import (?:\(\s+)?(?:(\w+) as \2\b|\*)", re.MULTILINE)
_TABLE = re.compile(r"lazy_exports\(\n    __name__,\n.*?\n\)\n|lazy_exports\(__name__\)\n", re.DOTALL)


def homes_of(stub: Path) -> dict[str, list[str]]:
    """Return the names from each module, as in a stub."""
    homes: dict[str, list[str]] = defaultdict(list)
    for home, name in _EXPORT.findall(stub.read_text(encoding="utf-8")):
        homes[home].append(name or "*")
    return dict(homes)


def written(stub: Path) -> str:
    """Return the text of the `__init__.py` next to a stub, with its correct table."""
    lines: list[str] = []
    for home, names in sorted(homes_of(stub).items()):
        whole = f'        "{home}": "{" ".join(names)}",'
        if len(whole) <= 120:
            lines.append(whole)
            continue
        lines.append(f'        "{home}": (')
        row = ""
        for name in names:
            if row and len(row) + len(name) > 96:
                lines.append(f'            "{row} "')
                row = ""
            row = f"{row} {name}" if row else name
        lines += [f'            "{row}"', "        ),"]
    table = "\n".join(["lazy_exports(", "    __name__,", "    {", *lines, "    },", ")", ""])
    return _TABLE.sub(lambda _: table, stub.with_suffix(".py").read_text(encoding="utf-8"))


def table_of(module: Path) -> dict[str, list[str]]:
    """Return the names from each module, as in a package's `__init__.py`."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_exports":
            return {home: names.split() for home, names in ast.literal_eval(node.args[1]).items()}
    return {}


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.parent.name)
def test_the_export_table_of_a_package_matches_its_stub(stub: Path) -> None:
    assert table_of(stub.with_suffix(".py")) == homes_of(stub), "python -m tests.gates.test_exports"


if __name__ == "__main__":
    for each in STUBS:
        each.with_suffix(".py").write_text(written(each), encoding="utf-8")
