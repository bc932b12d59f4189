"""Refusals and failures of a Postgres server, and cut connections: each is a distinct error, never a guess."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from tests.store.postgres_proxy import CuttingProxy, proxied
from tests.store.postgres_rig import empty_tables, open_tables

from elytron_conformance.examples import ADA, AT, BOB, batch, blob, documents, fact, journal, one, put, write_blob
from elytron_core.clock import Instant
from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    OutcomeUnknown,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreCrowded,
    StoreDeadlock,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from elytron_core.ports.store import (
    BatchKey,
    CommitReceipt,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    PutChange,
)
from elytron_core.ports.store_checks import DamageKind
from elytron_store.postgres.connections import ConnectionLost
from elytron_store.postgres.store import PostgresStore

Beside = psycopg.Connection[tuple[object, ...]]
pytestmark = pytest.mark.anyio
ONCE = BatchKey(key="k", digest="d", answer=b"answer")


@pytest.fixture
def emptied(database: str) -> str:
    empty_tables(database)
    return database


@pytest.fixture
async def store(emptied: str) -> AsyncIterator[PostgresStore]:
    store = await open_tables(emptied)
    yield store
    await store.close()


@pytest.fixture
async def cut(emptied: str) -> AsyncIterator[tuple[CuttingProxy, PostgresStore]]:
    """Return a store behind a proxy, with one document."""
    async with proxied(emptied) as (proxy, url):
        store = await open_tables(url)
        await put(store, fact(0))
        yield proxy, store
        proxy.is_up = True
        await store.close()


@pytest.fixture
def beside(emptied: str) -> Iterator[Beside]:
    with psycopg.connect(emptied, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("state", "raised"),
    [
        ("53100", StoreFull), ("53300", StoreCrowded), ("57014", StoreTimeout), ("55P03", StoreBusy),
        ("40P01", StoreDeadlock), ("40001", StoreDeadlock), ("25006", StoreReadOnly), ("42501", StoreRefused),
        ("XX000", StoreError),
    ],
)  # fmt: skip
async def test_each_refusal_of_a_server_is_its_own_error(
    store: PostgresStore, state: str, raised: type[ElytronError]
) -> None:
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'a secret' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(ElytronError) as refused:
        async with store.lend_connection() as connection:
            await connection.execute(raising.encode())
    assert type(refused.value) is raised
    assert "secret" not in refused.value.message
    assert refused.value.__cause__ is None


def failing(beside: Beside, *, state: str, times: int) -> None:
    """Let the next `times` appends to the journal fail with `state`."""
    beside.execute(
        "DROP SEQUENCE IF EXISTS tries; CREATE SEQUENCE tries; "
        "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN "
        f"IF nextval('tries') <= {times} THEN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END IF; "
        "RETURN NEW; END $f$".encode()
    )
    for partition in range(4):
        name = f"elytron.journal_p{partition:02}"
        when = f"BEFORE INSERT ON {name} FOR EACH STATEMENT"
        beside.execute(f"CREATE OR REPLACE TRIGGER fails {when} EXECUTE FUNCTION fail()".encode())


async def test_a_deadlock_is_retried_and_then_reported(store: PostgresStore, beside: Beside) -> None:
    failing(beside, state="40P01", times=2)
    assert await put(store, fact(1)) == CommitReceipt(1, 1)
    failing(beside, state="40P01", times=3)
    with pytest.raises(StoreDeadlock):
        await put(store, fact(2))
    assert [kept.ref for kept in await documents(store)] == [fact(1)]


async def test_a_full_disk_stores_nothing_and_the_caller_may_retry(store: PostgresStore, beside: Beside) -> None:
    failing(beside, state="53100", times=1)
    with pytest.raises(StoreFull):
        await put(store, fact(1))
    assert await documents(store) == []
    assert await put(store, fact(1)) == CommitReceipt(1, 1)


async def test_a_statement_that_takes_too_long_is_reported(emptied: str, beside: Beside) -> None:
    name = f"slow_{secrets.token_hex(4)}"
    beside.execute(f"CREATE ROLE {name} LOGIN SUPERUSER; ALTER ROLE {name} SET statement_timeout = 100".encode())
    store = await open_tables(emptied.replace("postgres@", f"{name}@"))
    await put(store, fact(1))
    with beside.transaction():
        for partition in range(4):
            beside.execute(f"SELECT * FROM elytron.heads_p{partition:02} FOR UPDATE".encode())
        with pytest.raises(StoreTimeout):
            await put(store, fact(2))
    assert await put(store, fact(2)) == CommitReceipt(2, 2)
    await store.close()


async def test_a_commit_cut_off_before_arrival_is_unknown(cut: tuple[CuttingProxy, PostgresStore]) -> None:
    proxy, store = cut
    proxy.cut_asking = True
    with pytest.raises(OutcomeUnknown):
        await put(store, fact(1))
    assert await one(store, fact(1)) is None


async def test_a_commit_without_an_answer_is_unknown_and_stored(cut: tuple[CuttingProxy, PostgresStore]) -> None:
    proxy, store = cut
    proxy.cut_answer = True
    with pytest.raises(OutcomeUnknown):
        await put(store, fact(1))
    while (await one(store, fact(1))) is None:
        await asyncio.sleep(0)  # the server continues without its client
    assert len(await journal(store)) == 2


@pytest.mark.parametrize("where", ["cut_asking", "cut_answer"])
async def test_a_commit_with_a_key_determines_its_outcome(cut: tuple[CuttingProxy, PostgresStore], where: str) -> None:
    proxy, store = cut
    setattr(proxy, where, True)
    found = await store.commit(batch(PutChange(fact(1), b"one", 0), idempotency=ONCE))
    assert (found.first, found.last, found.answer) == (2, 2, b"answer")
    assert len(await journal(store)) == 2


async def test_an_interrupted_read_is_repeated(cut: tuple[CuttingProxy, PostgresStore]) -> None:
    proxy, store = cut
    proxy.cut_asking = True
    assert await one(store, fact(0)) is not None
    proxy.cut_answer = True
    assert len(await journal(store)) == 1
    proxy.cut_answer = True
    await write_blob(store, "aa", b"tea")
    assert await blob(store, "aa") == b"tea"


async def test_a_connection_closed_while_idle_is_not_used(store: PostgresStore, beside: Beside) -> None:
    await put(store, fact(1))
    beside.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name = 'elytron' AND datname = current_database()"
    )
    assert await put(store, fact(2)) == CommitReceipt(2, 2)


async def test_a_lost_server_is_reported_within_two_seconds_and_used_again(
    cut: tuple[CuttingProxy, PostgresStore],
) -> None:
    proxy, store = cut
    proxy.is_up = False
    proxy.cut_all()
    async with asyncio.timeout(2):
        with pytest.raises(StoreUnavailable):
            await one(store, fact(0))
    proxy.is_up = True
    while True:
        try:
            assert await one(store, fact(0)) is not None
        except StoreUnavailable:
            continue
        break


async def test_a_silent_server_is_reported_within_two_seconds_and_keys_resolve_commits(
    cut: tuple[CuttingProxy, PostgresStore],
) -> None:
    proxy, store = cut
    proxy.is_silent = True
    async with asyncio.timeout(2.5):
        with pytest.raises(OutcomeUnknown):
            await put(store, fact(1))
    for call in (one(store, fact(0)), store.probe()):
        with pytest.raises(ConnectionLost):
            await call
    proxy.is_silent = False
    keyed = batch(PutChange(fact(2), b"", 0), idempotency=ONCE)
    while True:
        try:
            assert (await store.commit(keyed)).answer == ONCE.answer
        except StoreUnavailable:
            continue
        break
    assert [kept.ref for kept in await documents(store)] == [fact(0), fact(2)]


async def test_a_long_statement_continues_while_its_server_responds(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_store.postgres.connections.POSTGRES_SILENT_S", 0.01)
    monkeypatch.setattr("elytron_store.postgres.connections.POSTGRES_LOOK_S", 0.01)
    async with store.lend_connection() as connection:
        found = await connection.execute("SELECT count(pg_sleep(0.3))")
        assert await found.fetchone() == (1,)


async def test_a_store_that_accepts_no_commits_is_not_ready(emptied: str, beside: Beside) -> None:
    name = f"reader_{secrets.token_hex(4)}"
    beside.execute(f"CREATE ROLE {name} LOGIN SUPERUSER".encode())
    store = await open_tables(emptied.replace("postgres@", f"{name}@"))
    await store.probe()
    beside.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on".encode())
    beside.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{name}'".encode())
    with pytest.raises(StoreReadOnly):
        await store.probe()
    with pytest.raises(StoreReadOnly):
        await put(store, fact(1))
    await store.close()
    with pytest.raises(StoreClosed):
        await store.probe()


async def test_a_store_on_a_full_disk_is_not_ready_until_it_has_room(store: PostgresStore, beside: Beside) -> None:
    def room(*, is_there: bool) -> None:
        for table in ("journal", "blob_parts"):
            for partition in range(4):
                name = f"elytron.{table}_p{partition:02}"
                beside.execute(f"DROP TRIGGER IF EXISTS fills ON {name}".encode())
                if not is_there:
                    when = f"BEFORE INSERT ON {name} FOR EACH STATEMENT"
                    beside.execute(f"CREATE TRIGGER fills {when} EXECUTE FUNCTION fill()".encode())

    beside.execute(
        b"CREATE OR REPLACE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS "
        b"$f$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END $f$"
    )
    room(is_there=False)
    await store.probe()
    with pytest.raises(StoreFull):
        await put(store, fact(1))
    with pytest.raises(StoreFull):
        await store.probe()
    room(is_there=True)
    await store.probe()
    for partition in range(4):
        left = beside.execute(f"SELECT count(*) FROM elytron.blob_parts_p{partition:02}".encode()).fetchone()
        assert left == (0,)
    assert await put(store, fact(1)) == CommitReceipt(1, 1)


async def test_unstorable_values_are_refused_without_affecting_others(store: PostgresStore) -> None:
    lone = batch(PutChange(fact(1), b"", 0), entries=(EntryDraft(JournalAction.WRITE, fact(1), "\ud800"),))
    told = await asyncio.gather(store.commit(lone), put(store, fact(2)), return_exceptions=True)
    assert isinstance(told[0], InvalidInput)
    assert told[1] == CommitReceipt(1, 1)


async def test_a_nul_in_a_digest_round_trips(store: PostgresStore) -> None:
    await store.commit(batch(PutChange(fact(1), b"", 0), entries=(EntryDraft(JournalAction.WRITE, fact(1), "a\0b"),)))
    assert [entry.digest for entry in await journal(store)] == ["a\0b"]


async def test_damaged_bytes_are_found_quarantined_and_never_served(store: PostgresStore, beside: Beside) -> None:
    await store.commit(batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0)))
    await write_blob(store, "aa", b"tea")
    for partition in range(4):
        for change in (
            f"UPDATE elytron.documents_p{partition:02} SET body = 'else' WHERE body = 'one'",
            f"UPDATE elytron.blob_parts_p{partition:02} SET bytes = 'pea'",
        ):
            beside.execute(change.encode())
    for read in (one(store, fact(1)), documents(store), blob(store, "aa")):
        with pytest.raises(StoreCorrupt):
            await read
    report = await store.repair()
    assert [(problem.damage, problem.quarantined) for problem in report.problems] == [
        (DamageKind.DOCUMENT, True),
        (DamageKind.BLOB, True),
    ]
    assert [kept.ref for kept in await documents(store)] == [fact(2)]
    assert (await store.check()).ok
    (loss,) = await store.losses()
    assert (loss.space, loss.documents, loss.blobs) == (ADA, 1, 1)
    assert (await store.losses(ADA), await store.losses(BOB)) == ([loss], [])
    assert await store.acknowledge_losses(ADA, at=Instant(loss.at - 1)) == 0
    assert await store.acknowledge_losses(None, at=loss.at) == 1
    assert await store.losses() == []


async def test_erasing_a_space_removes_the_record_of_its_losses(store: PostgresStore, beside: Beside) -> None:
    await put(store, fact(1), b"one")
    for partition in range(4):
        beside.execute(f"UPDATE elytron.documents_p{partition:02} SET body = 'else' WHERE body = 'one'".encode())
    assert len((await store.repair()).losses) == 1
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert await store.losses() == []


async def test_a_truncated_or_altered_journal_is_not_served(store: PostgresStore, beside: Beside) -> None:
    for number in range(3):
        await put(store, fact(number))
    for partition in range(4):
        beside.execute(f"DELETE FROM elytron.journal_p{partition:02} WHERE sequence = 3".encode())
    with pytest.raises(StoreCorrupt):
        await store.journal(ADA, after=0, limit=10)
    assert [problem.damage for problem in (await store.check()).problems] == [DamageKind.JOURNAL_GAP]
    for partition in range(4):
        beside.execute(f"UPDATE elytron.journal_p{partition:02} SET action = 'delete' WHERE sequence = 2".encode())
    with pytest.raises(StoreCorrupt):
        await store.journal(ADA, after=0, limit=2)
