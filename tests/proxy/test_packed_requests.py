"""A request with a compressed body is answered like the plain one, or refused with a hint."""

import gzip
import json
import zlib
from collections.abc import Callable

import pytest
from tests.proxy.proxy_setup import BOAT, EACH, PATHS, asked, proxying, recorded

from elytron_proxy.app import REQUEST_BYTES

pytestmark = pytest.mark.anyio


def bare(data: bytes) -> bytes:
    """Return `data` deflated without zlib's header, as some clients do."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "its old name": ("X-GZIP", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", bare),
    "twice": ("deflate, gzip", lambda data: gzip.compress(zlib.compress(data))),
    "nothing": ("identity", bytes),
}

TOO_LARGE = gzip.compress(b" " * (REQUEST_BYTES + 1), compresslevel=1)


@EACH
async def test_a_compressed_request_is_answered_and_stored(dialect: str) -> None:
    answer = recorded(dialect)
    async with proxying(*[answer] * len(PACKED)) as proxied:
        for name, (encoding, pack) in PACKED.items():
            plain = json.dumps(asked(dialect, f"{BOAT} ({name})")).encode()
            response = await proxied.client.post(
                f"{proxied.url}{PATHS[dialect]}", content=pack(plain), headers={"Content-Encoding": encoding}
            )
            assert response.status_code == 200, (name, response.text)
            sent = proxied.upstream.asked[-1]
            assert name in json.dumps(sent.body)
            assert "content-encoding" not in {key.lower() for key in sent.headers}
        kept = await proxied.kept()
        assert all(f"{BOAT} ({name})" in kept for name in PACKED)


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("zstd", b"{}", 415),
        ("gzip", b"{}", 415),
        ("gzip", gzip.compress(b"{}" * 100)[:-9], 415),
        ("gzip", TOO_LARGE, 413),
        ("gzip, gzip", gzip.compress(TOO_LARGE), 413),
    ],
    ids=["unknown", "plain", "cut", "too large", "too large within"],
)
async def test_invalid_compressed_requests_reach_no_model_server(encoding: str, body: bytes, status: int) -> None:
    async with proxying() as proxied:
        response = await proxied.client.post(
            f"{proxied.url}{PATHS['chat']}", content=body, headers={"Content-Encoding": encoding}
        )
        assert response.status_code == status
        assert proxied.upstream.asked == []
