"""A server process as far as a backlog is concerned: sends a store's pending additions to an upstream address."""

import asyncio
import sys
from pathlib import Path

import elytron
from elytron_core.clock import SystemClock
from elytron_gateway.service import MemoryGateway
from elytron_gateway.upstream.everos import EverOsUpstream


async def drain(store: Path, url: str) -> int:
    """Drain until nothing is pending; return how many additions this process sent."""
    upstream = EverOsUpstream(url, clock=SystemClock())
    told = 0
    async with elytron.open(store, space=None) as memory:
        gateway = MemoryGateway(memory, upstream=upstream)
        while True:
            answer = await gateway.drain()
            told += answer.told
            if not answer.backlog:
                break
    await upstream.close()
    return told


if __name__ == "__main__":
    print(asyncio.run(drain(Path(sys.argv[1]), sys.argv[2])))
