"""A second user replays every id of the first through every described route, and sees nothing."""

import asyncio
import io
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.agent.service.served import echo
from tests.agent.service.served import serving as model_serving
from tests.console.conftest import HOST, bearer
from tests.console.route_walk import DescribedRoute, RouteWalk, SentRequest, described_routes
from tests.http_shell.test_webhooks import now_s, signed
from tests.sdk.encoders import WordEmbedder
from tests.transports.serving import Served, served

from elytron.registry import WIRE_OPERATIONS, CallerRole
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.surface import Family, Surface
from elytron_agent.service.companion import ServiceSettings
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools import with_fingerprints

pytestmark = pytest.mark.anyio

SECRET = "seven thirty-one"
ASKED = "The safe opens with the wheel."
Answers = list[tuple[SentRequest, int, str]]

OPERATORS = frozenset(operation.name for operation in WIRE_OPERATIONS if operation.role is CallerRole.OPERATOR)
REFUSED = frozenset({
    "POST /users", "POST /memory/export", "POST /memory/import", "POST /resources/external", "console erase",
    *(f"console {name}" for name in OPERATORS),
})  # fmt: skip
"""Routes that refuse every user for any request, in addition to those described as such."""
SEALING = frozenset({"POST /v1/secret"})
"""Called without a usable secret: a space under one would reveal nothing of the routes behind it."""
ELSEWHERE = {"/console/static": "the page's own files", "/v1/ws": "the same dispatcher"}
"""Undescribed paths: their subpaths, and sockets."""
ID = re.compile(r'"(?:\w*id|name|key|label|conversation|namespace|registry)":\s?"([^"]{3,})"')
SKILL = {
    "name": "safe",
    "topic": f"opening {SECRET}",
    "title": f"Open with {SECRET}",
    "summary": f"Turn to {SECRET}.",
    "content": f"1. Go to the safe.\n2. Turn the wheel to {SECRET}.\n3. Close the safe again afterwards.",
}
MESSAGE = {"text": f"The safe opens with {SECRET}.", "speaker": "Ada Lovelace"}
FACT = {"topic": "safe", "fact_kind": "profile", "content": f"It is {SECRET}", "authority": "user_asserted"}
PROPOSAL = {"target": "long_term", "fact_kind": "profile", "topic": "safe", "content": f"Say {SECRET}"}
DRAFT = {"proposal": PROPOSAL, "authority": "external_content", "origins": ["external"]}
TOOL = {"tool_id": "wheel-of-ada", "display_name": f"Turn to {SECRET}", "schema_fingerprint": "a" * 16}
TOOLS = AgentToolRegistrySnapshot.model_validate(
    {"registry_id": "tools-of-ada", "namespace": "ada-host", "tools": [TOOL]}
)
BOAT = AgentToolRegistrySnapshot.model_validate({"registry_id": "tools-of-ada", "namespace": "boat", "tools": []})
PLANTED: Sequence[tuple[str, str, Any]] = (
    *(
        ("POST", "/v1/write", {"write": write, "scope": {"space": "ada", "conversation": "safe-talk-of-ada"}})
        for write in (
            {"kind": "transcript", "turns": [{"messages": [MESSAGE]}], "title": f"About {SECRET}"},
            {"kind": "long_term", "facts": [FACT]},
            {"kind": "procedural", "writes": [SKILL]},
            {"kind": "candidates", "candidates": [DRAFT]},
        )
    ),
    ("POST", "/v1/put_record", {"namespace": ["ada-safes"], "key": "wheel-of-ada", "value": {"turn": SECRET}}),
    (
        "PUT",
        "/agent-tool-registries/tools-of-ada",
        json.loads(with_fingerprints(TOOLS).to_bytes()),
    ),
    ("POST", "/v1/agent/init", {}),
    ("PUT", "/v1/agent/memory/blocks/human", {"value": f"The safe opens with {SECRET}."}),
    ("POST", "/v1/agent/memory/archival", {"content": f"The safe opens with {SECRET}.", "tags": ["tag-of-ada"]}),
    ("POST", "/v1/agent/subagents", {"name": "chef-of-ada", "purpose": f"Open with {SECRET}."}),
    ("POST", "/v1/agent/schedules", {"task": f"Turn to {SECRET}.", "rule": {"type": "daily", "time": "09:00"}}),
    ("POST", "/v1/agent/chat", {"input": f"The safe opens with {SECRET}."}),
    ("POST", "/v1/conversations", {"metadata": {"of": SECRET}}),
    ("POST", "/v1/responses", {"input": f"The safe opens with {SECRET}."}),
    ("POST", "/v1/rag/embeddings", {"text": f"The safe opens with {SECRET}.", "tags": ["rag-of-ada"]}),
)
SHOWN = (
    *("/v1/agent", "/v1/agent/items", "/v1/agent/subagents", "/v1/agent/conversations", "/v1/agent/memory/blocks"),
    *("/v1/agent/schedules", "/v1/conversations", "/v1/agent/config", "/agent-tool-registries"),
    *("/console/journal?limit=200", "/console/skills", "/console/conversations", "/console/contents"),
)
ASKING: Sequence[tuple[str, Mapping[str, object]]] = (
    *((name, {}) for name in ("list", "list_facts", "list_candidates", "inspect", "list_jobs", "read_subjects")),
    ("search_records", {}),
    ("profile", {}),
)

