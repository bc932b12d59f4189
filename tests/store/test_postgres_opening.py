"""Opening a Postgres store: what is refused, with which message, and what remains."""

import asyncio
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest
from tests.store.postgres_proxy import proxied
from tests.store.postgres_rig import CLOCK, open_tables
from tests.store.postgres_server import PostgresServer

from elytron_conformance.examples import ADA, JOBS, fact, one, put, spaces_with_jobs
from elytron_core.errors import (
    ElytronError,
    KeyMissing,
    StoreCrowded,
    StoreForeign,
    StoreMissing,
    StoreNewer,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
)
from elytron_core.ids import SpaceId
from elytron_store.memory import MemoryStore
from elytron_store.postgres.address import parse_address
from elytron_store.postgres.connections import connect_once
from elytron_store.postgres.tables import (
    STEPS,
    PostgresTarget,
    ServerFacts,
    examine_server,
    prepare_tables,
    transport_danger,
)
from elytron_store.sealed.providers import LocalKeys
from elytron_store.store_urls import WhenMissing, open_store

pytestmark = pytest.mark.anyio
KEYS = LocalKeys({"k": bytes(range(32))}, current="k")
Ask = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture
def fresh(postgres: PostgresServer) -> str:
    """Return the URL of this test's own database."""
    return postgres.make_database()


@pytest.fixture
def ask(fresh: str) -> Iterator[Ask]:
    """Return a function that runs a statement in that database."""
    with psycopg.connect(fresh, autocommit=True) as connection:

        def run(statement: str) -> list[tuple[object, ...]]:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

        yield run


def as_guarded(url: str, ask: Ask, *, password: str = "right", limits: str = "") -> str:
    """Create a user with the password `right`, and return the URL that opens the store with `password`."""
    name = f"user_{secrets.token_hex(4)}"
    ask("DO $$ BEGIN CREATE ROLE guarded; EXCEPTION WHEN OTHERS THEN NULL; END $$")
    ask(f"CREATE ROLE {name} LOGIN PASSWORD 'right' {limits} IN ROLE guarded")
    return f"{url.replace('postgres@', f'{name}:{password}@')}?sealed=no"


async def refusal(url: str, **settings: object) -> ElytronError:
    with pytest.raises(ElytronError) as refused:
        await open_store(url, clock=CLOCK, **settings)  # pyright: ignore[reportArgumentType]
    return refused.value


async def test_a_store_without_a_key_needs_an_explicit_url(fresh: str, ask: Ask) -> None:
    refused = await refusal(fresh)
    assert isinstance(refused, KeyMissing)
    assert "?sealed=no" in refused.message
    assert ask("SELECT to_regclass('elytron.manifest')") == [(None,)]


async def test_a_key_contradicts_a_url_that_says_not_sealed(fresh: str) -> None:
    assert isinstance(await refusal(f"{fresh}?sealed=no", keys=KEYS), StoreForeign)


async def test_a_sealed_store_opens_only_with_its_key(fresh: str) -> None:
    await (await open_tables(fresh, sealed=True)).close()
    store = await open_store(fresh, clock=CLOCK, keys=KEYS)
    await put(store, fact(1), b"tea")
    await store.close()
    again = await open_store(fresh, clock=CLOCK, keys=KEYS)
    assert (await one(again, fact(1))) is not None
    await again.close()
    assert isinstance(await refusal(f"{fresh}?sealed=no"), StoreForeign)


async def test_a_missing_server_is_reported_within_two_seconds() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        closed = f"postgresql://ada:tea-time@127.0.0.1:{silent.getsockname()[1]}/m?sealed=no"
        refused = await refusal(closed)
        silent.listen()
        async with asyncio.timeout(2):
            unanswered = await refusal(closed)
    assert type(refused).key == type(unanswered).key == "store_unavailable"
    assert isinstance(refused, StoreUnavailable)
    assert "tea-time" not in f"{refused}{unanswered}"


async def test_a_wrong_password_is_reported_in_one_sentence_without_it(fresh: str, ask: Ask) -> None:
    refused = await refusal(as_guarded(fresh, ask, password="tea-time"))
    assert isinstance(refused, StoreRefused)
    assert "password" in refused.message
    assert "tea-time" not in f"{refused.message}{refused.__cause__}"


async def test_a_server_without_room_for_a_connection_says_so(fresh: str, ask: Ask) -> None:
    assert isinstance(await refusal(as_guarded(fresh, ask, limits="CONNECTION LIMIT 0")), StoreCrowded)


async def test_a_user_who_may_not_create_a_schema_is_told_so(fresh: str, ask: Ask) -> None:
    assert isinstance(await refusal(as_guarded(fresh, ask)), StoreRefused)


async def test_a_missing_database_is_refused(fresh: str) -> None:
    assert isinstance(await refusal(f"{fresh}_else?sealed=no"), StoreRefused)


