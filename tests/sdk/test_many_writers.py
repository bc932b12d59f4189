"""Writers who append to one conversation at the same time all get their turn."""

import asyncio
from pathlib import Path

import pytest

import elytron

pytestmark = pytest.mark.anyio


async def test_nobody_loses_every_race(tmp_path: Path) -> None:
    async with elytron.open(tmp_path / "m.db", space="ada") as memory:

        async def write(writer: int) -> None:
            for number in range(20):
                turn = elytron.TurnDraft(messages=(elytron.Message(text=f"note {writer}-{number}"),))
                request = elytron.MemoryWriteRequest(
                    write=elytron.TranscriptWrite(turns=(turn,)), idempotency_key=f"{writer}-{number}"
                )
                await memory.write(request)

        await asyncio.gather(*(write(writer) for writer in range(12)))
        assert (await memory.inspect()).documents["turns"] == 240
