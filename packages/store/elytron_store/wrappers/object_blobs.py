"""Blobs in an object store (S3, Google Cloud Storage, Azure or a folder, by obstore). The rest is in the inner store.

Each blob of a piece or more is an object under a random name. The inner store holds a pointer with checksums of all
pieces as the blob, so a blob changes when its pointer does. Objects left behind by a crashed process are orphans.
"""

import struct
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from elytron_core import limits
from elytron_core.errors import ElytronError, MissingExtra, NotFound, StoreCorrupt, StoreRefused, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.ports.store import ErasureReceipt, ErasureTarget, Store
from elytron_core.ports.store_checks import CheckReport
from elytron_store import limits as store_limits
from elytron_store.engine import PassingStore, blob_pieces

try:
    import obstore
    from obstore import exceptions
    from obstore.store import from_url
except ImportError as error:
    raise MissingExtra(extra="objects", purpose="blobs in an object store") from error

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore, RetryConfig

_INLINE: Final = b"elytron-inline\n"
"""Marks a blob of less than a piece, which is stored beneath."""
_POINTER: Final = b"elytron-object\n"
_HEAD: Final = struct.Struct("!Q32s")
"""Parts of a pointer: the size of the blob, and the random end of the object's name."""
_SUM_BYTES = 8
_RETRIES: "RetryConfig" = {"max_retries": 3, "retry_timeout": timedelta(seconds=10)}
_REFUSED = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError)
_FAILED = (exceptions.BaseError, OSError)


class ObjectBlobStore(PassingStore):
    """A store whose blobs are objects elsewhere. Sealing wraps it, so objects of a sealed store are ciphertext."""

    def __init__(self, store: Store, objects: "ObjectStore", /) -> None:
        super().__init__(store)
        self._objects = objects

    @classmethod
    async def open(cls, store: Store, url: str, /) -> "ObjectBlobStore":
        """Return `store` with its blobs at `url`. Raises StoreRefused for an unsuitable place, StoreUnavailable."""
        try:
            objects = (
                from_url(url, mkdir=True)
                if url.startswith("file:")
                else from_url(url, retry_config=_RETRIES, client_options={"connect_timeout": "2s"})
            )
        except (exceptions.BaseError, OSError, ValueError):
            raise StoreRefused(
                "blobs= names no object store that can be opened: use s3://, gs://, az:// or file://"
            ) from None
        await _probe_place(objects)
        return cls(store, objects)

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        pieces = blob_pieces(chunks)
        first_piece = await anext(pieces, b"")
        if len(first_piece) < limits.BLOB_CHUNK_BYTES:
            previous_object = await self._object_of(space, key)
            await self._inner.write_blob(space, key, _one_chunk(_INLINE + first_piece))
            await self._drop_object(previous_object)
            return len(first_piece)
        object_suffix = token_hex(16)
        name = f"{_folder_of(space)}/{key}/{object_suffix}"
        sums, size = [_sum_of(first_piece)], len(first_piece)
        try:
            async with _translate_failures("written"), obstore.open_writer_async(self._objects, name) as writer:
                await writer.write(first_piece)
                async for piece in pieces:
                    sums.append(_sum_of(piece))
                    size += len(piece)
                    await writer.write(piece)
            previous_object = await self._object_of(space, key)
            await self._inner.write_blob(space, key, _one_chunk(_pointer_of(size, object_suffix, sums)))
        except BaseException:
            with suppress(ElytronError):
                await self._drop_object(name)
            raise
        await self._drop_object(previous_object)
        await self._require_object(name)
        return size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        body = b"".join([chunk async for chunk in self._inner.read_blob(space, key)])
        if not body.startswith(_POINTER):  # a small one, or from before there was an object store
            async for piece in blob_pieces(_one_chunk(body.removeprefix(_INLINE))):
                yield piece
            return
        size, object_suffix, sums = _read_pointer(body, key)
        try:
            async with _translate_failures("read"):
                response = await obstore.get_async(self._objects, f"{_folder_of(space)}/{key}/{object_suffix}")
                chunk_number = 0
                async for piece in blob_pieces(_bytes_of(response.stream(min_chunk_size=limits.BLOB_CHUNK_BYTES))):
                    if chunk_number >= len(sums) or _sum_of(piece) != sums[chunk_number]:
                        raise StoreCorrupt(what=f"blob {key}")
                    chunk_number += 1
                    size -= len(piece)
                    yield piece
        except FileNotFoundError:
            if await self._object_of(space, key) != f"{_folder_of(space)}/{key}/{object_suffix}":
                raise StoreUnavailable("this blob was replaced or erased while it was read: read it again") from None
            raise StoreCorrupt(what=f"blob {key}") from None
        if size:
            raise StoreCorrupt(what=f"blob {key}")

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Remove what `erasure` names, with every object of its blobs; see `Store.erase`.

        If only the object store fails, nothing names the objects any more, but they still exist: erase again.
        """
        receipt = await self._inner.erase(erasure)
        folder = _folder_of(erasure.space)
        for prefix in [folder] if erasure.whole_space else [f"{folder}/{key}" for key in erasure.blobs]:
            for name, _ in await self._list_objects(prefix):
                await self._drop_object(name)
        return receipt

    async def repair(self) -> CheckReport:
        """Do what `Store.repair` says, and remove orphans at least a day old."""
        report = await self._inner.repair()
        written_before = datetime.now(UTC) - timedelta(milliseconds=store_limits.UPLOAD_KEEP_MS)
        await self.sweep_orphans(written_before)
        return report

    async def sweep_orphans(self, before: datetime, /) -> int:
        """Remove the objects that no blob names and that were written before `before`; return their number."""
        spaces: dict[str, SpaceId] = {}
        last_name = ""
        while page := await self._inner.spaces(after=last_name, limit=limits.SCAN_MAX):
            spaces |= {_folder_of(space): space for space in page}
            last_name = page[-1]
        swept_count = 0
        for name, written_at in await self._list_objects(""):
            folder, _, object_name = name.partition("/")
            space = spaces.get(folder)
            current_name = None if space is None else await self._object_of(space, object_name.partition("/")[0])
            # A younger object may belong to a blob that is being written.
            if written_at < before and current_name != name:
                await self._drop_object(name)
                swept_count += 1
        return swept_count

    async def _object_of(self, space: SpaceId, key: str) -> str | None:
        """Return the object that the blob `key` names, None if it names none."""
        with suppress(NotFound, StoreCorrupt):
            body = b"".join([chunk async for chunk in self._inner.read_blob(space, key)])
            if body.startswith(_POINTER):
                return f"{_folder_of(space)}/{key}/{_read_pointer(body, key)[1]}"
        return None

    async def _require_object(self, name: str) -> None:
        try:
            async with _translate_failures("read"):
                await obstore.head_async(self._objects, name)
        except FileNotFoundError:
            raise StoreUnavailable("this blob was erased while it was written: write it again") from None

    async def _drop_object(self, name: str | None) -> None:
        if name is None:
            return
        with suppress(FileNotFoundError):
            async with _translate_failures("removed"):
                await obstore.delete_async(self._objects, name)

    async def _list_objects(self, prefix: str) -> Sequence[tuple[str, datetime]]:
        objects: list[tuple[str, datetime]] = []
        async with _translate_failures("listed"):
            pages: AsyncIterable[Sequence[ObjectMeta]] = obstore.list(self._objects, prefix or None)  # pyright: ignore[reportUnknownMemberType]
            async for page in pages:
                objects += [(listed_object["path"], listed_object["last_modified"]) for listed_object in page]
        return objects


@asynccontextmanager
async def _translate_failures(doing: str) -> AsyncGenerator[None]:
    """Raise an object store's errors as errors of stores, except for missing objects."""
    try:
        yield
    except FileNotFoundError:
        if doing == "written":
            raise StoreRefused("the object store has no such bucket or folder: create it first") from None
        raise
    except _REFUSED:
        raise StoreRefused(
            f"the object store does not allow blobs to be {doing}: check its credentials and permissions"
        ) from None
    except _FAILED:
        raise StoreUnavailable(f"the object store does not respond, so blobs cannot be {doing}") from None


