"""One inspection tells, by public calls, what a runtime can do, what it may do now, its skills and its tools."""

from pathlib import Path

import pytest
from tests.core.policy.tools.test_experience import HOST, feedback, seen
from tests.sdk.test_skill_directories import put
from tests.sdk.told import learn

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds

pytestmark = pytest.mark.anyio

STEPS = "Open the valve by a quarter turn, wait ten minutes, then look at the gauge and note what it shows."


async def test_an_inspection_tells_of_capabilities_lifecycle_skills_and_tools(tmp_path: Path) -> None:
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


async def test_without_a_query_or_a_mode_an_inspection_leaves_both_out() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        report = await memory.inspect()
        assert (report.projection, report.lifecycle, report.exists) == (None, (), False)
        assert report.capabilities is not None
