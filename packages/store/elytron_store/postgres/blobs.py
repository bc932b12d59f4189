"""Blobs: parts are staged under an upload's number, and one small transaction makes them the blob."""

import os
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from functools import partial
from typing import NamedTuple
from zlib import crc32

from elytron_core.clock import Instant
from elytron_core.errors import NotFound, StoreCorrupt, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_store.engine import row_checksum, write_windows
from elytron_store.postgres import statements
from elytron_store.postgres.connections import (
    Connection,
    ServerConnections,
    bytes_array,
    number_array,
    run_pipeline,
    wide_number,
)
from elytron_store.postgres.statements import PartitionStatements

WINDOW_PARTS = 16
"""Number of parts in one statement: 4 MiB."""
_WRITING, _READING = "writing a blob", "reading a blob"


class PartUpload(NamedTuple):
    """A blob being written: its number is chosen before the first byte is written, so that it can always be rolled
    back."""

    own: PartitionStatements
    space: SpaceId
    key: str
    number: int


class PublishedBlob(NamedTuple):
    """The blob under a key."""

    upload: int
    parts: int
    size: int


async def write_blob(
    connections: ServerConnections,
    partition: PartitionStatements,
    space: SpaceId,
    key: str,
    chunks: AsyncIterable[bytes],
    /,
    *,
    at: Instant,
) -> int:
    """Replace the blob `key` by `chunks`; see `Store.write_blob`."""
    # Seven bytes: the server's integers are signed, so eight could overflow.
    upload = PartUpload(partition, space, key, int.from_bytes(os.urandom(7)))
    return await write_windows(
        chunks,
        parts=WINDOW_PARTS,
        stage=lambda first, window: connections.run(
            partial(_stage_window, upload=upload, first=first, chunks=window, at=at), doing=_WRITING
        ),
        publish=lambda staged, window, size: connections.run(
            partial(_publish_upload, upload=upload, staged=staged, chunks=window, size=size), doing=_WRITING
        ),
        discard=lambda: connections.run(partial(_cancel_upload, upload=upload), doing=_WRITING),
    )


async def read_blob(
    connections: ServerConnections, partition: PartitionStatements, space: SpaceId, key: str, /
) -> AsyncIterator[bytes]:
    """Yield the blob's parts; see `Store.read_blob`. Raises StoreUnavailable if it is replaced meanwhile."""
    first_part = 0
    blob: PublishedBlob | None = None
    while blob is None or first_part < blob.parts:
        window = await connections.run(
            partial(read_window, own=partition, space=space, key=key, first=first_part), doing=_READING
        )
        if window is None and blob is None:
            raise NotFound(what="blob", name=key)
        if window is None or (blob is not None and blob != window[0]):
            raise StoreUnavailable("this blob was replaced or erased while it was read: read it again")
        blob, parts = window
        for part in parts:
            yield part
        first_part += WINDOW_PARTS


async def drop_stale_uploads(connection: Connection, partition: PartitionStatements, before: int, /) -> None:
    """Remove the uploads that began before `before` and never ended: their processes are gone."""
    stale_uploads = await connection.execute(
        partition.of(statements.STALE_UPLOADS), (wide_number(before),), binary=True
    )
    for space, number in await stale_uploads.fetchall():
        await _cancel_upload(connection, upload=PartUpload(partition, space, "", number))


async def _stage_window(
    connection: Connection, /, *, upload: PartUpload, first: int, chunks: Sequence[bytes], at: Instant
) -> None:
    """Write `chunks` as parts from `first` on; no reader sees them yet."""
    partition, space, key, upload_number = upload
    async with connection.transaction():
        if first == 0:
            await _drop_upload(connection, upload)  # what a broken connection may have left
            await connection.execute(
                partition.of(statements.BEGIN_UPLOAD), (space, wide_number(upload_number), key, wide_number(at))
            )
        else:
            await _hold_upload(connection, upload)
        await _write_parts(connection, upload, first, chunks, is_repeated=first > 0)


