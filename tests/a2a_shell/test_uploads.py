"""Pieces of archives: bounded, separate for each principal, and dropped when abandoned."""

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from elytron_a2a_shell.peers import A2A_UPLOAD_KEEP_MS, A2A_UPLOADS_EACH, MigrationChunk, PeerUploads
from elytron_core.clock import FrozenClock, instant
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.ids import SeededIds

pytestmark = pytest.mark.anyio

DATA = b"an archive of forty bytes, more or less."


def piece(index: int, count: int = 2, **more: Any) -> MigrationChunk:
    size = -(-len(DATA) // count)
    data = base64.b64encode(DATA[index * size : (index + 1) * size]).decode()
    fields = {"upload": "u", "index": index, "count": count, "sha256": hashlib.sha256(DATA).hexdigest(), "data": data}
    return MigrationChunk.model_validate(fields | more)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(instant("2026-03-01T12:00:00Z"))


@pytest.fixture
def uploads(clock: FrozenClock) -> Iterator[PeerUploads]:
    waiting = PeerUploads(clock=clock, ids=SeededIds(), archive_bytes=len(DATA))
    with waiting.temporary_folder():
        yield waiting


async def test_pieces_form_the_whole_and_are_gone_when_dropped(uploads: PeerUploads) -> None:
    assert await uploads.take("ada", piece(0)) is None
    path = await uploads.take("ada", piece(1))
    assert path is not None
    assert path.read_bytes() == DATA
    uploads.drop("ada", "u")
    uploads.drop("ada", "u")
    assert (path.exists(), uploads.received("ada", "u")) == (False, 0)


async def test_two_principals_may_use_one_name_for_different_archives(uploads: PeerUploads) -> None:
    await uploads.take("ada", piece(0))
    with pytest.raises(InvalidInput, match="not the next one, 0"):
        await uploads.take("bob", piece(1))
    assert (uploads.received("ada", "u"), uploads.received("bob", "u")) == (1, 0)


async def test_an_archive_beyond_its_limit_is_discarded(clock: FrozenClock) -> None:
    small = PeerUploads(clock=clock, ids=SeededIds(), archive_bytes=len(DATA) - 1)
    with small.temporary_folder():
        await small.take("ada", piece(0))
        with pytest.raises(LimitExceeded):
            await small.take("ada", piece(1))
        assert small.received("ada", "u") == 0


async def test_abandoned_uploads_make_room(uploads: PeerUploads, clock: FrozenClock) -> None:
    for number in range(A2A_UPLOADS_EACH):
        await uploads.take("ada", piece(0, upload=f"x{number}"))
    with pytest.raises(LimitExceeded):
        await uploads.take("ada", piece(0, upload="late"))
    clock.advance(A2A_UPLOAD_KEEP_MS + 1)
    assert await uploads.take("ada", piece(0, upload="late")) is None
    assert uploads.received("ada", "x0") == 0
