"""A multi-part answer ends soon after its caller's key was revoked, in every package."""

import asyncio
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from tests.transports.listener import listening

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeyRequest, AccessKeys
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces, own_app
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell import create_app

pytestmark = pytest.mark.anyio
PART = b"a part\n"


async def endless(_scope: Any, receive: Any, send: Any) -> None:
    """Send a part, then nothing while the client stays; a deaf one would not end."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": PART, "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


def family(_admission: CallerAdmission) -> Iterable[Surface]:
    """Return a stream for each kind of access by key."""
    opened = (SurfaceAccess.MEMBER, SurfaceAccess.OWNER, SurfaceAccess.OPERATOR)
    routes = [Route("GET", f"/endless/{access}", endless, access, "Never end.", access=access) for access in opened]
    return build_surfaces(routes, own_app)


async def test_a_revoked_key_ends_only_the_streams_that_it_opened() -> None:
    async with elytron.open("memory:", space=None) as memory, asyncio.timeout(60):
        keys = AccessKeys(memory.context)
        member = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="ada")
        operator = AccessAddRequest(kind=PrincipalKind.OPERATOR, label="operator")
        ada, kept, root = [(await keys.add(asked)).key for asked in (member, member, operator)]
        async with (
            listening(create_app(memory, further=(family,))) as url,
            httpx.AsyncClient(base_url=url, timeout=60) as client,
        ):
            begun = asyncio.Queue[None]()

            async def read(name: str, key: str) -> bytes:
                headers = {"Authorization": f"Bearer {key}"}
                found = b""
                async with client.stream("GET", f"/endless/{name}", headers=headers) as answer:
                    assert answer.status_code == 200
                    async for part in answer.aiter_raw():
                        found += part
                        begun.put_nowait(None)
                return found

            opened = (("member", ada), ("owner", ada), ("operator", root))
            reads = [asyncio.create_task(read(name, key)) for name, key in opened]
            staying = asyncio.create_task(read("member", kept))
            for _ in (*reads, staying):
                await begun.get()
            for key in (ada, root):
                await keys.revoke(AccessKeyRequest(id=key.split("_")[2]))
            assert await asyncio.gather(*reads) == [PART] * 3
            assert not staying.done()
            staying.cancel()
