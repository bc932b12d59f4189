"""Who gets memory, when it is off, and how failures are handled (rows G23 to G29, G32)."""

import hashlib
import hmac
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.agent.hooks.turns import asked, said, told, values
from tests.agent.places import AT, EVERYWHERE

import elytron
from elytron.api import MemoryFace
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_agent import HookMetrics, HookSettings, HookState, TurnCode, TurnHooks, TurnInvalid
from elytron_agent.hooks.session import SessionHash, session_of, space_of
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import InvalidInput, PayloadTooLarge, StoreClosed, Unsupported
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_http_shell import create_app
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

SECRET = b"of this installation"


class FullStore(MemoryStore):
    """A store that refuses a number of batches as too large."""

    refusals = 0

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if self.refusals and any(put.ref.collection == "turns" for put in batch.puts):
            self.refusals -= 1
            raise PayloadTooLarge(limit=1)
        return await super().commit(batch)


def test_g23_a_session_derives_from_a_credential_and_reveals_nothing() -> None:
    name = session_of("sk-ada", secret=SECRET)
    assert name == session_of("sk-ada", secret=SECRET)
    assert name == f"ak-{hmac.digest(SECRET, b'sk-ada', 'sha256')[:16].hex()}"
    assert len({name, session_of("sk-eve", secret=SECRET), session_of("sk-ada", secret=b"other")}) == 3
    plain = session_of("sk-ada", secret=b"", by=SessionHash.SHA256)
    assert plain == f"ak-{hashlib.sha256(b'sk-ada').digest()[:16].hex()}"
    for credential, secret in (("", SECRET), ("sk-ada", b"")):
        with pytest.raises(InvalidInput) as refused:
            session_of(credential, secret=secret)
        assert "sk-ada" not in str(refused.value)


def test_g23_sessions_of_two_projects_are_isolated() -> None:
    pairs = [("a", "b"), ("a.b", "c"), ("a", "b.c"), ("p" * 128, "s" * 128), ("p" * 128, "s" * 127 + "t")]
    assert len({space_of(project, name) for project, name in pairs}) == len(pairs)
    assert all(len(space_of(project, name)) <= 200 for project, name in pairs)


async def test_g23_two_credentials_share_nothing(memory: MemoryFace, clock: FrozenClock) -> None:
    hooks = TurnHooks(memory, session_secret=SECRET, clock=clock)
    await told(hooks, "My name is Ada.", credential="sk-ada")
    assert values(await asked(hooks, "Who am I?", credential="sk-ada")) == {"name": "Ada"}
    for named in ({"credential": "sk-eve"}, {"session_id": "ak-ada"}, {}):
        report = await asked(hooks, "Who am I?", **named)
        assert (report.state, len(report.messages)) == (HookState.EMPTY, 1)
    assert values(await asked(hooks, "Who am I?", session_id=hooks.session_of("sk-ada"))) == {"name": "Ada"}


async def test_g23_a_memory_without_a_space_needs_a_session() -> None:
    async with elytron.open("memory:", space=None) as memory:
        hooks = TurnHooks(memory)
        with pytest.raises(TurnInvalid) as refused:
            await asked(hooks, "hello")
        assert refused.value.code is TurnCode.SESSION_ID_REQUIRED
        assert (await asked(hooks, "hello", session_id="s")).state is HookState.EMPTY


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (None, HookState.APPLIED),
        ({}, HookState.APPLIED),
        ({"laisky_extra": {"chat_switch": {}}}, HookState.APPLIED),
        ({"laisky_extra": {"chat_switch": {"enable_memory": True}}}, HookState.APPLIED),
        ({"laisky_extra": {"chat_switch": {"enable_memory": False}}}, HookState.OFF),
    ],
)
async def test_g24_a_request_switches_memory_off(hooks: TurnHooks, body: Any, state: HookState) -> None:
    await told(hooks, "My name is Ada.")
    report = await told(hooks, "I like tea.", body=body)
    assert report.state is state
    assert (await asked(hooks, "Who am I?", body=body)).state is state
    assert ("like" in values(await asked(hooks, "Who am I?"))) is (state is HookState.APPLIED)


