"""The repository as the gates see it: its files, and its package names."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    ".ci",
    "benchmarks",
    "clients",
    "docs",
    "examples",
    "fixtures",
    "packages",
    "requirements",
    "tests",
    "website",
)
_STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a node that contain statements, or nodes containing statements."""
_MADE = frozenset({"__pycache__", ".pytest_cache", "build", "dist", "node_modules"})


@cache
def files(*folders: str, suffix: str = "") -> tuple[Path, ...]:
    """Return the files in `folders` that end in `suffix`, in a stable order, without generated ones."""
    found = (path for folder in folders for path in (ROOT / folder).rglob(f"*{suffix}"))
    return tuple(sorted(path for path in found if path.is_file() and _MADE.isdisjoint(path.relative_to(ROOT).parts)))


def pages() -> list[Path]:
    """Return every page for readers: at the top level, and in `docs`."""
    return [*sorted(ROOT.glob("*.md")), *files("docs", suffix=".md")]


def package_inits() -> Iterator[tuple[str, Path]]:
    """Yield the dotted name and `__init__` of each package of the distribution."""
    for path in files("packages", suffix="__init__.py"):
        inside = path.parent.relative_to(ROOT / "packages").parts[1:]
        yield ".".join(inside), path


@cache
def source(path: Path) -> str:
    """Return the text of the file at `path`, read once for all gates."""
    return path.read_text(encoding="utf-8")


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of the module at `path`, parsed once for all gates."""
    return ast.parse(source(path), filename=str(path))


def calls_of(*names: str) -> Iterator[tuple[Path, ast.Call]]:
    """Yield each call in the product of a function or method with one of these names, and its module.

    Only modules whose text contains a name are parsed, because parsing takes most of the time of such a search.
    """
    for path in files("packages", suffix=".py"):
        if any(name in source(path) for name in names):
            for node in ast.walk(ast.parse(source(path))):
                if isinstance(node, ast.Call) and _called_name(node) in names:
                    yield path, node


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of the module at `path`."""
    return tuple(ast.walk(parse(path)))


def definitions(parent: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield every function and class below `parent`; only statements are searched, as expressions define neither."""
    for name in _STATEMENTS:
        for child in getattr(parent, name, ()):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield child
            yield from definitions(child)


def shown(path: Path) -> str:
    """Return `path` relative to the repository."""
    return path.relative_to(ROOT).as_posix()
