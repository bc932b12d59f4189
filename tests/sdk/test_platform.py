"""A profile's limits apply in its runtime, and the catalog lists what can be done."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.sdk.told import believe, learn
from tests.sdk.turns import answering, request

import elytron
from elytron.ops import inspection
from elytron_core.clock import FrozenClock
from elytron_core.contracts.inspection import CapabilityPolicy
from elytron_core.errors import InvalidInput, LimitExceeded, StoreBudgetExceeded, StoreForeign, Unsupported
from elytron_core.ids import SeededIds
from elytron_core.policy.platform.profiles import EMBEDDED_SDK
from elytron_core.ports.models import PromptMessage, TextCompletion
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

ESP = "esp-embedded-sdk"


class Silent:
    """A model that exists but is never called."""

    name = "silent"

    async def complete(
        self, prompt: Sequence[PromptMessage], /, *, schema: str | None = None, max_tokens: int
    ) -> TextCompletion:
        raise AssertionError((prompt, schema, max_tokens))


async def opened(url: str | MemoryStore, profile: str | None = None) -> elytron.MemoryRuntime:
    return await elytron.open(url, space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds(), profile=profile)


async def fill(memory: elytron.MemoryRuntime) -> int:
    """Write until there is no room; return how many texts there are."""
    for number in range(1_000_000):
        try:
            await memory.add(f"text {number}")
        except StoreBudgetExceeded:
            return number
    raise AssertionError("there is always room")


async def test_an_embedded_store_respects_its_limits(tmp_path: Path) -> None:
    async with await opened("embedded:") as memory:
        count = await fill(memory)
        inspected = await memory.inspect()
        assert (inspected.sequence, inspected.documents["turns"]) == (256, count)
        assert len((await memory.recall("text 7")).hits) == 8
        assert (await memory.capabilities()).capacity == EMBEDDED_SDK
        await memory.erase(elytron.MemoryEraseRequest(whole_space="ada"))
        assert (await memory.add("again")).changed
    async with await opened(f"embedded://{tmp_path}/store") as memory:
        await memory.add("kept in a folder")
    async with await opened(f"embedded://{tmp_path}/store") as memory:
        assert [hit.text for hit in (await memory.recall("folder")).hits] == ["kept in a folder"]
        assert memory.context.engine == "embedded"


@pytest.mark.parametrize("texts", [400, 200], ids=["too much", "enough room"])
async def test_a_bootstrap_into_a_small_store_is_complete_or_absent(tmp_path: Path, texts: int) -> None:
    archive = tmp_path / "all.elytron"
    async with await opened("memory:") as memory:
        await memory.add([f"text {number}" for number in range(texts)], conversation="long")
        await memory.export(archive, include_private=True)
    async with await opened("embedded:") as memory:
        await memory.add("mine")
        if texts == 400:
            with pytest.raises(StoreBudgetExceeded):
                await memory.import_archive(archive, mode=elytron.ImportMode.BOOTSTRAP)
            assert [item.text for item in (await memory.list()).items] == ["mine"]
        else:
            done = await memory.import_archive(archive, mode=elytron.ImportMode.BOOTSTRAP)
            assert done.imported == {"turns": texts}
            assert len((await memory.list(limit=1_000)).items) == texts + 1
            assert not (await memory.import_archive(archive, mode=elytron.ImportMode.BOOTSTRAP)).changed


@pytest.mark.parametrize("url", ["file", "m.db"])
async def test_a_small_device_has_no_file_and_no_sqlite(tmp_path: Path, url: str) -> None:
    place = f"file://{tmp_path}/{url}" if url == "file" else str(tmp_path / url)
    with pytest.raises(Unsupported, match="use memory:, embedded:"):
        await opened(place, ESP)
    assert list(tmp_path.iterdir()) == []


async def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(InvalidInput):
        await opened("memory:", "toaster")


async def test_a_store_opens_with_the_profile_it_was_made_for(tmp_path: Path) -> None:
    place = str(tmp_path / "m.db")
    async with await opened(place, "desktop-macos-embedded-sdk") as memory:
        await memory.add("hello")
    with pytest.raises(StoreForeign, match="created for profile"):
        await opened(place, "server-linux-memory-gateway")
    with pytest.raises(StoreForeign, match="created for profile"):
        await opened(place, "server-linux-dev-full")
    for named in ("desktop-macos-embedded-sdk", None):
        async with await opened(place, named) as memory:
            assert (await memory.inspect()).documents["turns"] == 1
            assert (await memory.capabilities()).profile == "desktop-macos-embedded-sdk"
            with pytest.raises(LimitExceeded):
                await memory.add("x" * 3_000)


async def test_a_custom_store_is_bounded_too() -> None:
    async with await opened(MemoryStore(), ESP) as memory:
        assert await fill(memory) == 255


async def test_a_text_beyond_the_profile_is_rejected_completely() -> None:
    async with await opened("memory:", ESP) as memory:
        with pytest.raises(LimitExceeded, match="esp-embedded-sdk"):
            await memory.add("x" * 1_025)
        with pytest.raises(LimitExceeded):
            await believe(memory, "a", "x" * 1_025)
        with pytest.raises(LimitExceeded):
            await learn(memory, "a", "x" * 1_025)
        delta = elytron.CanonicalTurnDelta(turn_id="t", input_messages=(elytron.Message(text="x" * 1_025),))
        with pytest.raises(LimitExceeded):
            await memory.commit_transcript(elytron.MemoryTranscriptCommitRequest(delta=delta))
        assert not (await memory.inspect()).exists
        assert (await memory.add("x" * 1_024)).changed


async def test_a_block_does_not_exceed_the_profiles_size() -> None:
    async with await opened("memory:", ESP) as memory:
        await memory.add("The valve opens at 40 degrees.")
        report = await memory.project("valve", max_chars=100_000)
        assert (report.requested_chars, report.budget) == (100_000, 2_048)
        clip = report.limited_by[0]
        assert (clip.what, clip.reason, clip.limit, clip.dropped) == ("max_chars", "profile", 2_048, 97_952)
        assert (await memory.project("valve", max_chars=500)).limited_by == ()


async def test_a_small_runtime_holds_few_indexes_and_still_finds_in_all_spaces() -> None:
    async with elytron.open("memory:", space=None, profile="esp-embedded-sdk") as memory:
        names = [f"house {number}" for number in range(12)]
        for name in names:
            await memory.add("The valve opens at 40 degrees.", user_id=name)
        for name in names:
            assert len((await memory.search("when does the valve open?", user_id=name)).hits) == 1
        assert memory.context.folds.memory_use[0] == memory.context.profile.budget.runtimes == 8


async def test_the_catalog_lists_the_available_operations(memory: elytron.MemoryRuntime) -> None:
    found = await memory.capabilities()
    assert found.profile == elytron.ProfileName.SERVER_DEV_FULL
    assert all(part.visible for part in (found.write, found.recall, found.projection, found.inspection))
    assert found.adapter.cli.compiled
    assert not found.adapter.mqtt.compiled
    assert not found.entry.http_server.configured
    assert not found.lifecycle.maintain_full.configured
    memory.context.entries.add("http_server")
    assert (await memory.capabilities(elytron.MemoryCapabilitiesRequest())).entry.http_server.visible


async def test_a_strict_policy_hides_adapters() -> None:
    async with elytron.open("memory:", capability_policy=CapabilityPolicy.STRICT) as memory:
        found = await memory.capabilities()
        assert (found.policy, found.write.visible, found.adapter.cli.visible) == (CapabilityPolicy.STRICT, True, False)


async def test_with_a_model_there_is_full_maintenance() -> None:
    async with elytron.open("memory:", language_model=Silent()) as memory:
        assert (await memory.capabilities()).lifecycle.maintain_full.visible


async def test_a_part_is_built_in_only_where_its_extra_is_installed(
    memory: elytron.MemoryRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = await memory.capabilities()
    assert all((everything.adapter.mcp.compiled, everything.validation.proposal_preview.visible))

    def without(package: str) -> bool:
        return package not in {"mcp", "a2a"}

    monkeypatch.setattr(inspection, "_is_built_in", without)
    found = await memory.capabilities()
    assert (found.adapter.mcp.compiled, found.adapter.a2a.visible, found.adapter.http.compiled) == (False, False, True)


async def test_maintenance_respects_the_profiles_prompt_limit() -> None:
    model = answering(otherwise='{"items":[]}')
    said = "I live in Lisbon. " * 55
    async with elytron.open("memory:", space="ada", profile=ESP, language_model=model) as memory:
        for number in range(4):
            await memory.finalize_turn_and_maintain(request(f"t{number}", said, said))
        await memory.run_jobs()
        budget = (await memory.capabilities()).budget.maintenance_chars
    turns = [prompt[1].text.partition("## The turn to read")[2].partition("\n")[2] for prompt in model.prompts]
    assert any(len(turn) > 900 for turn in turns)
    assert max(map(len, turns)) <= budget + len("[assistant] ") + len("[user] ") + 1


async def test_inspection_reports_the_available_operations() -> None:
    async with await opened("memory:") as memory:
        assert (await memory.inspect()).capabilities == await memory.capabilities()


def test_host_mode_types_are_public() -> None:
    asked = elytron.MemoryRecoverRequest(mode_input=elytron.ModeInput(safe_mode=True))
    assert asked.mode_input == elytron.ModeInput(safe_mode=True)
    room = elytron.HostRoom(free_bytes=2_000, floor_bytes=1_000)
    assert elytron.MemoryProjectionRequest(query="tea", host_room=room).host_room == room
