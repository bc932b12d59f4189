"""Bytes of files, kept in the store under ids."""

from collections.abc import AsyncIterator

from elytron.context import OperationContext
from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Erasure


def new_key(ctx: OperationContext, /) -> str:
    """Return a key that no blob has."""
    return ctx.ids.new().replace("-", "")


async def keep(ctx: OperationContext, space: SpaceId, key: str, data: bytes, /) -> None:
    """Store `data`, whole and durable, as the blob `key`."""
    await ctx.store.write_blob(space, key, _pieces(data))


async def read(ctx: OperationContext, space: SpaceId, key: str, /) -> bytes:
    """Return the bytes of the blob `key`. Raises NotFound."""
    data = bytearray()
    async for chunk in ctx.store.read_blob(space, key):
        data += chunk
    return bytes(data)


async def remove(ctx: OperationContext, space: SpaceId, *keys: str) -> None:
    """Remove blobs physically."""
    if keys:
        await ctx.store.erase(Erasure(space=space, at=ctx.clock.now(), blobs=keys))


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), limits.BLOB_CHUNK_BYTES):
        yield data[start : start + limits.BLOB_CHUNK_BYTES]