SHARES = ("/v1/agent", "/v1/", "/")
"""Prefixes of the paths that one test walks; a route belongs to the first match."""
STREAM_S = 0.5
"""Time for which an endless event stream is read."""
FORM = "multipart/form-data"
PART = b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n'
FILE = (
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="boat.txt"\r\nContent-Type: text/plain\r\n\r\n'
    b"The boat is green.\r\n--x--\r\n"
)
END = b"--x--\r\n"
SPOKEN = {"sender_id": "ada", "role": "user", "timestamp": 1_781_172_177_000}
SAID = {"messages": [SPOKEN | {"content": ASKED}]}
GATEWAY = re.compile(r"/(memories|resources|users)\b")
VOLATILE = re.compile(r'"(now|at|as_of|known_at|request_id|answered_at|elapsed_ms)":\s?("[^"]*"|\d+)')


def bodies_for(ids: Sequence[str], archive: bytes, snapshot: Any) -> dict[str, Sequence[Any]]:
    """Return bodies of routes whose description is incomplete."""
    scope = {"space": "ada"}
    turn = {"kind": "transcript", "turns": [{"messages": [{"text": ASKED}]}]}
    delta = {"turn_id": "t1", "input_messages": [{"role": "user", "text": ASKED}]}
    schedule = {"task": ASKED, "rule": {"type": "daily", "time": "09:00"}}
    written: Sequence[Any] = (
        {"write": turn},
        {"write": turn, "scope": scope},
        *({"write": turn, "scope": {"space": "bob", "conversation": one}} for one in ids),
    )
    called = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}}
        for name in ("memory_recall", "memory_get", "memory_project")
        for given in ({"query": ASKED}, {"query": ASKED, "scope": scope}, *({"id": one} for one in ids))
    ]
    asked = [{"delta": delta}, {"delta": delta, "scope": scope}]
    sessions = [{"session_id": f"chat:{one}", "memory_id": one} for one in ids]
    stale = [{"id": one, "action": "mark_stale"} for one in ids]
    candidate = {"write": {"kind": "long_term", "facts": [FACT | {"content": ASKED}]}}
    entries = [{"action": "write", "ref": ["turns", "ab12"]}]
    runs = [{"space": space, "runs": [{"first": 1, "last": 2}]} for space in ("bob", "ada")]
    return {
        "POST /v1/write": written,
        "POST /memory/write": written,
        "POST /webhook/report": written,
        "POST /webhook/write-candidate": [candidate, candidate | {"scope": scope}],
        "POST /v1/commit_transcript": asked,
        "POST /v1/finalize_turn_and_maintain": asked,
        "POST /v1/erase": [{"ids": [one]} for one in ids],
        "POST /v1/add": [{"text": ASKED}],
        "POST /v1/agent/chat": [{"input": ASKED}],
        "POST /v1/agent/schedules": [schedule],
        "POST /console/agent/schedules": [schedule],
        "POST /v1/agent/push": [{"type": "webhook", "url": "https://hooks.example/ada"}],
        "POST /v1/store/compact": runs,
        "POST /v1/store/get": [{"space": space, "refs": [["turns", "ab12"]]} for space in ("bob", "ada")],
        "POST /v1/store/commit": [{"batch": {"space": space, "at": 1, "entries": entries}} for space in ("bob", "ada")],
        "POST /v1/change_fact": stale,
        "POST /v1/forget_facts": [{"query": ASKED, "dry_run": True}],
        "POST /memories/add": [SAID | {"session_id": f"chat:{one}"} for one in ids],
        "POST /memories/flush": [{"session_id": f"chat:{one}"} for one in ids],
        "POST /memories/delete": sessions,
        "POST /memories/undo": sessions,
        "POST /memories/override": [session | {"text": ASKED} for session in sessions],
        "POST /memories/add/multipart": [
            PART % (b"session_id", b"chat:boat") + PART % (b"messages", json.dumps(SAID["messages"]).encode()) + END
        ],
        "POST /resources": [FILE],
        "POST /resources/external": [{"uri": "https://elsewhere.example/boat.txt"}],
        "POST /mcp": called,
        "PUT /agent-tool-registries/{registry_id}": [json.loads(with_fingerprints(BOAT).to_bytes())],
        "PUT /v1/archive": [archive],
        "PUT /console/archive": [archive],
        "POST /v1/import_continuity": [{"snapshot": snapshot}],
        "POST /v1/secret": [{"passphrase": "short"}],
        **{f"POST /v1/secret/{name}": [{"passphrase": ASKED}] for name in ("unlock", "rotate")},
        "POST /v1/secret/change": [{"passphrase": ASKED, "new_passphrase": "the tide table hangs here"}],
        "PUT /console/transcripts": [b"user: The safe opens."],
    }


