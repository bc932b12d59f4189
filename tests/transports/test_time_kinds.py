"""Every time in a request is a claim, a point of view, or a plan; and every claim is reported."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest
from pydantic.fields import FieldInfo
from tests.console.conftest import HOST
from tests.console.route_walk import described_routes
from tests.sdk.encoders import WordEmbedder
from tests.transports.serving import served

from elytron.registry import OPERATIONS
from elytron_agent.service.companion import ServiceSettings
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.clock import Instant
from elytron_core.model import Value, report_type
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.policy.admission.claimed_times import claim_fields
from elytron_core.time_kinds import TimeKind

pytestmark = pytest.mark.anyio

TIME_NAME = re.compile(r"[._](at|timestamp|since|until|as_of|from|to|time)$")
"""Names of times, which a form could also contain as plain numbers."""


def parts_of(annotation: Any) -> Iterator[Any]:
    """Yield every type and marker in an annotation."""
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for part in inner:
        yield from parts_of(part)


def marks_of(field: FieldInfo) -> list[Any]:
    return [*parts_of(field.annotation), *field.metadata]


def fields_of(form: type[Value], above: tuple[type[Value], ...] = ()) -> Iterator[tuple[str, list[Any]]]:
    """Yield every field of a form and its nested forms, with the types and markers of each."""
    for name, field in form.model_fields.items():
        marks = marks_of(field)
        yield f"{form.__name__}.{name}", marks
        for part in marks:
            if isinstance(part, type) and issubclass(part, Value) and part not in (*above, form):
                yield from fields_of(part, (*above, form))


def forms_below(form: type[Value]) -> Iterator[type[Value]]:
    for below in form.__subclasses__():
        yield below
        yield from forms_below(below)


def untyped_times(form: type[Value]) -> list[str]:
    """Return the times of a request without a kind, by their types or names."""
    found: list[str] = []
    for name, marks in fields_of(form):
        looks_like_time = TIME_NAME.search(name) is not None and not {int, float}.isdisjoint(marks)
        is_of_a_kind = any(isinstance(mark, TimeKind) for mark in marks)
        if (Instant in marks or looks_like_time) and not is_of_a_kind:
            found.append(name)
    return found


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_time_in_an_operation_request_has_a_kind(operation: Any) -> None:
    assert untyped_times(operation.request) == []


async def test_every_time_in_a_route_body_has_a_kind() -> None:
    agent = ServiceSettings(models=("chat:scripted@http://127.0.0.1:1/v1",))
    wanted = SurfaceOptions(console=HOST, share_store=True, agent=agent)
    async with served(wanted, embedder=WordEmbedder()) as server, httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Authorization": f"Bearer {await server.key(PrincipalKind.OPERATOR, None)}"}
        description = (await client.get("/openapi.json", headers=headers)).json()
    routes = described_routes(description)
    bodies = {str(route.schema["$ref"]).rpartition("/")[2] for route in routes if "$ref" in route.schema}
    forms = [form for form in set(forms_below(Value)) if form.__name__ in bodies]
    assert len(forms) > 60
    assert {form.__name__: found for form in forms if (found := untyped_times(form))} == {}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_that_accepts_claims_reports_future_ones(operation: Any) -> None:
    fields = claim_fields(operation.request)
    report = report_type(operation.request)
    takes_claims = bool(fields.claims or fields.holders)
    assert takes_claims <= ("future_claims" in report.model_fields)
    assert takes_claims <= hasattr(operation.performer(), "__wrapped__")


async def test_a_future_claim_loses_its_position_over_http() -> None:
    async with served(SurfaceOptions()) as server, httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Authorization": f"Bearer {await server.key(PrincipalKind.OPERATOR, None)}"}
        far = server.memory.context.clock.now() + 5 * 60_000
        said = {"text": "My favourite colour is green.", "at": far, "space": "ada"}
        first = (await client.post("/v1/add", json=said, headers=headers)).json()
        await client.post("/v1/maintain", json={"scope": {"space": "ada"}}, headers=headers)
        later = {"text": "My favourite colour is blue.", "space": "ada"}
        second = (await client.post("/v1/add", json=later, headers=headers)).json()
        await client.post("/v1/maintain", json={"scope": {"space": "ada"}}, headers=headers)
        facts = await server.memory.list_facts()
    assert [fact.content for fact in facts.items] == ["The user's favourite colour is blue"]
    assert [claim["claimed"] for claim in first["future_claims"]] == [far]
    assert second.get("future_claims", []) == []