@pytest.mark.parametrize(
    ("setting", "refused"),
    [("synchronous_commit = off", StoreRefused), ("default_transaction_read_only = on", StoreReadOnly)],
)
async def test_a_setting_that_endangers_the_guarantees_is_refused(
    fresh: str, ask: Ask, setting: str, refused: type[ElytronError]
) -> None:
    (name,) = ask("SELECT current_database()")
    ask(f"ALTER DATABASE {name[0]} SET {setting}")
    assert isinstance(await refusal(f"{fresh}?sealed=no"), refused)


FIT = ServerFacts(180_004, "on", "on", "on", "UTF8", is_replica=False, is_read_only=False, process=1)


@pytest.mark.parametrize(
    ("facts", "refused", "word"),
    [
        (replace(FIT, version=130_022), StoreRefused, "version 14"),
        (replace(FIT, fsync="off"), StoreRefused, "fsync = on"),
        (replace(FIT, full_page_writes="off"), StoreRefused, "full_page_writes"),
        (replace(FIT, encoding="SQL_ASCII"), StoreRefused, "UTF8"),
        (replace(FIT, is_replica=True), StoreReadOnly, "target_session_attrs"),
    ],
)
def test_a_server_that_cannot_keep_the_guarantees_is_refused(
    facts: ServerFacts, refused: type[ElytronError], word: str
) -> None:
    FIT.require_fit()
    with pytest.raises(refused, match=word):
        facts.require_fit()


async def test_risks_to_a_store_are_found_without_opening_it(fresh: str, ask: Ask) -> None:
    (name,) = ask("SELECT current_database()")
    for setting in ("synchronous_commit = off", "statement_timeout = 2000", "default_transaction_read_only = on"):
        ask(f"ALTER DATABASE {name[0]} SET {setting}")
    ask(f"ALTER DATABASE {name[0]} CONNECTION LIMIT 9")
    found = {item.name: item for item in await examine_server(parse_address(f"{fresh}?sealed=no"))}
    dangers = {"synchronous_commit", "statement_timeout", "default_transaction_read_only", "connections left"}
    assert {item.name for item in found.values() if item.danger} == dangers
    assert (found["fsync"].value, found["schema"].value) == ("on", "none; this build creates version 2")
    assert found["connections left"].value == "8"
    assert ask("SELECT to_regclass('elytron.manifest')") == [(None,)]


@pytest.mark.parametrize(
    ("host", "mode", "danger"),
    [
        ("db.example.org", "prefer", "plain text"),
        ("10.0.0.7", "disable", "plain text"),
        ("2001:db8::1", "allow", "plain text"),
        ("db.example.org", "require", "prove its identity"),
        ("db.example.org", "verify-full", ""),
        ("db.example.org", "verify-ca", ""),
        ("127.0.0.1", "prefer", ""),
        ("::1", "prefer", ""),
        ("localhost", "prefer", ""),
        ("/run/postgresql", "prefer", ""),
    ],
)
def test_a_remote_server_without_verified_encryption_is_a_risk(host: str, mode: str, danger: str) -> None:
    found = transport_danger(host, mode)
    assert bool(found) == bool(danger)
    assert danger in found


async def test_a_server_without_risks_shows_none_and_its_schema_version(fresh: str, ask: Ask) -> None:
    await (await open_tables(fresh)).close()
    found = await examine_server(parse_address(f"{fresh}?sealed=no"))
    assert [item for item in found if item.danger] == []
    assert found[-2].name == "sslmode"
    assert found[-1].value == "version 2; this build knows 2"
    ask("UPDATE elytron.manifest SET body = 'x' WHERE name = 'layout'")
    assert (await examine_server(parse_address(fresh)))[-1].value == "unreadable"


async def test_for_a_missing_store_the_caller_decides_what_happens(fresh: str, ask: Ask) -> None:
    url = f"{fresh}?sealed=no"
    missing = await refusal(url, when_missing=WhenMissing.REFUSE)
    assert isinstance(missing, StoreMissing)
    assert missing.place == fresh.rpartition("@")[2]
    pretended = await open_store(url, clock=CLOCK, when_missing=WhenMissing.PRETEND)
    assert isinstance(pretended, MemoryStore)
    assert ask("SELECT to_regclass('elytron.manifest')") == [(None,)]


async def test_two_concurrent_openings_create_one_store(fresh: str) -> None:
    left, right = await asyncio.gather(open_tables(fresh), open_tables(fresh))
    await put(left, fact(1), b"tea")
    assert (await one(right, fact(1))) == (await one(left, fact(1)))
    await left.close()
    await right.close()


async def test_a_store_of_a_newer_version_is_refused_and_left_unchanged(fresh: str, ask: Ask) -> None:
    await (await open_tables(fresh)).close()
    newer = '{"schema_version": 99, "partitions": 4}'
    ask(f"UPDATE elytron.manifest SET body = convert_to('{newer}', 'UTF8') WHERE name = 'layout'")
    refused = await refusal(f"{fresh}?sealed=no")
    assert isinstance(refused, StoreNewer)
    assert refused.found == 99


