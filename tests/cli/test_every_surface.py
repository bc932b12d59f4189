"""Every path of every package on a server: who has access, and that no request breaks it."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, WebSocketRoute
from starlette.types import ASGIApp, Message
from tests.gateway.test_admission import holds_text
from tests.http_shell.test_tenants import example

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys, AnyAuthenticator
from elytron_adapter.admission_control import FairPlaces
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceProtocol
from elytron_agent.service.companion import ServiceSettings
from elytron_cli.config import resolve_settings
from elytron_cli.server.console_host import console_host
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_console.sessions import ROOT
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.scope import OpaqueId
from elytron_http_shell import create_app
from elytron_proxy import ProxySettings
from elytron_proxy.settings import upstreams_of

pytestmark = pytest.mark.anyio

ODD = ("", "a" * 201, "a\x00b", "elytron:x", "-1", "1e999", "\u202e", "%", "{}")
MEMBERS = (SurfaceAccess.MEMBER, SurfaceAccess.OWNER)
ALWAYS = re.compile(
    r"/(livez|readyz|metrics|v1/operations|v1/access(/.*)?|v1/shutdown|docs(/.*)?|openapi\.json|openapi/all\.json|favicon.*)?"
)
"""Routes that answer with every transport off: they monitor and describe the server, revoke keys, or stop it."""
SENT = (b"{}", b"[]", b'{"input": 7}', b"\xff", b"null")


async def status_of(app: ASGIApp, asked: httpx.Request, body: bytes) -> int:
    """Return the status of an answer after waiting for its end, except for event streams."""
    statuses: list[int] = []
    gone = asyncio.Event()
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if parts:
            return parts.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            if (b"content-type", b"text/event-stream; charset=utf-8") in message["headers"]:
                gone.set()
        elif not message.get("more_body"):
            gone.set()

    url = asked.url
    scope = {"type": "http", "method": asked.method, "scheme": "http", "path": unquote(url.path), "root_path": ""}
    more = {"raw_path": url.raw_path.partition(b"?")[0], "query_string": url.query, "client": ("127.0.0.1", 5)}
    heads = [(name.lower(), value) for name, value in asked.headers.raw]
    try:
        await app({**scope, **more, "headers": heads, "state": {}}, receive, send)
    except Exception:  # noqa: BLE001 - what breaks a route is answered, and then raised again for the server's log
        assert statuses == [500]
    return statuses[0]


@dataclass(frozen=True)
class WholeServer:
    """A server with everything that `elytron serve` offers, and a key of each kind."""

    client: httpx.AsyncClient
    surfaces: tuple[Surface, ...]
    keys: dict[PrincipalKind, str]
    app: ASGIApp
    places: FairPlaces

    async def ask(
        self,
        surface: Surface,
        method: str,
        *,
        key: str | None = None,
        body: bytes = b"",
        query: dict[str, str] | None = None,
        word: str = "unknown",
    ) -> int:
        """Return the status of an answer, with `word` for each id in the path."""
        path = re.sub(r"\{[^}]*\}", quote(word, safe=""), surface.route.path)
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        asked = self.client.build_request(method, path, headers=headers, params=query or {}, content=body)
        return await status_of(self.app, asked, body)

    def of(self, *access: SurfaceAccess) -> list[tuple[Surface, str]]:
        """Return the HTTP surfaces of a kind of access, by method."""
        return [
            (surface, surface.route.method)
            for surface in self.surfaces
            if surface.route.protocol is SurfaceProtocol.HTTP and surface.route.access in access
        ]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[WholeServer]:
    settings = resolve_settings({"store": str(tmp_path / "m.db")}, environment={}, folder=tmp_path)
    async with elytron.open(tmp_path / "m.db", space=None, clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        kept = AccessKeys(memory.context)
        keys: dict[PrincipalKind, str] = {}
        for kind in (PrincipalKind.OPERATOR, PrincipalKind.USER, PrincipalKind.DEVICE):
            space = None if kind is PrincipalKind.OPERATOR else "ada"
            asked = AccessAddRequest.model_validate({"kind": kind, "space": space, "label": kind.value})
            keys[kind] = (await kept.add(asked)).key
        wanted = SurfaceOptions(
            share_store=True,
            llm=ProxySettings(upstreams=upstreams_of(("http://127.0.0.1:9",), environment={})),
            console=console_host(settings, memory),
            agent=ServiceSettings(models=("ollama:tiny@http://127.0.0.1:9",)),
        )
        async with open_surfaces(memory, wanted) as more:
            admission = CallerAdmission(
                OperationDispatcher(memory),
                authenticator=AnyAuthenticator(kept, *more.authenticators),
                keys=kept,
                shedding=FairPlaces(),
            )
            surfaces = tuple(surface for family in more.further for surface in family(admission))
            places = admission.shedding
            assert isinstance(places, FairPlaces)
            app = create_app(admission, further=more.further)
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                yield WholeServer(client, surfaces, keys, app, places)


async def test_a_caller_without_a_key_is_refused_everywhere(server: WholeServer) -> None:
    closed = server.of(*MEMBERS, SurfaceAccess.OPERATOR)
    assert len(closed) > 50
    answers = {(surface.route.path, method): await server.ask(surface, method) for surface, method in closed}
    assert {place: status for place, status in answers.items() if status != 401} == {}


@pytest.mark.parametrize("kind", [PrincipalKind.USER, PrincipalKind.DEVICE])
async def test_operator_routes_are_closed_to_others(server: WholeServer, kind: PrincipalKind) -> None:
    own = server.of(SurfaceAccess.OPERATOR)
    answers = {
        (surface.route.path, method): await server.ask(surface, method, key=server.keys[kind])
        for surface, method in own
    }
    assert {place: status for place, status in answers.items() if status != 403} == {}


SECRETS = {
    ("/v1/secret", "GET"),
    ("/v1/secret", "POST"),
    ("/v1/secret/words", "POST"),
    ("/v1/secret/unlock", "POST"),
    ("/v1/secret/lock", "POST"),
    ("/v1/secret/change", "POST"),
    ("/v1/secret/rotate", "POST"),
    ("/v1/secret/grant", "POST"),
    ("/v1/secret/grant", "DELETE"),
}


async def test_a_device_cannot_erase_in_bulk(server: WholeServer) -> None:
    own = server.of(SurfaceAccess.OWNER)
    assert {(surface.route.path, method) for surface, method in own} == {
        ("/v1/agent", "DELETE"),
        ("/v1/conversations", "DELETE"),
        ("/v1/rag/embeddings", "DELETE"),
        *SECRETS,
    }
    statuses = {
        kind: {await server.ask(surface, method, key=server.keys[kind]) for surface, method in own}
        for kind in (PrincipalKind.DEVICE, PrincipalKind.USER)
    }
    assert statuses[PrincipalKind.DEVICE] == {403}
    assert 403 not in statuses[PrincipalKind.USER]
    bulk = {
        (surface.route.path, method)
        for surface, method in server.of(SurfaceAccess.MEMBER)
        if method == "DELETE" and not surface.route.path.endswith("}")
    }
    # A reaction is one object, and so is a caller's own session.
    assert {path for path, _ in bulk if not path.endswith(("/reaction", "/session"))} == set()


async def test_a_switched_off_transport_is_off_on_every_path(server: WholeServer) -> None:
    headers = {"authorization": f"Bearer {server.keys[PrincipalKind.OPERATOR]}"}
    listed = (await server.client.get(f"{ROOT}/transports", headers=headers)).json()["items"]
    for one in listed:
        path = f"{ROOT}/transports/{one['id']}"
        assert (await server.client.patch(path, json={"enabled": False}, headers=headers)).status_code == 200
    assert isinstance(server.app, Starlette)
    open_ones: dict[tuple[str, str], int] = {}
    asked = 0
    for route in server.app.router.routes:
        path = getattr(route, "path", "")
        if path.startswith(ROOT) or ALWAYS.fullmatch(path):
            continue
        where = re.sub(r"\{[^}]*\}", "unknown", path) + ("/v1/models" if isinstance(route, Mount) else "")
        for method in getattr(route, "methods", None) or ("GET",):
            if isinstance(route, WebSocketRoute):
                continue
            asked += 1
            answer = await server.client.request(method, where, headers=headers)
            if answer.status_code != 503 or (method != "HEAD" and answer.json()["code"] != "transport_off"):
                open_ones[path, method] = answer.status_code
    assert open_ones == {}
    assert asked > 150


@pytest.mark.parametrize("kind", [PrincipalKind.OPERATOR, PrincipalKind.USER, PrincipalKind.DEVICE])
async def test_no_body_breaks_a_route(server: WholeServer, kind: PrincipalKind) -> None:
    broken = {
        (surface.route.path, method, body): status
        for surface, method in server.of(*SurfaceAccess)
        for body in (SENT if method in {"POST", "PUT", "PATCH"} else (b"",))
        if (status := await server.ask(surface, method, key=server.keys[kind], body=body)) == 500
    }
    assert broken == {}


@pytest.mark.parametrize("odd", ODD)
async def test_no_query_or_path_value_breaks_a_route(server: WholeServer, odd: str) -> None:
    key = server.keys[PrincipalKind.OPERATOR]
    broken: list[tuple[str, str, str]] = []
    for surface, method in server.of(*SurfaceAccess):
        for name in (*surface.route.query, None):
            query = {name: odd} if name is not None else {}
            word = "unknown" if name is not None else odd or "unknown"
            if await server.ask(surface, method, key=key, query=query, word=word, body=b"{}") == 500:
                broken.append((surface.route.path, method, name or "in the path"))
    assert broken == []


async def test_the_console_rejects_empty_query_values(server: WholeServer) -> None:
    key = server.keys[PrincipalKind.OPERATOR]
    answers = {
        (surface.route.path, method, name): await server.ask(surface, method, key=key, query={name: ""}, body=b"{}")
        for surface, method in server.of(*SurfaceAccess)
        if surface.route.path.startswith(ROOT)
        for name in surface.route.query
    }
    assert len(answers) > 3
    assert {place: status for place, status in answers.items() if status != 422} == {}


async def test_no_route_waits_for_a_body(server: WholeServer) -> None:
    credential = f"Bearer {server.keys[PrincipalKind.USER]}".encode()
    heads = [(b"host", b"localhost"), (b"authorization", credential), (b"content-type", b"application/json")]
    held: dict[str, int] = {}
    waited: set[str] = set()
    for surface, method in server.of(*MEMBERS):
        parts = iter([{"type": "http.request", "body": b"{", "more_body": True}])

        async def receive(surface: Surface = surface, parts: Iterator[Message] = parts) -> Message:
            part = next(parts, None)
            if part is None:
                waited.add(surface.route.path)
                if server.places.running:
                    held[surface.route.path] = server.places.running
            return part or {"type": "http.disconnect"}

        async def send(_message: Message) -> None:
            pass

        path = re.sub(r"\{[^}]*\}", "unknown", surface.route.path)
        scope = {"type": "http", "method": method, "scheme": "http", "path": path, "raw_path": path.encode()}
        await server.app({**scope, "query_string": b"", "headers": heads, "state": {}}, receive, send)
    assert held == {}
    assert waited >= {"/v1/agent/schedules", "/v1/agent/chat", "/v1/rag/search"}


def text_fields(form: type[Value]) -> Iterator[str]:
    """Yield the fields of a request that contain free text; ids are stored as given."""
    for name, field in form.model_fields.items():
        is_id = any(isinstance(mark, OpaqueId) for mark in field.metadata)
        if holds_text(field.annotation) and not is_id:
            yield name


def stored_bytes(folder: Path) -> bytes:
    """Return all bytes of the store."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("m.db*")))


async def test_a_credential_in_any_text_of_any_request_is_not_stored(server: WholeServer, tmp_path: Path) -> None:
    key = server.keys[PrincipalKind.USER]
    leaks: list[tuple[str, str]] = []
    taken: set[tuple[str, str]] = set()
    numbers = itertools.count(1)
    headers = {"authorization": f"Bearer {key}"}
    assert (await server.client.post("/v1/agent/init", headers=headers)).status_code == 200
    for surface, method in server.of(*MEMBERS):
        form = surface.route.request
        if not isinstance(form, type):
            continue
        schema = form.model_json_schema(mode="validation")
        for name in text_fields(form):
            canary = f"AKIA{next(numbers):016}"
            body = example(schema, schema.get("$defs", {})) | {name: f"note {canary}"}
            status = await server.ask(surface, method, key=key, body=json.dumps(body).encode())
            if status < 400:
                taken.add((surface.route.path, name))
            if canary.encode() in stored_bytes(tmp_path):
                leaks.append((surface.route.path, name))
    assert leaks == []
    assert taken >= {("/v1/agent/chat", "input")}, taken
