"""Compare the time of a recall through the TypeScript client and the Python client, which alternate on one server.

    python -m benchmarks.typescript_client [--check]

The server is a separate process on a SQLite file. Both clients send the same queries over HTTP, one after the other, on
a persistent connection. The first recalls of each round are excluded, because they connect and load code. A ratio is of
medians. The client must be built first: `npm install && npm run build` in `clients/typescript`.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import elytron
from benchmarks.http import elytron_server

PACKAGE = Path(__file__).parent.parent / "clients" / "typescript"
MEMORIES = 500
ROUNDS = 3
RECALLS = 120
WARMING = 20
"""Number of recalls at the start of a round that do not count."""
GOAL = 2.0


async def python_times_ms(address: str) -> list[float]:
    """Return the milliseconds of each recall through the Python client."""
    times: list[float] = []
    async with elytron.connect(address, space="ada") as memory:
        for number in range(RECALLS):
            began = time.perf_counter()
            await memory.recall(f"What is boat {number} called?")
            times.append((time.perf_counter() - began) * 1000)
    return times


async def typescript_times_ms(address: str) -> list[float]:
    """Return the milliseconds of each recall through the TypeScript client."""
    command = ("node", "scripts/measure.mjs", address, str(RECALLS))
    node = await asyncio.create_subprocess_exec(*command, cwd=PACKAGE, stdout=subprocess.PIPE)
    output, _ = await node.communicate()
    return json.loads(output)


async def measure() -> tuple[float, float]:
    """Return the median milliseconds of a recall through the Python client and through the TypeScript client."""
    python: list[float] = []
    typescript: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        async with elytron_server(Path(folder), "--development") as (port, _):
            address = f"http://127.0.0.1:{port}"
            async with elytron.connect(address, space="ada") as memory:
                await memory.add([f"Boat {number} is called Petrel {number}." for number in range(MEMORIES)])
            for _ in range(ROUNDS):
                python += (await python_times_ms(address))[WARMING:]
                typescript += (await typescript_times_ms(address))[WARMING:]
    return median(python), median(typescript)


def main() -> None:
    """Measure and print one table. With `--check`, exit 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the ratio is above the goal")
    arguments = parser.parse_args()
    python, typescript = asyncio.run(measure())
    ratio = typescript / python
    print("Python, ms | TypeScript, ms | ratio")
    print(f"{python:.2f} | {typescript:.2f} | {ratio:.2f} (goal: at most {GOAL})")
    if arguments.check and ratio > GOAL:
        sys.exit("a recall by the TypeScript client takes too long")


if __name__ == "__main__":
    main()
