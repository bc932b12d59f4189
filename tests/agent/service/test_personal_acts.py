"""Nonverbal actions of a person and the welcome reach the model in the next requests."""

import pytest
from tests.agent.service.served import served

from elytron_agent.runs.source import WELCOME

pytestmark = pytest.mark.anyio


def shown(body: dict[str, object]) -> str:
    return str(body["messages"])


async def test_a_reaction_follows_its_message_in_the_next_request_until_it_is_removed() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.chat("The mast is oak.")
        (answer, _) = (await ada.items())["data"]
        assert "Reaction of the user" not in shown(server.model.asked[-1].body)
        await ada.made("POST", f"/items/{answer['id']}/reaction", {"emoji": "👎"})
        await ada.chat("And the sail is red.")
        texts = shown(server.model.asked[-1].body)
        await ada.made("DELETE", f"/items/{answer['id']}/reaction")
        await ada.chat("The deck is teak.")
        after = shown(server.model.asked[-1].body)
    line = "[Reaction of the user to the message above: 👎]"
    assert texts.index("You said: The mast is oak.") < texts.index(line) < texts.index("And the sail is red.")
    assert "Reaction of the user" not in after


async def test_the_welcome_is_a_thread_item_and_part_of_the_models_request() -> None:
    async with served() as server:
        ada = await server.user("ada")
        welcome = (await ada.made("POST", "/init"))["welcome"]
        items = (await ada.made("GET", "/items?order=asc"))["data"]
        last = items[-1]["id"]
        await ada.made("POST", f"/items/{last}/reaction", {"emoji": "👋"})
        await ada.chat("Ada, and gardening.")
        texts = shown(server.model.asked[0].body)
        second = shown((server.model.asked[-1]).body)
        behind = (await ada.made("GET", f"/items?order=asc&after={items[0]['id']}"))["data"]
        before = (await ada.made("GET", f"/items?after={last}"))["data"]
    assert welcome == list(WELCOME) == [item["text"] for item in items]
    assert {item["role"] for item in items} == {"assistant"}
    for text in WELCOME:
        assert texts.index(text) < texts.index("Ada, and gardening.")
    assert "message above: 👋" in second
    assert [item["text"] for item in behind] == [*WELCOME[1:], "Ada, and gardening.", "You said: Ada, and gardening."]
    assert [item["text"] for item in before] == [WELCOME[1], WELCOME[0]]


@pytest.mark.parametrize("value", ["true", "1", "no"])
@pytest.mark.parametrize("name", ["private", "store", "Private"])
async def test_a_flag_as_text_in_conversation_metadata_is_rejected(name: str, value: str) -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        headers = {"Authorization": f"Bearer {ada.key}"}
        body = {"metadata": {name: value}}
        made = await ada.client.post("/v1/conversations", json=body, headers=headers)
        plain = await ada.client.post("/v1/conversations", json={"metadata": {"topic": "boat"}}, headers=headers)
    assert (made.status_code, name.lower() in made.text) == (422, True)
    assert plain.status_code == 200
