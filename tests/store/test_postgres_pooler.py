"""Behind PgBouncer in transaction mode: each transaction may use another session, and all guarantees hold."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.store.postgres_rig import CLOCK, empty_tables, open_tables
from tests.store.postgres_server import ABSENT_POOLER, free_port, pooler

import elytron
from elytron_conformance.examples import ADA, AT, BOB, batch, blob, fact, put, write_blob
from elytron_core.ports.store import BatchKey, ErasureTarget, PutChange
from elytron_store.postgres.store import PostgresStore

pytestmark = pytest.mark.anyio
SESSIONS = 3
"""Fewer than the stores' connections, so their transactions take turns."""
UNTIL_S = 20.0
SETTINGS = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
"""


@pytest.fixture(scope="module")
def pooled(database: str) -> Iterator[str]:
    """Run PgBouncer in front of the module's database; return the URL through it."""
    program = pooler()
    if program is None:
        pytest.skip(ABSENT_POOLER)
    parts = urlsplit(database)
    own = free_port()
    # Another user reads this, because the pooler refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="elytron-pooler-"))
    folder.chmod(0o755)
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        SETTINGS.format(host=parts.hostname, port=parts.port, user=parts.username, own=own, sessions=SESSIONS)
    )
    user = "nobody" if os.geteuid() == 0 else None
    process = subprocess.Popen([program, "-q", str(settings)], user=user, cwd="/", stderr=subprocess.PIPE)
    url = database.replace(f":{parts.port}/", f":{own}/")
    until = time.monotonic() + UNTIL_S
    while True:
        try:
            psycopg.connect(url).close()
            break
        except psycopg.OperationalError:
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.02)
    yield url
    process.terminate()
    process.communicate(timeout=UNTIL_S)
    shutil.rmtree(folder)


@pytest.fixture
async def stores(database: str, pooled: str) -> AsyncIterator[list[PostgresStore]]:
    """Return two nodes behind the pooler, the second without the function, and one with a direct connection."""
    empty_tables(database)
    async with AsyncExitStack() as stack:
        found: list[PostgresStore] = []
        for url, portable in ((pooled, False), (pooled, True), (database, False)):
            store = await open_tables(url, portable=portable)
            stack.push_async_callback(store.close)
            found.append(store)
        yield found


async def test_commits_take_turns_on_few_sessions_and_none_is_lost(stores: list[PostgresStore]) -> None:
    behind, portable, beside = stores
    await asyncio.gather(
        *(
            put(each, fact(number), space=space)
            for number in range(60)
            for each, space in ((behind, ADA), (portable, BOB))
        )
    )
    for each in stores:
        for space in (ADA, BOB):
            assert [entry.sequence for entry in await each.journal(space, after=0, limit=100)] == [*range(1, 61)]
            assert len(await each.scan(space, "facts", limit=100)) == 60
    assert (await beside.check()).ok
    async with behind.lend_connection() as connection:
        found = await connection.execute("SELECT count(*) FROM pg_prepared_statements")
        assert await found.fetchone() == (0,)


async def test_multi_statement_operations_are_atomic(stores: list[PostgresStore]) -> None:
    for number, store in enumerate(stores[:2]):
        once = BatchKey(key=f"k{number}", digest="d", answer=b"answer")
        keyed = batch(PutChange(fact(number), b"tea", 0), idempotency=once)
        first, again = await store.commit(keyed), await store.commit(keyed)
        assert (first.replayed, again.replayed, again.answer) == (False, True, b"answer")
        await write_blob(store, "aa", bytes(3_000_000))
        assert len(await blob(store, "aa")) == 3_000_000
        erased = await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(number),), blobs=("aa",)))
        assert (erased.documents, erased.blobs) == (1, 1)
        assert (await store.check()).ok
        await store.probe()


async def test_a_memory_behind_a_pooler_answers_like_a_direct_one(database: str, pooled: str) -> None:
    empty_tables(database)
    async with (
        elytron.open(f"{pooled}?sealed=no", space="ada", clock=CLOCK) as behind,
        elytron.open(f"{database}?sealed=no", space="ada", clock=CLOCK) as beside,
    ):
        for number in range(12):
            await behind.add(f"The ferry to island {number} leaves at {number}.")
        assert (await behind.recall("ferry island 7")).hits == (await beside.recall("ferry island 7")).hits
        assert await behind.inspect() == await beside.inspect()
