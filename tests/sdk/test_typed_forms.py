"""A typed request does what the short form of a call does."""

import pytest

import elytron
from elytron_core.contracts.skills import (
    RuntimeSkillDeleteRequest,
    RuntimeSkillDetailRequest,
    RuntimeSkillReuseRequest,
    RuntimeSkillSetEnabledRequest,
)
from elytron_core.ids import SeededIds
from elytron_core.planes.procedural import ReuseOutcome

pytestmark = pytest.mark.anyio

NAME = "runtime_skill__brew"


async def test_of_skills() -> None:
    async with elytron.open("memory:", space="ada", ids=SeededIds()) as memory:
        brew = elytron.RuntimeSkillWrite(
            name="brew", topic="tea", title="Brew tea", summary="How to brew tea", content="1. Boil.\n2. Pour.\n3. Wait"
        )
        await memory.write(elytron.MemoryWriteRequest(write=elytron.Procedural(writes=(brew,))))
        named = await memory.get_runtime_skill(NAME)
        assert await memory.get_runtime_skill(RuntimeSkillDetailRequest(name=NAME)) == named
        assert (await memory.set_runtime_skill_enabled(RuntimeSkillSetEnabledRequest(name=NAME, enabled=False))).changed
        assert (await memory.recall("brew tea")).hits == ()
        missed = RuntimeSkillReuseRequest(names=(NAME,), outcome=ReuseOutcome.MISMATCH)
        assert (await memory.record_skill_reuse(missed)).changed
        assert (await memory.delete_runtime_skill(RuntimeSkillDeleteRequest(name=NAME))).changed
        assert (await memory.list_runtime_skills()).total == 0
