"""Claims about the isolation of memory spaces whose names a careless engine would confuse."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from elytron_conformance.examples import (
    AT,
    Claims,
    batch,
    blob,
    documents,
    fact,
    journal,
    one,
    put,
    refusals,
    sequences,
    spaces,
    write_blob,
)
from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound
from elytron_core.ids import SpaceId
from elytron_core.ports.store import BatchKey, CommitReceipt, Document, ErasureReceipt, ErasureTarget, PutChange, Store

NAMES = [
    SpaceId(name)
    for name in (
        *("a", "a:b", "\u0430", "ann", "Ann", "anna"),  # the third is Cyrillic
        *("\u00e9", "e\u0301", "stra\u00dfe", "strasse"),  # the first two differ only in normal form
        *("%", "1", "*", "01", "_", "con", "..", ".", "../ada", "ada", "/", "//", "a/b", "a\\b", "a''b", "a'b"),
        *('a"; drop table documents; --', "nul", "a  b", "a b", "\U0001f41e", "\U0001fab2"),
        *("x" * (limits.SPACE_CHARS - 1), "x" * limits.SPACE_CHARS),
        *("\u7532" * (limits.SPACE_CHARS - 1), "\u7532" * limits.SPACE_CHARS),
    )
]
"""Each name is a prefix of another, or differs only in what a path, a pattern, quoting or case folding hides."""
REFUSED = [SpaceId(name) for name in ("", "\x00", "a\x00b", "a\nb", "\u2028", "\ud800", " a", "a ", "\u200b", "\u202e")]


class IsolationClaims(Claims):
    """Claims that no read, write or erasure in one space touches another."""

    async def test_each_name_is_a_space_of_its_own(self, store: Store) -> None:
        for name in NAMES:
            assert await one(store, fact(1), space=name) is None
            assert await documents(store, space=name) == []
            assert await journal(store, space=name) == []
            assert await put(store, fact(1), name.encode(), space=name) == CommitReceipt(1, 1)
        documents_by_name = {name: await one(store, fact(1), space=name) for name in NAMES}
        assert documents_by_name == {name: Document(fact(1), 1, name.encode()) for name in NAMES}
        assert [await sequences(store, space=name) for name in NAMES] == [[1]] * len(NAMES)
        assert await spaces(store) == set(NAMES)

    async def test_erasing_the_space_of_a_name_leaves_all_others_whole(self, store: Store) -> None:
        for name in NAMES:
            await put(store, fact(1), name.encode(), space=name)
            await write_blob(store, "aa", name.encode(), space=name)
        target_names, other_names = NAMES[::2], NAMES[1::2]
        receipts = [await store.erase(ErasureTarget(space=name, at=AT, whole_space=True)) for name in target_names]
        assert receipts == [ErasureReceipt(documents=1, blobs=1, entries_scrubbed=1, sequence=0)] * len(target_names)
        assert await spaces(store) == set(other_names)
        contents = {
            name: (await one(store, fact(1), space=name), await blob(store, "aa", space=name)) for name in other_names
        }
        assert contents == {name: (Document(fact(1), 1, name.encode()), name.encode()) for name in other_names}

    async def test_one_idempotency_key_is_free_in_each_space(self, store: Store) -> None:
        for name in ("ann", "anna"):
            once = BatchKey(key="again", digest=name, answer=name.encode())
            committed = await store.commit(batch(PutChange(fact(1), b"", 0), space=SpaceId(name), idempotency=once))
            assert committed == CommitReceipt(1, 1, answer=name.encode())

    async def test_one_blob_key_is_another_blob_in_each_space(self, store: Store) -> None:
        await write_blob(store, "aa", b"ann's", space=SpaceId("ann"))
        with pytest.raises(NotFound):
            await blob(store, "aa", space=SpaceId("anna"))
        await write_blob(store, "aa", b"anna's", space=SpaceId("anna"))
        assert await blob(store, "aa", space=SpaceId("ann")) == b"ann's"

    async def test_an_unusable_name_is_refused_everywhere(self, store: Store) -> None:
        for space in REFUSED:
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "commit": partial(put, store, fact(1), space=space),
                "get": partial(store.get, space, [fact(1)]),
                "scan": partial(store.scan, space, "facts", limit=1),
                "journal": partial(store.journal, space, after=0, limit=1),
                "compact": partial(store.compact, space, []),
                "write_blob": partial(write_blob, store, "aa", b"x", space=space),
                "read_blob": partial(blob, store, "aa", space=space),
                "erase": partial(store.erase, ErasureTarget(space=space, at=AT, whole_space=True)),
            }
            assert (space, await refusals(calls)) == (space, dict.fromkeys(calls, InvalidInput))
        assert await spaces(store) == set()

    async def test_a_name_above_the_bound_is_refused(self, store: Store) -> None:
        with pytest.raises(LimitExceeded):
            await put(store, fact(1), space=SpaceId("x" * (limits.SPACE_CHARS + 1)))
