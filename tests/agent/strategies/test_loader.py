"""Strategy configuration (B1-B6, B20): selection, options, and errors in a section."""

import json
from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron.api import MemoryFace
from elytron_agent import (
    CallKey,
    CuratedStrategy,
    GatewayPlace,
    GatewayStrategy,
    RunEvent,
    RuntimeStrategy,
    StrategyMode,
    load_strategy,
    strategy_of,
)
from elytron_core.errors import InvalidInput, UnreadableFile

pytestmark = pytest.mark.anyio

KEY = "uk_4f1c"
GATEWAY: dict[str, Any] = {
    "baseUrl": "http://127.0.0.1:9",
    "userId": "gateway_test_user",
    "userKey": KEY,
    "appId": "default",
    "projectId": "default",
    "scope": ["current_chat", "resources"],
    "topK": 8,
    "timeoutSeconds": 10,
}
"""The specification's example, except for the port."""


def written(folder: Path, configuration: object, *, name: str = "config.json") -> Path:
    path = folder / ".beaver" / name
    path.parent.mkdir(exist_ok=True)
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("configuration", [{}, {"providers": {"x": 1}}, {"memory": {}}, {"memory": {"gateway": {}}}])
async def test_without_a_mode_memory_is_curated(memory: MemoryFace, tmp_path: Path, configuration: object) -> None:
    loaded = load_strategy(written(tmp_path, configuration), memory)
    assert loaded.mode is StrategyMode.CURATED
    async with loaded as strategy:
        assert isinstance(strategy, CuratedStrategy)
        run = await strategy.before_run("c", "Hello.")
        assert [tool.name for tool in run.tools] == ["memory", "session_search"]


async def test_a_gateway_section_is_read_unchanged(memory: MemoryFace, tmp_path: Path) -> None:
    path = written(tmp_path, {"memory": {"mode": "memory_gateway", "gateway": GATEWAY}, "other": []})
    events: list[RunEvent] = []

    async def tell(_conversation: str, event: RunEvent, /) -> None:
        events.append(event)

    loaded = load_strategy(path, memory, tell=tell)
    assert loaded.mode is StrategyMode.MEMORY_GATEWAY
    async with loaded as strategy:
        assert isinstance(strategy, GatewayStrategy)
        run = await strategy.before_run("c", "Hello.")
        assert [tool.name for tool in run.tools] == ["session_search"]
    assert [event.failure for event in events] == ["connection"]
    assert KEY not in repr(loaded) + repr(strategy) + repr(events)


async def test_a_runtime_offers_the_block_tools_instead_of_the_memory_tool(memory: MemoryFace, tmp_path: Path) -> None:
    path = written(tmp_path, {"memory": {"mode": "runtime", "runtime": {"maxChars": 2000, "toolNames": "letta"}}})
    async with load_strategy(path, memory) as strategy:
        assert isinstance(strategy, RuntimeStrategy)
        names = [tool.name for tool in (await strategy.before_run("c", "Hello.")).tools]
    assert "memory" not in names
    assert {"memory_replace", "core_memory_append", "conversation_search", "session_search"} <= set(names)


