"""Members download and upload their own space as a file; the server's files stay inaccessible."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

from elytron import EvidenceRole, FactAuthority, MemoryRuntime, Message, TrustLevel
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.http.archives import archive_surfaces
from elytron_core.evidence import EvidenceAuthority

pytestmark = pytest.mark.anyio

SAID = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes tea."}]}]}}
ZIP = {"Content-Type": "application/zip"}
WHOLE = "/v1/archive?include_private=true"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


async def test_a_space_is_transferred_from_one_member_to_another(
    server: httpx.AsyncClient, keys: Keys, temporary: Path
) -> None:
    await server.post("/v1/write", json=SAID, headers=bearer(keys.user))
    fetched = await server.get(WHOLE, headers=bearer(keys.user))
    assert (fetched.status_code, fetched.headers["content-type"]) == (200, "application/zip")
    assert fetched.content.startswith(b"PK")
    assert int(fetched.headers["content-length"]) == len(fetched.content)
    known = bearer(keys.user) | {"If-None-Match": fetched.headers["etag"]}
    assert (await server.get(WHOLE, headers=known)).status_code == 304

    sent = await server.put("/v1/archive", content=fetched.content, headers=bearer(keys.stranger) | ZIP)
    assert sent.status_code == 200, sent.text
    found = await server.post("/v1/recall", json={"query": "tea"}, headers=bearer(keys.stranger))
    assert [hit["text"] for hit in found.json()["hits"]] == ["Ada likes tea."]
    assert [path for path in temporary.iterdir() if path.name.startswith("elytron-")] == []


async def test_a_members_archive_imports_no_authority_the_member_lacks(
    server: httpx.AsyncClient, keys: Keys, runtime: MemoryRuntime
) -> None:
    await runtime.add_fact("boiler", "The boiler code is 4417.", authority=FactAuthority.OPERATOR)
    await runtime.add(
        [
            Message(
                role=EvidenceRole.TOOL,
                text="Boilers are serviced.",
                authority=EvidenceAuthority.PROGRAM_MEMORY_CANONICAL,
            ),
            Message(role=EvidenceRole.TOOL, text="Boilers burn gas.", authority=EvidenceAuthority.RUNTIME_OBSERVATION),
            Message(role=EvidenceRole.USER, text="My boiler is key AKIAIOSFODNN7EXAMPLE."),
        ]
    )
    fetched = (await server.get(WHOLE, headers=bearer(keys.user))).content
    stranger = bearer(keys.stranger) | ZIP
    restored = await server.put("/v1/archive?mode=full_restore", content=fetched, headers=stranger)
    assert (restored.status_code, restored.json()["code"]) == (403, "permission_refused")
    assert (await server.put("/v1/archive", content=fetched, headers=stranger)).status_code == 200

    page = await runtime.list(user_id="bob")
    trusted = {item.text: item.trust for item in page.items}
    assert trusted.pop("The boiler code is 4417.") is TrustLevel.OUTSIDE
    assert [trusted.pop("Boilers are serviced."), trusted.pop("Boilers burn gas.")] == [TrustLevel.OUTSIDE] * 2
    assert [*trusted.values()] == [TrustLevel.VOUCHED]
    (said,) = [item for item in page.items if item.text == "Boilers burn gas."]
    assert said.metadata["claimed_authority"] == "runtime_observation"

    operator = bearer(keys.operator) | ZIP
    place = "/v1/archive?space=carol&mode=full_restore"
    assert (await server.put(place, content=fetched, headers=operator)).status_code == 200
    assert {item.trust for item in (await runtime.list(user_id="carol")).items} == {TrustLevel.VOUCHED}


async def test_private_material_is_fetched_only_on_explicit_request(
    server: httpx.AsyncClient, keys: Keys, runtime: MemoryRuntime
) -> None:
    await server.post("/v1/write", json=SAID, headers=bearer(keys.user))
    await runtime.add_fact("tea", "Ada drinks green tea.", authority=FactAuthority.USER_ASSERTED)
    for query, texts in (("", {"Ada drinks green tea."}), ("?include_private=false", {"Ada drinks green tea."})):
        fetched = await server.get(f"/v1/archive{query}", headers=bearer(keys.user))
        assert fetched.headers["etag"] != (await server.get(WHOLE, headers=bearer(keys.user))).headers["etag"]
        headers = bearer(keys.stranger) | ZIP
        assert (await server.put("/v1/archive", content=fetched.content, headers=headers)).status_code == 200
        assert {item.text for item in (await runtime.list(user_id="bob")).items} == texts
        bound = bearer(keys.user) | ZIP | {"If-Match": fetched.headers["etag"]}
        assert (await server.put("/v1/archive", content=fetched.content, headers=bound)).status_code == 200
    asked = await server.get("/v1/archive?include_private=all", headers=bearer(keys.user))
    assert asked.status_code == 422


async def test_an_upload_can_be_conditional_on_the_seen_version(server: httpx.AsyncClient, keys: Keys) -> None:
    await server.post("/v1/write", json=SAID, headers=bearer(keys.user))
    fetched = await server.get(WHOLE, headers=bearer(keys.user))
    for etag, status in ((fetched.headers["etag"], 200), ("*", 200), ('"other"', 412)):
        headers = bearer(keys.user) | ZIP | {"If-Match": etag}
        assert (await server.put("/v1/archive", content=fetched.content, headers=headers)).status_code == status
    headers = bearer(keys.stranger) | ZIP | {"If-Match": "*"}
    assert (await server.put("/v1/archive", content=fetched.content, headers=headers)).status_code == 412


async def test_a_missing_space_is_not_found(server: httpx.AsyncClient, keys: Keys) -> None:
    assert (await server.get(WHOLE, headers=bearer(keys.user))).status_code == 404
    operator = await server.get("/v1/archive?space=nobody", headers=bearer(keys.operator))
    assert operator.status_code == 404


async def test_invalid_archives_are_rejected(server: httpx.AsyncClient, keys: Keys, temporary: Path) -> None:
    user = bearer(keys.user)
    unsaid = await server.put("/v1/archive", content=b"PK", headers=user)
    assert (unsaid.status_code, unsaid.headers["accept"]) == (415, "application/zip")
    wrong = await server.put("/v1/archive", content=b"no archive", headers=user | ZIP)
    assert (wrong.status_code, wrong.json()["code"]) == (422, "unreadable_file")
    assert str(temporary) not in wrong.text
    mode = await server.put("/v1/archive?mode=s3cret", content=b"PK", headers=user | ZIP)
    assert (mode.status_code, "s3cret" in mode.text) == (422, False)
    device = await server.put("/v1/archive", content=b"PK", headers=bearer(keys.device) | ZIP)
    assert device.status_code == 403
    for space in ("bad\n", "x" * 300):
        response = await server.get("/v1/archive", params={"space": space}, headers=user)
        assert response.status_code == 422


async def test_archives_are_bounded(runtime: MemoryRuntime) -> None:
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    from elytron_http_shell.application import HANDLERS, HostGuard, surface_route

    admission = CallerAdmission(OperationDispatcher(runtime), authenticator=DevelopmentCallers())
    guard = Middleware(HostGuard, hosts=frozenset({"*"}), ids=runtime.context.ids)
    small = [surface_route(surface, admission) for surface in archive_surfaces(admission, archive_bytes=10)]
    app = Starlette(routes=small, middleware=[guard], exception_handlers=HANDLERS)
    await runtime.add("Ada likes tea.")

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert (await client.put("/v1/archive", content=endless(), headers=ZIP)).status_code == 413
        assert (await client.put("/v1/archive", content=b"x" * 11, headers=ZIP)).status_code == 413
        fetched = await client.get("/v1/archive")
    assert (fetched.status_code, fetched.json()["code"]) == (422, "limit_exceeded")
