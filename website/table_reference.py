"""Generate the pages of limits from the modules that name them, each with its value and meaning."""

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
    for path in sorted((ROOT / "packages").rglob("limits.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        rows = list(_rows(module))
        if rows:
            name = ".".join(path.relative_to(ROOT / "packages").with_suffix("").parts[1:])
            lines += [f"## `{name}`\n", "| limit | value | meaning |", "|---|---|---|", *rows, ""]
    (pages / PAGE).parent.mkdir(parents=True, exist_ok=True)
    (pages / PAGE).write_text("\n".join(lines), encoding="utf-8")


def _rows(module: ast.Module) -> list[str]:
    rows: list[str] = []
    for node, following in zip(module.body, [*module.body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
            note = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                note = " ".join(str(following.value.value).split()).replace("|", "\\|")
            value = ast.unparse(node.value).replace("|", "\\|")
            rows.append(f"| `{node.targets[0].id}` | `{value}` | {note} |")
    return rows
