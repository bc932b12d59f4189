"""Measure how long the command line takes to answer, in processor time next to that of a bare interpreter.

    python -m benchmarks.startup [--rounds 7]

Each command runs in a separate process, and the median of all rounds counts. The goal for help is at most four times
the time of `python -c pass`.
"""

import argparse
import resource
import statistics
import subprocess
import sys

from elytron_cli.terminal.help_page import COMMANDS

MOST = 4.0
RUN = "import sys; sys.argv[1:] = {arguments!r}; from elytron_cli.main import run_command_line; run_command_line()"


def processor_time(code: str, rounds: int) -> float:
    """Return the median processor time of a process that runs `code`, in milliseconds."""
    times: list[float] = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times) * 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description="What the command line takes until it has answered.")
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    bare = processor_time("pass", rounds)
    print(f"{'python -c pass':<28}{bare:7.1f} ms")
    for arguments in (["--help"], ["--version"], *([name, "--help"] for name in ("recall", "add", "import", "serve"))):
        assert arguments[0].startswith("--") or arguments[0] in COMMANDS
        took = processor_time(RUN.format(arguments=arguments), rounds)
        print(f"{'elytron ' + ' '.join(arguments):<28}{took:7.1f} ms  {took / bare:5.1f} times")
        if "--help" in arguments:
            print(f"  {'within' if took <= MOST * bare else 'OVER'} {MOST:.0f} times")


if __name__ == "__main__":
    main()
