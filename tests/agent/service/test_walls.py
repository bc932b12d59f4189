"""Isolation: a second user replaying every id of the first sees the same as with made-up ids."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.agent.service.served import ServedUser, served

pytestmark = pytest.mark.anyio
MADE_UP = {
    "agent": "019e7044-8807-7000-970c-000000000000",
    "item": "019e7044-8807-7000-970c-000000000000.1",
    "subagent": "0123456789abcdef0123456789abcdef",
    "sub_item": "019e7044-8807-7000-970c-000000000000.0",
    "archival": "0123456789abcdef01234567.000000000001",
}


def calls_of(ids: dict[str, str]) -> Iterator[tuple[str, str, Any]]:
    """Yield every call that names an id."""
    for thread, item in (("", ids["item"]), (f"/subagents/{ids['subagent']}", ids["sub_item"])):
        yield "GET", f"{thread}/items/{item}", None
        yield "GET", f"{thread}/items?after={item}", None
        yield "POST", f"{thread}/items/{item}/delivered", None
        yield "POST", f"{thread}/items/{item}/reaction", {"emoji": "👀"}
        yield "DELETE", f"{thread}/items/{item}/reaction", None
    yield "GET", f"/subagents/{ids['subagent']}", None
    yield "POST", f"/subagents/{ids['subagent']}/chat", {"input": "hi"}
    yield "DELETE", f"/subagents/{ids['subagent']}", None
    yield "GET", f"/subagents/{ids['agent']}", None
    yield "GET", f"/conversations/{ids['agent']}/items", None
    yield "DELETE", f"/conversations/{ids['agent']}", None
    yield "DELETE", f"/conversations/{ids['subagent']}", None
    yield "DELETE", f"/memory/archival/{ids['archival']}", None
    yield "POST", "/memory/search", {"query": "bees", "conversation_id": ids["subagent"]}


async def ids_of(user: ServedUser) -> dict[str, str]:
    """Return an id of each kind that belongs to a user."""
    agent = await user.made("POST", "/init")
    chef = await user.made("POST", "/subagents", {"name": "chef", "purpose": "Cook."})
    await user.chat("The safe opens with seven.")
    await user.chat("Soup with bees.", f"/subagents/{chef['id']}/chat")
    archival = await user.made("POST", "/memory/archival", {"content": "Bees in the orchard."})
    return {
        "agent": agent["id"],
        "item": (await user.items())["data"][0]["id"],
        "subagent": chef["id"],
        "sub_item": (await user.made("GET", f"/subagents/{chef['id']}/items"))["data"][0]["id"],
        "archival": archival["id"],
    }


async def test_another_users_ids_answer_like_missing_ids() -> None:
    async with served() as server:
        ada, bob = await server.user("ada"), await server.user("bob")
        ids = await ids_of(ada)
        await bob.made("POST", "/init")
        before = await ada.items()
        for foreign, made_up in zip(calls_of(ids), calls_of(MADE_UP), strict=True):
            answers = [await bob.call(*call, X_Request_ID="same") for call in (foreign, made_up)]
            assert [answer.status_code for answer in answers] == [404, 404], foreign
            assert answers[0].content == answers[1].content, foreign
            assert [*answers[0].headers] == [*answers[1].headers]
        assert await ada.items() == before


async def test_a_second_user_sees_nothing_of_the_first_anywhere() -> None:
    async with served() as server:
        ada, bob = await server.user("ada"), await server.user("bob")
        ids = await ids_of(ada)
        await ada.made("PUT", "/memory/blocks/human", {"value": "The safe opens with seven."})
        await bob.made("POST", "/init")
        await bob.chat("With what does the safe open? Where are the bees?")
        search = await bob.made("POST", "/memory/search", {"query": "the safe opens with seven bees orchard"})
        paths = ("", "/items", "/conversations", "/subagents", "/memory/blocks", "/config", "/preferences")
        seen = str([await bob.made("GET", path) for path in paths])
    asked = str(server.model.asked[-1].body)
    for secret in (*ids.values(), "seven", "orchard"):
        assert secret not in seen
        assert secret not in asked
    assert "seven" not in str(search)


async def test_a_caller_without_a_key_is_refused_on_every_route() -> None:
    async with served() as server:
        shown = (await server.client.get("/openapi/all.json", headers=await _operator(server))).json()
        routes = [
            (method, path)
            for path, methods in shown["paths"].items()
            if path.startswith("/v1/agent")
            for method in methods
        ]
        answers = {
            (await server.client.request(method, path.replace("{", "").replace("}", ""))).status_code
            for method, path in routes
        }
    assert len(routes) > 30
    assert answers == {401}


async def _operator(server: Any) -> dict[str, str]:
    from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
    from elytron_core.planes.servers.system_documents import PrincipalKind

    asked = AccessAddRequest(kind=PrincipalKind.OPERATOR, label="test")
    return {"Authorization": f"Bearer {(await AccessKeys(server.memory.context).add(asked)).key}"}
