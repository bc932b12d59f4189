"""Record what benchmarks print, for the figures in README and docs.

    python -m benchmarks.recorded [NAME ...] [--data FILE] [--check]

Runs the named commands, all without a name, and writes what each printed to `benchmarks/results/NAME.txt`, with the
date, commit, machine and the digest of the data. `--data` names LoCoMo's development file, which is not part of this
project; without it that command is left out. `--check` compares with the recorded output instead, and exits with 1 if
a figure differs.
"""

import argparse
import hashlib
import os
import platform
import subprocess
import sys
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
}
"""What is recorded, by the name of its file; FILE stands for the file that `--data` names."""
BOUND_S = 3600


def command_line(name: str, /) -> str:
    """Return the command as the docs show it."""
    return " ".join(("python -m", *COMMANDS[name]))


def output_of(name: str, data: Path | None, /) -> str:
    """Run the command and return what it printed. Raises CalledProcessError."""
    words = [str(data) if word == "FILE" else word for word in COMMANDS[name]]
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=BOUND_S)
    return done.stdout


def digest_of(name: str, data: Path | None, /) -> str:
    """Return a digest of the data that the command reads: the given file, or the sets in this repository."""
    if "FILE" in COMMANDS[name]:
        assert data is not None
        return hashlib.sha256(data.read_bytes()).hexdigest()
    total = hashlib.sha256()
    for path in sorted(path for path in MADE.rglob("*") if path.is_file()):
        total.update(path.relative_to(MADE).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def heading(name: str, data: Path | None, /) -> str:
    """Return the lines above the output: the command, when and where it ran, and on what."""
    git = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True)
    return "\n".join(
        (
            f"command: {command_line(name)}",
            f"date: {datetime.now(UTC).date().isoformat()}",
            f"commit: {commit.stdout.strip()}",
            f"machine: {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
            f"data: sha256 {digest_of(name, data)}",
            "",
            "",
        )
    )


def _figures(output: str) -> list[str]:
    """Return the lines without their last column, which is a time."""
    return [line.rpartition(" ")[0].rstrip() for line in output.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *COMMANDS], help="which to run")
    parser.add_argument("--data", type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true", help="compare with what is recorded")
    arguments = parser.parse_args()
    differing: list[str] = []
    for name in arguments.names or COMMANDS:
        if "FILE" in COMMANDS[name] and arguments.data is None:
            print(f"{name}: left out, needs --data")
            continue
        output = output_of(name, arguments.data)
        file = FOLDER / f"{name}.txt"
        if not arguments.check:
            file.write_text(heading(name, arguments.data) + output, encoding="utf-8")
        elif _figures(file.read_text(encoding="utf-8").partition("\n\n")[2]) != _figures(output):
            differing.append(name)
        print(output)
    if differing:
        sys.exit(f"printed other figures than are recorded: {', '.join(differing)}")


if __name__ == "__main__":
    main()
