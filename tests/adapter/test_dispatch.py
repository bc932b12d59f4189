"""From an envelope to a response: one meaning for every transport, and nothing raised past it."""

import logging
from typing import Any

import pytest

from elytron import MemoryRuntime
from elytron.registry import OPERATIONS, AnyOperation, Role
from elytron_adapter.dispatch import Dispatcher
from elytron_adapter.envelope import Accepted, Auth, AuthKind, Duplicated, Envelope, Rejected, Response, Transport
from elytron_core.contracts.control import MemoryGetRequest
from elytron_core.contracts.inspection import MemoryInspectionRequest
from elytron_core.contracts.recall import MemoryRecallReport, MemoryRecallRequest, NothingReason
from elytron_core.contracts.transcript import MemoryWriteReport
from elytron_core.errors import InvalidInput
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import PrincipalKind

pytestmark = pytest.mark.anyio

USER = Auth(authenticated=True, kind=AuthKind.BEARER, principal="u1", role=PrincipalKind.USER, space=SpaceId("ada"))
WRITE = b'{"write": {"kind": "transcript", "turns": [{"messages": [{"text": "We moved to Lisbon."}]}]}}'


def envelope(operation: str, payload: bytes | Value = b"{}", **fields: Any) -> Envelope:
    return Envelope(request_id="r1", transport=Transport.SDK, operation=operation, payload=payload).model_copy(
        update=fields
    )


def open_to_all(_envelope: Envelope, _operation: AnyOperation, _request: Value, /) -> str | None:
    """Refuse nothing."""
    return None


def key_of(response: Response) -> str:
    assert isinstance(response, Rejected)
    return response.error_key


async def test_json_and_a_typed_request_are_answered_alike(dispatcher: Dispatcher) -> None:
    written = await dispatcher.dispatch(envelope("write", WRITE))
    assert isinstance(written, Accepted)
    assert isinstance(written.report, MemoryWriteReport)
    assert written.report.changed
    answers = [
        await dispatcher.dispatch(envelope("recall", payload))
        for payload in (b'{"query": "Lisbon"}', MemoryRecallRequest(query="Lisbon"))
    ]
    assert answers[0] == answers[1]
    assert isinstance(answers[0], Accepted)
    assert isinstance(answers[0].report, MemoryRecallReport)
    assert [hit.text for hit in answers[0].report.hits] == ["We moved to Lisbon."]


async def test_errors_come_back_as_rejections(dispatcher: Dispatcher) -> None:
    assert key_of(await dispatcher.dispatch(envelope("recall", b"{"))) == "invalid_json"
    assert key_of(await dispatcher.dispatch(envelope("recall", b"{}"))) == "invalid_input"
    assert key_of(await dispatcher.dispatch(envelope("dance"))) == "unsupported"
    assert key_of(await dispatcher.dispatch(envelope("get", b'{"id": "nobody"}'))) == "not_found"
    assert key_of(await dispatcher.dispatch(envelope("get", MemoryInspectionRequest()))) == "invalid_input"


async def test_an_empty_space_is_an_answer_and_no_error(dispatcher: Dispatcher) -> None:
    answer = await dispatcher.dispatch(envelope("recall", b'{"query": "anything"}'))
    assert isinstance(answer, Accepted)
    assert isinstance(answer.report, MemoryRecallReport)
    assert answer.report.reason is NothingReason.EMPTY_SPACE


async def test_a_policy_is_asked_with_the_decoded_request_before_anything_happens(runtime: MemoryRuntime) -> None:
    asked: list[tuple[str, str, Value]] = []

    def nobody(seen: Envelope, operation: AnyOperation, request: Value) -> str | None:
        asked.append((seen.request_id, operation.name, request))
        return "not today"

    answer = await Dispatcher(runtime, policy=nobody).dispatch(envelope("get", b'{"id": "nobody"}'))
    assert answer == Rejected(request_id="r1", error_key="permission_refused", reason="not today")
    assert asked == [("r1", "get", MemoryGetRequest(id="nobody"))]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_from_elsewhere_an_operators_operations_are_refused(
    dispatcher: Dispatcher, operation: AnyOperation
) -> None:
    payload = b'{"path": "/nowhere/x"}' if operation.name in {"export", "import"} else b"{}"
    answer = await dispatcher.dispatch(envelope(operation.name, payload, transport=Transport.HTTP, auth=USER))
    refused = isinstance(answer, Rejected) and answer.error_key == "permission_refused"
    if operation.role is Role.OPERATOR:
        assert refused or key_of(answer) == "invalid_input"
    else:
        assert not refused


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_from_elsewhere_a_call_without_a_principal_does_nothing(
    dispatcher: Dispatcher, operation: AnyOperation
) -> None:
    payload = b'{"path": "/nowhere/x"}' if operation.name in {"export", "import"} else b"{}"
    answer = await dispatcher.dispatch(envelope(operation.name, payload, transport=Transport.HTTP))
    assert key_of(answer) in {"unauthorized", "invalid_input"}


