"""Claims about blobs: they are streamed, replaced as a whole, and never partially visible."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

import pytest

from elytron_conformance.examples import ADA, NOWHERE, Claims, blob, journal, refusals, write_blob
from elytron_core import limits
from elytron_core.errors import InvalidInput, NotFound, StoreError
from elytron_core.ports.store import Store

PATTERN = bytes(range(251))
BIG = (PATTERN * (2 * limits.BLOB_CHUNK_BYTES // len(PATTERN) + 7))[: 2 * limits.BLOB_CHUNK_BYTES + 3]


STREAMS: Sequence[Sequence[bytes]] = (
    (),
    (b"",),
    (b"x",),
    (b"", b"one", b"", b"two", b""),
    (BIG,),
    [BIG[at : at + 1000] for at in range(0, len(BIG), 1000)],
    (bytes(limits.BLOB_CHUNK_BYTES),),
    (bytes(limits.BLOB_CHUNK_BYTES), b"\xff"),
)


class SourceBrokeError(Exception):
    """Raised by the caller's stream when it ends early."""


async def breaking(part: bytes) -> AsyncIterator[bytes]:
    """Yield `part`, then raise SourceBrokeError."""
    yield part
    raise SourceBrokeError


class BlobClaims(Claims):
    """Claims about `write_blob` and `read_blob`."""

    async def test_a_blob_comes_back_as_it_was_streamed(self, store: Store) -> None:
        for parts in STREAMS:
            whole = b"".join(parts)
            assert await write_blob(store, "aa", *parts) == len(whole)
            chunks = [chunk async for chunk in store.read_blob(ADA, "aa")]
            assert b"".join(chunks) == whole
            assert all(0 < len(chunk) <= limits.BLOB_CHUNK_BYTES for chunk in chunks)

    async def test_a_blob_is_replaced_whole(self, store: Store) -> None:
        await write_blob(store, "aa", BIG)
        assert await write_blob(store, "aa", b"short") == 5
        assert await blob(store, "aa") == b"short"
        assert await write_blob(store, "aa", BIG) == len(BIG)
        assert await blob(store, "aa") == BIG

    async def test_an_absent_blob_is_not_found(self, store: Store) -> None:
        await write_blob(store, "aa", b"there")
        for space, key in ((ADA, "ab"), (ADA, "a"), (NOWHERE, "aa")):
            with pytest.raises(NotFound):
                await blob(store, key, space=space)

    async def test_an_interrupted_source_leaves_the_old_blob(self, store: Store) -> None:
        with pytest.raises(SourceBrokeError):
            await store.write_blob(ADA, "aa", breaking(BIG))
        with pytest.raises(NotFound):
            await blob(store, "aa")
        await write_blob(store, "aa", b"old")
        with pytest.raises(SourceBrokeError):
            await store.write_blob(ADA, "aa", breaking(BIG))
        assert await blob(store, "aa") == b"old"
        assert (await store.check()).blobs == 1

    async def test_blobs_are_kept_apart_by_key(self, store: Store) -> None:
        for key in ("0", "00", "0.0", "0-0", "ff"):
            await write_blob(store, key, key.encode())
        for key in ("0", "00", "0.0", "0-0", "ff"):
            assert await blob(store, key) == key.encode()

    async def test_a_blob_leaves_no_journal_entry(self, store: Store) -> None:
        await write_blob(store, "aa", b"x")
        assert await journal(store) == []

    async def test_a_reader_never_sees_a_mixture_of_two_blobs(self, store: Store) -> None:
        old, new = b"\x01" * len(BIG), b"\x02" * len(BIG)
        await write_blob(store, "aa", old)
        content = b""
        try:
            async for chunk in store.read_blob(ADA, "aa"):
                if not content:
                    await write_blob(store, "aa", new)
                content += chunk
        except StoreError:
            assert content == old[: len(content)]
        else:
            assert content == old
        assert await blob(store, "aa") == new

    async def test_a_key_against_the_rules_is_refused(self, store: Store) -> None:
        keys = ("", "Aa", "no hex", "../aa", "a/b", "aa\n", "0" * (limits.KEY_CHARS + 1))
        writes = {key: partial(write_blob, store, key, b"x") for key in keys}
        reads = {key: partial(blob, store, key) for key in keys}
        assert await refusals(writes) == await refusals(reads) == dict.fromkeys(keys, InvalidInput)
