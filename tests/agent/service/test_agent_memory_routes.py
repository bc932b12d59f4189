"""Blocks with versions, archival memory with tags, and a search over both within a token budget."""

import pytest
from tests.agent.service.served import served

pytestmark = pytest.mark.anyio


async def test_an_unknown_label_is_answered_with_the_closest_one() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        answer = await ada.call("GET", "/memory/blocks/humann")
    assert (answer.status_code, answer.json()["detail"]) == (
        *(404, "no block of this name: the nearest are human, persona"),
    )


async def test_a_block_is_changed_only_in_the_version_that_was_read() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        listed = await ada.made("GET", "/memory/blocks")
        shown = await ada.call("GET", "/memory/blocks/human")
        version = shown.headers["etag"]
        changed = await ada.call("PUT", "/memory/blocks/human", {"value": "Ada sails."}, If_Match=version)
        late = await ada.call("PUT", "/memory/blocks/human", {"value": "Ada flies."}, If_Match=version)
        odd = await ada.call("PUT", "/memory/blocks/human", {"value": "Ada flies."}, If_Match="W/1")
        await ada.chat("Hello")
    assert [block["label"] for block in listed["data"]] == ["human", "persona"]
    assert (changed.status_code, changed.json()["value"]) == (200, "Ada sails.")
    assert [(answer.status_code, answer.json()["code"]) for answer in (late, odd)] == [(412, "precondition_failed")] * 2
    assert "Ada sails." in str(server.model.asked[-1].body["messages"])


async def test_a_block_is_created_by_its_first_put_within_limits() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        made = await ada.made("PUT", "/memory/blocks/trips/boat", {"value": "Blue.", "limit": 100})
        read = await ada.made("GET", "/memory/blocks/trips/boat")
        absent = await ada.call("PUT", "/memory/blocks/none", {"value": "x"}, If_Match='"1"')
        long = await ada.call("PUT", "/memory/blocks/trips/boat", {"value": "x" * 101})
        odd = await ada.call("PUT", "/memory/blocks/a%2F..%2Fb", {"value": "x"})
        unknown = await ada.call("GET", "/memory/blocks/nothing")
    assert made == read
    assert (made["label"], made["limit"]) == ("trips/boat", 100)
    assert [answer.status_code for answer in (absent, long, odd, unknown)] == [412, 422, 422, 404]


async def test_archival_memory_is_found_by_meaning_and_tags_and_erased_by_its_id() -> None:
    async with served() as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        kept = await ada.made("POST", "/memory/archival", {"content": "The boat is painted blue.", "tags": ["Boat"]})
        await ada.made("POST", "/memory/archival", {"content": "The bees live in the orchard.", "tags": ["bees"]})
        await ada.chat("My sister painted the boat last summer.")
        search = {"query": "which colour is the boat painted?"}
        both = await ada.made("POST", "/memory/search", search)
        tagged = await ada.made("POST", "/memory/search", search | {"tags": ["BOAT"]})
        said = await ada.made("POST", "/memory/search", search | {"sources": ["message"]})
        few = await ada.made("POST", "/memory/search", search | {"max_tokens": 8})
        nothing = await ada.made("POST", "/memory/search", search | {"max_tokens": 1})
        gone = await ada.made("DELETE", f"/memory/archival/{kept['id']}")
        again = await ada.call("DELETE", f"/memory/archival/{kept['id']}")
        after = await ada.made("POST", "/memory/search", search | {"sources": ["archival"]})
        message = said["data"][0]["id"].replace("#", "%23")
        foreign = await ada.call("DELETE", f"/memory/archival/{message}")
    assert {each["source"] for each in both["data"]} == {"archival", "message"}
    assert [(each["id"], each["tags"]) for each in tagged["data"]] == [(kept["id"], ["boat"])]
    assert {each["source"] for each in said["data"]} == {"message"}
    assert (len(few["data"]), nothing["data"]) == (1, [])
    assert (gone["deleted"], again.status_code, foreign.status_code) == (True, 404, 404)
    assert kept["id"] not in str(after)
