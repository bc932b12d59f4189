"""The log of one space on an MCP file server: found, read, appended to, and rewritten as another generation."""

from collections.abc import Iterable, Sequence
from io import SEEK_END, BytesIO
from typing import NamedTuple

from elytron_core.errors import StoreCorrupt, StoreUnavailable
from elytron_core.ids import Ids, SpaceId
from elytron_store import limits as store_limits
from elytron_store.file import frame, generation
from elytron_store.file.contents import Contents, View
from elytron_store.file.generation import Frame
from elytron_store.file.log import Log
from elytron_store.mcp.lease import Lease
from elytron_store.mcp.pieces import Pieces
from elytron_store.mcp.shards import (
    GONE,
    READY,
    Generation,
    ShardName,
    bytes_in,
    is_generation,
    joined,
    lines,
    shard_name,
)
from elytron_store.mcp.tools import ToolFiles, WriteMode


class Shared(NamedTuple):
    """Context of all spaces of a store."""

    files: ToolFiles
    lease: Lease
    ids: Ids
    root: str


class ShardLog:
    """The log in `folder`. A writer appends to shards of its own and never to another's.

    After a failed appending it is unknown what arrived: the caller loads the log again, and what comes late is cut off.
    """

    def __init__(self, shared: Shared, folder: str, space: SpaceId | None, /) -> None:
        self.view: View | None = None
        self.is_worth_rewriting = False
        self._shared = shared
        self._folder = folder
        self._space = space
        self._bytes = BytesIO()
        self._generation: Generation | None = None
        self._shard: tuple[str, int] | None = None
        self._number = 0
        self._shards = 0

    @property
    def size(self) -> int:
        """Return how many bytes of memory the log takes."""
        return 0 if self.view is None else self.view.log.size()

    async def load(self, *, is_to_be_cut: bool) -> None:
        """Read the log; without one, `view` is None. With `is_to_be_cut`, what arrives later is ignored."""
        self._shard = None
        found = await standing(self._shared.files, self._folder)
        epoch, number = (0, 0) if found is None else found.rank[0]
        self._number = max(self._number, number if epoch == self._shared.lease.epoch else 0)
        if found is None or found.is_gone:
            self.view, self._generation = None, None
            return
        data = await self._read(found)
        header = frame.decode_header(data[: frame.HEADER_BYTES])
        if header is None:
            raise StoreCorrupt(what=f"the header of space folder {self._folder.rpartition('/')[2][:16]!r}")
        self._see(data, header)
        self._generation, self._shards = found, len(found.shards)
        if is_to_be_cut:
            self._begin_shard(len(data))
            await self._put(b"", at=len(data))
        self._note_worth()

    async def append(self, frames: Sequence[Frame], /) -> None:
        """Leave `frames` behind the log. Raises the error of any call; then the log has to be loaded again."""
        assert self.view is not None, "a log that is appended to was loaded"
        log, contents = self.view
        start = log.acknowledged
        data = generation.encode(frames, salt=contents.salt, offset=start)
        await self._put(data, at=start)
        await self._shared.lease.confirm()
        self._bytes.seek(0, SEEK_END)
        self._bytes.write(data)
        log.acknowledged = start + len(data)
        contents.catch_up(log)
        self._note_worth()

    async def write_new(self, frames: Iterable[Frame], /) -> None:
        """Leave a new generation of `frames` in place of the old one, or the old one."""
        assert self._space is not None, "a log whose header is lost is not rewritten"
        salt = self._shared.ids.secret(frame.SALT_BYTES)
        data = bytearray(frame.encode_header(salt, self._space, acknowledged=frame.HEADER_BYTES))
        for each in frames:
            data += generation.encode((each,), salt=salt, offset=len(data))
        self._generation, self._shard, self._shards = Generation(self._fresh_name(), (), is_gone=False), None, 0
        await self._put(bytes(data), at=0)
        await self._stand(READY)
        self._see(data, frame.Header(salt, self._space, len(data), sound=True))
        self._note_worth()

    async def move_aside(self, pieces: Pieces, /) -> None:
        """Leave the shards of a log that cannot be read among `pieces`, and the space gone."""
        found = await standing(self._shared.files, self._folder)
        for name, size in () if found is None else found.shards:
            assert found is not None, "shards are those of a generation"
            path = f"{self._folder}/{found.name}/{name}"
            await pieces.keep_text(f"space.{name}", await read_text(self._shared.files, path, size))
        await self.end()

    async def end(self) -> None:
        """Leave nothing of the log: at once for readers, and then on the server."""
        self._generation = Generation(self._fresh_name(), (), is_gone=True)
        await self._stand(GONE)
        await self._shared.files.delete(f"{self._folder}/{self._generation.name}", recursive=True)
        self.view, self._generation, self._shard = None, None, None

    def _see(self, data: bytes | bytearray, header: frame.Header) -> None:
        self._bytes = BytesIO(data)
        log = Log(self._bytes, header)
        log.acknowledged = len(data)
        contents = Contents(header.salt)
        contents.catch_up(log)
        self.view = View(log, contents)

    async def _stand(self, word: str) -> None:
        """Make the generation that was just written the current one, and remove all others."""
        assert self._generation is not None, "a generation was begun"
        name = self._generation.name
        await self._shared.lease.confirm()
        await self._shared.files.write(f"{self._folder}/{name}/{word}", f"{word}\n", mode=WriteMode.TRUNCATE)
        # A later writer sees the new generation and needs no older one, so these may go at any time.
        await self._shared.lease.confirm_on_server()
        for entry in await self._shared.files.list(self._folder):
            if entry.name != name:
                await self._shared.files.delete(f"{self._folder}/{entry.name}", recursive=True)

    async def _put(self, data: bytes, *, at: int) -> None:
        """Append the lines of `data`, which belong at offset `at`, to shards of this writer."""
        for line in lines(data):
            if self._shard is None or self._shard[1] + len(line) > store_limits.MCP_SHARD_CHARS:
                self._begin_shard(at)
            assert self._shard is not None, "a shard was begun"
            path, size = self._shard
            await self._shared.files.write(path, line, mode=WriteMode.APPEND, offset=size)
            self._shard = path, size + len(line)
            at += bytes_in(line)

    def _begin_shard(self, at: int) -> None:
        assert self._generation is not None, "a shard is one of a generation"
        self._number += 1
        name = ShardName(self._shared.lease.epoch, self._number, at)
        self._shard = f"{self._folder}/{self._generation.name}/{name}", 0
        self._shards += 1

    def _fresh_name(self) -> str:
        self._number += 1
        return f"{self._shared.lease.epoch:08}.{self._number:06}.{self._shared.ids.new()}"

    async def _read(self, found: Generation) -> bytes:
        folder = f"{self._folder}/{found.name}"
        return joined([
            (name.start, await read_text(self._shared.files, f"{folder}/{name}", size)) for name, size in found.shards
        ])  # fmt: skip

    def _note_worth(self) -> None:
        assert self.view is not None, "a log was read or written"
        needed = self.size * 4 // 3 // store_limits.MCP_SHARD_CHARS + 1
        is_long = self._shards >= max(store_limits.MCP_SHARDS, 2 * needed) and not self.view.contents.holes
        self.is_worth_rewriting = self.view.contents.wants_compaction or is_long


async def standing(files: ToolFiles, folder: str, /) -> Generation | None:
    """Return the current generation of the log in `folder`, None if it has none."""
    found: list[Generation] = []
    for entry in await files.list(folder):
        if not is_generation(entry.name):
            continue
        inside = await files.list(f"{folder}/{entry.name}")
        names = {each.name for each in inside}
        if names & {READY, GONE}:
            shards = [(name, each.size) for each in inside if (name := shard_name(each.name)) is not None]
            found.append(Generation(entry.name, tuple(sorted(shards)), is_gone=GONE in names))
    return max(found, key=lambda each: each.rank, default=None)


async def read_text(files: ToolFiles, path: str, size: int, /) -> str:
    """Return the first `size` characters of the file at `path`, read in parts. Raises StoreUnavailable."""
    parts: list[str] = []
    at = 0
    while at < size:
        part = await files.read(path, offset=at, length=min(store_limits.MCP_WRITE_CHARS, size - at))
        if not part:
            raise StoreUnavailable("a file on the MCP file server is shorter than the server says: try again")
        parts.append(part)
        at += len(part.encode())
    return "".join(parts)
