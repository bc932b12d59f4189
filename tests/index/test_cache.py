"""The cache keeps the most recently used indexes, within its bytes."""

from tests.index.corpora import ANALYSER

from elytron_core.ids import SpaceId
from elytron_core.ports.store import DocumentRef
from elytron_index import DocumentChange, SearchUnit
from elytron_index.cache import IndexCache
from elytron_index.space_index import SpaceIndex

A, B, C = SpaceId("a"), SpaceId("b"), SpaceId("c")


def an_index() -> SpaceIndex:
    return SpaceIndex(ANALYSER)


def test_the_least_recently_used_space_is_evicted_first() -> None:
    size = an_index().size_bytes
    cache = IndexCache(2 * size)
    first, second, third = an_index(), an_index(), an_index()

    assert cache.put(A, first) == cache.put(B, second) == ()
    assert cache.get(A) is first
    assert cache.put(C, third) == (B,)
    assert (cache.get(B), cache.get(C), cache.spaces(), len(cache)) == (None, third, (A, C), 2)
    assert cache.size_bytes == 2 * size


def test_the_most_recently_used_space_stays_whatever_its_size() -> None:
    cache = IndexCache(1)
    cache.put(A, an_index())

    assert cache.put(B, an_index()) == (A,)
    assert cache.spaces() == (B,)


def test_no_more_spaces_are_cached_than_allowed() -> None:
    cache = IndexCache(limit_spaces=2)

    assert [cache.put(space, an_index()) for space in (A, B, C)] == [(), (), (A,)]


def test_growth_is_counted_when_an_index_is_put_again() -> None:
    grown = an_index()
    cache = IndexCache(3 * grown.size_bytes)
    cache.put(A, an_index())
    cache.put(B, grown)
    ref = DocumentRef("turn", "aa")
    grown.apply(
        [DocumentChange(ref, tuple(SearchUnit(ref, part, "transcript", f"tea {part}") for part in range(500)))],
        watermark=1,
    )

    assert cache.put(B, grown) == (A,)


def test_dropping_a_space_is_idempotent() -> None:
    cache = IndexCache()
    cache.put(A, an_index())
    cache.drop(A)
    cache.drop(A)

    assert (cache.get(A), cache.size_bytes, len(cache)) == (None, 0, 0)
