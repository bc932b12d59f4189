"""Output and arguments of rigs."""

import argparse
import os
import random
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rigs.engines import Engine
from benchmarks.rigs.verify import Findings

_SHOWN = 20


def arguments(description: str, /) -> argparse.ArgumentParser:
    """Return a parser with the options that every rig has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--engine", nargs="+", choices=[*Engine, "all"], default=[Engine.FILE, Engine.SQLITE], help="which stores"
    )
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of an earlier run")
    return parser


def memory_folder() -> Path | None:
    """Return a folder whose files are in memory, or None where the system has none."""
    folder = Path("/dev/shm")
    return folder if folder.is_dir() and os.access(folder, os.W_OK) else None


def engines_of(names: Sequence[str], /) -> list[Engine]:
    """Return the requested engines, each once."""
    return list(Engine) if "all" in names else list(dict.fromkeys(Engine(name) for name in names))


def seed_of(given: int | None, /) -> int:
    """Return the seed to use, and print it."""
    seed = random.SystemRandom().randrange(2**32) if given is None else given
    print(f"seed {seed}")
    return seed


def show(rows: Sequence[dict[str, str]], /) -> None:
    """Print rows under one header with aligned columns."""
    if not rows:
        return
    heads = list(rows[0])
    widths = [max(len(head), *(len(row[head]) for row in rows)) for head in heads]
    for line in (heads, ["-" * width for width in widths], *([row[head] for head in heads] for row in rows)):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def tell(name: str, found: Findings, /) -> None:
    """Print the problems that were found, up to a limit."""
    for kind, told in (("lost", found.lost), ("wrong", found.wrong)):
        for line in told[:_SHOWN]:
            print(f"{name}: {kind}: {line}")
        if len(told) > _SHOWN:
            print(f"{name}: {kind}: and {len(told) - _SHOWN} more")
