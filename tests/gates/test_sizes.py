"""What grows past one screen and a half is split where its nouns change."""

import ast

from tests.gates.tree import definitions, files, parse, shown, source

MODULE_LINES = 600
FUNCTION_LINES = 60
CLASS_LINES = 300
CHECKED = files("packages", "tests", "benchmarks", "examples", suffix=".py")


def test_no_module_has_more_than_600_lines() -> None:
    lines = {shown(path): len(source(path).splitlines()) for path in CHECKED}
    assert {path: count for path, count in lines.items() if count > MODULE_LINES} == {}


def test_no_function_has_more_than_60_lines_and_no_class_more_than_300() -> None:
    long = [
        f"{shown(path)}:{node.lineno} {node.name}: {size} lines"
        for path in CHECKED
        for node in definitions(parse(path))
        if (size := (node.end_lineno or 0) - node.lineno + 1)
        > (CLASS_LINES if isinstance(node, ast.ClassDef) else FUNCTION_LINES)
    ]
    assert long == []
