"""A log as text files: each appending is one or more lines of base64, so that a torn one shows by its missing end.

<generation>/<epoch>.<number>.<start>     a shard: bytes of the log from offset `start` on, in lines
<generation>/ready                        the generation is whole, and is the current one
<generation>/gone                         likewise; it says that the space was erased

A generation is `<epoch>.<number>.<id>`. A line that begins with ~ is continued by the next; lines without an end are
ignored. A shard's `start` cuts off what the shards before it hold beyond that: what a dead writer's call appends late
changes nothing.
"""

import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import SEEK_END, BytesIO
from typing import Final, NamedTuple

from elytron_core.errors import StoreCorrupt, StoreUnavailable
from elytron_core.ids import IdSource, SpaceId
from elytron_core.ports.store import DocumentRef
from elytron_store import limits as store_limits
from elytron_store.file import generation
from elytron_store.file.frame import HEADER_BYTES, SALT_BYTES, LogHeader, decode_header, encode_header
from elytron_store.file.generation import NewFrame
from elytron_store.file.log import GenerationLog, LogContents, LogView
from elytron_store.file.repair import is_named
from elytron_store.mcp.lease import WriterLease
from elytron_store.mcp.tools import ToolFiles, WriteMode

MCP_LINE_BYTES: Final = 768 * 1024 - 3
"""Bytes that one line of a log encodes on an MCP file server."""
MCP_SHARDS: Final = 64
"""Number of files from which on the log of a space is rewritten if half of them are enough."""


READY = "ready"
GONE_MARK = "gone"
MORE = "~"
_NAME = re.compile(r"(\d{8})\.(\d{6})\.(\d{14})")
_GENERATION = re.compile(r"\d{8}\.\d{6}\.[0-9a-f-]{36}")
_FOREIGN = re.compile(r"[^A-Za-z0-9+/]")


class ShardName(NamedTuple):
    """Identity of a shard: its writer, its number, and its offset in the log."""

    epoch: int
    number: int
    start: int

    def __str__(self) -> str:
        return f"{self.epoch:08}.{self.number:06}.{self.start:014}"


@dataclass(frozen=True, slots=True)
class LogGeneration:
    """A generation of a log: its folder's name, its shards with their sizes, in order, and whether it ends a space."""

    name: str
    shards: tuple[tuple[ShardName, int], ...]
    is_gone: bool

    @property
    def rank(self) -> tuple[tuple[int, int], str]:
        """Return the time at which it was created, or last appended to: the current generation has the highest."""
        epoch, generation_number, _ = self.name.split(".")
        return max(
            [(int(epoch), int(generation_number)), *((name.epoch, name.number) for name, _ in self.shards)]
        ), self.name


def shard_name(text: str, /) -> ShardName | None:
    """Return the parsed name of a shard, None if `text` is none."""
    match = _NAME.fullmatch(text)
    return ShardName(int(match[1]), int(match[2]), int(match[3])) if match else None


def is_generation(text: str, /) -> bool:
    """Return whether `text` is the name of a generation's folder."""
    return _GENERATION.fullmatch(text) is not None


def appending_lines(data: bytes, /) -> Iterator[str]:
    """Yield the lines of one append of `data`."""
    line_bytes = MCP_LINE_BYTES
    for start in range(0, len(data), line_bytes) or (0,):
        part = data[start : start + line_bytes]
        continuation_mark = MORE if start + line_bytes < len(data) else ""
        yield f"{continuation_mark}{binascii.b2a_base64(part, newline=False).decode()}\n"


def bytes_in(line: str, /) -> int:
    """Return the number of bytes that a whole line encodes."""
    body = line.removeprefix(MORE).rstrip("\n")
    return len(body) // 4 * 3 - body[-2:].count("=")


def join_shards(texts: Iterable[tuple[int, str]], /) -> bytes:
    """Return the bytes of a log from its shards' starts and texts, without unfinished lines."""
    data = bytearray()
    joined_end = 0
    for start, text in texts:
        # A shard that begins earlier cuts off what the writer before it did not finish.
        del data[start:]
        data += bytes(start - len(data))  # a lost shard leaves a hole to be found
        joined_end = min(joined_end, start)
        for line in text.split("\n")[:-1]:
            data += _bytes_of(line.removeprefix(MORE))
            if not line.startswith(MORE):
                joined_end = len(data)
    return bytes(data[:joined_end])


def _bytes_of(line: str) -> bytes:
    try:
        return binascii.a2b_base64(line, strict_mode=True)
    except (binascii.Error, ValueError):
        # Damaged: of the right length, so that what follows stays in place; checksums reveal the rest.
        body = _FOREIGN.sub("A", line.rstrip("="))
        return binascii.a2b_base64(body + "A" * (-len(body) % 4))[: bytes_in(line)]


