"""A principal stays in its space and within its role, whatever it requests over any transport."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.transports.bodies import BODIES

import elytron
from elytron import MemoryRuntime
from elytron.registry import WIRE_OPERATIONS
from elytron_adapter.access_keys import DEVELOPER, DevelopmentCallers, Principal
from elytron_adapter.admission_control import FairPlaces, LoadBounds
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.envelope import (
    AcceptedAnswer,
    CallAuth,
    CallHeaders,
    CallOrigin,
    CallTransport,
    Envelope,
    RejectedAnswer,
    Response,
)
from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_replay import comparison

pytestmark = pytest.mark.anyio

ADA = Principal(id="u1", kind=PrincipalKind.USER, space=SpaceId("ada"))
BOB = Principal(id="u2", kind=PrincipalKind.USER, space=SpaceId("bob"))
DEVICE = Principal(id="d1", kind=PrincipalKind.DEVICE, space=SpaceId("ada"))
OPERATOR = Principal(id="o1", kind=PrincipalKind.OPERATOR)
HERS = {"scope": {"space": "ada"}}
WRITE = b'{"write": {"kind": "transcript", "turns": [{"messages": [{"text": "We moved to Lisbon."}]}]}}'


@pytest.fixture
def admission(runtime: MemoryRuntime) -> CallerAdmission:
    return CallerAdmission(OperationDispatcher(runtime), authenticator=DevelopmentCallers())


async def call(
    admission: CallerAdmission, who: Principal, operation: str, payload: bytes = b"{}", **more: Any
) -> Response:
    headers = CallHeaders(idempotency_key=more.pop("idempotency_key", None))
    origin = CallOrigin(more.pop("transport", CallTransport.HTTP), **more)
    return await admission.call(
        who, origin=origin, operation=operation, request_id="r", payload=payload, headers=headers
    )


def key_of(answer: Response) -> str:
    assert isinstance(answer, RejectedAnswer), answer
    return answer.error_key


async def test_without_a_scope_a_principal_uses_their_own_space(admission: CallerAdmission) -> None:
    await call(admission, BOB, "write", WRITE)
    for who, count in ((BOB, 1), (ADA, 0)):
        listed = await call(admission, who, "list")
        assert isinstance(listed, AcceptedAnswer)
        assert len(listed.report.model_dump()["items"]) == count


class KnownNames(dict[str, Any]):
    """A value for each reference in a body."""

    def __missing__(self, name: str) -> str:
        return "018f0000-0000-7000-8000-000000000000"

    def __contains__(self, name: object) -> bool:
        return True


async def test_an_operators_key_has_no_default_space(admission: CallerAdmission, tmp_path: Path) -> None:
    await call(admission, ADA, "write", WRITE)
    async with elytron.open("memory:", space=None) as plain:
        unplaced = CallerAdmission(OperationDispatcher(plain), authenticator=DevelopmentCallers())
        missing: list[str] = []
        for operation in WIRE_OPERATIONS:
            (step, *_) = [step for step in BODIES[operation.name] if step["op"] == operation.name]
            known = KnownNames({"space": "ada", comparison.TMP: str(tmp_path / operation.name)})
            request = comparison.resolve_references(step.get("request", {}), known)
            assert isinstance(request, dict)
            payload = json.dumps({name: value for name, value in request.items() if name != "scope"}).encode()
            answers = [await call(where, OPERATOR, operation.name, payload) for where in (admission, unplaced)]
            keys = [answer.error_key if isinstance(answer, RejectedAnswer) else "" for answer in answers]
            assert ("scope_missing" in keys[0]) is ("scope_missing" in keys[1]), operation.name
            missing += [operation.name] if keys[0] == "scope_missing" else []
        assert {"recall", "list", "project", "write"} <= {*missing}


async def test_existing_and_missing_spaces_of_others_are_refused_identically(admission: CallerAdmission) -> None:
    await call(admission, BOB, "write", WRITE)
    answers = [
        await call(admission, ADA, "recall", b'{"query": "Lisbon", "scope": {"space": "%b"}}' % space)
        for space in (b"bob", b"nobody", SYSTEM_SPACE.encode())
    ]
    assert answers[0] == answers[1] == answers[2]
    assert key_of(answers[0]) == "permission_refused"


async def test_callers_may_name_and_narrow_their_own_space(admission: CallerAdmission) -> None:
    await call(admission, ADA, "write", WRITE)
    answer = await call(admission, ADA, "recall", b'{"query": "Lisbon", "scope": {"space": "ada", "agent": "x"}}')
    assert isinstance(answer, AcceptedAnswer)


@pytest.mark.parametrize("name", [SYSTEM_SPACE, "elytron:other", "Elytron:System"])
@pytest.mark.parametrize("who", [OPERATOR, DEVELOPER], ids=lambda who: who.kind)
async def test_nobody_can_access_the_system_space(admission: CallerAdmission, who: Principal, name: str) -> None:
    payload = b'{"scope": {"space": "%b"}}' % name.encode()
    assert key_of(await call(admission, who, "list", payload)) == "permission_refused"
    assert isinstance(
        await call(admission, who, "inspect", b'{"check": true, "scope": {"space": "ada"}}'), AcceptedAnswer
    )


async def test_a_device_does_not_erase_the_whole_space(admission: CallerAdmission) -> None:
    await call(admission, ADA, "write", WRITE)
    whole = b'{"whole_space": "ada"}'
    assert key_of(await call(admission, DEVICE, "erase", whole)) == "permission_refused"
    assert key_of(await call(admission, DEVICE, "recover")) == "permission_refused"
    assert isinstance(await call(admission, ADA, "erase", whole), AcceptedAnswer)


def proposing(authority: str) -> dict[str, Any]:
    """Return a fact with an authority, as a write and as a snapshot contain it."""
    fact = {"topic": "safe", "content": "It opens with 4417.", "authority": authority}
    return {"write": {"kind": "long_term", "facts": [fact]}}


def judged(authority: str) -> dict[str, Any]:
    proposal = {"target": "long_term", "topic": "safe", "content": "It opens with 4417."}
    candidate = {"proposal": proposal, "authority": authority, "judgement": {"verdict": "accept"}}
    return {"write": {"kind": "candidates", "candidates": [candidate]}}


def saying(authority: str) -> dict[str, Any]:
    """Return a tool's statement with an authority that is not the tool's."""
    message = {"role": "tool", "text": "It opens with 4417.", "authority": authority}
    return {"write": {"kind": "transcript", "turns": [{"messages": [message], "external_content_used": True}]}}


@pytest.mark.parametrize("who", [ADA, DEVICE], ids=lambda who: who.kind)
@pytest.mark.parametrize(
    ("asked", "borrowed"),
    [
        (proposing("operator"), "operator"),
        (proposing("program"), "program"),
        (proposing("runtime"), "runtime"),
        (judged("program_memory_canonical"), "program_memory_canonical"),
        (judged("runtime_observation"), "runtime_observation"),
        (saying("program_memory_canonical"), "program_memory_canonical"),
        (saying("runtime_observation"), "runtime_observation"),
    ],
)
async def test_a_member_cannot_claim_the_systems_trust(
    admission: CallerAdmission, who: Principal, asked: dict[str, Any], borrowed: str
) -> None:
    for transport in (CallTransport.HTTP, CallTransport.WSS, CallTransport.MCP):
        answer = await call(admission, who, "write", json.dumps(asked).encode(), transport=transport)
        assert key_of(answer) == "permission_refused"
        assert f"with the authority {borrowed}" in str(answer)
    listed = await call(admission, who, "list")
    assert isinstance(listed, AcceptedAnswer)
    assert listed.report.model_dump()["items"] == ()
    assert isinstance(await call(admission, OPERATOR, "write", json.dumps(asked | HERS).encode()), AcceptedAnswer)


@pytest.mark.parametrize("asked", [proposing("user_asserted"), proposing("imported"), judged("user_asserted")])
async def test_members_can_speak_for_themselves(admission: CallerAdmission, asked: dict[str, Any]) -> None:
    assert isinstance(await call(admission, ADA, "write", json.dumps(asked).encode()), AcceptedAnswer)


async def test_a_snapshot_gives_a_member_nobody_elses_trust(admission: CallerAdmission) -> None:
    said = {**proposing("program"), "scope": {"space": "ada", "conversation": "home"}}
    assert isinstance(await call(admission, OPERATOR, "write", json.dumps(said).encode()), AcceptedAnswer)
    place = {"scope": said["scope"]}
    taken = await call(admission, ADA, "export_continuity", json.dumps({**place, "mode": "full_restore"}).encode())
    assert isinstance(taken, AcceptedAnswer)
    snapshot = taken.report.model_dump(mode="json")["snapshot"]
    assert snapshot["layers"]["facts"]
    moved = json.dumps({**place, "snapshot": snapshot}).encode()
    assert key_of(await call(admission, ADA, "import_continuity", moved)) == "permission_refused"
    assert isinstance(await call(admission, OPERATOR, "import_continuity", moved), AcceptedAnswer)


async def test_envelope_errors_are_answers(admission: CallerAdmission) -> None:
    answer = await call(admission, ADA, "recall", b'{"query": "x"}', idempotency_key="")
    assert key_of(answer) == "invalid_input"


async def test_a_call_beyond_the_rate_gets_an_answer(runtime: MemoryRuntime) -> None:
    shedding = FairPlaces(LoadBounds(calls_per_minute=1))
    admission = CallerAdmission(OperationDispatcher(runtime), authenticator=DevelopmentCallers(), shedding=shedding)
    assert isinstance(await call(admission, ADA, "list"), AcceptedAnswer)
    assert key_of(await call(admission, ADA, "list")) == "rate_limited"


async def test_in_development_mode_every_caller_is_the_developer(admission: CallerAdmission) -> None:
    assert await admission.authenticate(None) == DEVELOPER
    assert await admission.authenticate("Bearer whatever") == DEVELOPER


@pytest.mark.parametrize("role", PrincipalKind)
async def test_an_unproven_role_opens_nothing(runtime: MemoryRuntime, role: PrincipalKind) -> None:
    claimed = Envelope(
        request_id="r", transport=CallTransport.HTTP, operation="list", auth=CallAuth(principal="x", role=role)
    )
    assert key_of(await OperationDispatcher(runtime).dispatch(claimed)) == "unauthorized"
