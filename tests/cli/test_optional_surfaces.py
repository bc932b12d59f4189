"""Components next to a server's operations live as long as it is served."""

import asyncio
from collections.abc import Sequence

import pytest

import elytron
from elytron.models import ScriptedModel
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_core.contracts.transcript import CanonicalTurnDelta
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import Message
from elytron_core.ports.models import PromptMessage, TextCompletion

pytestmark = pytest.mark.anyio


class Asked(ScriptedModel):
    """Signals its first request, and never answers."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked = asyncio.Event()

    async def complete(
        self, prompt: Sequence[PromptMessage], /, *, schema: str | None = None, max_tokens: int
    ) -> TextCompletion:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


async def test_a_profile_determines_the_available_protocols() -> None:
    profile = "linux-device-standalone-memory"
    async with (
        elytron.open("memory:", space="ada", profile=profile) as memory,
        open_surfaces(memory, SurfaceOptions()) as more,
    ):
        assert "mcp" in more.protocols
        assert "a2a" not in more.protocols
        assert (await memory.capabilities()).entry.mcp_server.visible


async def test_deferred_jobs_run_on_request() -> None:
    model = Asked()
    async with elytron.open("memory:", space="ada", language_model=model) as memory:
        said = Message(text="I live in Lisbon.", speaker="Ada")
        answer = Message(role=EvidenceRole.ASSISTANT, text="Noted.")
        delta = CanonicalTurnDelta(turn_id="t1", input_messages=(said,), assistant_message=answer)
        await memory.finalize_turn_and_maintain(elytron.MemoryFinalizeTurnRequest(delta=delta))
        async with open_surfaces(memory, SurfaceOptions()):
            assert not model.asked.is_set()
        async with open_surfaces(memory, SurfaceOptions(work=True)):
            await model.asked.wait()
        assert (await memory.list_jobs()).counts == {"pending": 1}
