"""`elytron serve`: the embedding routes exist with an embedder or an agent."""

import httpx
import pytest
from tests.sdk.encoders import WordEmbedder
from tests.transports.serving import served

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_agent.service.companion import ServiceSettings
from elytron_cli.input.server_options import rag_settings
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.server import ServingSettings, served_http

pytestmark = pytest.mark.anyio


async def test_a_server_with_an_embedder_has_the_routes() -> None:
    async with (
        elytron.open("memory:", space="ada", embedder=WordEmbedder()) as memory,
        open_surfaces(memory, SurfaceOptions()) as more,
        served_http(
            memory, ServingSettings(port=0), further=more.further, authenticators=more.authenticators
        ) as started,
        httpx.AsyncClient(base_url=started.address) as client,
    ):
        asked = AccessAddRequest.model_validate({"kind": PrincipalKind.USER, "space": "ada", "label": "test"})
        headers = {"Authorization": f"Bearer {(await AccessKeys(memory.context).add(asked)).key}"}
        await client.post("/v1/rag/embeddings", json={"text": "A red boat."}, headers=headers)
        answer = await client.post("/v1/rag/search", json={"query": "vessel"}, headers=headers)
        refused = await client.post("/v1/rag/search", json={"query": "vessel"})
    assert [hit["text"] for hit in answer.json()["data"]] == ["A red boat."]
    assert (refused.status_code, "rag" in more.protocols) == (401, True)


async def test_agents_without_an_embedder_report_what_is_missing() -> None:
    wanted = SurfaceOptions(agent=ServiceSettings(models=("chat:m@http://127.0.0.1:1/v1",)))
    async with served(wanted) as server, httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Authorization": f"Bearer {await server.key(PrincipalKind.USER, 'ada')}"}
        answers = [
            await client.post("/v1/rag/embeddings", json={"text": "A red boat."}, headers=headers),
            await client.post("/v1/rag/search", json={"query": "boat"}, headers=headers),
            await client.get("/v1/rag/embeddings/status", headers=headers),
        ]
    assert {(answer.json()["code"], "--embedder" in answer.text) for answer in answers} == {("unsupported", True)}


async def test_a_server_without_both_has_no_routes() -> None:
    async with served(SurfaceOptions()) as server, httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Authorization": f"Bearer {await server.key(PrincipalKind.USER, 'ada')}"}
        answer = await client.get("/v1/rag/embeddings/status", headers=headers)
    assert (answer.status_code, answer.json()["code"], "rag" in server.protocols) == (404, "not_found", False)


async def test_an_operator_switches_embeddings_off() -> None:
    wanted = SurfaceOptions(
        agent=ServiceSettings(models=("chat:m@http://127.0.0.1:1/v1",)), rag=rag_settings((), is_off=True)
    )
    async with served(wanted) as server, httpx.AsyncClient(base_url=server.url) as client:
        headers = {"Authorization": f"Bearer {await server.key(PrincipalKind.USER, 'ada')}"}
        answer = await client.post("/v1/rag/search", json={"query": "boat"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (404, "agent_disabled")
