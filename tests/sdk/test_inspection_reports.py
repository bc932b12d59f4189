"""One inspection reports, through public calls, a runtime's abilities, current mode, skills, and tools."""

from pathlib import Path
from random import Random

import pytest
from tests.core.policy.tools.test_experience import HOST, feedback, seen
from tests.sdk.encoders import WordEmbedder
from tests.sdk.test_skill_directories import put
from tests.sdk.told import learn

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio

STEPS = "Open the valve by a quarter turn, wait ten minutes, then look at the gauge and note what it shows."


async def test_an_inspection_reports_capabilities_lifecycle_skills_and_tools(tmp_path: Path) -> None:
    put(tmp_path / "skills", "pdf", scripts__fill="x")
    opening = elytron.open(
        "memory:",
        space="ada",
        clock=FrozenClock(step_ms=1),
        ids=SeededIds(),
        agent_skill_dirs=[tmp_path / "skills"],
        agent_tool_registries=[HOST],
    )
    async with opening as memory:
        await memory.add("The boiler was bled in May.")
        await learn(memory, "bleed_the_boiler", STEPS)
        given = elytron.AgentToolUsageFeedbackWrite(feedback=feedback(seen(), seen()))
        await memory.write(elytron.MemoryWriteRequest(write=given))
        request = elytron.MemoryInspectionRequest.model_validate({
            "query": "boiler", "system_max_len": 900, "pressure": "cautious", "mode_input": {"safe_mode": True},
        })  # fmt: skip
        report = await memory.inspect(request)
    assert report.capabilities is not None
    assert (report.capabilities.write.visible, report.capabilities.recall.visible) == (True, True)
    admitted = {one.action.value: one.admitted for one in report.lifecycle}
    assert sorted(admitted) == sorted(
        ["write", "recall", "project", "maintain", "inspect", "export", "import", "recover", "close"]
    )
    assert (admitted["inspect"], admitted["maintain"]) == (True, False)
    assert all(one.reason for one in report.lifecycle if not one.admitted)
    assert (report.runtime_skills.total, report.runtime_skills.recallable) == (1, 1)
    assert [(skill.name, report.agent_skills.resources) for skill in report.agent_skills.skills] == [("pdf", 1)]
    assert (report.agent_tools.registries, report.agent_tools.tools, report.agent_tools.governed_experiences) == (
        1,
        2,
        1,
    )
    assert report.projection is not None
    assert len(report.projection.system_memory_block) <= 900


READ_WHOLE = {"state_fingerprint", "event_fingerprint", "head"}


async def lead_a_life(memory: elytron.MemoryRuntime, random: Random, steps: int) -> None:
    """Write, correct, forget, erase, embed and compact at random."""
    for number in range(steps):
        match random.randrange(8):
            case 0 | 1:
                await memory.add([f"note {number} a", f"note {number} b"], conversation=f"c{random.randrange(3)}")
            case 2:
                await memory.add_fact(f"topic {random.randrange(3)}", f"value {number}")
            case 3:
                await memory.put_record(("notes",), f"key {random.randrange(2)}", {"number": number})
            case 4:
                listed = await memory.list(limit=100)
                await memory.erase([hit.id for hit in listed.items if random.random() < 0.2] or ["nobody"])
            case 5:
                listed = await memory.list(limit=100)
                await memory.forget([hit.id for hit in listed.items][:1] or ["nobody"])
            case 6:
                await memory.embed()
            case _:
                await memory.compact_journal()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("engine", ["memory:", "file:{}/files", "sqlite:{}/m.db", "sqlite:{}/sealed.db"])
async def test_counts_match_a_full_read_of_the_space(engine: str, seed: int, tmp_path: Path) -> None:
    random, keys = Random(seed), LocalKeys({"k": b"0" * 32}, current="k") if "sealed" in engine else None
    url = engine.format(str(tmp_path).replace("/", "%2F"))
    for _ in range(1 if engine == "memory:" else 2):
        async with elytron.open(url, space="ada", keys=keys, embedder=WordEmbedder()) as memory:
            await lead_a_life(memory, random, 25)
            await memory.embed()
            counted = await memory.inspect()
            whole = await memory.inspect(fingerprints=True)
            assert all(getattr(whole, name) and not getattr(counted, name) for name in READ_WHOLE)
            assert counted == whole.model_copy(update=dict.fromkeys(READ_WHOLE, ""))


async def test_a_check_reports_its_progress() -> None:
    steps: list[tuple[int, int]] = []
    opening = elytron.open("memory:", space="ada", progress=lambda done, total: steps.append((done, total)))
    async with opening as memory:
        for part in range(2):
            await memory.add([f"note {part} {number}" for number in range(750)])
        steps.clear()
        await memory.inspect()
        assert steps == []
        await memory.inspect(check=True)
    assert len(steps) >= 2
    assert steps == sorted(steps)
    assert all(0 < done <= total for done, total in steps)


async def test_without_a_query_or_a_mode_an_inspection_omits_both() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        report = await memory.inspect()
        assert (report.projection, report.lifecycle, report.exists) == (None, (), False)
        assert report.capabilities is not None
