"""A package declares its exports: `__all__` exists, is sorted, and matches what its `__init__` makes public."""

import ast
from importlib import import_module
from pathlib import Path

import pytest
from tests.gates.tree import ROOT, package_inits, parse

from elytron_integrations.integration_table import INTEGRATIONS

PACKAGES = dict(package_inits())
OF_FRAMEWORKS = frozenset(row.module for row in INTEGRATIONS)
"""Packages that need an agent framework: `tests/frameworks` imports them."""


def offered(path: Path) -> list[str] | None:
    """Return `__all__` as written in the module, or None."""
    for node in parse(path).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name("__all__")], value=value)
                | ast.AnnAssign(target=ast.Name("__all__"), value=ast.expr() as value)
            ):
                return ast.literal_eval(value)
            case _:
                continue
    return None


def public(path: Path) -> set[str]:
    """Return the public names that an `__init__` defines or imports from our own packages."""
    names: set[str] = set()
    for node in parse(path).body:
        match node:
            case ast.ImportFrom(module=str(module), names=[ast.alias("*")]):
                names |= set(import_module(module).__all__)
            case ast.ImportFrom(module=str(module)) if module.startswith("elytron"):
                names |= {alias.asname or alias.name for alias in node.names}
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                names.add(name)
            case _:
                continue
    return {name for name in names if not name.startswith("_")}


def in_order(name: str) -> tuple[int, str]:
    """Return the sort position of a name in `__all__`: constants, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_exact_and_sorted(package: str) -> None:
    names, made_public = offered(PACKAGES[package]), public(PACKAGES[package])
    stub = PACKAGES[package].with_suffix(".pyi")
    if stub.exists():  # the single list of a package whose names are loaded on first use
        names, made_public = import_module(package).__all__, public(stub)
    if names is None:
        assert made_public == set()
        return
    assert names == sorted(made_public, key=in_order)


def test_the_list_of_a_contract_is_sorted() -> None:
    lists = [offered(path) for path in (ROOT / "packages/core/elytron_core/contracts").glob("*.py")]
    assert [names for names in lists if names is not None and names != sorted(names, key=in_order)] == []


@pytest.mark.parametrize("package", [package for package in PACKAGES if package not in OF_FRAMEWORKS])
def test_every_name_in_all_exists(package: str) -> None:
    module = import_module(package)
    names: list[str] = getattr(module, "__all__", [])
    assert [name for name in names if getattr(module, name, None) is None] == []