class WalkedServer:
    """A server with everything on, with the first user's content, and a caller who may see none of it."""

    def __init__(self, server: Served, client: httpx.AsyncClient) -> None:
        self.server = server
        self.client = client
        self.first: dict[str, str] = {}
        self.second: dict[str, str] = {}
        self.first_at_gateway: dict[str, str] = {}
        self.second_at_gateway: dict[str, str] = {}
        self.ids: list[str] = []
        self.bodies: Mapping[str, Sequence[Any]] = {}

    async def fill(self) -> None:
        """Store the first user's content, and create agents for both users."""
        operator = bearer(await self.server.key(PrincipalKind.OPERATOR, None))
        self.description = (await self.client.get("/openapi/all.json", headers=operator)).json()
        self.first = bearer(await self.server.key(PrincipalKind.USER, "ada"))
        self.second = bearer(await self.server.key(PrincipalKind.USER, "bob"))
        self.first_at_gateway, self.second_at_gateway = [
            await self._gateway_user(name, operator) for name in ("ada", "bob")
        ]
        await self._sent(self.second, "POST", "/v1/agent/init", json={})
        answers = [await self._sent(self.first, method, path, json=body) for method, path, body in PLANTED]
        said = {"session_id": "chat:of-ada", "messages": [SPOKEN | {"content": f"The safe opens with {SECRET}."}]}
        answers += [
            await self._sent(self.first_at_gateway, "POST", "/memories/add", json=said),
            await self._sent(
                self.first_at_gateway, "POST", "/resources", files={"file": ("safe-of-ada.txt", SECRET.encode())}
            ),
        ]
        found = set(ID.findall("".join(answers) + "".join((await self.state()).values())))
        archive = await self.client.get("/v1/archive", headers=self.second)
        told = json.loads(await self._sent(self.second, "POST", "/v1/export_continuity", json={}))
        forms: dict[str, list[str]] = defaultdict(list)
        for one in sorted(found):
            forms[re.sub(r"[0-9a-f]*\d[0-9a-f]*", "0", one)].append(one)
        self.ids = [alike[0] for alike in forms.values()]
        self.bodies = bodies_for(self.ids, archive.content, told["snapshot"])

    async def state(self) -> dict[str, str]:
        """Return everything that the first user sees, without response times."""
        told = {path: await self._sent(self.first, "GET", path) for path in SHOWN}
        told |= {name: await self._sent(self.first, "POST", f"/v1/{name}", json=body) for name, body in ASKING}
        told["/resources"] = await self._sent(self.first_at_gateway, "GET", "/resources")
        return {name: VOLATILE.sub("", text) for name, text in told.items()}

    async def _gateway_user(self, name: str, operator: dict[str, str]) -> dict[str, str]:
        made = json.loads(await self._sent(operator, "POST", "/users", json={"user_id": name}))
        return bearer(made["user_key"]) | {"X-User-Id": name}

    async def _sent(self, headers: dict[str, str], method: str, path: str, **more: Any) -> str:
        answer = await self.client.request(method, path, headers=headers, **more)
        assert answer.is_success, (method, path, answer.text)
        return answer.text

    async def device(self) -> Any:
        """Return a new signing key of the second user's device."""
        asked = AccessAddRequest(kind=PrincipalKind.DEVICE, space=SpaceId("bob"), label="host")
        return await AccessKeys(self.server.memory.context).add(asked)


