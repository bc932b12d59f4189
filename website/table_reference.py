"""Generate the page of limits from the modules that declare them, each with its value and meaning."""

import ast
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = "reference/limits.md"
SECTIONS: dict[str, list[Any]] = {"Reference": [PAGE]}


def write_pages(pages: Path, /) -> None:
    """Write the page of limits."""
    lines = [
        "# Limits\n",
        "Every list, text, wait, number and body is bounded. These are the names and values in the code.",
        "An error names the limit that a request exceeds.\n",
    ]
    for package in sorted((ROOT / "packages").glob("*/elytron*")):
        rows = [row for path in sorted(package.rglob("*.py")) for row in _rows(path, package)]
        if rows:
            lines += [f"## `{package.name}`\n", "| limit | value | meaning |", "|---|---|---|", *rows, ""]
    (pages / PAGE).parent.mkdir(parents=True, exist_ok=True)
    (pages / PAGE).write_text("\n".join(lines), encoding="utf-8")


def _rows(path: Path, package: Path) -> list[str]:
    """Return a row for each number of a module of limits, and for each public one that another module makes `Final`."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    place = ".".join(path.relative_to(package).with_suffix("").parts)
    rows: list[str] = []
    for node, following in zip(module.body, [*module.body[1:], None], strict=False):
        note = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            note = " ".join(str(following.value.value).split()).replace("|", "\\|")
        for name, value in _numbers(node, is_limits=path.name == "limits.py"):
            rows.append(f"| `{place}.{name}` | `{ast.unparse(value)}` | {note} |")
    return rows


def _numbers(node: ast.stmt, *, is_limits: bool) -> list[tuple[str, ast.expr]]:
    pairs: list[tuple[ast.expr, ast.expr]] = []
    match node:
        case ast.AnnAssign(target, ast.Name("Final"), ast.expr() as value):
            pairs = [(target, value)]
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if is_limits:
            pairs = [*zip(targets, values, strict=True)]
        case ast.Assign([target], value) if is_limits:
            pairs = [(target, value)]
        case _:
            pass
    return [
        (target.id, value)
        for target, value in pairs
        if isinstance(target, ast.Name) and target.id.isupper() and target.id[0] != "_" and _is_number(value)
    ]


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.Name(name) | ast.Attribute(_, name):
            return name.isupper()
        case ast.BinOp(left, _, right):
            return _is_number(left) and _is_number(right)
        case ast.UnaryOp(_, operand):
            return _is_number(operand)
        case ast.Tuple(parts):
            return all(map(_is_number, parts))
        case _:
            return False
