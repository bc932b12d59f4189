"""Every operation, over every transport, from one body; and none is forgotten."""

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.gates.tree import ROOT
from tests.transports.bodies import BODIES
from tests.transports.live import Live
from tests.transports.openers import OPENERS, Call

from elytron.registry import OPERATIONS, WIRE_OPERATIONS, by_name
from elytron_core.errors import ElytronError
from elytron_http_shell.operations import path_of
from elytron_mcp_shell import ToolSet
from elytron_mcp_shell.app import mcp_surfaces
from elytron_replay import comparison
from elytron_replay.fixture import FixtureStep

PROTOCOLS = (mcp_surfaces(frozenset({ToolSet.ALL, ToolSet.DESTRUCTIVE}), is_private=True),)
NAMES = [operation.name for operation in OPERATIONS]


@pytest.fixture(scope="module")
def shared() -> Iterator[Live]:
    with Live(further=PROTOCOLS) as server:
        yield server


@pytest.fixture(scope="module")
def calls(shared: Live) -> Iterator[Callable[[str], Call]]:
    """Yield a function that provides a transport's call; a client per operation would take most of the time."""
    with ExitStack() as opened:

        @cache
        def call(transport: str) -> Call:
            return opened.enter_context(OPENERS[transport](shared))

        yield call


@pytest.fixture
def own() -> Iterator[Live]:
    """Serve a body that closes the runtime."""
    with Live() as server:
        yield server


def tell(call: Call, step: FixtureStep, values: dict[str, JsonValue]) -> None:
    """Run one step and check its expectations."""
    scope: dict[str, JsonValue] = {"scope": {"space": values["space"]}} if _is_scoped(step.op) else {}
    request = comparison.resolve_references({**scope, **step.request}, values)
    if step.error is not None:
        with pytest.raises(ElytronError) as refused:
            call(step.op, request)
        assert refused.value.key == step.error
        return
    report = call(step.op, request)
    expected = comparison.resolve_references(step.expect, values)
    assert list(comparison.find_mismatches(expected, report)) == []
    values.update({name: comparison.pick_value(report, path) for name, path in step.save.items()})


def _is_scoped(operation: str) -> bool:
    return "scope" in by_name(operation).request.model_fields


@pytest.mark.parametrize("transport", OPENERS)
@pytest.mark.parametrize("operation", [operation.name for operation in WIRE_OPERATIONS])
def test_an_operation_is_the_same_over_every_transport(
    operation: str, transport: str, calls: Callable[[str], Call], tmp_path: Path
) -> None:
    values: dict[str, JsonValue] = {comparison.TMP: str(tmp_path), "space": f"{operation} over {transport}"}
    for step in BODIES[operation]:
        tell(calls(transport), FixtureStep.model_validate(step), values)


def test_a_runtime_is_closed_in_its_own_process(own: Live) -> None:
    with OPENERS["in process"](own) as call:
        for step in BODIES["close"]:
            tell(call, FixtureStep.model_validate(step), {"space": "closed"})


@pytest.mark.parametrize("transport", [name for name in OPENERS if name != "in process"])
def test_no_remote_call_closes_the_runtime_for_others(
    transport: str, shared: Live, calls: Callable[[str], Call]
) -> None:
    own = OPENERS[transport]
    with contextlib.suppress(ElytronError, ExceptionGroup, LookupError), own(shared) as call:
        call("close", {})
    assert calls("in process")("list", {"scope": {"space": "others"}})["items"] == []


def test_every_operation_has_a_body_that_calls_it() -> None:
    assert sorted(BODIES) == sorted(NAMES)
    assert [name for name, body in BODIES.items() if name not in {step["op"] for step in body}] == []


def test_every_operation_is_described(shared: Live) -> None:
    import httpx

    document = httpx.get(f"{shared.url}/openapi/all.json", trust_env=False, timeout=60).json()
    posted = {item["post"]["operationId"] for item in document["paths"].values() if "post" in item}
    assert set(NAMES) - posted == {"close"}
    assert {path_of(operation) for operation in WIRE_OPERATIONS} <= set(document["paths"])


def test_every_operation_is_used_in_a_fixture() -> None:
    told = {
        step["op"]
        for path in (ROOT / "fixtures").glob("*.json")
        for step in json.loads(path.read_text("utf-8"))["steps"]
    }
    assert set(NAMES) - told == set()


def test_every_transport_has_a_command_or_frame_for_each() -> None:
    from elytron_cli.commands.servers.client import client_group

    assert set(client_group.commands) >= {operation.name for operation in WIRE_OPERATIONS}
    assert "close" not in client_group.commands
