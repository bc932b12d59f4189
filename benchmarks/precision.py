"""Measure when memory appears unrequested: for prompts about which nothing is known, and for answered questions.

    python -m benchmarks.precision [--held] [--examples N] [--sizes N ...] [--without-gate]

Each prompt of `benchmarks/precision_data` with the label `no` is projected into spaces of growing size: the beginning
of the demo's conversation, followed by the conversations of `benchmarks.quality_unseen`. A prompt is *shown* if its
block has recalled memories. The last table has the questions that these conversations answer, each in its own space:
ideally all of them are *shown*. `--held` measures the prompts on which nothing was chosen, and rejects a file whose
digest differs from the one recorded before the first fit. Without it, examples are measured: the first `--examples` of
each kind in each file, which say nothing about other prompts. "±" is half of a 95 % interval.
"""

import argparse
import asyncio
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.quality_sets import UNANSWERED, Told, Turn, background
from benchmarks.quality_systems import Shipped
from benchmarks.quality_unseen import unseen
from elytron import MemoryRuntime
from elytron_core.contracts.projection import SectionName
from elytron_core.contracts.recall import RecallGate

DATA = Path(__file__).parent / "precision_data"
EXAMPLES: Sequence[str] = ("examples_a.tsv", "examples_b.tsv", "examples_c.tsv", "examples_d.tsv")
HELD = ("held.tsv",)
DIGESTS = {"held.tsv": "d49840f08b17a002"}
"""Beginning of the SHA-256 of sets on which nothing is chosen. `EXAMPLES` were chosen on, and are never added here."""
SIZES = (10, 30, 100, 486, 4_000)
MAX_CHARS = 4_000
GROUPS = {
    "trivia": "trivia",
    "statement": "statements",
    "advice": "advice and support",
    "support": "advice and support",
}
REST = "courtesies, orders, code, sums, writing"
NEAR = "unknown detail of a known matter"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A line of the sets."""

    asks_memory: bool
    kind: str
    language: str
    text: str


def prompts(files: Sequence[str], /, *, most: int | None = None) -> list[Prompt]:
    """Return the prompts of `files`, at most `most` of each kind and language per file."""
    chosen: list[Prompt] = []
    for name in files:
        counts: defaultdict[tuple[str, str, bool], int] = defaultdict(int)
        for line in (DATA / name).read_text("utf-8").splitlines():
            label, kind, language, text = line.split("\t")
            key = label, kind, language == "en"
            counts[key] += 1
            if most is None or counts[key] <= most:
                chosen.append(Prompt(label == "yes", kind, language, text))
    return chosen


def spaces(sizes: Iterable[int], /) -> list[Told]:
    """Return a space of each size."""
    turns: list[Turn] = list(background())
    for told in unseen():
        turns += (
            replace(turn, id=f"{told.name}-{turn.id}", conversation=f"{told.name}-{turn.conversation}")
            for turn in told.turns
        )
    return [Told(f"{size} turns", tuple(turns[:size]), ()) for size in sizes]


def held_prompts() -> list[Prompt]:
    """Return the prompts on which nothing was chosen. Exits if a set was changed or chosen on."""
    for name in HELD:
        digest = hashlib.sha256((DATA / name).read_bytes()).hexdigest()
        if name in EXAMPLES or not digest.startswith(DIGESTS[name]):
            raise SystemExit(f"{name} was chosen on or changed since it was recorded: it measures nothing")
    return prompts(HELD)


async def is_shown(memory: MemoryRuntime, text: str, gate: RecallGate, /) -> bool:
    """Return whether a block for `text` has recalled memories."""
    report = await memory.project(text, max_chars=MAX_CHARS, recall_gate=gate)
    return any(section.name is SectionName.RECALLED and section.included for section in report.sections)


async def shown_by_size(
    wanted: Sequence[Prompt], sizes: Sequence[int], gate: RecallGate
) -> Mapping[tuple[str, str], list[bool]]:
    """Return, by group of prompts and space, whether each prompt was shown something."""
    shown: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for told in spaces(sizes):
        shipped = Shipped()
        await shipped.tell(told)
        for prompt in wanted:
            if not prompt.asks_memory:
                outcome = await is_shown(shipped.memory(told), prompt.text, gate)
                shown[GROUPS.get(prompt.kind, REST), told.name].append(outcome)
                shown["in English" if prompt.language == "en" else "in 14 other languages", told.name].append(outcome)
    return shown


async def answered(gate: RecallGate) -> Mapping[str, list[bool]]:
    """Return, by kind, whether each question of the unseen conversations was shown something."""
    shown: defaultdict[str, list[bool]] = defaultdict(list)
    for told in unseen():
        shipped = Shipped()
        await shipped.tell(told)
        for question in told.questions:
            kind = NEAR if question.kind in UNANSWERED else "answered"
            shown[kind].append(await is_shown(shipped.memory(told), question.text, gate))
    return shown


def share(outcomes: Sequence[bool], /) -> str:
    """Return the percentage of true outcomes with half of its 95 % interval."""
    part = sum(outcomes) / len(outcomes)
    return f"{100 * part:.1f} ±{196 * math.sqrt(part * (1 - part) / len(outcomes)):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held", action="store_true", help="measure the held-out prompts")
    parser.add_argument("--examples", type=int, default=20, metavar="N", help="prompts of each kind and file")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="turns of the spaces")
    parser.add_argument("--without-gate", action="store_true", help="measure what likeness alone would show")
    arguments = parser.parse_args()
    gate = RecallGate.OFF if arguments.without_gate else RecallGate.AUTO
    wanted = held_prompts() if arguments.held else prompts(EXAMPLES, most=arguments.examples)
    by_size = asyncio.run(shown_by_size(wanted, arguments.sizes, gate))
    columns = sorted({name for _, name in by_size}, key=lambda name: int(name.split()[0]))
    print("Unrelated prompts that are shown memories, in %")
    print(f"{'':<42}{'prompts':>8}" + "".join(f"{name:>14}" for name in columns))
    for group in sorted({group for group, _ in by_size}, key=lambda group: (group.startswith("in "), group)):
        cells = "".join(f"{share(by_size[group, name]):>14}" for name in columns)
        print(f"{group:<42}{len(by_size[group, columns[0]]):>8}{cells}")
    print("\nQuestions that are shown memories, in %")
    for kind, outcomes in sorted(asyncio.run(answered(gate)).items()):
        print(f"{kind:<42}{len(outcomes):>8}{share(outcomes):>14}")


if __name__ == "__main__":
    main()
