"""Measure what a hook costs at each prompt, with and without a resident process, on a store of 6,000 turns.

    python -m benchmarks.prompts [--rounds 5]

Each prompt is a separate process, as a coding agent starts it. The median of all rounds counts.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import elytron

TURNS = 6_000
RUN = "from elytron_cli.main import run_command_line; run_command_line()"
EVENT = json.dumps({"session_id": "s", "cwd": "/", "prompt": "where does the ferry of line 4711 leave from?"}).encode()


def median_ms(command: list[str], environment: dict[str, str], rounds: int) -> float:
    """Return the median time that a prompt waits, in milliseconds."""
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(command, input=EVENT, stdout=subprocess.DEVNULL, env=environment, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description="What a hook costs at each prompt.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite://{Path(folder).as_posix()}/memory.db"
        with elytron.open(store, space="default") as memory:
            memory.add(
                [
                    {"role": "user", "content": f"the ferry of line {at} leaves from pier {at % 40}"}
                    for at in range(TURNS)
                ]
            )
        environment = os.environ | {"XDG_RUNTIME_DIR": folder}
        place = ["--store", store]
        command = [sys.executable, "-c", RUN, "hooks", "recall", *place]
        bare = median_ms([sys.executable, "-c", "pass"], environment, rounds)
        print(f"{'python -c pass':<24}{bare:8.0f} ms")
        print(f"{'hooks recall':<24}{median_ms(command, environment, rounds):8.0f} ms")
        resident = subprocess.Popen(
            [sys.executable, "-c", RUN, "hooks", "resident", *place], stdout=subprocess.PIPE, env=environment
        )
        assert resident.stdout is not None
        resident.stdout.readline()
        print(f"{'hooks recall --resident':<24}{median_ms([*command, '--resident'], environment, rounds):8.0f} ms")
        resident.kill()
        resident.communicate()


if __name__ == "__main__":
    main()
