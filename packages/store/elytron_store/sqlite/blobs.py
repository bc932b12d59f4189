"""Blobs: chunks are staged under an upload's number, and one small transaction makes them the blob."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar, TypeVarTuple
from zlib import crc32

from elytron_core.clock import Instant
from elytron_core.errors import NotFound, StoreCorrupt, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_store.engine import row_checksum, write_windows
from elytron_store.sqlite.driver import Raw, read_snapshot
from elytron_store.sqlite.schema import PAD

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WINDOW_PARTS = 16
"""Number of chunks per thread switch: 4 MiB."""
WINDOWS_AHEAD = 2
"""Number of thread switches that run while the chunks of another are consumed."""

_REPLACE = "INSERT OR REPLACE INTO blobs VALUES (?, ?, ?, ?, ?, ?)"
_STAGE = f"INSERT INTO chunks VALUES (?, ?, ?, ?, {PAD}, ?)"  # noqa: S608 - our own words
_FIND = 'SELECT upload, parts, size, "check" FROM blobs WHERE space = ? AND key = ?'
_PARTS = (
    'SELECT part, bytes, "check" FROM chunks WHERE space = ? AND upload = ? AND part >= ? AND part < ? ORDER BY part'
)


class ConnectionRunner(Protocol):
    """Runs a function on a connection in one thread switch."""

    def __call__(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> Awaitable[T]: ...


class BlobUpload(NamedTuple):
    """A blob being written: its number is chosen before the first byte is written, so that it can always be rolled
    back."""

    space: SpaceId
    key: str
    number: int


class StoredBlob(NamedTuple):
    """The blob under a key."""

    upload: int
    parts: int
    size: int


async def write_blob(
    run: ConnectionRunner, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /, *, at: Instant
) -> int:
    """Replace the blob `key` by `chunks`; see `Store.write_blob`. `run` gives each function a separate transaction."""
    # Seven bytes: SQLite's integers are signed, so eight could overflow.
    upload = BlobUpload(space, key, int.from_bytes(os.urandom(7)))
    return await write_windows(
        chunks,
        parts=WINDOW_PARTS,
        stage=lambda first, window: run(_stage_parts, upload, first, window, at),
        publish=lambda staged, window, size: run(_finish_upload, upload, staged, window, size),
        # Submitted work is ahead of this in the same queue.
        discard=lambda: run(discard_upload, upload),
    )


async def read_blob(run: ConnectionRunner, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
    """Yield the blob's chunks; see `Store.read_blob`. Raises StoreUnavailable if it is replaced meanwhile."""
    blob, chunks = await run(_open_blob, space, key)
    first_parts = range(WINDOW_PARTS, blob.parts, WINDOW_PARTS)
    pending_windows: deque[asyncio.Future[list[bytes]]] = deque()
    request_count = 0
    try:
        while True:
            # While these are consumed, the readers fetch and verify the next ones.
            for first_part in first_parts[request_count : request_count + WINDOWS_AHEAD - len(pending_windows)]:
                pending_windows.append(asyncio.ensure_future(run(_continue_blob, space, key, blob, first_part)))
                request_count += 1
            for chunk in chunks:
                yield chunk
            # The thread that read them holds its last answer while it waits, possibly past their erasure.
            chunks.clear()
            if not pending_windows:
                return
            chunks = await pending_windows.popleft()
    finally:
        # Running reads end in their thread; their errors are collected here, or asyncio logs them as unhandled.
        await asyncio.gather(*pending_windows, return_exceptions=True)


def _stage_parts(raw: Raw, upload: BlobUpload, first_part: int, chunks: Sequence[bytes], at: Instant) -> None:
    """Write `chunks` as parts from `first_part` on; no reader sees them yet."""
    if first_part == 0:
        raw.execute("INSERT INTO uploads VALUES (?, ?, ?, ?)", (upload.space, upload.number, upload.key, at))
    else:
        _require_upload(raw, upload)
    _write_chunks(raw, upload, first_part, chunks)


def _finish_upload(raw: Raw, upload: BlobUpload, staged: int, chunks: Sequence[bytes], size: int) -> None:
    """Write the last `chunks` and publish the upload under its key, replacing the old one."""
    space, key, upload_number = upload
    if staged:
        _require_upload(raw, upload)
        raw.execute("DELETE FROM uploads WHERE space = ? AND upload = ?", (space, upload_number))
    _write_chunks(raw, upload, staged, chunks)
    previous_row = raw.execute("SELECT upload FROM blobs WHERE space = ? AND key = ?", (space, key)).fetchone()
    if previous_row is not None:
        drop_chunks(raw, space, previous_row[0])
    part_count = staged + len(chunks)
    raw.execute(
        _REPLACE,
        (space, key, upload_number, part_count, size, row_checksum(space, key, upload_number, part_count, size)),
    )
    # A space may consist of blobs only: its head makes it known.
    raw.execute("INSERT INTO heads VALUES (?, 0, ?) ON CONFLICT DO NOTHING", (space, row_checksum(space, 0)))


