"""Record the output of benchmarks, for the figures in README and docs.

    python -m benchmarks.recorded [NAME ...] [--data FILE [--corrections FILE ...]] [--check]

Runs the named commands, or all without a name, and writes the output of each to `benchmarks/results/NAME.txt` with the
date, commit, machine and the digest of the data. `--data` names LoCoMo's development file and `--corrections` the
published corrections of its evidence. Neither is part of this project; without them their commands are skipped.
`--check` compares with the recorded output instead, and exits 1 if a figure differs.
"""

import argparse
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks" / "results"
MADE = ROOT / "benchmarks" / "quality_data"
COMMANDS = {
    "quality_small": ("benchmarks.quality", "--small"),
    "quality_ordinary": ("benchmarks.quality", "--ordinary"),
    "quality_unseen": ("benchmarks.quality", "--unseen"),
    "quality_data": ("benchmarks.quality", "--data", "FILE"),
    "quality_corrected": ("benchmarks.quality", "--data", "FILE", "--corrections", "FILES"),
}
"""Recorded commands by the name of their file. FILE and FILES stand for the values of `--data` and `--corrections`."""
BOUND_S = 3600


def command_line(name: str, /) -> str:
    """Return the command as the docs show it."""
    return " ".join(("python -m", *COMMANDS[name]))


def output_of(name: str, files: Sequence[Path], /) -> str:
    """Run the command and return its output. Raises CalledProcessError."""
    command = [sys.executable, "-m", *(word for word in COMMANDS[name] if word not in {"FILE", "FILES"})]
    if files:
        place = command.index("--data") + 1
        command[place:place] = [str(files[0])]
        command += [str(file) for file in files[1:]]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=BOUND_S)
    return done.stdout


def digest_of(files: Sequence[Path], /) -> str:
    """Return a digest of the data that a command reads: the given files, or the sets in this repository."""
    total = hashlib.sha256()
    for path in files:
        total.update(path.read_bytes())
    if files:
        return total.hexdigest()
    for path in sorted(path for path in MADE.rglob("*") if path.is_file()):
        total.update(path.relative_to(MADE).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def heading(name: str, files: Sequence[Path], /) -> str:
    """Return the lines above the output: the command, when and where it ran, and on which data."""
    git = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
    return "\n".join(
        (
            f"command: {command_line(name)}",
            f"date: {datetime.now(UTC).date().isoformat()}",
            f"commit: {commit.stdout.strip()}",
            f"machine: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
            f"data: sha256 {digest_of(files)}",
            "",
            "",
        )
    )


def _files_of(name: str, data: Path | None, corrections: Sequence[Path]) -> Sequence[Path] | None:
    """Return the files that a command reads, or None if they were not named."""
    if "FILE" not in COMMANDS[name]:
        return ()
    if data is None or ("FILES" in COMMANDS[name] and not corrections):
        return None
    return (data, *corrections) if "FILES" in COMMANDS[name] else (data,)


def _figures(output: str) -> list[str]:
    """Return the lines without their last column, which is a time."""
    return [line.rpartition(" ")[0].rstrip() for line in output.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *COMMANDS], help="which to run")
    parser.add_argument("--data", type=Path, metavar="FILE")
    parser.add_argument("--corrections", type=Path, nargs="+", default=(), metavar="FILE")
    parser.add_argument("--check", action="store_true", help="compare with what is recorded")
    arguments = parser.parse_args()
    differing: list[str] = []
    for name in arguments.names or COMMANDS:
        files = _files_of(name, arguments.data, arguments.corrections)
        if files is None:
            print(f"{name}: left out, needs --data or --corrections")
            continue
        output = output_of(name, files)
        file = FOLDER / f"{name}.txt"
        if not arguments.check:
            file.write_text(heading(name, files) + output, encoding="utf-8")
        elif _figures(file.read_text(encoding="utf-8").partition("\n\n")[2]) != _figures(output):
            differing.append(name)
        print(output)
    if differing:
        sys.exit(f"printed other figures than are recorded: {', '.join(differing)}")


if __name__ == "__main__":
    main()
