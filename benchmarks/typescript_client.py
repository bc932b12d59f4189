"""The time of a recall by the TypeScript client and by the Python client, which take turns at one server.

    python -m benchmarks.typescript_client [--check]

The server is a process of its own over a SQLite file. Both clients send the same queries over HTTP, one after the
other, on a connection that stays open. The first recalls of each round are left out, since they connect and load
code. A ratio is of medians. The client is built first: `npm install && npm run build` in `clients/typescript`.
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
"""Recalls at the start of a round that are not counted."""
GOAL = 2.0


async def python_times_ms(address: str) -> list[float]:
    """Return the milliseconds of each recall by the Python client."""
    times: list[float] = []
    async with elytron.connect(address, space="ada") as memory:
        for number in range(RECALLS):
            began = time.perf_counter()
            await memory.recall(f"What is boat {number} called?")
            times.append((time.perf_counter() - began) * 1000)
    return times


async def typescript_times_ms(address: str) -> list[float]:
    """Return the milliseconds of each recall by the TypeScript client."""
    command = ("node", "scripts/measure.mjs", address, str(RECALLS))
    node = await asyncio.create_subprocess_exec(*command, cwd=PACKAGE, stdout=subprocess.PIPE)
    output, _ = await node.communicate()
    return json.loads(output)


async def measure() -> tuple[float, float]:
    """Return the medians of a recall by the Python client and by the TypeScript client, in milliseconds."""
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
    """Measure and print one table; with `--check`, end with 1 if the goal is missed."""
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