def first_step(schema: str, partitions: int) -> bytes:
    return f"CREATE TABLE {schema}.first_step AS SELECT {partitions} AS partitions".encode()


def second_step(schema: str, _partitions: int) -> bytes:
    return f"ALTER TABLE {schema}.first_step ADD COLUMN second text".encode()


def broken_step(schema: str, _partitions: int) -> bytes:
    return f"ALTER TABLE {schema}.absent ADD COLUMN second text".encode()


async def test_older_tables_are_migrated_once(fresh: str, ask: Ask) -> None:
    store = await open_tables(fresh)
    await put(store, fact(1), b"tea")
    wanted = PostgresTarget(parse_address(f"{fresh}?sealed=no"), CLOCK.now())
    async with await connect_once(wanted.address) as left, await connect_once(wanted.address) as right:
        await asyncio.gather(
            *(prepare_tables(each, wanted, steps=(*STEPS, first_step, second_step)) for each in (left, right))
        )
    assert ask("SELECT partitions, second FROM elytron.first_step") == [(4, None)]
    assert await one(store, fact(1)) is not None
    await store.close()
    refused = await refusal(f"{fresh}?sealed=no")
    assert isinstance(refused, StoreNewer)
    assert refused.found == 4


async def test_tables_without_the_queue_index_get_it_with_their_content(fresh: str, ask: Ask) -> None:
    store = await open_tables(fresh)
    for name in ("ada", "bob"):
        await put(store, JOBS if name == "bob" else fact(1), space=SpaceId(name))
    await store.close()
    for partition in range(4):
        ask(f"DROP INDEX elytron.documents_p{partition:02}_queued")
    ask("""UPDATE elytron.manifest SET body = convert_to('{"schema_version": 1, "partitions": 4}', 'UTF8')
        WHERE name = 'layout'""")
    again = await open_tables(fresh)
    assert await spaces_with_jobs(again) == {"bob"}
    assert ask("SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'documents_p%_queued'") == [(4,)]
    await again.close()


async def test_a_failing_migration_leaves_the_tables_unchanged(fresh: str, ask: Ask) -> None:
    await (await open_tables(fresh)).close()
    wanted = PostgresTarget(parse_address(f"{fresh}?sealed=no"), CLOCK.now())
    async with await connect_once(wanted.address) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            await prepare_tables(connection, wanted, steps=(*STEPS, first_step, broken_step))
    assert ask("SELECT to_regclass('elytron.first_step')") == [(None,)]
    await (await open_tables(fresh)).close()


async def test_builds_with_one_layout_write_concurrently(fresh: str, ask: Ask) -> None:
    """Each build calls a commit function of its own number, or none, and ignores unknown fields."""
    older = await open_tables(fresh)
    noted = '{"schema_version": 1, "partitions": 4, "later": true}'
    ask(f"UPDATE elytron.manifest SET body = convert_to('{noted}', 'UTF8') WHERE name = 'layout'")
    newer = await open_tables(fresh, portable=True)
    await asyncio.gather(
        *(put(store, fact(2 * number + at)) for number in range(10) for at, store in enumerate((older, newer)))
    )
    journals = [await store.journal(ADA, after=0, limit=100) for store in (older, newer)]
    assert [entry.sequence for entry in journals[0]] == [*range(1, 21)]
    assert journals[0] == journals[1]
    await older.close()
    await newer.close()


async def test_a_node_with_tables_migrated_by_a_newer_build_writes_nothing_and_says_so(fresh: str, ask: Ask) -> None:
    store = await open_tables(fresh)
    await put(store, fact(1), b"tea")
    for partition in range(4):
        ask(f"DROP FUNCTION elytron.commit_1_p{partition:02}")
    with pytest.raises(StoreRefused, match="newer one has changed them") as refused:
        await put(store, fact(2))
    assert not refused.value.retryable
    assert (await one(store, fact(2))) is None
    await store.close()


async def test_a_store_that_lost_its_manifest_is_refused(fresh: str, ask: Ask) -> None:
    await (await open_tables(fresh)).close()
    ask("DELETE FROM elytron.manifest WHERE name = 'store'")
    assert isinstance(await refusal(f"{fresh}?sealed=no"), StoreForeign)


async def test_schemas_of_one_database_are_separate_stores(fresh: str) -> None:
    left = await open_store(f"{fresh}?sealed=no", clock=CLOCK)
    right = await open_store(f"{fresh}?sealed=no&schema=other", clock=CLOCK)
    await put(left, fact(1), b"tea")
    assert (await one(right, fact(1))) is None
    await left.close()
    await right.close()


async def test_behind_a_pooler_no_statement_is_prepared(fresh: str) -> None:
    async with proxied(fresh) as (proxy, url):
        proxy.is_pooler = True
        store = await open_tables(url)
        for number in range(20):
            await put(store, fact(number))
        async with store.lend_connection() as connection:
            found = await connection.execute("SELECT count(*) FROM pg_prepared_statements")
            assert await found.fetchone() == (0,)
        await store.close()
