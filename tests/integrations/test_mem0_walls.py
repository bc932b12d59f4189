"""A second user sees nothing of the first, even with the first user's ids."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import Any

import pytest

import elytron
from elytron.compat.mem0 import AsyncMemory, AsyncMemoryClient, Memory, MemoryClient
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_core.errors import ElytronError, InvalidInput, NotFound, PermissionRefused, ScopeMissing, Unauthorized
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.server import ServingSettings, served_http

pytestmark = pytest.mark.anyio
WORDS = "Bento"


def config_of(path: object) -> dict[str, Any]:
    return {"vector_store": {"provider": "elytron", "config": {"path": str(path)}}}


def ids_of(memory: Any) -> list[str]:
    """Fill the first user's memory and return all its ids."""
    memory.add(f"Our cat is called {WORDS}. I live in Lisbon.", user_id="ada", run_id="home", metadata={"pet": WORDS})
    memory.update(
        memory.get_all(user_id="ada")["results"][0]["id"], f"Our old cat is called {WORDS}. I live in Lisbon."
    )
    return [result["id"] for result in memory.get_all(user_id="ada")["results"]]


def require_no_access(memory: Any, ids: list[str], refusals: tuple[type[ElytronError], ...]) -> None:
    """Require that no call of the second user reads or changes anything of the first."""
    assert ids
    for memory_id in ids:
        native, _, _ = memory_id.rpartition("@")
        for name in (memory_id, f"{native}@grace", native):
            for call in (memory.get, memory.history):
                with suppress(*refusals):
                    assert not call(name)
            for change in (lambda: memory.update(name, "Nothing."), lambda: memory.delete(name)):  # noqa: B023
                with pytest.raises(refusals):
                    change()
    for place in ({"user_id": "grace"}, {"filters": {"user_id": "grace"}}, {"user_id": "grace", "run_id": "home"}):
        assert WORDS not in str(memory.search("What is the cat called?", **place))
        assert WORDS not in str(memory.get_all(**place))


def test_a_memory_of_one_user_finds_no_id_of_another(tmp_path: Any) -> None:
    with closing(Memory(config_of(tmp_path / "memory.db"))) as everyone:
        ids = ids_of(everyone)
        with closing(Memory(config_of(tmp_path / "memory.db"), user_id="grace")) as grace:
            require_no_access(grace, ids, (NotFound,))
            grace.add("I like tea.", infer=False)
            places: list[dict[str, Any]] = [{"user_id": "ada"}, {"filters": {"user_id": "ada"}}]
            for place in places:
                for call in (grace.get_all, grace.delete_all, partial(grace.search, "cat")):
                    with pytest.raises(InvalidInput, match="not the user"):
                        call(**place)
            with pytest.raises(InvalidInput, match="not the user"):
                grace.reset(user_id="ada")
            assert [result["memory"] for result in grace.get_all()["results"]] == ["I like tea."]
            grace.reset()
            assert grace.get_all() == {"results": []}
        assert [result["id"] for result in everyone.get_all(user_id="ada")["results"]] == ids
        assert [everyone.get(memory_id) is not None for memory_id in ids] == [True] * len(ids)


def test_an_id_finds_its_memory_after_reopening_the_store(tmp_path: Any) -> None:
    config = config_of(tmp_path / "memory.db")
    with closing(Memory(config)) as memory:
        (memory_id,) = (result["id"] for result in memory.add("Tea.", user_id="Ada @ home", infer=False)["results"])
    with closing(Memory(config)) as memory:
        assert (memory.get(memory_id) or {})["user_id"] == "Ada @ home"


async def test_awaited_calls_behave_the_same(tmp_path: Any) -> None:
    memory = AsyncMemory.from_config(config_of("memory:"))
    added = await asyncio.gather(*(memory.add(f"Tea {number}.", user_id="ada", infer=False) for number in range(3)))
    ids = [answer["results"][0]["id"] for answer in added]
    assert len({*ids}) == 3
    assert await memory.search("Tea", user_id="grace") == {"results": []}
    await memory.update(ids[0], "Coffee.")
    assert [row["new_memory"] for row in await memory.history(ids[0])] == ["Tea 0.", "Coffee."]
    await memory.delete(ids[0])
    assert await memory.get(ids[0]) is None
    with pytest.raises(ScopeMissing):
        await memory.reset()
    await memory.delete_all(user_id="ada")
    assert await memory.get_all(user_id="ada") == {"results": []}
    await memory.close()


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, str]]]:
    """Serve a store, and yield the address and a key for each of two users."""
    with elytron.open("memory:", space=None) as memory, ExitStack() as stack:
        serving = served_http(memory.runtime, ServingSettings(port=0))
        started = memory.run(serving.__aenter__())
        stack.callback(lambda: memory.run(serving.__aexit__(None, None, None)))
        keys = AccessKeys(memory.runtime.context)
        requests = {
            user: AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId(user), label="test")
            for user in ("ada", "grace")
        }
        yield started.address, {user: memory.run(keys.add(request)).key for user, request in requests.items()}


def test_a_client_reaches_what_its_key_opens(server: tuple[str, dict[str, str]]) -> None:
    address, keys = server
    with (
        closing(MemoryClient(api_key=keys["ada"], host=address)) as ada,
        closing(MemoryClient(api_key=keys["grace"], host=address)) as grace,
    ):
        ids = ids_of(ada)
        assert WORDS in str(ada.search("What is the cat called?", user_id="ada"))
        assert len(ada.history(ids[0])) == 2
        require_no_access(grace, ids, (NotFound, PermissionRefused))
        for call in (grace.get_all, grace.delete_all, grace.reset):
            with pytest.raises(PermissionRefused):
                call(user_id="ada")
        ada.delete(ids[0])
        assert ada.get(ids[0]) is None
        ada.delete_all(user_id="ada")
        assert ada.get_all(user_id="ada") == {"results": []}


def test_a_client_reads_its_key_from_the_environment(
    server: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, keys = server
    monkeypatch.setenv("ELYTRON_API_KEY", keys["ada"])
    with MemoryClient(host=address) as client:
        client.add("I like tea.", user_id="ada", infer=False)
        assert [row["memory"] for row in client.get_all(user_id="ada")["results"]] == ["I like tea."]
        with pytest.raises(PermissionRefused):
            client.users()


async def test_a_client_without_a_key_is_told_how_to_pass_one(
    server: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEM0_API_KEY", "m0-1")
    async with AsyncMemoryClient(host=server[0]) as client:
        with pytest.raises(Unauthorized, match="ELYTRON_API_KEY, but not MEM0_API_KEY"):
            await client.search("tea", user_id="ada")
    with pytest.raises(InvalidInput, match="org_id of MemoryClient"):
        MemoryClient("m0-1", org_id="acme")