@asynccontextmanager
async def walked_server(*further: Family) -> AsyncGenerator[WalkedServer]:
    """Serve everything that the command line serves, with an agent whose model echoes its input."""
    async with model_serving() as model:
        model.reply = echo
        agent = ServiceSettings(models=(f"chat:scripted@{model.url}/v1",))
        wanted = SurfaceOptions(console=HOST, share_store=True, agent=agent)
        async with (
            served(wanted, embedder=WordEmbedder(), further=further) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as client,
        ):
            walked = WalkedServer(server, client)
            await walked.fill()
            yield walked


async def answered(walked: WalkedServer, sent: SentRequest, headers: Mapping[str, str]) -> tuple[int, str]:
    """Return the status of an answer and its content; of a stream, what arrives immediately."""
    media = {"Content-Type": f"{FORM}; boundary=x" if sent.media_type == FORM else sent.media_type}
    request = walked.client.build_request(
        sent.method,
        sent.path,
        params=dict(sent.params),
        content=sent.content,
        headers={**headers, **{name: value for name, value in media.items() if value is not None}},
    )
    answer = await walked.client.send(request, stream=True)
    is_endless = answer.headers.get("content-type", "").startswith("text/event-stream")
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout(STREAM_S if is_endless else None):
            async for piece in answer.aiter_bytes():
                pieces.append(piece)  # noqa: PERF401 - what came before the time was over is kept
    except TimeoutError:
        assert is_endless
    finally:
        await answer.aclose()
        walked.client.cookies.clear()
    whole = b"".join(pieces)
    if answer.headers.get("content-type") == "application/zip" and answer.is_success:
        with zipfile.ZipFile(io.BytesIO(whole)) as archive:
            whole = b"\n".join(archive.read(name) for name in archive.namelist())
    return answer.status_code, whole.decode("utf-8", "replace")


def walk_of(walked: WalkedServer, *, is_gateway: bool = False) -> RouteWalk:
    own = {"query": ASKED, "space": "bob"}
    if is_gateway:
        key = walked.second_at_gateway["Authorization"].partition(" ")[2]
        own |= {"user_id": "bob", "user_key": key, "app_id": "default", "project_id": "default"}
    asked = {"mode": "bootstrap", "dry_run": "true", "name": "boat.txt", "key": "ab12"}
    components = walked.description["components"]["schemas"]
    return RouteWalk(components, walked.ids, "ada", own, asked, walked.bodies)


def requests_of(walked: WalkedServer, routes: Sequence[DescribedRoute]) -> dict[str, list[SentRequest]]:
    """Return the requests to each route; console operations use the operations' own routes."""
    described = {route.name: route for route in routes}
    found: dict[str, list[SentRequest]] = {}
    for route in routes:
        walk = walk_of(walked, is_gateway=GATEWAY.match(route.path) is not None)
        if route.name == "POST /console/operations/{name}":
            for name in (operation.name for operation in WIRE_OPERATIONS):
                made = walk.requests(described[f"POST /v1/{name}"])
                found[f"console {name}"] = [replace(sent, path=f"/console/operations/{name}") for sent in made]
        else:
            found[route.name] = list(walk.requests(route))
    return found


ENDING = "DELETE /console/session"
REACHED = frozenset({200, 201, 202, 204, 304, 307, 404, 409, 501})
"""Statuses of a request that a route processed: it acted, or found nothing."""