async def _probe_place(objects: "ObjectStore") -> None:
    """Raise StoreRefused if objects cannot be created there, or can be overwritten without notice."""
    name = f"probe/{token_hex(16)}"
    async with _translate_failures("written"):
        await obstore.put_async(objects, name, b"1", mode="create")
        try:
            await obstore.put_async(objects, name, b"2", mode="create")
        except exceptions.AlreadyExistsError:
            return
        finally:
            await obstore.delete_async(objects, name)
    raise StoreRefused("the object store ignores create-only writes and overwrites existing objects: use another")


def _folder_of(space: str) -> str:
    return blake2b(space.encode(), digest_size=16).hexdigest()


def _sum_of(piece: bytes) -> bytes:
    return blake2b(piece, digest_size=_SUM_BYTES).digest()


def _pointer_of(size: int, end: str, sums: Sequence[bytes]) -> bytes:
    return _POINTER + _HEAD.pack(size, end.encode()) + b"".join(sums)


def _read_pointer(body: bytes, key: str) -> tuple[int, str, Sequence[bytes]]:
    try:
        size, object_suffix = _HEAD.unpack_from(body, len(_POINTER))
    except struct.error:
        raise StoreCorrupt(what=f"blob {key}") from None
    sums = body[len(_POINTER) + _HEAD.size :]
    return (
        size,
        object_suffix.decode("ascii", "replace"),
        [sums[sum_offset : sum_offset + _SUM_BYTES] for sum_offset in range(0, len(sums), _SUM_BYTES)],
    )


async def _one_chunk(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _bytes_of(parts: AsyncIterable[object]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield bytes(part)  # type: ignore[arg-type]
