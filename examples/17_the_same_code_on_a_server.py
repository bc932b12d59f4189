"""The same calls in process and on a server: a host changes one line, and can follow what others write.

It needs the extras `server` and `client`.
"""

import asyncio
import tempfile
from pathlib import Path

import elytron
from elytron_http_shell.server import ServingSettings, served_http


async def remember(memory: elytron.MemoryRuntime | elytron.RemoteMemory) -> str:
    """Use a memory, wherever it runs."""
    await memory.add("The spare key is with Noor.", speaker="Ada", idempotency_key="spare-key")
    return (await memory.recall("who has the spare key?", limit=1)).hits[0].text


async def main(store: Path) -> None:
    async with elytron.open(store, space="ada") as memory:
        print("in process:   ", await remember(memory))

        # What `elytron serve --development` does, here within this program.
        async with served_http(memory, ServingSettings(port=0, development=True)) as server:
            async with elytron.connect(server.address) as remote:
                print("over HTTP:    ", await remember(remote))
            async with elytron.connect(server.address.replace("http", "ws")) as remote:
                print("over WebSocket:", await remember(remote))
                async for event in remote.events(after=0):
                    print("journal:      ", event)
                    break


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "memory.db"))
