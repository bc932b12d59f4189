"""The store port over HTTP keeps the port's guarantees, against a test server."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator

import pytest
from benchmarks.rigs.proxy import Proxy
from tests.store.sealing import seal
from tests.transports.live import Live

import elytron
from elytron import runtime_records
from elytron_adapter.access_keys import Principal
from elytron_adapter.http.store import store_surfaces
from elytron_conformance import SecondHandleSuite, StoreSuite
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import ElytronError, PermissionRefused, StoreUrlInvalid, Unauthorized, Unreachable
from elytron_core.ids import SpaceId
from elytron_core.planes.records import RUNTIME_RECORDS
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports.store import (
    Batch,
    BatchKey,
    DeleteChange,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    PutChange,
    Store,
)
from elytron_store.remote_store import GatewayStore
from elytron_store.store_urls import open_store

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with Live(further=(store_surfaces,)) as live:
        yield live


async def empty(live: Live) -> GatewayStore:
    """Return a handle on the server's empty store."""
    store = GatewayStore(live.url)
    for space in await store.spaces(limit=2_000):
        await store.erase(ErasureTarget(space=space, at=Instant(1), whole_space=True))
    return store


class TestGatewayStore(StoreSuite):
    @pytest.fixture
    async def store(self, server: Live) -> AsyncIterator[Store]:
        store = await empty(server)
        yield store
        await store.close()


class TestTwoHandles(SecondHandleSuite):
    @pytest.fixture
    async def store(self, server: Live) -> AsyncIterator[Store]:
        store = await empty(server)
        yield store
        await store.close()

    @pytest.fixture
    async def second(self, server: Live, store: Store) -> AsyncIterator[Store]:
        second = GatewayStore(server.url)
        yield second
        await second.close()


def one(space: str) -> Batch:
    """Return a batch that puts one document into a space."""
    ref = DocumentRef("facts", "0")
    return Batch(
        space=SpaceId(space),
        at=Instant(1),
        entries=(EntryDraft(JournalAction.WRITE, ref),),
        puts=(PutChange(ref, b"body", 0),),
    )


class TestWhoMay:
    @pytest.fixture
    async def keyed(self) -> AsyncIterator[tuple[Live, str, str]]:
        """Yield a server that requires keys, with a user's key for "ada" and a device's."""
        with Live(further=(store_surfaces,), authenticator=Letting()) as live:
            yield live, "ada", "device"

    async def test_a_user_reaches_only_their_own_space(self, keyed: tuple[Live, str, str]) -> None:
        live, mine, device = keyed
        store = GatewayStore(live.url, api_key=mine)
        assert list(await store.spaces(limit=10)) == []
        await store.commit(one("ada"))
        assert list(await store.spaces(limit=10)) == ["ada"]
        assert list(await store.spaces(after="ada", limit=10)) == []
        for space in ("bob", "elytron:system", "elytron.keyring", "ELYTRON.keyring"):
            with pytest.raises(PermissionRefused):
                await store.commit(one(space))
            with pytest.raises(PermissionRefused):
                await store.scan(SpaceId(space), "facts", limit=1)
            with pytest.raises(PermissionRefused):
                await store.write_blob(SpaceId(space), "aa", pieces())
            with pytest.raises(PermissionRefused):
                [chunk async for chunk in store.read_blob(SpaceId(space), "aa")]
        with pytest.raises(PermissionRefused):
            await store.check()
        await store.close()
        thing = GatewayStore(live.url, api_key=device)
        with pytest.raises(PermissionRefused):
            await thing.get(SpaceId("ada"), (DocumentRef("facts", "0"),))
        await thing.close()

    async def test_no_caller_writes_runtime_records_and_an_erasure_removes_all_copies(
        self, keyed: tuple[Live, str, str]
    ) -> None:
        live, mine, _ = keyed

        async def kept() -> dict[str, DocumentRef]:
            records = runtime_records.records_of(live.runtime)
            await records.put(("elytron:agent", "main"), "main", {"open": "one"})
            for run in ("elytron:run:one", "elytron:run:two"):
                await records.put((run,), "0000", {"text": "Hello"})
            space = await live.runtime.context.spaces.find(SpaceId("ada"))
            assert space is not None
            names = (("elytron:agent", "main"), "main"), (("elytron:run:one",), "0000")
            return {name: DocumentRef(RUNTIME_RECORDS, space.record_key(namespace, name)) for namespace, name in names}

        async def left() -> set[tuple[str, ...]]:
            return {each.namespace async for each in runtime_records.records_of(live.runtime).below()}

        places = live.run(kept())
        store = GatewayStore(live.url, api_key=mine)
        space, at = SpaceId("ada"), Instant(1)
        for ref in places.values():
            entries = (EntryDraft(JournalAction.WRITE, ref),)
            forged = (
                Batch(space, at, entries, puts=(PutChange(ref, b"{}", 1),)),
                Batch(space, at, entries, deletes=(DeleteChange(ref, 1),)),
                Batch(space, at, entries),
            )
            for batch in forged:
                with pytest.raises(PermissionRefused, match="runtime's own"):
                    await store.commit(batch)
        with pytest.raises(PermissionRefused):
            await store.erase(ErasureTarget(space=space, at=at, refs=tuple(places.values())))
        assert len(live.run(left())) == 3
        await store.erase(ErasureTarget(space=space, at=at, refs=(places["0000"],)))
        assert live.run(left()) == {("elytron:agent", "main")}
        await store.close()

    async def test_a_wrong_key_and_a_missing_key_are_refused_identically(self, keyed: tuple[Live, str, str]) -> None:
        for key in (None, "nonsense"):
            store = GatewayStore(keyed[0].url, api_key=key)
            with pytest.raises(Unauthorized):
                await store.spaces(limit=1)
            await store.close()


