"""The service over Postgres and over sealed stores: two servers, a restart, schedules, erasures, and another user."""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from openai import NotFoundError
from tests.agent.service.responses.clients import client_of
from tests.agent.service.served import AT, ServedUser, echo, said, served
from tests.agent.service.test_schedules import POLL, at, made, texts, until_over
from tests.models.fake_server import Asked, Sent
from tests.store.postgres_server import PostgresServer

from elytron_agent.limits import LEASE_SECONDS
from elytron_core.clock import FrozenClock
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio
KEYS = LocalKeys({"k": bytes(range(32))}, current="k")
WORDS = "The safe is behind the blue picture"


class OtherStore(NamedTuple):
    """A store that several servers open."""

    url: str
    keys: LocalKeys | None
    folder: Path | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {"store": self.url, "keys": self.keys}


@pytest.fixture(params=["postgres", "sealed"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> OtherStore:
    """Return an empty store: one over Postgres, one whose file is sealed."""
    if request.param == "sealed":
        return OtherStore(f"sqlite:///{tmp_path}/m.db", KEYS, tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres")
    return OtherStore(f"{server.make_database()}?sealed=no", None)


async def test_two_servers_show_one_thread_and_run_each_time_once(other: OtherStore) -> None:
    clock = FrozenClock(AT, step_ms=1)
    async with (
        served(clock=clock, **other.options, **POLL) as one,
        served(clock=clock, **other.options, **POLL) as two,
    ):
        ada, bob = await one.user("ada"), await one.user("bob")
        elsewhere = ServedUser(two.client, ada.key)
        inits = await asyncio.gather(*(user.made("POST", "/init") for user in (ada, elsewhere) * 4))
        await bob.made("POST", "/init")
        async with elsewhere.stream("GET", "/events") as events:
            chat = await ada.chat(WORDS)
            heard = [await anext(events) for _ in chat]
        schedules = [(user, await made(user, at(60), f"task {n}")) for user in (ada, bob) for n in range(3)]
        clock.advance(3_600_000)
        ended = [await until_over(user, schedule) for user, schedule in schedules]
        threads = [await texts(user) for user in (ada, elsewhere, bob)]
    assert len({each["id"] for each in inits}) == 1
    assert [(event.kind, event.id) for event in heard] == [(event.kind, event.id) for event in chat]
    assert [(each["completed"], each["failed"], each["expired"]) for each in ended] == [(1, 0, 0)] * 6
    assert len(one.model.asked) + len(two.model.asked) == 7
    assert threads[0] == threads[1]
    assert (WORDS in str(threads[0]), WORDS in str(threads[2])) == (True, False)
    if other.folder is not None:
        assert all(WORDS.encode() not in file.read_bytes() for file in other.folder.iterdir() if file.is_file())


async def test_a_turn_and_a_response_continue_after_a_restart_and_an_erasure_removes_both(other: OtherStore) -> None:
    def later(asked: Asked) -> Sent:
        return said("I am back.") if "Are you there?" in str(asked.body["messages"][-1]) else echo(asked)

    clock = FrozenClock(AT, step_ms=1)
    async with served(clock=clock, **other.options) as first, client_of(first.url, "x") as openai:
        ada = await first.user("ada")
        await ada.made("POST", "/init")
        openai.api_key = ada.key
        kept = await openai.responses.create(model="scripted", input=WORDS)
        first.model.gate = asyncio.Event()
        made_later = await openai.responses.create(model="scripted", input="Slowly", background=True)
        async with ada.stream("POST", "/chat", {"input": "Are you there?"}) as events:
            begun = await anext(events)
            while len(first.model.asked) < 3:
                await asyncio.sleep(0)
    clock.advance(round(LEASE_SECONDS * 1000) + 1)
    async with served(later, clock=clock, **other.options) as second, client_of(second.url, ada.key) as openai:
        again = ServedUser(second.client, ada.key)
        while len(items := await texts(again)) < 2:
            await asyncio.sleep(0.01)
        while (shown := await openai.responses.retrieve(made_later.id)).status != "completed":
            await asyncio.sleep(0.01)
        followed = await openai.responses.create(model="scripted", input="And?", previous_response_id=kept.id)
        asked = str(second.model.asked[-1].body)
        await openai.responses.delete(kept.id)
        with pytest.raises(NotFoundError):
            await openai.responses.create(model="scripted", input="And?", previous_response_id=kept.id)
        gone = await again.made("DELETE", "")
        after = await again.call("GET", "")
        left = (await second.memory.list(user_id="ada")).items
    assert (begun.kind, items) == ("agent.typing", [("user", "Are you there?"), ("assistant", "I am back.")])
    assert (shown.output_text, followed.output_text) == ("You said: Slowly", "You said: And?")
    assert WORDS in asked
    assert (gone["memories"] > 0, after.status_code) == (True, 404)
    assert "Are you there?" not in str(left)
