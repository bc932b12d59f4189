"""A memory on a server is reached only through the named proxy."""

import asyncio

import pytest

import elytron
from elytron_core.errors import InvalidInput, Unreachable


@pytest.mark.anyio
@pytest.mark.parametrize("scheme", ["http", "ws"])
async def test_only_a_named_proxy_is_used(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        there = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy"):
            monkeypatch.setenv(name, there)
        async with elytron.connect(f"{scheme}://memory.invalid:9") as memory:
            with pytest.raises(Unreachable):
                await memory.add("x")
        assert asked == []
        async with elytron.connect(f"{scheme}://memory.invalid:9", proxy=there) as memory:
            with pytest.raises(Unreachable) as refused:
                await memory.add("x")
    assert refused.value.retry_after_s == (3 if scheme == "http" else 0)
    assert [b"memory.invalid:9" in line for line in asked] == [True]


@pytest.mark.parametrize("proxy", ["10.0.0.1:s3cret", "socks5://s3cret:1", "http://:s3cret@host", "http://[s3cret:1"])
def test_invalid_proxies_are_rejected_and_not_echoed(proxy: str) -> None:
    with pytest.raises(InvalidInput, match="is not an HTTP proxy") as refused:
        elytron.connect("http://memory.invalid", proxy=proxy)
    assert "s3cret" not in str(refused.value)
