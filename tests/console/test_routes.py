"""The console's routes: access, guards, and counted figures."""

import asyncio
import re

import httpx
import pytest
from tests.console.conftest import Keys, bearer
from tests.transports.nodes import skip_over_nodes
from tests.transports.serving import Served

from elytron_console.surfaces import static_assets
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio

OPERATORS = ("overview", "devices", "transports", "llm-gateway", "model-config")
TEA = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes green tea."}]}]}}
SKILL = {
    "name": "deploy",
    "topic": "deployment",
    "title": "Deploy the site",
    "summary": "Build, check, upload.",
    "content": "1. Run the build.\n2. Check the pages.\n3. Upload them with the release script.",
}


async def signed_in(client: httpx.AsyncClient, key: str) -> dict[str, str]:
    """Start a session, whose cookie the client stores; return the header that changes need."""
    answer = await client.post("/console/session", headers=bearer(key))
    assert answer.status_code == 200
    return {"X-Console-Token": answer.json()["token"]}


class TestPage:
    async def test_the_page_allows_nothing_else(self, client: httpx.AsyncClient) -> None:
        answer = await client.get("/console")
        policy = answer.headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for"):
            assert part in policy
        for part in re.findall(r'(?:src|href)="([^"]+)"', answer.text):
            assert (await client.get(part)).status_code == 200

    def test_no_script_turns_text_into_markup_or_names_another_server(self) -> None:
        for name, body in static_assets().items():
            text = body.decode()
            if not name.startswith("vendor/"):
                assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|dangerously", text), name
                assert not re.search(r"https?://(?!www\.w3\.org)", text), name

    def test_the_console_is_small(self) -> None:
        assert sum(map(len, static_assets().values())) <= 300 * 1024

    @pytest.mark.parametrize("name", ["../wire.py", "none.mjs", "index.html", "%2e%2e/limits.py", ""])
    async def test_no_other_file_is_served(self, client: httpx.AsyncClient, name: str) -> None:
        assert (await client.get(f"/console/static/{name}")).status_code == 404

    async def test_a_cached_asset_is_not_sent_again(self, client: httpx.AsyncClient) -> None:
        first = await client.get("/console/static/app.css")
        again = await client.get("/console/static/app.css", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


class TestSession:
    async def test_a_key_starts_a_session_whose_cookie_opens_only_the_console(
        self, client: httpx.AsyncClient, keys: Keys
    ) -> None:
        answer = await client.post("/console/session", headers=bearer(keys.user))
        cookie = answer.headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=strict", "Path=/console"):
            assert part in cookie
        assert answer.json()["space"] == "ada"
        token = {"X-Console-Token": answer.json()["token"]}
        assert (await client.get("/console/session", headers=token)).json()["token"] == answer.json()["token"]
        assert (await client.post("/v1/inspect", json={})).status_code == 401

    async def test_a_wrong_key_starts_no_session(self, client: httpx.AsyncClient) -> None:
        answer = await client.post("/console/session", headers=bearer("ely_user_0_0"))
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers

    async def test_a_cookie_from_another_port_opens_nothing(self, client: httpx.AsyncClient, keys: Keys) -> None:
        await signed_in(client, keys.operator)
        described = (await client.get("/openapi/all.json", headers=bearer(keys.operator))).json()["paths"]
        places = [
            (path, method)
            for path, methods in described.items()
            for method in methods
            if path.startswith("/console/") and path != "/console/"
        ]
        told: dict[tuple[str, str], int] = {}
        for path, method in places:
            sent = b"{}" if method in {"post", "put", "patch"} else None
            place = re.sub(r"\{.*?\}", "x", path)
            answer = await client.request(method, place, content=sent, headers={"Content-Type": "application/json"})
            told[path, method] = answer.status_code
        assert len(told) > 20
        assert {place: status for place, status in told.items() if status not in {401, 403}} == {}

    async def test_a_session_ends_with_its_key(self, server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
        token = await signed_in(client, keys.user)
        key_id = keys.user.split("_")[2]
        await client.delete(f"/console/devices/{key_id}", headers=bearer(keys.operator))
        assert (await client.get("/console/session", headers=token)).status_code == 401

    async def test_a_session_ends_on_sign_out(self, client: httpx.AsyncClient, keys: Keys) -> None:
        token = await signed_in(client, keys.user)
        cookie = {"Cookie": f"elytron_console={client.cookies['elytron_console']}"}
        assert (await client.delete("/console/session", headers=token)).status_code == 204
        assert (await client.get("/console/session", headers=cookie | token)).status_code == 401


class TestGuard:
    @pytest.mark.parametrize(
        "headers",
        [
            {"X-Console-Token": ""},
            {"X-Console-Token": "0" * 48},
            {"Origin": "http://elsewhere.example"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        ],
    )
    async def test_a_change_that_another_site_may_have_caused_is_refused(
        self, client: httpx.AsyncClient, keys: Keys, headers: dict[str, str]
    ) -> None:
        token = await signed_in(client, keys.user)
        answer = await client.post("/console/operations/write", json=TEA, headers=token | headers)
        assert answer.status_code == 403
        own = (await client.post("/console/operations/inspect", json={}, headers=token)).json()
        assert own["documents"] == {}

    async def test_another_sessions_token_is_refused(self, client: httpx.AsyncClient, keys: Keys) -> None:
        old = await signed_in(client, keys.user)
        await signed_in(client, keys.user)
        assert (await client.post("/console/operations/write", json=TEA, headers=old)).status_code == 403

    async def test_another_content_type_is_rejected(self, client: httpx.AsyncClient, keys: Keys) -> None:
        token = await signed_in(client, keys.user)
        answer = await client.post("/console/operations/write", data={"write": "x"}, headers=token)
        assert answer.status_code == 415

    async def test_a_program_with_a_key_needs_no_token(self, client: httpx.AsyncClient, keys: Keys) -> None:
        answer = await client.post("/console/operations/write", json=TEA, headers=bearer(keys.user))
        assert answer.json()["changed"]


class TestWalls:
    @pytest.mark.parametrize("path", OPERATORS)
    async def test_a_users_key_opens_no_operator_route(self, client: httpx.AsyncClient, keys: Keys, path: str) -> None:
        answers = [await client.get(f"/console/{path}", headers=bearer(key)) for key in (keys.user, keys.operator)]
        assert [answer.status_code for answer in answers] == [403, 200]
        assert answers[0].json()["detail"] == "this requires an operator's key"
        assert (await client.get(f"/console/{path}")).status_code == 401

    @pytest.mark.parametrize("path", ["journal", "skills", "skills/runtime_skill__deploy"])
    async def test_another_users_space_is_answered_like_a_missing_one(
        self, client: httpx.AsyncClient, keys: Keys, path: str
    ) -> None:
        await client.post("/console/operations/write", json=TEA, headers=bearer(keys.user))
        told = [
            (await client.get(f"/console/{path}?space={space}", headers=bearer(keys.stranger))).json()["detail"]
            for space in ("ada", "nowhere")
        ]
        assert told[0] == told[1] == "this key opens a single space: leave the scope out, or name that space"

    async def test_an_operation_of_another_space_is_refused(self, client: httpx.AsyncClient, keys: Keys) -> None:
        asked = {"query": "tea", "scope": {"space": "ada"}}
        answer = await client.post("/console/operations/recall", json=asked, headers=bearer(keys.stranger))
        assert answer.status_code == 403

    async def test_an_unknown_operation_is_not_found(self, client: httpx.AsyncClient, keys: Keys) -> None:
        answer = await client.post("/console/operations/none", json={}, headers=bearer(keys.operator))
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


class TestFigures:
    async def test_calls_are_counted_and_entries_match_the_journal(
        self, server: Served, client: httpx.AsyncClient, keys: Keys
    ) -> None:
        skip_over_nodes("figures are of one process")
        for _ in range(3):
            await client.post("/v1/write", json=TEA, headers=bearer(keys.user))
        await client.post("/v1/write", json={}, headers=bearer(keys.user))
        told = (await client.get("/console/overview?space=ada", headers=bearer(keys.operator))).json()
        (row,) = told["calls"]["operations"]
        assert (row["operation"], row["calls"], row["refused"]) == ("write", 4, 1)
        assert told["calls"]["transports"] == {"http": 4}
        assert sum(minute["calls"] for minute in told["calls"]["minutes"]) == 4
        inspected = (await client.post("/v1/inspect", json={}, headers=bearer(keys.user))).json()
        assert told["space"]["today"]["entries"] == inspected["sequence"]
        assert told["space"]["today"]["actions"] == {"lifecycle": 1, "write": 3}
        assert told["keys"]["open"] == {"operator": 1, "user": 2}
        assert told["spaces"] == 1

    async def test_the_journal_is_read_backwards_without_a_gap(
        self, server: Served, client: httpx.AsyncClient, keys: Keys
    ) -> None:
        for _ in range(9):
            await client.post("/v1/write", json=TEA, headers=bearer(keys.user))
        seen: list[int] = []
        before: int | None = None
        while True:
            query = f"limit=4{f'&before={before}' if before is not None else ''}"
            page = (await client.get(f"/console/journal?{query}", headers=bearer(keys.user))).json()
            seen += [entry["sequence"] for entry in page["items"]]
            before = page.get("next_before")
            if before is None:
                break
        assert seen == list(range(10, 0, -1))

    async def test_an_erasure_is_found_by_its_action(
        self, server: Served, client: httpx.AsyncClient, keys: Keys
    ) -> None:
        made = (await client.post("/v1/write", json=TEA, headers=bearer(keys.user))).json()
        erasure = MemoryEraseRequest(ids=(made["decisions"][0]["id"],))
        await client.post("/v1/erase", content=erasure.to_bytes(), headers=bearer(keys.user) | JSON)
        page = (await client.get("/console/journal?actions=erase", headers=bearer(keys.user))).json()
        assert [(entry["action"], entry["digest"]) for entry in page["items"]] == [("erase", "")]
        wrong = await client.get("/console/journal?actions=eat", headers=bearer(keys.user))
        assert wrong.status_code == 422


NO_MODEL = {"is_changeable": False}
JSON = {"Content-Type": "application/json"}


class TestDevices:
    async def test_a_key_is_shown_once_and_then_by_its_fingerprint(self, client: httpx.AsyncClient, keys: Keys) -> None:
        operator = bearer(keys.operator)
        made = await client.post("/console/devices", json={"label": "phone", "space": "ada"}, headers=operator)
        key, device = made.json()["appKeyOnce"], made.json()["device"]
        assert key.startswith("ely_device_")
        listed = await client.get("/console/devices", headers=operator)
        assert key not in listed.text
        assert device in listed.json()["items"]
        assert device["appKeyFingerprint"] not in key
        assert (await client.get("/console/session", headers=bearer(key))).json()["label"] == "phone"

    async def test_a_key_is_renamed_renewed_and_revoked(self, client: httpx.AsyncClient, keys: Keys) -> None:
        operator = bearer(keys.operator)
        made = (await client.post("/console/devices", json={"label": "p", "space": "ada"}, headers=operator)).json()
        at = f"/console/devices/{made['device']['id']}"
        assert (await client.patch(at, json={"label": "tablet"}, headers=operator)).json()["label"] == "tablet"
        renewed = (await client.post(f"{at}/rotate-key", headers=operator)).json()
        assert renewed["device"]["appKeyFingerprint"] != made["device"]["appKeyFingerprint"]
        opened = [
            (await client.get("/console/session", headers=bearer(key["appKeyOnce"]))).status_code
            for key in (made, renewed)
        ]
        assert opened == [401, 200]
        assert (await client.delete(at, headers=operator)).json()["state"] == "revoked"
        assert (await client.patch(at, json={"state": "active"}, headers=operator)).status_code == 422
        assert (await client.patch(at, json={"state": "lost"}, headers=operator)).status_code == 422
        revoked = await client.get("/console/session", headers=bearer(renewed["appKeyOnce"]))
        assert revoked.status_code == 401

    async def test_revoking_by_state_has_the_same_effect(self, client: httpx.AsyncClient, keys: Keys) -> None:
        operator = bearer(keys.operator)
        made = (await client.post("/console/devices", json={"label": "p", "space": "ada"}, headers=operator)).json()
        at = f"/console/devices/{made['device']['id']}"
        assert (await client.patch(at, json={"state": "revoked"}, headers=operator)).json()["state"] == "revoked"


class TestTransports:
    async def test_a_disabled_transport_answers_503_immediately_and_the_console_still_works(
        self, server: Served, client: httpx.AsyncClient, keys: Keys
    ) -> None:
        skip_over_nodes("another node takes a switch over within a second")
        operator = bearer(keys.operator)
        off = await client.patch("/console/transports/http", json={"enabled": False}, headers=operator)
        assert off.json()["enabled"] is False
        refused = await client.post("/v1/inspect", json={}, headers=operator)
        assert (refused.status_code, refused.json()["code"]) == (503, "transport_off")
        assert (await client.get("/v1/events", headers=operator)).status_code == 503
        for path in ("/livez", "/metrics", "/console/overview", "/console/transports"):
            assert (await client.get(path, headers=operator)).status_code == 200
        asked = {"scope": {"space": "ada"}}
        assert (await client.post("/console/operations/inspect", json=asked, headers=operator)).status_code == 200
        await client.patch("/console/transports/http", json={"enabled": True}, headers=operator)
        assert (await client.post("/v1/inspect", json={}, headers=bearer(keys.user))).status_code == 200

    async def test_a_transport_stays_off_for_the_next_server_of_the_store(
        self, server: Served, client: httpx.AsyncClient, keys: Keys
    ) -> None:
        from elytron_adapter.transport_switches import TransportSwitches

        await client.patch("/console/transports/mcp", json={"enabled": False}, headers=bearer(keys.operator))
        after = TransportSwitches(server.memory.context)
        await after.load()
        assert (after.is_on("mcp"), after.is_on("http")) == (False, True)

    async def test_another_running_server_of_the_store_adopts_the_change(
        self, server: Served, client: httpx.AsyncClient, keys: Keys
    ) -> None:
        from elytron_adapter.transport_switches import TransportSwitches

        other = TransportSwitches(server.memory.context)
        async with other.followed(pause_s=0.0), asyncio.timeout(60):
            assert other.is_on("mcp")
            await client.patch("/console/transports/mcp", json={"enabled": False}, headers=bearer(keys.operator))
            while other.is_on("mcp"):
                await asyncio.sleep(0)

    async def test_the_console_cannot_be_switched_off(self, client: httpx.AsyncClient, keys: Keys) -> None:
        operator = bearer(keys.operator)
        listed = (await client.get("/console/transports", headers=operator)).json()["items"]
        assert {one["id"] for one in listed} >= {"http", "wss", "mcp", "a2a", "gateway"}
        told = [
            (await client.patch(f"/console/transports/{name}", json={"enabled": False}, headers=operator)).status_code
            for name in ("console", "none")
        ]
        assert told == [422, 404]


class TestSmokeChecks:
    async def test_a_check_reports_its_outcome(self, client: httpx.AsyncClient, keys: Keys) -> None:
        operator = bearer(keys.operator)
        told = (await client.post("/console/llm-gateway/smoke-checks/right/run", headers=operator)).json()
        assert (told["exit_code"], told["stdout"].strip(), told["timed_out"]) == (0, "it works", False)

    async def test_a_commands_output_is_bounded(self, client: httpx.AsyncClient, keys: Keys) -> None:
        operator = bearer(keys.operator)
        told = (await client.post("/console/llm-gateway/smoke-checks/wrong/run", headers=operator)).json()
        assert (told["exit_code"], told["stderr"].strip(), told["clipped"]) == (1, "broken", True)
        assert len(told["stdout"]) == 8 * 1024

    async def test_only_known_checks_run(self, client: httpx.AsyncClient, keys: Keys) -> None:
        at = "/console/llm-gateway/smoke-checks"
        operator = bearer(keys.operator)
        assert (await client.post(f"{at}/rm%20-rf/run", headers=operator)).status_code == 404
        assert (await client.post(f"{at}/right/run", headers=bearer(keys.user))).status_code == 403
        listed = (await client.get("/console/llm-gateway", headers=operator)).json()
        assert [one["id"] for one in listed["smoke_checks"]] == ["right", "wrong"]
        assert "/mcp" in [one["path"] for one in listed["endpoints"]]


class TestSkills:
    async def test_a_skill_is_listed_revised_switched_and_deleted(self, client: httpx.AsyncClient, keys: Keys) -> None:
        user = bearer(keys.user)
        await client.post("/v1/write", json={"write": {"kind": "procedural", "writes": [SKILL]}}, headers=user)
        at = "/console/skills/runtime_skill__deploy"
        listed = (await client.get("/console/skills", headers=user)).json()
        assert [skill["name"] for skill in listed["runtime_skills"]] == ["runtime_skill__deploy"]
        edit = {"summary": "Build, check, upload, watch.", "edit_reason": "the log matters"}
        assert (await client.patch(at, json=edit, headers=user)).json()["changed"]
        assert (await client.get(at, headers=user)).json()["skill"]["summary"] == "Build, check, upload, watch."
        assert (await client.patch(f"{at}/enabled", json={"enabled": False}, headers=user)).json()["changed"]
        assert (await client.get("/console/skills", headers=user)).json()["disabled"] == 1
        assert (await client.delete(at, headers=user)).json()["changed"]
        assert (await client.get(at, headers=user)).status_code == 404


async def test_a_host_without_settings_shows_its_models_and_changes_none(client: httpx.AsyncClient, keys: Keys) -> None:
    operator = bearer(keys.operator)
    shown = (await client.get("/console/model-config", headers=operator)).json()
    assert shown == {"embedder": NO_MODEL, "language_model": NO_MODEL, "note": ""}
    refused = await client.patch("/console/model-config", json={"embedder": "use"}, headers=operator)
    assert (refused.status_code, refused.json()["code"]) == (422, "unsupported")


async def test_a_gateways_user_has_a_session_too(server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
    device = await server.key(PrincipalKind.DEVICE, "ada")
    told = (await client.get("/console/session", headers=bearer(device))).json()
    assert (told["kind"], told["operator"], told["spaces"]) == ("device", False, ["ada"])


class TestErasures:
    async def test_nothing_is_erased_before_a_count(self, client: httpx.AsyncClient, keys: Keys) -> None:
        user = bearer(keys.user)
        made = (await client.post("/v1/write", json=TEA, headers=user)).json()
        asked = {"ids": [made["decisions"][0]["id"]]}
        preview = (await client.post("/console/erasures", json=asked, headers=user)).json()
        assert (preview["count"], preview["report"]["removed"], preview["report"]["changed"]) == (
            1,
            {"turns": 1},
            False,
        )
        wrong = await client.post("/console/erasures", json=asked | {"count": 2}, headers=user)
        assert (wrong.status_code, wrong.json()["detail"]) == (422, "count is now 1: review the preview again")
        assert (await client.post("/v1/get", json={"id": asked["ids"][0]}, headers=user)).status_code == 200
        receipt = (await client.post("/console/erasures", json=asked | {"count": 1}, headers=user)).json()
        assert (receipt["count"], receipt["report"]["changed"]) == (1, True)
        assert (await client.post("/v1/get", json={"id": asked["ids"][0]}, headers=user)).status_code == 404

    async def test_an_outdated_count_is_refused_with_the_new_one(self, client: httpx.AsyncClient, keys: Keys) -> None:
        user = bearer(keys.user)
        await client.post("/v1/write", json=TEA, headers=user)
        asked = {"whole_space": "ada"}
        before = (await client.post("/console/erasures", json=asked, headers=user)).json()["count"]
        await client.post("/v1/write", json=TEA, headers=user)
        refused = await client.post("/console/erasures", json=asked | {"count": before}, headers=user)
        now = (await client.post("/console/erasures", json=asked, headers=user)).json()["count"]
        assert now > before
        assert refused.json()["detail"] == f"count is now {now}: review the preview again"
        assert (await client.post("/console/erasures", json=asked | {"count": now}, headers=user)).status_code == 200

    async def test_the_count_cannot_be_bypassed(self, client: httpx.AsyncClient, keys: Keys) -> None:
        asked = {"ids": ["x"], "dry_run": False}
        answer = await client.post("/console/operations/erase", json=asked, headers=bearer(keys.user))
        assert (answer.status_code, answer.json()["code"]) == (422, "unsupported")

    async def test_another_users_memory_is_refused(self, client: httpx.AsyncClient, keys: Keys) -> None:
        asked = {"whole_space": "ada", "scope": {"space": "ada"}}
        answer = await client.post("/console/erasures", json=asked, headers=bearer(keys.stranger))
        assert answer.status_code == 403