async def test_g25_settings_switch_memory_off(memory: MemoryFace) -> None:
    hooks = TurnHooks(memory, settings={"openai": {"enable_memory": False, "token": "other"}})
    assert (await told(hooks, "My name is Ada.")).state is HookState.OFF
    assert (await asked(hooks, "Who am I?")).messages == [said("user", "Who am I?")]
    assert hooks.metrics() == HookMetrics()


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"memory_storage": "mcp"}, "memory_storage_mcp_url"),
        ({"memory_project": " "}, "project"),
        ({"memory_llm_timeout_seconds": 0}, "memory_llm_timeout_seconds"),
        ({"openai": {"memory_llm_max_output_tokens": 0}}, "memory_llm_max_output_tokens"),
        ({"openai": {"memory_modell": "x"}}, "memory_modell"),
        ({"openai": "x"}, "openai"),
        ({"compact_threshold": 1}, "compact_threshold"),
    ],
)
def test_g25_invalid_settings_are_rejected_by_name(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        HookSettings.read(config)
    assert field in str(refused.value)


def test_g25_settings_have_the_specified_names_and_defaults() -> None:
    assert HookSettings.read({"openai": {"token": "x", "memory_project": "p", "enable_memory": True}}) == HookSettings(
        memory_project="p"
    )
    settings = HookSettings()
    assert (settings.memory_project, settings.memory_llm_timeout_seconds, settings.memory_llm_max_output_tokens) == (
        "gptchat",
        12,
        800,
    )
    assert (settings.recent_items, settings.recall_facts, settings.search_hits) == (30, 20, 5)
    assert (settings.compact_threshold, settings.l1_days, settings.l2_days) == (0.8, 1, 7)
    assert HookSettings(enable_memory=False, memory_storage="mcp").memory_storage == "mcp"  # pyright: ignore[reportArgumentType]


async def test_g25_a_memory_is_either_passed_in_or_opened_on_a_file_server() -> None:
    section: dict[str, dict[str, Any]] = {
        "openai": {"memory_storage": "mcp", "memory_storage_mcp_url": "https://files.example/mcp"}
    }
    async with elytron.open("memory:", space="ada") as memory:
        with pytest.raises(InvalidInput):
            TurnHooks(memory, settings=section)
        with pytest.raises(InvalidInput):
            TurnHooks()
        section["openai"]["enable_memory"] = False
        assert (await told(TurnHooks(memory, settings=section), "hello")).state is HookState.OFF
        off = TurnHooks(settings=section)
        assert (await told(off, "hello", session_id="s")).state is HookState.OFF
        with pytest.raises(Unsupported):
            await off.insights(session_id="s")


@pytest.mark.parametrize(
    "url", ["http://files.example/mcp", "ftp://files.example", "https://key@files.example/mcp", "files.example"]
)
def test_g25_a_file_server_address_that_leaks_a_key_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        HookSettings.read({"memory_storage": "mcp", "memory_storage_mcp_url": url})
    assert "memory_storage_mcp_url" in str(refused.value)


def test_g25_file_server_files_belong_to_the_project() -> None:
    settings = HookSettings.read({"memory_storage": "mcp", "memory_storage_mcp_url": "https://files.example/mcp"})
    assert settings.storage_url == "mcp+https://files.example/mcp?project=gptchat"
    known = HookSettings.read({"memory_storage": "mcp", "memory_storage_mcp_url": "mcp+https://a.example/m?project=b"})
    assert known.storage_url == "mcp+https://a.example/m?project=b"


@EVERYWHERE
async def test_g26_an_empty_session_is_not_a_failure(hooks: TurnHooks) -> None:
    report = await asked(hooks, "hello", session_id="never-seen", conversation="new")
    assert (report.state, report.failure) == (HookState.EMPTY, "")
    assert hooks.metrics().memory_before_turn_fail_total == 0
    assert await hooks.insights(session_id="never-seen") == ()
    assert await hooks.delete_fact("user_name", session_id="never-seen") == 0


@pytest.fixture
async def full() -> AsyncIterator[tuple[FullStore, TurnHooks]]:
    store, clock = FullStore(), FrozenClock(AT, step_ms=1)
    async with elytron.open(store, space="ada", clock=clock) as memory:
        yield store, TurnHooks(memory, clock=clock)


@pytest.mark.parametrize(
    ("refusals", "state", "recovered"), [(1, HookState.APPLIED, True), (2, HookState.FAILED, False)]
)
async def test_g27_an_oversized_turn_is_retried_once_after_maintenance(
    full: tuple[FullStore, TurnHooks], refusals: int, state: HookState, recovered: bool
) -> None:
    store, hooks = full
    store.refusals = refusals
    report = await told(hooks, "My name is Ada.")
    assert (report.state, report.recovered, store.refusals) == (state, recovered, 0)
    metrics = hooks.metrics()
    counted = (metrics.memory_maintenance_recovery_total, metrics.memory_maintenance_recovery_fail_total)
    assert counted == (int(recovered), int(not recovered))


async def test_g28_a_failure_of_memory_never_fails_a_turn(
    hooks: TurnHooks, memory: MemoryFace, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.close()
    with caplog.at_level(logging.WARNING, logger="elytron.hooks"):
        async with hooks.turn("My name is Ada Secret.") as turn:
            assert turn.messages == [said("user", "My name is Ada Secret.")]
            turn.answered("Hello")
    assert turn.after is not None
    assert (turn.before.state, turn.after.state) == (HookState.FAILED, HookState.FAILED)
    metrics = hooks.metrics()
    assert (metrics.memory_before_turn_fail_total, metrics.memory_after_turn_fail_total) == (1, 1)
    assert [record.__dict__["error_key"] for record in caplog.records] == [turn.before.failure, turn.after.failure]
    assert "Secret" not in caplog.text


async def test_g28_a_setting_raises_failures() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        hooks = TurnHooks(memory, settings={"on_failure": "raise"})
    with pytest.raises(StoreClosed):
        await asked(hooks, "hello")
    assert hooks.metrics().memory_before_turn_fail_total == 1


class Steps:
    """A clock that returns these times in turn, then repeats the last one."""

    def __init__(self, *moments: int) -> None:
        self._moments = list(moments)

    def now(self) -> Instant:
        return Instant(AT + (self._moments.pop(0) if len(self._moments) > 1 else self._moments[0]))


@pytest.mark.parametrize(
    ("ms", "bucket"),
    [(0, "0-9"), (9, "0-9"), (10, "10-49"), (50, "50-99"), (100, "100-299"), (300, "300-999"), (1000, "1000+")],
)
async def test_g29_latencies_use_the_specified_buckets(ms: int, bucket: str) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        hooks = TurnHooks(memory, clock=Steps(0, 0, ms))  # at the start, when facts are evaluated, at the end
        await asked(hooks, "hello")
    latency = hooks.metrics().memory_before_latency_ms
    assert {name: count for name, count in latency.buckets.items() if count} == {bucket: 1}
    assert (latency.sum_ms, latency.last_ms, latency.count) == (ms, ms, 1)


async def test_g29_seven_metrics_have_the_specified_names(hooks: TurnHooks) -> None:
    await told(hooks, "My name is Ada.")
    await asked(hooks, "Who am I?")
    shown = hooks.metrics().model_dump(mode="json")
    assert [name for name in shown if "recovery" not in name] == [
        "memory_before_turn_total",
        "memory_before_turn_fail_total",
        "memory_after_turn_total",
        "memory_after_turn_fail_total",
        "memory_recall_fact_count",
        "memory_before_latency_ms",
        "memory_after_latency_ms",
    ]
    assert (shown["memory_before_turn_total"], shown["memory_after_turn_total"]) == (2, 1)
    assert shown["memory_recall_fact_count"] == 1
    assert list(shown["memory_after_latency_ms"]["buckets"]) == ["0-9", "10-49", "50-99", "100-299", "300-999", "1000+"]


async def test_g29_a_server_exposes_the_metrics() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        hooks = TurnHooks(memory, clock=Steps(0, 0, 12))
        await told(hooks, "My name is Ada.")
        app = create_app(memory, authenticator=DevelopmentCallers(), figures=(hooks.figures,))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            shown = (await client.get("/metrics")).text.splitlines()
    assert "memory_before_turn_total 1.0" in shown
    assert "memory_after_turn_fail_total 0.0" in shown
    assert "memory_recall_fact_count 0.0" in shown
    latencies = [line for line in shown if line.startswith("memory_before_latency_ms_")]
    assert latencies == [
        'memory_before_latency_ms_bucket{le="9"} 0.0',
        'memory_before_latency_ms_bucket{le="49"} 1.0',
        'memory_before_latency_ms_bucket{le="99"} 1.0',
        'memory_before_latency_ms_bucket{le="299"} 1.0',
        'memory_before_latency_ms_bucket{le="999"} 1.0',
        'memory_before_latency_ms_bucket{le="+Inf"} 1.0',
        "memory_before_latency_ms_count 1.0",
        "memory_before_latency_ms_sum 12.0",
    ]


async def test_g32_callers_who_are_not_admitted_get_no_memory(memory: MemoryFace, clock: FrozenClock) -> None:
    hooks = TurnHooks(memory, admits=lambda user: user != "free-rider", clock=clock)
    await told(hooks, "My name is Ada.", user_id="ada")
    assert (await told(hooks, "I like tea.", user_id="free-rider")).state is HookState.BLOCKED
    blocked = await asked(hooks, "Who am I?", user_id="free-rider")
    assert (blocked.state, blocked.messages) == (HookState.BLOCKED, [said("user", "Who am I?")])
    assert values(await asked(hooks, "Who am I?", user_id="ada")) == {"name": "Ada"}


async def test_a_configured_model_is_opened_and_closed(tmp_path: Path) -> None:
    async with (
        elytron.open(str(tmp_path / "memory.db"), space="ada") as memory,
        TurnHooks(memory, settings={"memory_model": "ollama:llama3.2@http://127.0.0.1:9"}) as hooks,
    ):
        assert (await told(hooks, "My name is Ada.")).facts != ()