class RemotePieces:
    """The pieces in `folder`, under the labels of the file store."""

    def __init__(self, files: ToolFiles, folder: str, /) -> None:
        self._files = files
        self._folder = folder

    async def keep(self, label: str, data: bytes, /) -> None:
        """Save `data` under `label`."""
        await self.keep_text(label, binascii.b2a_base64(data, newline=False).decode())

    async def keep_text(self, label: str, text: str, /) -> None:
        path = f"{self._folder}/{label}"
        await self._files.delete(path)
        for start in range(0, max(len(text), 1), store_limits.MCP_WRITE_CHARS):
            part = text[start : start + store_limits.MCP_WRITE_CHARS]
            await self._files.write(path, part, mode=WriteMode.APPEND, offset=start)

    async def forget(self, *, refs: Collection[DocumentRef], blobs: Collection[str]) -> None:
        """Remove the pieces that an erasure names, and every part that could contain some of it."""
        for entry in await self._files.list(self._folder):
            if is_named(entry.name, refs=refs, blobs=blobs):
                await self._files.delete(f"{self._folder}/{entry.name}")

    async def clear(self) -> None:
        """Remove everything."""
        await self._files.delete(self._folder, recursive=True)


class SharedContext(NamedTuple):
    """State shared by all spaces of a store."""

    files: ToolFiles
    lease: WriterLease
    ids: IdSource
    root: str


