from elytron_core.lru_cache import LruCache


def test_the_oldest_key_is_evicted_beyond_the_limit() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache["a"], cache["b"], cache["a"] = 1, 2, 3
    cache["c"] = 4
    assert dict(cache) == {"a": 3, "c": 4}


def test_a_recently_used_key_stays() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache["a"], cache["b"] = 1, 2
    assert (cache.use("a"), cache.use("x")) == (1, None)
    cache["c"] = 3
    assert list(cache) == ["a", "c"]
