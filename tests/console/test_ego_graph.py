"""A memory's surroundings: evidence, versions, and dependants, bounded by the server, in one space only."""

import httpx
import pytest
from tests.console.conftest import Keys, bearer
from tests.transports.serving import Served

from elytron_core.contracts.transcript import MemoryWriteRequest

pytestmark = pytest.mark.anyio


async def write(server: Served, write: dict[str, object]) -> str:
    request = MemoryWriteRequest.model_validate({"write": write, "scope": {"space": "ada"}})
    return str((await server.memory.operate(request)).decisions[0].id)


async def plant(server: Served) -> tuple[str, str, str]:
    """Store a message and a fact of two versions based on it; return their ids."""
    said = await write(server, {"kind": "transcript", "turns": [{"messages": [{"text": "I moved to Lisbon."}]}]})
    fact = {"topic": "home", "fact_kind": "profile", "authority": "user_asserted"}
    versions = [
        await write(server, {"kind": "long_term", "facts": [fact | {"content": content, "citations": [said]}]})
        for content in ("Ada lives in Porto", "Ada lives in Lisbon")
    ]
    return said, versions[0], versions[1]


async def test_a_fact_links_to_evidence_and_versions_and_a_message_to_its_dependants(
    server: Served, client: httpx.AsyncClient, keys: Keys
) -> None:
    said, first, second = await plant(server)
    around = (await client.get("/console/around", params={"id": second}, headers=bearer(keys.user))).json()
    assert [node["text"] for node in around["rests"]] == ["I moved to Lisbon."]
    assert [(node["id"], node["text"]) for node in around["versions"]] == [
        (first, "Ada lives in Porto"),
        (second, "Ada lives in Lisbon"),
    ]
    assert (around["derived"], around["clipped"]) == ([], False)
    around = (await client.get("/console/around", params={"id": said}, headers=bearer(keys.user))).json()
    assert second in [node["id"] for node in around["derived"]]
    assert (around["rests"], around["versions"]) == ([], [])


async def test_the_graph_is_limited(
    server: Served, client: httpx.AsyncClient, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, second = await plant(server)
    monkeypatch.setattr("elytron_console.routes.memory_routes.EGO_NODES", 2)
    around = (await client.get("/console/around", params={"id": second}, headers=bearer(keys.user))).json()
    assert (len(around["versions"]), around["rests"], around["clipped"]) == (2, [], True)


async def test_another_user_sees_nothing_of_the_graph(server: Served, client: httpx.AsyncClient, keys: Keys) -> None:
    for each in await plant(server):
        known, foreign = {"id": each}, {"id": each, "space": "ada"}
        assert (await client.get("/console/around", params=known, headers=bearer(keys.stranger))).status_code == 404
        assert (await client.get("/console/around", params=foreign, headers=bearer(keys.stranger))).status_code == 403


@pytest.mark.parametrize("name", ["", "x" * 300, "nope", "<b>"])
async def test_an_invalid_id_is_rejected(client: httpx.AsyncClient, keys: Keys, name: str) -> None:
    answer = await client.get("/console/around", params={"id": name}, headers=bearer(keys.user))
    assert answer.status_code in {404, 422}