class ShardLog:
    """The log in `folder`. A writer appends to shards of its own and never to another's.

    After a failed append it is unknown what arrived: the caller reloads the log, and late arrivals are cut off.
    """

    def __init__(self, shared_context: SharedContext, folder: str, space: SpaceId | None, /) -> None:
        self.view = LogView.empty()
        self.is_worth_rewriting = False
        self._shared = shared_context
        self._folder = folder
        self._space = space
        self._bytes = BytesIO()
        self._generation: LogGeneration | None = None
        self._shard: tuple[str, int] | None = None
        self._number = 0
        self._shards = 0

    @property
    def size(self) -> int:
        """Return how many bytes of memory the log takes."""
        return self.view.log.size()

    async def load(self, *, is_to_be_cut: bool) -> None:
        """Load the log; without one, `view` is empty. With `is_to_be_cut`, later arrivals are ignored."""
        self._shard = None
        log_generation = await standing_generation(self._shared.files, self._folder)
        epoch, generation_number = (0, 0) if log_generation is None else log_generation.rank[0]
        self._number = max(self._number, generation_number if epoch == self._shared.lease.epoch else 0)
        if log_generation is None or log_generation.is_gone:
            self.view, self._generation = LogView.empty(), None
            return
        data = await self._read(log_generation)
        header = decode_header(data[:HEADER_BYTES])
        if header is None:
            raise StoreCorrupt(what=f"the header of space folder {self._folder.rpartition('/')[2][:16]!r}")
        self._see(data, header)
        self._generation, self._shards = log_generation, len(log_generation.shards)
        # This writer's shard begins here, so later arrivals in another's are cut off.
        if is_to_be_cut:
            self._begin_shard(len(data))
            await self._put(b"", at=len(data))
        self._note_worth()

    async def append(self, frames: Sequence[NewFrame], /) -> None:
        """Append `frames` to the log. Raises the error of any call; then the log has to be reloaded."""
        log, log_contents = self.view
        frames_start = log.acknowledged
        data = generation.encode_frames(frames, salt=log_contents.salt, offset=frames_start)
        await self._put(data, at=frames_start)
        await self._shared.lease.confirm()
        # After the confirmation: until then no reader of this handle sees the frames.
        self._bytes.seek(0, SEEK_END)
        self._bytes.write(data)
        log.acknowledged = frames_start + len(data)
        log_contents.catch_up(log)
        self._note_worth()

    async def write_new(self, frames: Iterable[NewFrame], /) -> None:
        """Replace the old generation by a new one of `frames`, atomically."""
        assert self._space is not None, "a log whose header is lost is not rewritten"
        salt = self._shared.ids.secret(SALT_BYTES)
        data = bytearray(encode_header(salt, self._space, acknowledged=HEADER_BYTES))
        for new_frame in frames:
            data += generation.encode_frames((new_frame,), salt=salt, offset=len(data))
        self._generation, self._shard, self._shards = LogGeneration(self._fresh_name(), (), is_gone=False), None, 0
        await self._put(bytes(data), at=0)
        await self._stand(READY)
        self._see(data, LogHeader(salt, self._space, len(data), sound=True))
        self._note_worth()

    async def move_aside(self, pieces: RemotePieces, /) -> None:
        """Quarantine the shards of an unreadable log among `pieces`, and remove the space."""
        log_generation = await standing_generation(self._shared.files, self._folder)
        for name, size in () if log_generation is None else log_generation.shards:
            assert log_generation is not None, "shards are those of a generation"
            path = f"{self._folder}/{log_generation.name}/{name}"
            await pieces.keep_text(f"space.{name}", await read_text(self._shared.files, path, size))
        await self.end()

    async def end(self) -> None:
        """Remove the log: immediately for readers, and then on the server."""
        self._generation = LogGeneration(self._fresh_name(), (), is_gone=True)
        await self._stand(GONE_MARK)
        await self._shared.files.delete(f"{self._folder}/{self._generation.name}", recursive=True)
        self.view, self._generation, self._shard = LogView.empty(), None, None

    def _see(self, data: bytes | bytearray, header: LogHeader) -> None:
        self._bytes = BytesIO(data)
        log = GenerationLog(self._bytes, header)
        log.acknowledged = len(data)
        log_contents = LogContents(header.salt)
        log_contents.catch_up(log)
        self.view = LogView(log, log_contents)

    async def _stand(self, word: str) -> None:
        """Make the newly written generation the current one, and remove all others."""
        assert self._generation is not None, "a generation was begun"
        name = self._generation.name
        await self._shared.lease.confirm()
        await self._shared.files.write(f"{self._folder}/{name}/{word}", f"{word}\n", mode=WriteMode.TRUNCATE)
        # A later writer sees the new generation and needs no older one, so these may be removed at any time.
        await self._shared.lease.confirm_on_server()
        for entry in await self._shared.files.list(self._folder):
            if entry.name != name:
                await self._shared.files.delete(f"{self._folder}/{entry.name}", recursive=True)

    async def _put(self, data: bytes, *, at: int) -> None:
        """Append the lines of `data`, which belong at offset `at`, to shards of this writer."""
        for line in appending_lines(data):
            if self._shard is None or self._shard[1] + len(line) > store_limits.MCP_SHARD_CHARS:
                self._begin_shard(at)
            assert self._shard is not None, "a shard was begun"
            path, size = self._shard
            await self._shared.files.write(path, line, mode=WriteMode.APPEND, offset=size)
            self._shard = path, size + len(line)
            at += bytes_in(line)

    def _begin_shard(self, offset: int) -> None:
        assert self._generation is not None, "a shard is one of a generation"
        self._number += 1
        name = ShardName(self._shared.lease.epoch, self._number, offset)
        self._shard = f"{self._folder}/{self._generation.name}/{name}", 0
        self._shards += 1

    def _fresh_name(self) -> str:
        self._number += 1
        return f"{self._shared.lease.epoch:08}.{self._number:06}.{self._shared.ids.new()}"

    async def _read(self, source: LogGeneration) -> bytes:
        folder = f"{self._folder}/{source.name}"
        return join_shards([
            (name.start, await read_text(self._shared.files, f"{folder}/{name}", size)) for name, size in source.shards
        ])  # fmt: skip

    def _note_worth(self) -> None:
        shard_count = self.size * 4 // 3 // store_limits.MCP_SHARD_CHARS + 1
        has_many_shards = self._shards >= max(MCP_SHARDS, 2 * shard_count) and not self.view.contents.holes
        self.is_worth_rewriting = self.view.contents.wants_compaction or has_many_shards


async def standing_generation(files: ToolFiles, folder: str, /) -> LogGeneration | None:
    """Return the current generation of the log in `folder`, None if it has none."""
    generations: list[LogGeneration] = []
    for entry in await files.list(folder):
        if not is_generation(entry.name):
            continue
        folder_entries = await files.list(f"{folder}/{entry.name}")
        names = {each.name for each in folder_entries}
        if names & {READY, GONE_MARK}:
            shards = [(name, each.size) for each in folder_entries if (name := shard_name(each.name)) is not None]
            generations.append(LogGeneration(entry.name, tuple(sorted(shards)), is_gone=GONE_MARK in names))
    return max(generations, key=lambda each: each.rank, default=None)


async def read_text(files: ToolFiles, path: str, size: int, /) -> str:
    """Return the first `size` characters of the file at `path`, read in parts. Raises StoreUnavailable."""
    text_parts: list[str] = []
    offset = 0
    while offset < size:
        text_part = await files.read(path, offset=offset, length=min(store_limits.MCP_WRITE_CHARS, size - offset))
        if not text_part:
            raise StoreUnavailable("a file on the MCP file server is shorter than the server reported: try again")
        text_parts.append(text_part)
        offset += len(text_part.encode())
    return "".join(text_parts)