def judge(walked: WalkedServer, answers: Mapping[str, Answers], operators: frozenset[str]) -> None:
    """Raise AssertionError unless every route was reached and none showed the first user's data."""
    shown = [(sent, text) for told in answers.values() for sent, _, text in told if SECRET in text]
    assert shown == []
    statuses = {name: {status for _, status, _ in told} for name, told in answers.items()}
    closed = operators | REFUSED | SEALING
    assert {name: found for name, found in statuses.items() if name in closed and not found <= {401, 403, 422}} == {}
    unreached = {name: found for name, found in statuses.items() if name not in closed and not found & REACHED}
    assert unreached == {}, "say in bodies_for how these routes are asked"


def require_unknown(walked: WalkedServer, answers: Mapping[str, Answers]) -> None:
    """Raise AssertionError if an id of the first user is in an answer to a request without ids."""
    own = [one for one in walked.ids if len(one) > 16 or "of-ada" in one]
    told = [(sent, text) for made in answers.values() for sent, _, text in made]
    assert [(sent, one) for sent, text in told for one in own if not sent.names_ids and one in text] == []


async def walk_all(
    walked: WalkedServer, names: Collection[str], headers: Mapping[str, str] | None = None
) -> dict[str, Answers]:
    """Return the answers of the named routes: first without ids, then with them."""
    device = await walked.device()
    routes = {route.name: route for route in described_routes(walked.description)}
    has_operations = "POST /console/operations/{name}" in names
    requests = {
        name: made
        for name, made in requests_of(walked, [*routes.values()]).items()
        if name != ENDING and (name in names or (has_operations and name.startswith("console ")))
    }
    answers: dict[str, Answers] = defaultdict(list)
    for is_asked in (False, True):
        for name, made in requests.items():
            for place, sent in enumerate(made):
                if sent.names_ids is is_asked:
                    own = headers or (walked.second_at_gateway if GATEWAY.match(sent.path) else walked.second)
                    one = sent
                    if sent.path.startswith("/webhook/"):
                        one, own = sign(walked, device, sent, f"{name} {place}".replace(" ", "-"))
                    answers[name].append((one, *await answered(walked, one, own)))
        if not is_asked:
            require_unknown(walked, answers)
    if ENDING in names:
        (sent,) = walk_of(walked).requests(routes[ENDING])
        answers[ENDING].append((sent, *await answered(walked, sent, headers or walked.second)))
    return answers


def sign(walked: WalkedServer, device: Any, sent: SentRequest, message: str) -> tuple[SentRequest, dict[str, str]]:
    """Return a delivery signed by the second user's device, and its headers."""
    made = signed(device, json.loads(sent.content or b"{}"), now_s(walked.server.memory), message=message)
    return replace(sent, content=made["content"]), made["headers"]


@pytest.mark.timeout(580)
@pytest.mark.parametrize("share", SHARES)
async def test_with_a_key_no_other_route_shows_another_users_data(share: str) -> None:
    async with walked_server() as walked:
        before = await walked.state()
        routes = described_routes(walked.description)
        assert len(routes) > 180
        others = [route for route in routes if not route.path.startswith("/console/")]
        names = {route.name for route in others if share == next(one for one in SHARES if route.path.startswith(one))}
        answers = await walk_all(walked, names)
        operators = frozenset(route.name for route in routes if route.access == "operator")
        judge(walked, answers, operators)
        assert await walked.state() == before


@pytest.mark.timeout(580)
async def test_with_a_session_no_console_route_shows_another_users_data() -> None:
    async with walked_server() as walked:
        before = await walked.state()
        began = await walked.client.post("/console/session", headers=walked.second)
        cookie = began.cookies["elytron_console"]
        headers = {"Cookie": f"elytron_console={cookie}", "X-Console-Token": began.json()["token"]}
        walked.client.cookies.clear()
        routes = [route for route in described_routes(walked.description) if route.path.startswith("/console")]
        answers = await walk_all(walked, {route.name for route in routes}, headers)
        assert len(answers) > 90
        operators = frozenset(route.name for route in routes if route.access == "operator")
        judge(walked, answers, operators)
        assert await walked.state() == before


async def test_every_undescribed_path_is_listed() -> None:
    admissions: list[CallerAdmission] = []

    def heard(admission: CallerAdmission) -> tuple[Surface, ...]:
        admissions.append(admission)
        return ()

    async with walked_server(heard) as walked:
        paths = [path for paths in admissions[0].transports.paths.values() for path in paths]
        shown = {path.replace(":path}", "}") for path in paths}
        assert shown - {*walked.description["paths"]} == {*ELSEWHERE}