async def _publish_upload(
    connection: Connection, /, *, upload: PartUpload, staged: int, chunks: Sequence[bytes], size: int
) -> None:
    """Write the last `chunks` and publish the upload under its key, replacing the old one."""
    partition, space, key, upload_number = upload
    part_count = staged + len(chunks)
    checksum = row_checksum(space, key, upload_number, part_count, size)
    async with connection.transaction():
        _, cursor = await run_pipeline(
            connection,
            [(partition.of(statements.LOCK_HEAD), (space,)), (partition.of(statements.FIND_BLOB), (space, key))],
        )
        previous_row = await cursor.fetchone()
        if previous_row is not None and previous_row[0] == upload_number:
            return  # the connection was lost after the commit
        if staged:
            await _hold_upload(connection, upload)
            await connection.execute(partition.of(statements.END_UPLOAD), (space, wide_number(upload_number)))
        if previous_row is not None:
            await connection.execute(partition.of(statements.DROP_PARTS), (space, wide_number(previous_row[0])))
        await _write_parts(connection, upload, staged, chunks, is_repeated=False)
        blob_values = (space, key, wide_number(upload_number), wide_number(part_count), wide_number(size), checksum)
        await connection.execute(partition.of(statements.SET_BLOB), blob_values)


async def _cancel_upload(connection: Connection, /, *, upload: PartUpload) -> None:
    """Remove an unfinished upload, if it exists at all."""
    async with connection.transaction():
        await _drop_upload(connection, upload)


async def _drop_upload(connection: Connection, upload: PartUpload) -> None:
    partition, space, _, upload_number = upload
    cursor = await connection.execute(partition.of(statements.END_UPLOAD), (space, wide_number(upload_number)))
    if cursor.rowcount:
        await connection.execute(partition.of(statements.DROP_PARTS), (space, wide_number(upload_number)))


async def _hold_upload(connection: Connection, upload: PartUpload) -> None:
    partition, space, _, upload_number = upload
    cursor = await connection.execute(partition.of(statements.FIND_UPLOAD), (space, wide_number(upload_number)))
    if await cursor.fetchone() is None:
        raise StoreUnavailable("this blob was erased while it was written: write it again")


async def _write_parts(
    connection: Connection, upload: PartUpload, first_part: int, chunks: Sequence[bytes], *, is_repeated: bool
) -> None:
    if not chunks:
        return
    partition, space, _, upload_number = upload
    if is_repeated:
        await connection.execute(
            partition.of(statements.DROP_PARTS_BEHIND), (space, wide_number(upload_number), wide_number(first_part))
        )
    numbers = range(first_part, first_part + len(chunks))
    checksums = [part_checksum(space, upload_number, part, chunk) for part, chunk in zip(numbers, chunks, strict=True)]
    values = (space, wide_number(upload_number), number_array(numbers), bytes_array(checksums), bytes_array(chunks))
    await connection.execute(partition.of(statements.STAGE_PARTS), values)


def part_checksum(space: str, upload: int, part: int, body: bytes, /) -> bytes:
    """Return the checksum of a part of an upload."""
    # Blobs are long, and read while a caller waits: this checksum takes a fifth of the time of BLAKE2b.
    return row_checksum(space, upload, part, len(body), crc32(body))


async def read_window(
    connection: Connection, /, *, own: PartitionStatements, space: str, key: str, first: int
) -> tuple[PublishedBlob, Sequence[bytes]] | None:
    """Return the blob under `key` and its parts from `first` on, in one consistent state. Raises StoreCorrupt."""
    window_values = (wide_number(first), wide_number(first + WINDOW_PARTS), space, key)
    rows = await (await connection.execute(own.of(statements.BLOB_WINDOW), window_values, binary=True)).fetchall()
    if not rows:
        return None
    upload, parts, size, checksum = rows[0][:4]
    if row_checksum(space, key, upload, parts, size) != checksum:
        raise StoreCorrupt(what=f"blob {key}")
    part_rows = [row[4:] for row in rows if row[4] is not None]
    has_all_parts = [part for part, _, _ in part_rows] == list(range(first, min(first + WINDOW_PARTS, parts)))
    if not has_all_parts or any(
        checksum_value != part_checksum(space, upload, part, body) for part, body, checksum_value in part_rows
    ):
        raise StoreCorrupt(what=f"blob {key}")
    return PublishedBlob(upload, parts, size), [body for _, body, _ in part_rows]
