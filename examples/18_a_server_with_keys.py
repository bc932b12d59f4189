"""A server with access keys: one for the operator, one for Ada's laptop, and the answer to a stranger.

It needs the extras `server` and `client`.
"""

import asyncio

import httpx

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.server import ServingSettings, served_http


async def main() -> None:
    async with elytron.open("memory:") as memory:
        keys = AccessKeys(memory.context)
        ada = await keys.add(AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="laptop"))
        # `elytron serve` does this in its own process.
        async with (
            served_http(memory, ServingSettings(port=0)) as server,
            httpx.AsyncClient(base_url=server.address) as client,
        ):
            bearer = {"Authorization": f"Bearer {ada.key}"}
            said = {"kind": "transcript", "turns": [{"messages": [{"text": "We moved to Lisbon in May."}]}]}
            await client.post("/v1/write", json={"write": said}, headers=bearer | {"Idempotency-Key": "move-1"})
            found = await client.post("/v1/recall", json={"query": "when did we move?"}, headers=bearer)
            print(f"Ada's laptop recalls: {found.json()['hits'][0]['text']}")

            stranger = await client.post("/v1/recall", json={"query": "when did we move?"})
            print(f"a stranger gets: {stranger.status_code} {stranger.json()['title']}")

            other = {"query": "anything", "scope": {"space": "bob"}}
            refused = await client.post("/v1/recall", json=other, headers=bearer)
            print(f"and of Bob's space: {refused.status_code} {refused.json()['detail']}")


asyncio.run(main())