async def test_from_elsewhere_an_operators_fields_are_refused(dispatcher: Dispatcher) -> None:
    remote = {"transport": Transport.HTTP, "auth": USER}
    checked = await dispatcher.dispatch(envelope("inspect", b'{"check": true}', **remote))
    assert key_of(checked) == "permission_refused"
    plain = await dispatcher.dispatch(envelope("inspect", b'{"check": false}', **remote))
    assert isinstance(plain, Accepted)
    local = await dispatcher.dispatch(envelope("inspect", b'{"check": true}', transport=Transport.CLI))
    assert isinstance(local, Accepted)


async def test_an_open_policy_refuses_nothing(runtime: MemoryRuntime) -> None:
    answer = await Dispatcher(runtime, policy=open_to_all).dispatch(envelope("recover", transport=Transport.HTTP))
    assert isinstance(answer, Accepted)


async def test_what_no_one_foresaw_is_told_without_its_words(
    dispatcher: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_envelope: Envelope, _operation: AnyOperation, _request: Value) -> str | None:
        raise RuntimeError("s3cret")

    with caplog.at_level(logging.ERROR):
        answer = await Dispatcher(dispatcher.runtime, policy=broken).dispatch(
            envelope("recall", b'{"query": "s3cret"}')
        )
    assert key_of(answer) == "internal"
    assert "s3cret" not in answer.model_dump_json()
    assert "request r1: recall raised RuntimeError" in caplog.text
    assert "s3cret" not in caplog.text.replace('raise RuntimeError("s3cret")', "")


async def test_a_closed_runtime_says_so(dispatcher: Dispatcher) -> None:
    assert await dispatcher.unready("r1") is None
    assert isinstance(await dispatcher.dispatch(envelope("close")), Accepted)
    assert key_of(await dispatcher.dispatch(envelope("recall", b'{"query": "x"}'))) == "store_closed"
    unready = await dispatcher.unready("r1")
    assert unready is not None
    assert unready.error_key == "store_closed"


@pytest.mark.parametrize("transport", [Transport.HTTP, Transport.WSS, Transport.MCP, Transport.A2A])
async def test_an_operators_close_over_a_wire_ends_nothing(dispatcher: Dispatcher, transport: Transport) -> None:
    operator = Auth(authenticated=True, kind=AuthKind.BEARER, principal="op", role=PrincipalKind.OPERATOR)
    answer = await dispatcher.dispatch(envelope("close", transport=transport, auth=operator))
    assert key_of(answer) == "unsupported"
    assert await dispatcher.unready("r1") is None


async def test_an_envelope_is_strict(dispatcher: Dispatcher) -> None:
    with pytest.raises(InvalidInput, match="request_id"):
        Envelope(request_id="", transport=Transport.SDK, operation="recall")
    with pytest.raises(InvalidInput, match="idempotency_key"):
        Envelope(request_id="r", transport=Transport.SDK, operation="recall", idempotency_key="x" * 201)
    assert Envelope(request_id="r", transport=Transport.SDK, operation="recall").auth == Auth()


async def test_responses_are_told_apart_by_their_kind(dispatcher: Dispatcher) -> None:
    first = await dispatcher.dispatch(envelope("write", WRITE, idempotency_key="k"))
    again = await dispatcher.dispatch(envelope("write", WRITE, idempotency_key="k"))
    assert (type(first), type(again)) == (Accepted, Duplicated)
    assert (first.kind, again.kind) == ("accepted", "duplicated")
