"""The effects of omitted arguments are recorded: a default, a limit, or an exit code changes only on purpose.

    python -m tests.gates.test_recorded_defaults

rewrites `tests/data/defaults.json`. Such a change affects users and belongs in the changelog.
"""

import ast
import dataclasses
import enum
import inspect
import json
import types
from collections.abc import Iterator
from importlib import import_module
from typing import Any, cast

import click
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from tests.gates.test_public_names import types_of_requests
from tests.gates.tree import ROOT, files, parse

import elytron
from elytron.api.calls import CallFace
from elytron.registry import OPERATIONS
from elytron_adapter.envelope import FAILURES
from elytron_agent import AgentSettings
from elytron_cli.app import LazyCommands, elytron_group, load_command
from elytron_cli.terminal.help_page import COMMANDS
from elytron_evaluation import hook_rates
from elytron_integrations.integration_table import INTEGRATIONS
from elytron_proxy import ProxySettings

RECORDED = ROOT / "tests/data/defaults.json"
NUMERIC = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Tuple, ast.Attribute, ast.Name)
"""Expressions whose value may be a number."""
FORMS = ("elytron_gateway.wire", "elytron_agent.service.wire", "elytron_agent.rag.embedding_wire")
"""Modules of requests and answers outside the operations: other programs rely on defaults of absent fields."""
CALLS = (elytron.open, elytron.connect, elytron.import_transcript, elytron.MemoryRuntime, elytron.SyncMemoryRuntime)


def shown(value: Any) -> str:
    """Return a default as machine-independent text."""
    kind: Any = value.__class__
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value.name}"
    if kind in {frozenset, set}:
        return f"{{{', '.join(sorted(map(shown, value)))}}}"
    return repr(value) if kind in {bool, int, float, str, bytes, tuple, list, dict, type(None)} else "..."


def of_fields(kind: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a model or data class that have a default."""
    if issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if field.default is not PydanticUndefined:
                yield f"{kind.__name__}.{name}", shown(field.default)
            elif field.default_factory is not None:
                yield f"{kind.__name__}.{name}", "made anew"
    else:
        given: dict[str, dataclasses.Field[Any]] = getattr(kind, "__dataclass_fields__", {})
        for name, field in given.items():
            if field.default is not dataclasses.MISSING:
                yield f"{kind.__name__}.{name}", shown(field.default)


def of_calls(owner: Any) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a function, or of a class's public methods, that have a default."""
    methods = [owner] if isinstance(owner, types.FunctionType) else [
        value for name, value in inspect.getmembers(owner, inspect.isfunction) if not name.startswith("_")
    ]  # fmt: skip
    for method in methods:
        for name, parameter in inspect.signature(method).parameters.items():
            if parameter.default is not parameter.empty:
                yield f"{method.__qualname__}({name})", shown(parameter.default)


def of_commands(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """Yield the options of a command and its subcommands."""
    for option in command.params:
        if isinstance(option, click.Option):
            bounds = f" {option.type.min}..{option.type.max}" if isinstance(option.type, click.IntRange) else ""
            yield f"{path} {'/'.join(option.opts)}", f"{shown(option.default)}{bounds}"
    if isinstance(command, click.Group) and not isinstance(command, LazyCommands):
        for name, below in sorted(command.commands.items()):
            yield from of_commands(below, f"{path} {name}")


def of_limits() -> Iterator[tuple[str, str]]:
    """Yield the numbers in modules of limits, and the public ones that other modules declare as `Final`.

    Framework adapters are skipped, because they cannot be loaded without their frameworks.
    """
    adapters = tuple(row.module for row in INTEGRATIONS)
    for path in files("packages", suffix=".py"):
        is_limits = path.name == "limits.py"
        name = ".".join(path.relative_to(ROOT / "packages").with_suffix("").parts[1:])
        names = {
            node.target.id
            for node in parse(path).body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_"
            if ast.unparse(node.annotation) == "Final" and isinstance(node.value, NUMERIC)
        }
        if (not names and not is_limits) or name.startswith(adapters):
            continue
        for key, value in vars(import_module(name)).items():
            if key.isupper() and (is_limits or key in names) and is_number(value):
                yield f"{name}.{key}", shown(value)


def is_number(value: Any) -> bool:
    """Return whether a value is a number, or several."""
    return all(map(is_number, cast("tuple[Any, ...]", value))) if type(value) is tuple else type(value) in {int, float}


def found_defaults() -> dict[str, str]:
    """Return everything recorded, by name."""
    found: dict[str, str] = {}
    for kind in (*types_of_requests(), AgentSettings, ProxySettings):
        found |= of_fields(kind)
    for name in FORMS:
        for kind in vars(import_module(name)).values():
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind.__module__ == name:
                found |= of_fields(kind)
    for call in (*CALLS, *CallFace.__subclasses__()):
        found |= of_calls(call)
    for name in COMMANDS:
        found |= of_commands(load_command(name), f"elytron {name}")
    shared = {option.rpartition(" ")[2] for option, _ in of_commands(elytron_group, "elytron")}
    found = {name: value for name, value in found.items() if name.rpartition(" ")[2] not in shared}
    found |= of_commands(elytron_group, "elytron")
    found |= of_limits()
    found |= {f"{hook_rates.__name__}.{key}": shown(of) for key, of in vars(hook_rates).items() if key[:4] == "MAX_"}
    found |= {f"failure {key}": f"{row.status} {row.rpc} {row.exit}" for key, row in FAILURES.items()}
    found |= {
        f"operation {op.name}": f"{op.role.name} {op.repeat.name} {op.grave} {op.mutates} {op.is_local}"
        for op in OPERATIONS
    }
    return dict(sorted(found.items()))


def test_the_meaning_of_defaults_is_unchanged() -> None:
    assert found_defaults() == json.loads(RECORDED.read_text(encoding="utf-8"))


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(found_defaults(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
