"""Items: thread pages, single messages, delivery, reactions; forgotten or erased ones have none."""

import pytest
from tests.agent.service.served import ServedAgents, ServedUser, served

from elytron_agent.runs.source import WELCOME

pytestmark = pytest.mark.anyio


async def talked(server: ServedAgents, count: int, space: str = "ada") -> ServedUser:
    user = await server.user(space)
    await user.made("POST", "/init")
    for number in range(count):
        await user.chat(f"message {number}")
    return user


async def texts(user: ServedUser, query: str = "?order=asc&limit=100") -> list[str]:
    return [item["text"] for item in (await user.items(query))["data"]]


async def test_pages_have_no_gap_or_overlap_in_either_order() -> None:
    async with served() as server:
        ada = await talked(server, 5)
        whole = [*WELCOME, *await texts(ada)]
        for order, expected in (("asc", whole), ("desc", whole[::-1])):
            found: list[str] = []
            after = ""
            while True:
                page = await ada.made("GET", f"/items?order={order}&limit=3{after}")
                found += [item["text"] for item in page["data"]]
                if not page["has_more"]:
                    break
                after = f"&after={page['last_id']}"
            assert found == expected
    assert whole == [*WELCOME, *(text for n in range(5) for text in (f"message {n}", f"You said: message {n}"))]


async def test_a_message_counts_as_delivered_once_by_frame_or_acknowledgement() -> None:
    async with served() as server:
        ada = await talked(server, 1)
        (answer, mine) = (await ada.items())["data"]
        again = await ada.made("POST", f"/items/{answer['id']}/delivered")
        first = await ada.made("POST", f"/items/{mine['id']}/delivered")
        second = await ada.made("POST", f"/items/{mine['id']}/delivered")
    assert "delivered_at" not in mine
    assert answer["delivered_at"] == again["delivered_at"]
    assert first == second


async def test_a_reaction_has_at_most_sixteen_characters_and_can_be_removed() -> None:
    async with served() as server:
        ada = await talked(server, 1)
        (answer, _) = (await ada.items())["data"]
        path = f"/items/{answer['id']}/reaction"
        set_on = await ada.made("POST", path, {"emoji": "👍"})
        longest = await ada.made("POST", path, {"emoji": "x" * 16})
        too_long = await ada.call("POST", path, {"emoji": "x" * 17})
        empty = await ada.call("POST", path, {"emoji": ""})
        off = await ada.made("DELETE", path)
        read = await ada.made("GET", f"/items/{answer['id']}")
    assert set_on["reaction"] == {"emoji": "👍", "by": "user"}
    assert longest["reaction"]["emoji"] == "x" * 16
    assert (too_long.status_code, empty.status_code) == (422, 422)
    assert "reaction" not in off
    assert off == read


async def test_forgotten_or_erased_messages_have_no_items_or_notes() -> None:
    async with served() as server:
        ada = await talked(server, 3)
        items = (await ada.items("?order=asc"))["data"]
        await ada.made("POST", f"/items/{items[1]['id']}/reaction", {"emoji": "👍"})
        turns = (await server.memory.replay("main", user_id="ada")).turns
        await server.memory.erase(turns[0].id, user_id="ada")
        await server.memory.forget(turns[1].id, user_id="ada")
        left = await texts(ada)
        kept = (await ada.items("?order=asc"))["data"][0]
        again = await ada.made("GET", f"/items/{kept['id'].replace('#', '%23')}")
        gone = [(await ada.call("GET", f"/items/{item['id']}")).status_code for item in items]
    assert left == ["You said: message 0", "You said: message 1", "message 2", "You said: message 2"]
    assert (again, "reaction" in kept) == (kept, False)
    assert gone == [404, 404, 404, 200, 200, 200]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=101", "limit=x", "limit=-1", "order=up", "page=2", "after=nothing"]
)
async def test_an_impossible_page_is_rejected(query: str) -> None:
    async with served() as server:
        ada = await talked(server, 1)
        answer = await ada.call("GET", f"/items?{query}")
    assert answer.status_code == (404 if query.startswith("after") else 422)


async def test_a_thread_is_cleared_and_its_agent_stays() -> None:
    async with served() as server:
        ada = await talked(server, 2)
        agent = await ada.made("GET", "")
        gone = await ada.made("DELETE", f"/conversations/{agent['conversation_id']}")
        after = await texts(ada)
        await ada.chat("again")
        items = await ada.made("GET", f"/conversations/{agent['id']}/items?order=asc")
    assert (gone["memories"], after) == (4, [])
    assert [item["text"] for item in items["data"]] == ["again", "You said: again"]
    assert "message 1" not in str(server.model.asked[-1].body)
