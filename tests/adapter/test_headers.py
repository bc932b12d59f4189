"""Headers scanned once match what Starlette finds."""

from starlette.datastructures import Headers

from elytron_adapter.http.requests import heads_of

RAW = [(b"host", b"localhost"), (b"x-name", b"first"), (b"x-name", b"second"), (b"x-latin", "ü".encode("latin-1"))]


def test_headers_are_found_as_starlette_finds_them() -> None:
    scope = {"type": "http", "headers": RAW}
    heads, theirs = heads_of(scope), Headers(scope=scope)
    assert heads_of(scope) is heads
    for name in ("Host", "x-name", "X-NAME", "X-Latin", "origin"):
        assert heads.get(name) == theirs.get(name)
        assert heads.get(name, "other") == theirs.get(name, "other")
    assert heads == theirs
    assert heads["x-name"] == "first"
