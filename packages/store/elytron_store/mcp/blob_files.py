"""Blobs of a space on an MCP file server: parts of lines under a version, which counts once its ready file is there.

<two digits>/<key>/<version>/<part>               lines of base64, each a chunk behind its checksum
<two digits>/<key>/<version>.<parts>.<bytes>      the version is whole: the number of its parts and bytes
"""

import asyncio
import binascii
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from elytron_core.errors import ElytronError, NotFound, StoreCorrupt, StoreUnavailable
from elytron_core.ports.store import DamageKind
from elytron_core.strict_json import frame_checksum, sha256_digest
from elytron_store import limits as store_limits
from elytron_store.engine import blob_pieces
from elytron_store.file.frame import CHECKSUM_BYTES
from elytron_store.file.repair import SpaceDamage, SpaceFindings
from elytron_store.mcp.shards import SharedContext
from elytron_store.mcp.tools import WriteMode


class BlobVersion(NamedTuple):
    """A whole version of a blob."""

    name: str
    parts: int
    size: int

    @property
    def ready(self) -> str:
        return f"{self.name}.{self.parts}.{self.size}"


class BlobFiles:
    """The blobs in `folder`, of one space."""

    def __init__(self, shared: SharedContext, folder: str, /) -> None:
        self._shared = shared
        self._folder = folder

    async def write(self, key: str, chunks: AsyncIterable[bytes], /) -> int:
        """Leave the bytes of `chunks` as the blob `key`, whole, or leave the old one; return their size."""
        name = f"{self._shared.lease.epoch:08}-{self._shared.ids.new()}"
        writer = _VersionWriter(self._shared, f"{self._of(key)}/{name}", key)
        try:
            async for piece in blob_pieces(chunks):
                await writer.write(piece)
            await self._shared.lease.confirm()
        except BaseException:
            # Likewise where the caller went away: what no ready file names is nothing, and goes with the next version.
            with suppress(ElytronError, asyncio.CancelledError):
                await self._shared.files.delete(f"{self._of(key)}/{name}", recursive=True)
            raise
        version = BlobVersion(name, writer.parts, writer.size)
        await self._shared.files.write(f"{self._of(key)}/{version.ready}", "ready\n", mode=WriteMode.TRUNCATE)
        await self._shared.lease.confirm_on_server()
        await self._sweep(key, but=version)
        return writer.size

    async def read(self, key: str, /) -> AsyncIterator[bytes]:
        """Yield the chunks of the blob `key`. Raises NotFound; StoreCorrupt at the first damaged chunk."""
        versions = await self._versions(key)
        if not versions:
            raise NotFound(what="blob", name=key)
        async for chunk in self._chunks(key, versions[-1]):
            yield chunk

    async def remove(self, key: str, /) -> bool:
        """Remove the blob `key`; tell whether there was one."""
        versions = await self._versions(key)
        for version in versions:
            await self._shared.files.delete(f"{self._of(key)}/{version.ready}")
        await self._shared.files.delete(self._of(key), recursive=True)
        return bool(versions)

    async def clear(self) -> int:
        """Remove all blobs; return how many there were."""
        return sum([await self.remove(key) for key in await self._keys()])

    async def examine(self, findings: SpaceFindings, /) -> None:
        """Read every blob, and add how many there are and which are damaged to `findings`."""
        for key in await self._keys():
            if await self._versions(key):
                findings.blobs += 1
                if not await self._is_whole(key):
                    findings.troubles.append(SpaceDamage(DamageKind.BLOB, f"blob {key}"))

    async def damaged(self) -> Sequence[str]:
        """Return the keys of the blobs that cannot be read."""
        return [key for key in await self._keys() if await self._versions(key) and not await self._is_whole(key)]

    async def text_of(self, key: str, /) -> str:
        """Return the lines of the blob `key` as they stand, damaged or not."""
        (*_, version) = await self._versions(key)
        parts: list[str] = []
        for part in range(version.parts):
            with suppress(NotFound):
                parts.append(await self._shared.files.read(f"{self._of(key)}/{version.name}/{part:06}"))
        return "".join(parts)

    async def _is_whole(self, key: str) -> bool:
        try:
            async for _ in self.read(key):
                pass
        except StoreCorrupt:
            return False
        return True

    async def _chunks(self, key: str, version: BlobVersion) -> AsyncIterator[bytes]:
        size, index = 0, 0
        for part in range(version.parts):
            async for line in self._lines(f"{self._of(key)}/{version.name}/{part:06}", key):
                chunk = _open_line(line, key, version.name, index)
                size, index = size + len(chunk), index + 1
                yield chunk
        if size != version.size:
            raise StoreCorrupt(what=f"blob {key}")

    async def _lines(self, path: str, key: str) -> AsyncIterator[str]:
        rest, at = "", 0
        while True:
            try:
                text = await self._shared.files.read(path, offset=at, length=store_limits.MCP_WRITE_CHARS)
            except NotFound:
                if await self._shared.files.list(path.rpartition("/")[0]):
                    raise StoreCorrupt(what=f"blob {key}") from None
                raise StoreUnavailable("a blob was replaced or removed while it was read: read it again") from None
            at += len(text.encode())
            *whole, rest = (rest + text).split("\n")
            for line in whole:
                yield line
            if len(text) < store_limits.MCP_WRITE_CHARS:
                if rest:
                    raise StoreCorrupt(what=f"blob {key}")
                return

    async def _sweep(self, key: str, *, but: BlobVersion) -> None:
        for entry in await self._shared.files.list(self._of(key)):
            if entry.name not in {but.name, but.ready}:
                await self._shared.files.delete(f"{self._of(key)}/{entry.name}", recursive=entry.is_folder)

    async def _versions(self, key: str) -> Sequence[BlobVersion]:
        names = [entry.name for entry in await self._shared.files.list(self._of(key)) if not entry.is_folder]
        return sorted(version for name in names if (version := _named_version(name)) is not None)

    async def _keys(self) -> Sequence[str]:
        found: list[str] = []
        for prefix in await self._shared.files.list(self._folder):
            found += [entry.name for entry in await self._shared.files.list(f"{self._folder}/{prefix.name}")]
        return sorted(found)

    def _of(self, key: str) -> str:
        return f"{self._folder}/{sha256_digest(key.encode())[:2]}/{key}"


