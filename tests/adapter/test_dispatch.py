"""From an envelope to a response: one meaning for every transport, and no exception escapes."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from elytron import MemoryRuntime
from elytron.registry import OPERATIONS, AnyOperation, CallerRole
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
from elytron_adapter.transport_switches import TransportSwitches
from elytron_core.contracts.inspection import MemoryInspectionRequest
from elytron_core.contracts.memories import MemoryGetRequest
from elytron_core.contracts.recall import MemoryRecallReport, MemoryRecallRequest, NothingReason
from elytron_core.contracts.transcript import MemoryWriteReport
from elytron_core.errors import InvalidInput, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.ports.store import Document, DocumentRef
from elytron_store.engine import PassingStore

pytestmark = pytest.mark.anyio

USER = CallAuth(authenticated=True, kind=AuthKind.BEARER, principal="u1", role=PrincipalKind.USER, space=SpaceId("ada"))
WRITE = b'{"write": {"kind": "transcript", "turns": [{"messages": [{"text": "We moved to Lisbon."}]}]}}'


def envelope(operation: str, payload: bytes | Value = b"{}", **fields: Any) -> Envelope:
    return Envelope(request_id="r1", transport=CallTransport.SDK, operation=operation, payload=payload).model_copy(
        update=fields
    )


def open_to_all(_envelope: Envelope, _operation: AnyOperation, _request: Value, /) -> str | None:
    """Refuse nothing."""
    return None


def key_of(response: Response) -> str:
    assert isinstance(response, RejectedAnswer)
    return response.error_key


async def test_json_and_a_typed_request_get_the_same_answer(dispatcher: OperationDispatcher) -> None:
    written = await dispatcher.dispatch(envelope("write", WRITE))
    assert isinstance(written, AcceptedAnswer)
    assert isinstance(written.report, MemoryWriteReport)
    assert written.report.changed
    answers = [
        await dispatcher.dispatch(envelope("recall", payload))
        for payload in (b'{"query": "Lisbon"}', MemoryRecallRequest(query="Lisbon"))
    ]
    assert answers[0] == answers[1]
    assert isinstance(answers[0], AcceptedAnswer)
    assert isinstance(answers[0].report, MemoryRecallReport)
    assert [hit.text for hit in answers[0].report.hits] == ["We moved to Lisbon."]


async def test_errors_come_back_as_rejections(dispatcher: OperationDispatcher) -> None:
    assert key_of(await dispatcher.dispatch(envelope("recall", b"{"))) == "invalid_json"
    assert key_of(await dispatcher.dispatch(envelope("recall", b"{}"))) == "invalid_input"
    assert key_of(await dispatcher.dispatch(envelope("dance"))) == "unsupported"
    assert key_of(await dispatcher.dispatch(envelope("get", b'{"id": "nobody"}'))) == "not_found"
    assert key_of(await dispatcher.dispatch(envelope("get", MemoryInspectionRequest()))) == "invalid_input"


async def test_an_empty_space_is_an_answer_and_not_an_error(dispatcher: OperationDispatcher) -> None:
    answer = await dispatcher.dispatch(envelope("recall", b'{"query": "anything"}'))
    assert isinstance(answer, AcceptedAnswer)
    assert isinstance(answer.report, MemoryRecallReport)
    assert answer.report.reason is NothingReason.EMPTY_SPACE


async def test_a_policy_sees_the_decoded_request_before_anything_happens(runtime: MemoryRuntime) -> None:
    asked: list[tuple[str, str, Value]] = []

    def nobody(seen: Envelope, operation: AnyOperation, request: Value) -> str | None:
        asked.append((seen.request_id, operation.name, request))
        return "not today"

    answer = await OperationDispatcher(runtime, policy=nobody).dispatch(envelope("get", b'{"id": "nobody"}'))
    assert answer == RejectedAnswer(request_id="r1", error_key="permission_refused", reason="not today")
    assert asked == [("r1", "get", MemoryGetRequest(id="nobody"))]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_operator_operations_in_a_remote_call_are_refused(
    dispatcher: OperationDispatcher, operation: AnyOperation
) -> None:
    payload = b'{"path": "/nowhere/x"}' if operation.name in {"export", "import"} else b"{}"
    answer = await dispatcher.dispatch(envelope(operation.name, payload, transport=CallTransport.HTTP, auth=USER))
    refused = isinstance(answer, RejectedAnswer) and answer.error_key == "permission_refused"
    if operation.role is CallerRole.OPERATOR:
        assert refused or key_of(answer) == "invalid_input"
    else:
        assert not refused


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_a_remote_call_without_a_principal_does_nothing(
    dispatcher: OperationDispatcher, operation: AnyOperation
) -> None:
    payload = b'{"path": "/nowhere/x"}' if operation.name in {"export", "import"} else b"{}"
    answer = await dispatcher.dispatch(envelope(operation.name, payload, transport=CallTransport.HTTP))
    assert key_of(answer) in {"unauthorized", "invalid_input"}


async def test_operator_fields_in_a_remote_call_are_refused(dispatcher: OperationDispatcher) -> None:
    remote = {"transport": CallTransport.HTTP, "auth": USER}
    checked = await dispatcher.dispatch(envelope("inspect", b'{"check": true}', **remote))
    assert key_of(checked) == "permission_refused"
    plain = await dispatcher.dispatch(envelope("inspect", b'{"check": false}', **remote))
    assert isinstance(plain, AcceptedAnswer)
    local = await dispatcher.dispatch(envelope("inspect", b'{"check": true}', transport=CallTransport.CLI))
    assert isinstance(local, AcceptedAnswer)


async def test_an_open_policy_refuses_nothing(runtime: MemoryRuntime) -> None:
    answer = await OperationDispatcher(runtime, policy=open_to_all).dispatch(
        envelope("recover", transport=CallTransport.HTTP)
    )
    assert isinstance(answer, AcceptedAnswer)


async def test_unexpected_errors_are_reported_without_their_message(
    dispatcher: OperationDispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_envelope: Envelope, _operation: AnyOperation, _request: Value) -> str | None:
        raise RuntimeError("s3cret")

    with caplog.at_level(logging.ERROR):
        answer = await OperationDispatcher(dispatcher.runtime, policy=broken).dispatch(
            envelope("recall", b'{"query": "s3cret"}')
        )
    assert key_of(answer) == "internal"
    assert "s3cret" not in answer.model_dump_json()
    assert "request r1: recall raised RuntimeError" in caplog.text
    assert "s3cret" not in caplog.text.replace('raise RuntimeError("s3cret")', "")


async def test_a_closed_runtime_reports_that_it_is_closed(dispatcher: OperationDispatcher) -> None:
    assert await dispatcher.unready("r1") is None
    assert isinstance(await dispatcher.dispatch(envelope("close")), AcceptedAnswer)
    assert key_of(await dispatcher.dispatch(envelope("recall", b'{"query": "x"}'))) == "store_closed"
    unready = await dispatcher.unready("r1")
    assert unready is not None
    assert unready.error_key == "store_closed"


async def test_a_store_that_does_not_answer_in_time_is_not_ready(
    dispatcher: OperationDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(PassingStore):
        async def probe(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("elytron_adapter.dispatch.READY_WAIT_S", 0.01)
    context = dispatcher.runtime.context
    silent = MemoryRuntime(replace(context, store=Silent(context.store)))
    unready = await OperationDispatcher(silent).unready("r1")
    assert unready is not None
    assert (unready.error_key, unready.retryable) == ("store_unavailable", True)


@pytest.mark.parametrize("times", [2, 100])
async def test_a_server_starting_without_its_store_waits_for_a_limited_time(
    dispatcher: OperationDispatcher, times: int
) -> None:
    class Away(PassingStore):
        left = times

        async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
            self.left -= 1
            if self.left >= 0:
                raise StoreUnavailable("away")
            return await super().get(space, refs)

    context = dispatcher.runtime.context
    switches = TransportSwitches(replace(context, store=Away(context.store)))
    if times > 50:
        with pytest.raises(StoreUnavailable):
            await switches.followed(pause_s=0.0).__aenter__()
        return
    async with switches.followed(pause_s=0.0):
        assert switches.is_on("mcp")


@pytest.mark.parametrize("transport", [CallTransport.HTTP, CallTransport.WSS, CallTransport.MCP, CallTransport.A2A])
async def test_an_operators_remote_close_ends_nothing(
    dispatcher: OperationDispatcher, transport: CallTransport
) -> None:
    operator = CallAuth(authenticated=True, kind=AuthKind.BEARER, principal="op", role=PrincipalKind.OPERATOR)
    answer = await dispatcher.dispatch(envelope("close", transport=transport, auth=operator))
    assert key_of(answer) == "unsupported"
    assert await dispatcher.unready("r1") is None


async def test_an_envelope_is_strict(dispatcher: OperationDispatcher) -> None:
    with pytest.raises(InvalidInput, match="request_id"):
        Envelope(request_id="", transport=CallTransport.SDK, operation="recall")
    with pytest.raises(InvalidInput, match="idempotency_key"):
        Envelope(request_id="r", transport=CallTransport.SDK, operation="recall", idempotency_key="x" * 201)
    assert Envelope(request_id="r", transport=CallTransport.SDK, operation="recall").auth == CallAuth()


async def test_responses_are_distinguished_by_their_kind(dispatcher: OperationDispatcher) -> None:
    first = await dispatcher.dispatch(envelope("write", WRITE, idempotency_key="k"))
    again = await dispatcher.dispatch(envelope("write", WRITE, idempotency_key="k"))
    assert (type(first), type(again)) == (AcceptedAnswer, DuplicatedAnswer)
    assert (first.kind, again.kind) == ("accepted", "duplicated")
