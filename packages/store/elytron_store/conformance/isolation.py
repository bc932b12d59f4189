"""Claims on the wall between memory spaces, for names that a careless engine would take for each other."""

import pytest

from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Committed, Document, Erased, Erasure, Idempotency, Put, Store
from elytron_store.conformance.examples import (
    AT,
    Claims,
    batch,
    blob,
    documents,
    fact,
    journal,
    one,
    put,
    sequences,
    source,
    spaces,
    write_blob,
)

PAIRS = [
    ("a", "a:b"),
    ("ann", "anna"),
    ("ann", "Ann"),
    ("a", "\u0430"),  # Latin and Cyrillic
    ("\u00e9", "e\u0301"),  # one letter, two ways to write it
    ("stra\u00dfe", "strasse"),
    ("%", "a"),
    ("*", "a"),
    ("_", "a"),
    ("..", "."),
    ("../ada", "ada"),
    ("/", "//"),
    ("a/b", "a\\b"),
    ("a'b", "a''b"),
    ('a"; drop table documents; --', "a"),
    ("con", "nul"),
    ("a b", "a  b"),
    ("\U0001f41e", "\U0001fab2"),
    ("1", "01"),
    ("x" * (limits.SPACE_CHARS - 1), "x" * limits.SPACE_CHARS),
    ("\u7532" * (limits.SPACE_CHARS - 1), "\u7532" * limits.SPACE_CHARS),
]
REFUSED = ["", "\x00", "a\x00b", "a\nb", "\u2028", "\ud800", " a", "a ", "\u200b", "\u202e"]


class IsolationClaims(Claims):
    """No read, write or erasure of one space touches another."""

    @pytest.mark.parametrize(("left", "right"), PAIRS, ids=[f"pair{number}" for number in range(len(PAIRS))])
    async def test_two_names_are_two_spaces(self, store: Store, left: str, right: str) -> None:
        here, there = SpaceId(left), SpaceId(right)
        await put(store, fact(1), b"here", space=here)
        assert await one(store, fact(1), space=there) is None
        assert await documents(store, space=there) == []
        assert await journal(store, space=there) == []
        await put(store, fact(1), b"there", space=there)
        assert await one(store, fact(1), space=here) == Document(fact(1), 1, b"here")
        assert await one(store, fact(1), space=there) == Document(fact(1), 1, b"there")
        assert await sequences(store, space=here) == await sequences(store, space=there) == [1]
        assert await spaces(store) == {here, there}

    @pytest.mark.parametrize(("left", "right"), PAIRS, ids=[f"pair{number}" for number in range(len(PAIRS))])
    async def test_erasing_one_of_two_names_leaves_the_other_whole(self, store: Store, left: str, right: str) -> None:
        here, there = SpaceId(left), SpaceId(right)
        for space in (here, there):
            await put(store, fact(1), space.encode(), space=space)
            await write_blob(store, "aa", space.encode(), space=space)
        erased = await store.erase(Erasure(space=here, at=AT, whole_space=True))
        assert erased == Erased(documents=1, blobs=1, entries_scrubbed=1, sequence=0)
        assert await spaces(store) == {there}
        assert await one(store, fact(1), space=there) == Document(fact(1), 1, there.encode())
        assert await blob(store, "aa", space=there) == there.encode()

    async def test_one_idempotency_key_is_free_in_each_space(self, store: Store) -> None:
        for name in ("ann", "anna"):
            once = Idempotency(key="again", digest=name, answer=name.encode())
            committed = await store.commit(batch(Put(fact(1), b"", 0), space=SpaceId(name), idempotency=once))
            assert committed == Committed(1, 1, answer=name.encode())

    async def test_one_blob_key_is_another_blob_in_each_space(self, store: Store) -> None:
        await write_blob(store, "aa", b"ann's", space=SpaceId("ann"))
        with pytest.raises(NotFound):
            await blob(store, "aa", space=SpaceId("anna"))
        await write_blob(store, "aa", b"anna's", space=SpaceId("anna"))
        assert await blob(store, "aa", space=SpaceId("ann")) == b"ann's"

    @pytest.mark.parametrize("name", REFUSED, ids=ascii)
    async def test_an_unusable_name_is_refused_everywhere(self, store: Store, name: str) -> None:
        space = SpaceId(name)
        with pytest.raises(InvalidInput):
            await put(store, fact(1), space=space)
        with pytest.raises(InvalidInput):
            await store.get(space, [fact(1)])
        with pytest.raises(InvalidInput):
            await store.scan(space, "facts", limit=1)
        with pytest.raises(InvalidInput):
            await store.journal(space, after=0, limit=1)
        with pytest.raises(InvalidInput):
            await store.write_blob(space, "aa", source([b"x"]))
        with pytest.raises(InvalidInput):
            await blob(store, "aa", space=space)
        with pytest.raises(InvalidInput):
            await store.erase(Erasure(space=space, at=AT, whole_space=True))
        assert await spaces(store) == set()

    async def test_a_name_above_the_bound_is_refused(self, store: Store) -> None:
        with pytest.raises(LimitExceeded):
            await put(store, fact(1), space=SpaceId("x" * (limits.SPACE_CHARS + 1)))
