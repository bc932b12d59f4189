"""A call takes only its request or plain values: tested for each call of each face, and each parameter."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import elytron
from elytron import MemoryEraseRequest, MemoryForgetRequest, MemoryRecallReport, MemoryRecallRequest, Scope
from elytron.api import MemoryFace
from elytron.api.calls import ReportT
from elytron.remote.wire import RemoteCall
from elytron.runtime import BlockingMemory
from elytron_core.errors import InvalidInput
from elytron_core.model import OperationRequest

pytestmark = pytest.mark.anyio

FORWARDING = {"operate", "run", "watch", "events"}
"""Methods that take a request in addition to what it reports, or a position."""
REQUEST = MemoryForgetRequest(ids=("x",))
KINDS = (elytron.MemoryRuntime, elytron.RemoteMemory, elytron.SyncMemoryRuntime, elytron.SyncRemoteMemory)


def calls(kind: type) -> Iterator[tuple[str, list[inspect.Parameter]]]:
    """Yield the public calls of a face, with their parameters."""
    for name, call in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name not in FORWARDING:
            yield name, list(inspect.signature(call).parameters.values())[1:]


def others(parameters: list[inspect.Parameter]) -> list[str]:
    """Return the parameters that a request does not replace."""
    first = [each.name for each in parameters[:1] if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    return [each.name for each in parameters if each.name not in first]


def arguments(parameters: list[inspect.Parameter], beside: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call with a request first and a value for `beside`."""
    before = [each.name for each in parameters[1:] if each.kind is inspect.Parameter.POSITIONAL_ONLY]
    if beside in before:
        return [REQUEST, *("bob" for _ in before[: before.index(beside) + 1])], {}
    return [REQUEST], {beside: "bob"}


class Untouched(elytron.MemoryRuntime):
    """A runtime whose operations are never reached."""

    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        raise AssertionError(request)


class Unreached:
    """A transport that nothing is sent over."""

    async def call(self, call: RemoteCall, /) -> Any:
        raise AssertionError(call)

    async def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def faces() -> Iterator[dict[type, Any]]:
    async def opened() -> elytron.MemoryRuntime:
        return Untouched((await elytron.open("memory:", space="ada")).context)

    async def connected() -> elytron.RemoteMemory:
        transport: Any = Unreached()
        return elytron.RemoteMemory(transport, scope=Scope(space="ada"))

    blocking: list[BlockingMemory[Any]] = [elytron.SyncMemoryRuntime(opened()), elytron.SyncRemoteMemory(connected())]
    yield {type(face): face for each in blocking for face in (each, each.runtime)} | {
        elytron.MemoryRuntime: blocking[0].runtime
    }
    for each in blocking:
        each._shut()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_arguments_next_to_a_request_are_rejected_by_name(kind: type, faces: dict[type, Any]) -> None:
    walked = [(name, beside) for name, parameters in calls(kind) for beside in others(parameters)]
    wanted = {
        ("recall", "user_id"),
        ("set_learning", "topic"),
        ("delete_record", "expected_version"),
        ("list", "limit"),
    }
    assert wanted <= set(walked)
    parameters = dict(calls(kind))
    for name, beside in walked:
        args, kwargs = arguments(parameters[name], beside)
        with pytest.raises(InvalidInput, match=rf"\b{beside}\b.* with a MemoryForgetRequest"):
            await getattr(faces[kind], name)(*args, **kwargs)
        with pytest.raises(InvalidInput, match=r"\buser_id\b.* with a MemoryForgetRequest"):
            await getattr(faces[kind], name)(*args, **(kwargs | {"user_id": "bob"}))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_a_request_of_another_call_is_rejected(kind: type, faces: dict[type, Any]) -> None:
    erasing = MemoryEraseRequest(whole_space="ada")
    for name, parameters in calls(kind):
        is_own = name in {"erase", "tools"} or not parameters or name == "close"
        if is_own or (parameters[0].kind is inspect.Parameter.KEYWORD_ONLY and name in {"get_all", "delete_all"}):
            continue
        with pytest.raises(InvalidInput, match="the request is a MemoryEraseRequest"):
            await getattr(faces[kind], name)(erasing)


async def test_a_bare_request_is_executed_in_its_own_space() -> None:
    async with elytron.open("memory:", space=None) as memory:
        await memory.add("The door code is 4417.", user_id="ada")
        request = MemoryRecallRequest(query="door code", scope=Scope(space="ada"))
        assert (await memory.recall(request)).hits[0].text == "The door code is 4417."
        with pytest.raises(InvalidInput):
            await memory.recall(request, user_id="bob")  # pyright: ignore[reportArgumentType]
        with pytest.raises(InvalidInput):
            await memory.erase(MemoryEraseRequest(), user_id="ada")  # pyright: ignore[reportArgumentType]
        assert (await memory.recall(request)).hits


async def test_a_type_checker_rejects_mixed_calls() -> None:
    """The type-checking gate rejects an unneeded `ignore`."""
    request = MemoryRecallRequest(query="tea")
    async with elytron.open("memory:") as memory:
        found: MemoryRecallReport = await memory.recall(request)
        assert found == await memory.search("tea", limit=8)
        for call in (
            lambda: memory.recall(request, limit=3),  # pyright: ignore[reportArgumentType]
            lambda: memory.search(request, agent_id="x"),  # pyright: ignore[reportArgumentType]
            lambda: memory.list(request),  # pyright: ignore[reportArgumentType]
        ):
            with pytest.raises(InvalidInput):
                await call()


def test_a_type_checker_rejects_mixed_blocking_calls() -> None:
    with elytron.open("memory:") as memory:
        found: MemoryRecallReport = memory.recall(MemoryRecallRequest(query="tea"))
        assert found == memory.recall("tea", limit=8)
        with pytest.raises(InvalidInput):
            memory.recall(MemoryRecallRequest(query="tea"), run_id="x")  # pyright: ignore[reportArgumentType]


def test_calls_that_accept_requests_and_plain_values_are_declared_uniformly() -> None:
    """A face that accepts both by itself would escape the type check: it is declared with `takes_request`."""
    requests = "Request"
    both = [
        f"{name}({parameters[0]})"
        for name, parameters in calls(MemoryFace)
        if len(parameters) > 1 and requests in str(parameters[0].annotation)
    ]
    assert both == []


async def test_an_argument_error_names_the_argument_without_a_class_name() -> None:
    async with elytron.open("memory:") as memory:
        call: Any = memory.recall
        with pytest.raises(TypeError, match=r"^recall\(\) missing 1 required positional argument: 'query'$"):
            await call()
        with pytest.raises(TypeError, match=r"^recall\(\) has no parameter 'min_scor': use min_score=$"):
            await call("tea", min_scor=0.3)
