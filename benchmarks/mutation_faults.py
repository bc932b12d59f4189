"""Small faults that can be inserted into a module: a wrong comparison, a missing guard or call, or a number off by one.

Error messages, asserts, annotations, docstrings, and code for type checkers or other systems get no faults.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

_SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_SUMS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_QUIET = frozenset({"log", "logger", "debug", "info", "warning"})
_ELSEWHERE = re.compile(r"\bTYPE_CHECKING\b|'(?:win32|darwin|nt)'")
"""Conditions that only hold on other systems or for type checkers."""
_TOLD_CHARS = 100


class Place(NamedTuple):
    """Where a fault can be inserted: its number in the module, and the line that it changes."""

    number: int
    line: int


@dataclass(frozen=True, slots=True)
class _Change:
    """A node, and the change that makes it wrong."""

    node: ast.AST
    apply: Callable[[], None]


def places_of(source: str, /) -> list[Place]:
    """Return the places in `source` for a fault, in text order."""
    changes = enumerate(_changes(ast.parse(source)))
    return [Place(number, getattr(change.node, "lineno", 0)) for number, change in changes]


def with_fault(source: str, place: Place, /) -> tuple[str, str]:
    """Return `source` with the fault of `place`, and a description of it before and after."""
    tree = ast.parse(source)
    change = next(change for number, change in enumerate(_changes(tree)) if number == place.number)
    before = _told(change.node)
    change.apply()
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n", f"{before}  ->  {_told(change.node)}"


def _told(node: ast.AST) -> str:
    text = " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
    return text if len(text) <= _TOLD_CHARS else f"{text[:_TOLD_CHARS]}..."


def _changes(tree: ast.Module) -> Iterator[_Change]:
    for node in _walk(tree):
        match node:
            case ast.Compare(ops=[operator]):
                yield _Change(node, _swap(node, operator))
            case ast.BoolOp():
                yield _Change(node, _set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()))
            case ast.If(body=[ast.Raise() | ast.Return() | ast.Continue() | ast.Break()]):
                yield _Change(node, _set(node, "test", ast.Constant(value=False)))
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
                if not _is_quiet(call):
                    yield _Change(node, _set(node, "value", ast.Constant(value=None)))
            case ast.AugAssign(op=ast.Add() | ast.Sub() | ast.BitOr() | ast.BitAnd() as sum_of):
                yield _Change(node, _set(node, "op", _SUMS[type(sum_of)]()))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield _Change(node, _set(node, "operand", ast.UnaryOp(op=ast.Not(), operand=operand)))
            case ast.Constant(value=bool() as value):
                yield _Change(node, _set(node, "value", not value))
            case ast.Constant(value=int() as value):
                yield _Change(node, _set(node, "value", value + 1))
            case _:
                pass


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that may get a fault, in text order."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Raise, ast.Assert, ast.JoinedStr)):
                continue
            if isinstance(child, ast.If) and _ELSEWHERE.search(ast.unparse(child.test)):
                continue
            if isinstance(child, ast.Subscript) and isinstance(child.slice, ast.Constant):
                continue  # every test detects a swapped pair
            yield child
            yield from _walk(child)


def _is_quiet(call: ast.Call) -> bool:
    return bool(_QUIET.intersection(ast.unparse(call.func).lstrip("_").split(".")))


def _set(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def _swap(node: ast.Compare, operator: ast.cmpop) -> Callable[[], None]:
    return _set(node, "ops", [_SWAPS[type(operator)]()])