class Letting:
    """Knows two keys by name."""

    async def authenticate(self, authorization: str | None, /) -> Principal:
        match authorization:
            case "Bearer ada":
                return Principal("ada's", PrincipalKind.USER, SpaceId("ada"))
            case "Bearer device":
                return Principal("device", PrincipalKind.DEVICE, SpaceId("ada"))
            case _:
                raise Unauthorized


async def pieces() -> AsyncIterator[bytes]:
    yield b"x"


async def test_a_missing_server_is_reported_as_such() -> None:
    store = GatewayStore("http://127.0.0.1:9", timeout_s=2)
    with pytest.raises(Unreachable, match="does not respond"):
        await store.commit(one("ada"))
    with pytest.raises(Unreachable):
        [chunk async for chunk in store.read_blob(SpaceId("ada"), "aa")]
    await store.close()


async def test_another_kind_of_server_is_reported_as_such(server: Live) -> None:
    store = GatewayStore(f"{server.url}/nothing/here")
    with pytest.raises(ElytronError):
        await store.spaces(limit=1)
    await store.close()


async def test_over_a_failing_network_calls_succeed_or_report_and_keys_prevent_repeats(
    server: Live,
) -> None:
    await (await empty(server)).close()
    proxy = Proxy(server.port, chance=random.Random(5), percent=60)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    store = GatewayStore(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", timeout_s=5)
    failed = 0
    for number in range(12):
        ref = DocumentRef("facts", f"{number:x}")
        batch = Batch(
            space=SpaceId("ada"),
            at=Instant(1),
            entries=(EntryDraft(JournalAction.WRITE, ref),),
            puts=(PutChange(ref, b"body", 0),),
            idempotency=BatchKey(f"key {number}", "digest", b""),
        )
        while True:
            try:
                await store.commit(batch)
            except Unreachable:
                failed += 1
                continue
            break
    listening.close()
    await store.close()
    assert failed
    straight = GatewayStore(server.url)
    assert len(await straight.scan(SpaceId("ada"), "facts", limit=100)) == 12
    assert len(await straight.journal(SpaceId("ada"), after=0, limit=100)) == 12
    await straight.close()


@pytest.mark.parametrize("url", ["gateway+http://", "gateway+http://me:pass@host", "gateway+http://host/?x=1"])
async def test_an_invalid_address_is_rejected(url: str) -> None:
    with pytest.raises(StoreUrlInvalid) as refused:
        await open_store(url, clock=FrozenClock())
    assert "pass" not in refused.value.message


async def test_a_local_runtime_stores_its_memory_on_the_server(server: Live) -> None:
    address = server.url.replace("http://", "gateway+http://")
    async with elytron.open(address, space="here") as memory:
        await memory.add("The boiler code is 4417.", speaker="Ada")
    async with elytron.open(address, space="here") as again:
        assert (await again.recall("boiler code")).hits[0].text == "The boiler code is 4417."


async def test_a_sealed_store_shows_its_server_no_content(server: Live) -> None:
    store = await seal(await empty(server))
    async with elytron.open(store, space="here") as memory:
        await memory.add("The boiler code is 4417.", speaker="Ada")
        assert (await memory.recall("boiler code")).hits[0].text == "The boiler code is 4417."
        raw = GatewayStore(server.url)
        bodies = [
            document.body
            for space in await raw.spaces(limit=100)
            for collection in COLLECTIONS
            for document in await raw.scan(space, collection, limit=100)
        ]
        await raw.close()
    assert bodies
    assert not any(b"boiler" in body for body in bodies)
