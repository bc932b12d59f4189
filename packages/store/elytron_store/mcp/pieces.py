"""Damaged pieces of a space that `repair` moved aside on an MCP file server: kept as base64, never served."""

import binascii
from collections.abc import Collection

from elytron_core.ports.store import Ref
from elytron_store import limits as store_limits
from elytron_store.file.disk.quarantine import is_named
from elytron_store.mcp.tools import ToolFiles, WriteMode


class Pieces:
    """The pieces in `folder`, under the labels of the file store."""

    def __init__(self, files: ToolFiles, folder: str, /) -> None:
        self._files = files
        self._folder = folder

    async def keep(self, label: str, data: bytes, /) -> None:
        """Leave `data` aside under `label`."""
        await self.keep_text(label, binascii.b2a_base64(data, newline=False).decode())

    async def keep_text(self, label: str, text: str, /) -> None:
        path = f"{self._folder}/{label}"
        await self._files.delete(path)
        for start in range(0, max(len(text), 1), store_limits.MCP_WRITE_CHARS):
            part = text[start : start + store_limits.MCP_WRITE_CHARS]
            await self._files.write(path, part, mode=WriteMode.APPEND, offset=start)

    async def forget(self, *, refs: Collection[Ref], blobs: Collection[str]) -> None:
        """Remove what an erasure names, and every stretch that could hold some of it."""
        for entry in await self._files.list(self._folder):
            if is_named(entry.name, refs=refs, blobs=blobs):
                await self._files.delete(f"{self._folder}/{entry.name}")

    async def clear(self) -> None:
        """Remove everything."""
        await self._files.delete(self._folder, recursive=True)