class _VersionWriter:
    """A version under way. Small chunks share an appending."""

    def __init__(self, shared: SharedContext, folder: str, key: str, /) -> None:
        self.parts = 0
        self.size = 0
        self._shared = shared
        self._folder = folder
        self._key = key
        self._index = 0
        self._chars = 0

    async def write(self, chunk: bytes, /) -> None:
        self.size += len(chunk)
        await self._shared.lease.hold()
        version = self._folder.rpartition("/")[2]
        sealed = _chunk_checksum(self._key, version, self._index, chunk) + chunk
        line = f"{binascii.b2a_base64(sealed, newline=False).decode()}\n"
        if not self.parts or self._chars + len(line) > store_limits.MCP_SHARD_CHARS:
            self.parts, self._chars = self.parts + 1, 0
        path = f"{self._folder}/{self.parts - 1:06}"
        await self._shared.files.write(path, line, mode=WriteMode.APPEND, offset=self._chars)
        self._chars, self._index = self._chars + len(line), self._index + 1


def _chunk_checksum(key: str, version: str, index: int, chunk: bytes) -> bytes:
    return frame_checksum(key.encode(), version.encode(), index.to_bytes(8, "big"), chunk)


def _open_line(line: str, key: str, version: str, index: int) -> bytes:
    """Return the chunk in a line. Raises StoreCorrupt."""
    with suppress(binascii.Error, ValueError):
        sealed = binascii.a2b_base64(line, strict_mode=True)
        chunk = sealed[CHECKSUM_BYTES:]
        if sealed[:CHECKSUM_BYTES] == _chunk_checksum(key, version, index, chunk):
            return chunk
    raise StoreCorrupt(what=f"blob {key}")


def _named_version(name: str) -> BlobVersion | None:
    parts = name.split(".")
    if len(parts) != len(BlobVersion._fields) or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    return BlobVersion(parts[0], int(parts[1]), int(parts[2]))
