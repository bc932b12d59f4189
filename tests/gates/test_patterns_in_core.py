"""Language is judged by data behind a port: core has no tables of regular expressions."""

import ast
import re
from pathlib import Path

from tests.gates.tree import files, nodes, shown

LINES = 40
_PATTERN = re.compile(r"\\[bswdSWD(.?|\[\]]|\(\?[:!=<P]|\]\*|\[\^|\|[^|]+\|")
"""What a text has in it that is a regular expression: an escape, a group, a class, or two bars."""
FORMATS = {"packages/core/elytron_core/policy/redaction.py"}
"""Formats of secrets are no phrasing."""


def _lines(path: Path) -> int:
    """Return the number of lines of the module with regular expressions."""
    texts = (node for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    lines: set[int] = set()
    for node in texts:
        if _PATTERN.search(str(node.value)):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_no_module_of_core_has_more_than_40_lines_of_regular_expressions() -> None:
    counts = {shown(path): _lines(path) for path in files("packages/core", suffix=".py")}
    assert {path: count for path, count in counts.items() if count > LINES and path not in FORMATS} == {}
