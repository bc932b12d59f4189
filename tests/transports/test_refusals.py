"""Refusals are equal over every transport: the same error, message, and details as in process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from pydantic import JsonValue
from tests.transports.bodies import BODIES
from tests.transports.live import Live
from tests.transports.openers import OPENERS, Call

from elytron.registry import WIRE_OPERATIONS, by_name
from elytron_core.errors import ElytronError
from elytron_mcp_shell import ToolSet
from elytron_mcp_shell.app import mcp_surfaces
from elytron_replay import comparison

NAMES = [operation.name for operation in WIRE_OPERATIONS]
ABSENT = {"turn": "4b9186e8d23eba7bc8a75a43.000000000001", "fact": "01a201c3-1348-7000-982e-11363f0ee9a3"}
TOO_LONG = "x" * 300
Refused = dict[str, tuple[Any, ...]]


@pytest.fixture(scope="module")
def calls() -> Iterator[Callable[[str], Call]]:
    with Live(further=(mcp_surfaces(frozenset({ToolSet.ALL, ToolSet.DESTRUCTIVE})),)) as live, ExitStack() as opened:

        @cache
        def call(transport: str) -> Call:
            return opened.enter_context(OPENERS[transport](live))

        yield call


@pytest.fixture(scope="module")
def refused(calls: Callable[[str], Call]) -> Refused:
    """Return what every operation refuses in process with an empty store, and how."""
    came = {name: came_of(calls("in process"), name, asked(name, f"none of {name}")) for name in NAMES}
    return {name: error for name, error in came.items() if error is not None}


def came_of(call: Call, name: str, request: JsonValue) -> tuple[Any, ...] | None:
    """Return an error's parts, or None."""
    try:
        call(name, request)
    except ElytronError as error:
        return type(error), error.key, error.message, error.retryable, error.details()
    return None


def asked(name: str, space: str) -> JsonValue:
    """Return the last request of an operation's body, about missing objects."""
    (*_, step) = [step for step in BODIES[name] if step["op"] == name]
    scope: dict[str, JsonValue] = {"scope": {"space": space}} if "scope" in by_name(name).request.model_fields else {}
    values: dict[str, JsonValue] = {comparison.TMP: "/nowhere", "space": space, "snapshot": {}, **ABSENT}
    return comparison.resolve_references({**scope, **step.get("request", {})}, values)


@pytest.mark.parametrize("transport", [name for name in OPENERS if name != "in process"])
def test_missing_objects_are_reported_identically(
    transport: str, calls: Callable[[str], Call], refused: Refused
) -> None:
    assert len(refused) >= 15
    assert {name: came_of(calls(transport), name, asked(name, f"none of {name}")) for name in refused} == refused


@pytest.mark.parametrize("transport", OPENERS)
def test_invalid_names_are_reported_identically(transport: str, calls: Callable[[str], Call]) -> None:
    found = came_of(calls(transport), "recall", asked("recall", TOO_LONG))
    assert found is not None
    assert (found[1], found[4]["field"]) == ("invalid_input", "scope.space")
    assert TOO_LONG not in found[2]
