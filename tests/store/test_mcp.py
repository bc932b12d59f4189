"""The engine over an MCP file server keeps the port's guarantees."""

from functools import partial
from pathlib import Path

import pytest
from tests.store.handles import Handles, Opener
from tests.store.mcp_file_server import FileServer
from tests.store.mcp_rig import opened

from elytron_conformance import ReopenSuite, StoreSuite
from elytron_conformance.examples import ADA, AT, batch, fact, write_blob
from elytron_core.clock import FrozenClock
from elytron_core.errors import StoreForeign
from elytron_core.ports.store import ErasureTarget, PutChange, Store
from elytron_core.profiles import ErasurePromise
from elytron_store.mcp.shards import join_shards

CLOCK = FrozenClock()


class TestMcpStore(Handles, StoreSuite, ReopenSuite):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return partial(opened, FileServer(tmp_path), CLOCK)

    async def test_no_byte_of_what_was_erased_is_left(self, store: Store, tmp_path: Path) -> None:
        secret = b"a secret that is erased"
        await store.commit(batch(PutChange(fact(1), secret, 0), PutChange(fact(2), b"two", 0)))
        await write_blob(store, "aa", secret)
        assert store.capabilities.erasure is ErasurePromise.OF_SERVER
        assert sum(secret in kept for kept in kept_in(tmp_path)) == 2
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),), blobs=("aa",)))
        assert not any(secret in kept for kept in kept_in(tmp_path))


@pytest.mark.anyio
async def test_a_store_reopens_only_with_its_original_profile(tmp_path: Path) -> None:
    files = FileServer(tmp_path)
    for _ in range(2):
        await (await opened(files, CLOCK, profile="desktop-embedded-sdk")).close()
    for other in (None, "esp-embedded-sdk"):
        with pytest.raises(StoreForeign) as refused:
            await opened(files, CLOCK, profile=other)
        assert refused.value.profile == "desktop-embedded-sdk"


def kept_in(folder: Path) -> list[bytes]:
    """Return the bytes of all shards and blobs on a server."""
    found = [path for path in folder.rglob("*/elytron/*/*/*/**/*") if path.is_file()]
    return [join_shards([(0, path.read_text())]) for path in found if len(path.read_text()) > 10]