def discard_upload(raw: Raw, upload: BlobUpload) -> None:
    """Remove an unfinished upload, if it exists at all."""
    cursor = raw.execute("DELETE FROM uploads WHERE space = ? AND upload = ?", (upload.space, upload.number))
    if cursor.rowcount:
        drop_chunks(raw, upload.space, upload.number)


def sweep_uploads(raw: Raw, before: int, /) -> None:
    """Remove the uploads that began before `before` and never ended: their processes are gone."""
    for space, upload_number in raw.execute("SELECT space, upload FROM uploads WHERE at < ?", (before,)).fetchall():
        raw.execute("DELETE FROM uploads WHERE space = ? AND upload = ?", (space, upload_number))
        drop_chunks(raw, space, upload_number)


def drop_chunks(raw: Raw, space: str, upload: int, /) -> None:
    """Delete the chunks of an upload."""
    raw.execute("DELETE FROM chunks WHERE space = ? AND upload = ?", (space, upload))


def is_blob_damaged(raw: Raw, space: str, key: str, row: tuple[int, int, int, bytes], /) -> bool:
    """Return whether the blob of a row in `blobs`, or any chunk of it, is damaged."""
    upload, parts, size, check = row
    if row_checksum(space, key, upload, parts, size) != check:
        return True
    rows = raw.execute(_PARTS, (space, upload, 0, parts))
    remaining_bytes = size
    expected_part = 0
    for part, body, chunk_check in rows:
        if part != expected_part or chunk_check != check_of_chunk(space, upload, part, body):
            return True
        remaining_bytes -= len(body)
        expected_part += 1
    return expected_part != parts or remaining_bytes != 0


def _write_chunks(raw: Raw, upload: BlobUpload, first_part: int, chunks: Iterable[bytes]) -> None:
    space, number = upload.space, upload.number
    raw.executemany(
        _STAGE,
        (
            (space, number, part, check_of_chunk(space, number, part, chunk), chunk)
            for part, chunk in enumerate(chunks, first_part)
        ),
    )


def check_of_chunk(space: str, upload: int, part: int, body: object, /) -> bytes:
    """Return the checksum of a part of an upload; a damaged row's part may not be bytes."""
    if not isinstance(body, bytes):
        return row_checksum(body=None)
    # Blobs are long, and read while a caller waits: this checksum takes a fifth of the time of BLAKE2b.
    return row_checksum(space, upload, part, len(body), crc32(body))


def _require_upload(raw: Raw, upload: BlobUpload) -> None:
    cursor = raw.execute("SELECT 1 FROM uploads WHERE space = ? AND upload = ?", (upload.space, upload.number))
    if cursor.fetchone() is None:
        raise StoreUnavailable("this blob was erased while it was written: write it again")


def _find_blob(raw: Raw, space: str, key: str) -> StoredBlob | None:
    row = raw.execute(_FIND, (space, key)).fetchone()
    if row is None:
        return None
    upload, parts, size, check = row
    if row_checksum(space, key, upload, parts, size) != check:
        raise StoreCorrupt(what=f"blob {key}")
    return StoredBlob(upload, parts, size)


def _open_blob(raw: Raw, space: str, key: str) -> tuple[StoredBlob, list[bytes]]:
    """Return the blob under `key` and its first chunks."""
    with read_snapshot(raw):
        blob = _find_blob(raw, space, key)
        if blob is None:
            raise NotFound(what="blob", name=key)
        return blob, _chunk_window(raw, space, key, blob, 0)


def _continue_blob(raw: Raw, space: str, key: str, blob: StoredBlob, first_part: int) -> list[bytes]:
    """Return the next chunks, if `blob` is still the one under `key`."""
    with read_snapshot(raw):
        if _find_blob(raw, space, key) != blob:
            raise StoreUnavailable("this blob was replaced or erased while it was read: read it again")
        return _chunk_window(raw, space, key, blob, first_part)


def _chunk_window(raw: Raw, space: str, key: str, blob: StoredBlob, first_part: int) -> list[bytes]:
    window_end = min(first_part + WINDOW_PARTS, blob.parts)
    rows = raw.execute(_PARTS, (space, blob.upload, first_part, window_end)).fetchall()
    is_whole = [part for part, _, _ in rows] == list(range(first_part, window_end))
    if not is_whole or any(check != check_of_chunk(space, blob.upload, part, body) for part, body, check in rows):
        raise StoreCorrupt(what=f"blob {key}")
    return [body for _, body, _ in rows]
