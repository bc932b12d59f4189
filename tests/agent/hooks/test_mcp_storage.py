"""Hooks whose memory is on an MCP file server: one per credential, over real HTTP."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agent.hooks.turns import asked, told, values
from tests.agent.places import AT
from tests.store.mcp_file_server import Fault, FileServer, Serving, serving

from elytron_agent import TurnCode, TurnHooks, TurnInvalid
from elytron_agent.hooks.contract import HookState
from elytron_core.clock import FrozenClock
from elytron_core.errors import Unsupported

pytestmark = pytest.mark.anyio

SECRET = b"of this installation"
KEYS = {"sk-of-ada": "ada", "sk-of-bob": "bob"}


@pytest.fixture
def files(tmp_path: Path) -> FileServer:
    return FileServer(tmp_path)


@asynccontextmanager
async def hooked(server: Serving, clock: FrozenClock | None = None, **settings: Any) -> AsyncGenerator[TurnHooks]:
    section = {"memory_storage": "mcp", "memory_storage_mcp_url": server.url, **settings}
    async with TurnHooks(settings=section, session_secret=SECRET, clock=clock or FrozenClock(AT)) as hooks:
        yield hooks


def openings(files: FileServer) -> int:
    """Return how often a store was opened on the server."""
    return sum(arguments["path"] == "/elytron/manifest.json" for tool, arguments in files.calls if tool == "file_read")


async def test_g20_each_request_opens_memory_with_its_own_credential(files: FileServer) -> None:
    async with serving(files, keys=KEYS) as server:
        async with hooked(server) as hooks:
            await told(hooks, "My name is Ada.", credential="sk-of-ada")
            await told(hooks, "My name is Bob.", credential="sk-of-bob")
        async with hooked(server) as hooks:
            assert values(await asked(hooks, "Who am I?", credential="sk-of-ada"))["name"] == "Ada"
            assert values(await asked(hooks, "Who am I?", credential="sk-of-bob"))["name"] == "Bob"
            assert len(await hooks.insights(session_id=hooks.session_of("sk-of-ada"), credential="sk-of-ada")) == 0
            assert await hooks.delete_fact(
                "user_name", session_id=hooks.session_of("sk-of-ada"), credential="sk-of-ada"
            )
            assert "name" not in values(await asked(hooks, "Who am I?", credential="sk-of-ada"))
            await hooks.maintain(session_id=hooks.session_of("sk-of-bob"), credential="sk-of-bob")
            async with hooks.memory_of("sk-of-bob") as memory:
                tree = TurnHooks(memory, clock=FrozenClock(AT)).tree(session_id=hooks.session_of("sk-of-bob"))
                assert len((await tree.list("/events", depth=2)).entries) == 2
            with pytest.raises(Unsupported):
                hooks.tree(session_id="any")
    assert {path.name for path in files.root.iterdir()} == {"ada", "bob"}
    assert all((path / "gptchat" / "elytron").is_dir() for path in files.root.iterdir())
    assert not [path for path in files.root.rglob("*") if path.is_file() and "sk-of" in path.read_text()]


async def test_g21_each_credential_has_its_own_client(files: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_agent.hooks.credential_memories.CREDENTIALS_HELD", 1)
    async with serving(files, keys=KEYS) as server, hooked(server) as hooks:
        await asyncio.gather(*(told(hooks, f"I like tea {number}.", credential="sk-of-ada") for number in range(3)))
        await told(hooks, "I prefer tea.", credential="sk-of-ada")
        assert openings(files) == 1
        assert "sk-of-ada" not in repr(vars(hooks)) + repr(vars(hooks._memories))  # pyright: ignore  # noqa: PGH003
        await told(hooks, "I like milk.", credential="sk-of-bob")
        assert openings(files) == 2
        await told(hooks, "I like bread.", credential="sk-of-ada")
        assert openings(files) == 3


async def test_a_turn_waits_for_a_closing_memory_and_reopens_it(
    files: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_agent.hooks.credential_memories.CREDENTIALS_HELD", 0)
    async with serving(files, keys=KEYS) as server, hooked(server) as hooks:

        async def some_turns(count: int) -> set[str]:
            return {(await told(hooks, "I like tea.", credential="sk-of-ada")).failure for _ in range(count)}

        assert set().union(*await asyncio.gather(*(some_turns(count) for count in (3, 4, 5)))) == {""}


async def test_two_processes_take_turns_with_one_credential(files: FileServer) -> None:
    clock = FrozenClock(AT)
    async with serving(files, keys=KEYS) as server, hooked(server, clock) as one, hooked(server, clock) as other:
        await told(one, "My name is Ada.", credential="sk-of-ada")
        assert (await asked(other, "Who am I?", credential="sk-of-ada")).failure == "store_busy"
        clock.advance(120_000)
        assert values(await asked(other, "Who am I?", credential="sk-of-ada"))["name"] == "Ada"
        await told(other, "I prefer tea.", credential="sk-of-ada")
        clock.advance(120_000)
        assert set(values(await asked(one, "Who am I?", credential="sk-of-ada"))) == {"name", "preference"}


async def test_g28_a_wrong_credential_fails_no_turn_and_is_not_disclosed(
    files: FileServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(files, keys=KEYS) as server, hooked(server) as hooks:
        with caplog.at_level(logging.DEBUG):
            before = await asked(hooks, "Who am I?", credential="sk-top-secret")
            after = await told(hooks, "My name is Eve.", credential="sk-top-secret")
        assert (before.state, before.failure) == (HookState.FAILED, "unauthorized")
        assert before.messages == [{"role": "user", "content": "Who am I?"}]
        assert (after.state, after.failure) == (HookState.FAILED, "unauthorized")
        assert "sk-top-secret" not in caplog.text
        await told(hooks, "My name is Ada.", credential="sk-of-ada")
        assert hooks.metrics().memory_after_turn_fail_total == 1


async def test_g28_a_hanging_server_delays_no_turn(files: FileServer) -> None:
    async with serving(files, keys=KEYS) as server, hooked(server, recall_timeout_seconds=2) as hooks:
        files.faults = [Fault("file_read", hang=True)]
        before = await asked(hooks, "Who am I?", credential="sk-of-ada")
        assert (before.state, before.failure) == (HookState.FAILED, "timeout")
        assert (await told(hooks, "My name is Ada.", credential="sk-of-ada")).state is HookState.APPLIED


async def test_g27_a_full_file_is_recovered_once(files: FileServer) -> None:
    async with serving(files, keys=KEYS) as server, hooked(server) as hooks:
        await told(hooks, "My name is Ada.", credential="sk-of-ada")
        files.faults = [Fault("file_write", "PAYLOAD_TOO_LARGE", path_part="/spaces/")]
        after = await told(hooks, "I prefer tea.", credential="sk-of-ada")
        assert after.state is HookState.APPLIED
        assert after.recovered


async def test_without_a_credential_no_memory_is_opened(files: FileServer) -> None:
    async with serving(files, keys=KEYS) as server, hooked(server) as hooks:
        with pytest.raises(TurnInvalid) as refused:
            await asked(hooks, "Who am I?", session_id="some")
        assert refused.value.code is TurnCode.CREDENTIAL_REQUIRED
        with pytest.raises(TurnInvalid):
            await hooks.insights(session_id="some")
