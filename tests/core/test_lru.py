from elytron_core.lru_cache import LruCache


def test_the_key_that_was_set_first_goes_beyond_the_bound() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache["a"], cache["b"], cache["a"] = 1, 2, 3
    cache["c"] = 4
    assert dict(cache) == {"a": 3, "c": 4}


def test_a_key_that_was_used_stays() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache["a"], cache["b"] = 1, 2
    assert (cache.use("a"), cache.use("x")) == (1, None)
    cache["c"] = 3
    assert list(cache) == ["a", "c"]
