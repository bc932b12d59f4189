"""Modules and folders can be found by name: few per folder, nouns, one name per thing, no cycles."""

import ast
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.gates.tree import ROOT, files, nodes, parse

ROOM = 12
DEPTH = 24
"""The longest import chain inside a package, in modules."""
WHOLE_DEPTH = 36
"""The same across all packages. This number only shrinks."""
NOUNS = frozenset({
    "embedding", "fastembed", "keyring", "recorded", "rounding", "scripted", "sealed",
    "shared", "staging", "standing_phrases", "string", "timing",
})  # fmt: skip
"""Words in -ing or -ed that name a thing of the field, and libraries."""
FAMILIES = frozenset({
    "archive", "blobs", "candidates", "capsules", "config", "continuity", "copy", "embedding", "erasure",
    "erasures", "events", "everyday", "fact_uses", "facts", "filters", "freshness", "hooks", "inspection", "jobs",
    "learning_rules", "limits", "maintenance", "modes", "platform", "profiles", "reads", "recall", "records",
    "reference", "rules", "settings", "skills", "store", "subjects", "tools", "transcript", "window",
})  # fmt: skip
"""Names shared by one family in every folder. This list only shrinks."""


@cache
def modules() -> dict[str, Path]:
    """Return every product module by dotted name, without the packages themselves."""
    found: dict[str, Path] = {}
    for path in files("packages", suffix=".py"):
        inside = path.relative_to(ROOT / "packages").parts[1:]
        if path.name != "__init__.py" and inside[0] != "elytron_conformance":
            found[".".join((*inside[:-1], path.stem))] = path
    return found


def is_for_types(node: ast.AST) -> bool:
    """True for a statement that only type checkers read."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@cache
def imports(path: Path, /, *, at_once: bool = False) -> frozenset[str]:
    """Return the modules that a module imports, at the top or later, excluding type-only imports."""
    found: list[ast.AST] = [node for node in parse(path).body if not is_for_types(node)]
    if not at_once:
        for_types = {inner for node in parse(path).body if is_for_types(node) for inner in ast.walk(node)}
        found = [node for node in nodes(path) if node not in for_types]
    known = modules()
    return frozenset(
        name if (name := f"{node.module}.{alias.name}") in known else str(node.module)
        for node in found
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def test_a_folder_holds_few_modules() -> None:
    held: dict[str, int] = defaultdict(int)
    for path in modules().values():
        held[path.parent.relative_to(ROOT / "packages").as_posix()] += 1
    assert {name: count for name, count in held.items() if count > ROOM} == {}


def test_a_module_is_named_by_a_noun() -> None:
    last = {name: name.rpartition(".")[2] for name in modules()}
    assert [name for name, word in last.items() if word.endswith(("ing", "ed")) and word not in NOUNS] == []


def test_a_file_name_is_unique_in_a_package_or_shared_by_a_family() -> None:
    held: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in modules():
        held[name.partition(".")[0], name.rpartition(".")[2]].append(name)
    assert [names for (_, word), names in held.items() if len(names) > 1 and word not in FAMILIES] == []


def test_parts_of_a_package_have_no_import_cycles() -> None:
    known = modules()
    graphs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, path in known.items():
        for other in imports(path):
            if other in known and other.partition(".")[0] == name.partition(".")[0]:
                here, there = name.split("."), other.split(".")
                depth = next((at for at, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]), 0)
                if depth:
                    graphs[".".join(here[:depth])][here[depth]].add(there[depth])
    circles: dict[str, object] = {}
    for package, graph in graphs.items():
        try:
            tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            circles[package] = error.args[1]
    assert circles == {}


def chain(name: str, graph: Mapping[str, set[str]], found: dict[str, int]) -> int:
    """Return the length of the longest import chain from `name`, in modules."""
    if name not in found:
        found[name] = 1 + max((chain(other, graph, found) for other in graph[name]), default=0)
    return found[name]


def test_import_chains_are_short() -> None:
    known = modules()
    graph = {name: {each for each in imports(path, at_once=True) if each in known} for name, path in known.items()}
    within = {
        name: {other for other in others if other.partition(".")[0] == name.partition(".")[0]}
        for name, others in graph.items()
    }
    inside: dict[str, int] = {}
    whole: dict[str, int] = {}
    assert max(chain(name, within, inside) for name in known) <= DEPTH
    assert max(chain(name, graph, whole) for name in known) <= WHOLE_DEPTH