@pytest.mark.parametrize("spelling", ["camel", "snake", "toml"])
async def test_both_spellings_of_names_and_toml_are_accepted(tmp_path: Path, spelling: str) -> None:
    snake: dict[str, Any] = {
        "base_url": "http://127.0.0.1:9",
        "user_id": "u",
        "user_key": KEY,
        "scope": ["all_user_memory"],
        "top_k": 3,
        "timeout_seconds": 2.5,
    }
    gateway = {"baseUrl": "http://127.0.0.1:9", "userId": "u", "userKey": KEY, "scope": ["all_user_memory"]}
    match spelling:
        case "camel":
            section = {"mode": "memory_gateway", "gateway": gateway | {"topK": 3, "timeoutSeconds": 2.5}}
            path = written(tmp_path, {"memory": section})
        case "snake":
            path = written(tmp_path, {"memory": {"mode": "memory_gateway", "gateway": snake}})
        case _:
            lines = [f"{name} = {json.dumps(value)}" for name, value in snake.items()]
            text = "\n".join(('[memory]\nmode = "memory_gateway"\n[memory.gateway]', *lines))
            path = written(tmp_path, text, name="config.toml")
    async with elytron.open("memory:") as memory, load_strategy(path, memory) as strategy:
        assert isinstance(strategy, GatewayStrategy)
        assert strategy.place == GatewayPlace(**snake)
        assert strategy.place.assistant_id == "beaver"


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"mode": "graph"}, "memory.mode"),
        ({"mode": 3}, "memory.mode"),
        ({"mood": "curated"}, "memory.mood"),
        ([], "memory"),
        ({"mode": "memory_gateway"}, "memory.gateway.baseUrl"),
        *(({"mode": "memory_gateway", "gateway": GATEWAY | {name: ""}}, f"memory.gateway.{name}")
          for name in ("baseUrl", "userId", "userKey")),
        *(({"mode": "memory_gateway", "gateway": GATEWAY | {name: value}}, f"memory.gateway.{name}")
          for name, value in (
              ("scope", []), ("scope", ["everything"]), ("scope", "resources"), ("topK", 0), ("topK", 101),
              ("topK", "8"), ("timeoutSeconds", 0), ("timeoutSeconds", -1), ("baseUrl", "http://x:99999"),
              ("userKey", ["uk_4f1c"]), ("surprise", KEY),
          )),
        ({"curated": {"memoryCharLimit": 0}}, "memory.curated.memoryCharLimit"),
        ({"curated": {"memoryCharLimit": True}}, "memory.curated.memoryCharLimit"),
        ({"mode": "runtime", "runtime": {"maxChars": -1}}, "memory.runtime.maxChars"),
        ({"mode": "runtime", "runtime": {"timeoutSeconds": 0}}, "memory.runtime.timeoutSeconds"),
    ],
)  # fmt: skip
def test_errors_name_the_field_without_showing_the_key(tmp_path: Path, section: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        strategy_of({"memory": section}, folder=tmp_path)
    assert refused.value.field.startswith(field)
    assert KEY not in refused.value.message + str(refused.value.__cause__) + str(refused.value.details())


@pytest.mark.parametrize("missing", ["baseUrl", "userId", "userKey"])
def test_a_gateway_needs_an_address_a_user_and_a_key(tmp_path: Path, missing: str) -> None:
    section = {name: value for name, value in GATEWAY.items() if name != missing}
    with pytest.raises(InvalidInput, match=f"memory.gateway.{missing}"):
        strategy_of({"memory": {"mode": "memory_gateway", "gateway": section}}, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", f'{{"memory": {{"userKey": "{KEY}",}}}}'),
        ("config.json", "[]"),
        ("config.toml", f'userKey = "{KEY}'),
    ],
)
def test_an_unreadable_file_is_reported_without_its_content(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(UnreadableFile) as refused:
        load_strategy(written(tmp_path, text, name=name))
    assert KEY not in refused.value.message
    with pytest.raises(UnreadableFile, match="does not exist"):
        load_strategy(tmp_path / "absent.json")


async def test_without_a_memory_the_strategy_opens_one_next_to_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, {"memory": {"curated": {"directory": "memories", "memoryCharLimit": 40}}})
    async with load_strategy(path) as strategy:
        (tool, _) = (await strategy.before_run("c", "Hello.")).tools
        answer = await tool.call({"action": "add", "content": "Written."}, CallKey("r", 1, "c"))
        assert "8/40 characters" in answer.text
    assert (path.parent / "memory.db").is_file()
    assert (path.parent / "memories" / "MEMORY.md").read_text("utf-8") == "Written."
    named = written(tmp_path, {"memory": {"store": "memory:", "space": "ada"}})
    async with load_strategy(named) as strategy:
        assert (await strategy.before_run("c", "Hello.")).system == ""
