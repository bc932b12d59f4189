"""Every operation, requested concurrently by several callers, from the first write of a space on."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.transports.bodies import BODIES

import elytron
from elytron.registry import RepeatGuard, by_name
from elytron_adapter.dispatch import OperationDispatcher
from elytron_adapter.envelope import (
    AcceptedAnswer,
    AuthKind,
    CallAuth,
    CallTransport,
    DuplicatedAnswer,
    Envelope,
    RejectedAnswer,
    Response,
)
from elytron_replay import comparison
from elytron_replay.fixture import FixtureStep
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

CALLERS = 4
LATE = {
    "import": "space_in_use",
    "correct": "invalid_input",
    "change_fact": "invalid_input",
    "forget_facts": "precondition_failed",
    "delete_runtime_skill": "not_found",
}
"""Answers to later callers who cannot repeat the first one's action."""
CLOSING = "close"
Asked = Callable[[int], Envelope]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["memory", "sqlite"])
async def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[OperationDispatcher, OperationDispatcher]]:
    """Two servers of one store, which share nothing else."""
    place = MemoryStore() if request.param == "memory" else tmp_path_factory.mktemp("store") / "m.db"
    async with elytron.open(place, space=None) as one, elytron.open(place, space=None) as two:
        yield OperationDispatcher(one), OperationDispatcher(two)
        assert (await one.context.store.check()).ok


def asked(step: FixtureStep, values: dict[str, JsonValue], *, key: str | None) -> Asked:
    """Return a function that makes each caller's call: equal, except for the files that each writes."""
    operation = by_name(step.op)
    scope: dict[str, JsonValue] = (
        {"scope": {"space": values["space"]}} if "scope" in operation.request.model_fields else {}
    )
    body = comparison.resolve_references({**scope, **step.request}, values)
    assert isinstance(body, dict)
    is_written = step.op == "export"

    def call(caller: int) -> Envelope:
        own = {"path": f"{body['path']}{caller or ''}"} if is_written else {}
        return Envelope(
            request_id=f"{caller}",
            transport=CallTransport.SDK,
            operation=step.op,
            auth=CallAuth(authenticated=True, kind=AuthKind.LOCAL),
            idempotency_key=key if operation.repeat is not RepeatGuard.HARMLESS else None,
            payload=operation.request.model_validate({**body, **own}),
        )

    return call


def judge(step: FixtureStep, answers: list[Response]) -> None:
    """Check the answers to one step: it succeeds or is refused as its body says, and never by accident."""
    refused = {answer.error_key for answer in answers if isinstance(answer, RejectedAnswer)}
    if step.error is not None:
        assert refused == {step.error}
        assert all(isinstance(answer, RejectedAnswer) for answer in answers)
        return
    assert refused <= {LATE.get(step.op)}
    assert any(isinstance(answer, AcceptedAnswer) for answer in answers)


async def tell(
    operation: str, dispatchers: list[OperationDispatcher], values: dict[str, JsonValue], *, key: str | None
) -> list[tuple[str, list[Response]]]:
    """Run the body of `operation`, each step by all callers concurrently; return each one's answer."""
    told: list[tuple[str, list[Response]]] = []
    for number, raw in enumerate(BODIES[operation]):
        step = FixtureStep.model_validate(raw)
        call = asked(step, values, key=None if key is None else f"{key}{number}")
        answers = await asyncio.gather(
            *(dispatchers[caller % len(dispatchers)].dispatch(call(caller)) for caller in range(CALLERS))
        )
        judge(step, answers)
        first = next((answer for answer in answers if isinstance(answer, AcceptedAnswer)), None)
        if first is not None:
            report = first.report.model_dump(mode="json")
            values.update({name: comparison.pick_value(report, path) for name, path in step.save.items()})
        told.append((step.op, answers))
    return told


OPERATIONS = [name for name in BODIES if name != CLOSING]


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_callers_of_two_servers_do_not_interfere(
    operation: str, servers: tuple[OperationDispatcher, OperationDispatcher], tmp_path: Path
) -> None:
    values: dict[str, JsonValue] = {comparison.TMP: str(tmp_path), "space": f"{operation} at once"}
    await tell(operation, list(servers), values, key=None)


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_callers_with_one_idempotency_key_get_one_answer(
    operation: str, servers: tuple[OperationDispatcher, OperationDispatcher], tmp_path: Path
) -> None:
    server, _ = servers
    values: dict[str, JsonValue] = {comparison.TMP: str(tmp_path), "space": f"{operation} under a key"}
    for name, answers in await tell(operation, [server], values, key="k"):
        reports = [
            answer.report.model_dump() for answer in answers if isinstance(answer, AcceptedAnswer | DuplicatedAnswer)
        ]
        if by_name(name).repeat is RepeatGuard.HARMLESS or not any(report["changed"] for report in reports):
            continue
        assert sorted(answer.kind for answer in answers) == ["accepted", *["duplicated"] * (CALLERS - 1)]
        assert [{**report, "duplicated": None} for report in reports] == [{**reports[0], "duplicated": None}] * CALLERS
