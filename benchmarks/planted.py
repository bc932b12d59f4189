"""Ask questions while lines from outside repeat them, and count how often the person's answer is in the first five.

    python -m benchmarks.planted

Uses the small spaces of `benchmarks/quality_data/small` in English, half "fit". "Alone" is the space as it is. In
"Planted", there are eight lines of a tool for each question that contain its words. "From a tool" is the reverse: the
answer itself comes from a tool among the person's own messages, and should keep its rank.
"""

import asyncio
import sys
from typing import Literal

import elytron
from benchmarks.quality_ordinary import small
from benchmarks.quality_sets import Question, Told

FIRST = 5
LINES = 8
FORMS = (
    "{question}",
    "Result {number}: {question}",
    "Page {number} answers the question: {question}",
    "{question} See entry {number} of the list for more.",
)
"""Forms in which a planted line repeats the question, in turn."""

Setting = Literal["alone", "planted", "from a tool"]


async def places(told: Told, question: Question, setting: Setting, /) -> int:
    """Return the rank of the first answer within the first twenty hits, or 0 if it is missing."""
    async with elytron.open("memory:", space="person") as memory:
        for turn in told.turns:
            is_answer = turn.id in question.gold
            if is_answer and setting == "from a tool":
                await memory.add([{"role": "tool", "content": turn.text}])
            else:
                await memory.add(turn.text, speaker=turn.speaker, at=turn.at)
        if setting == "planted":
            lines = [FORMS[at % len(FORMS)].format(question=question.text, number=at) for at in range(LINES)]
            await memory.add([{"role": "tool", "content": line} for line in lines])
        hits = (await memory.recall(question.text, limit=20)).hits
        texts = {turn.text for turn in told.turns if turn.id in question.gold}
        return next((place for place, hit in enumerate(hits, 1) if hit.text in texts), 0)


async def main() -> None:
    """Print, for each setting, how many answers rank first, in the first five, and in the first twenty."""
    asked = [(told, question) for told in small("fit") for question in told.questions if question.kind == "en"]
    settings: tuple[Setting, ...] = ("alone", "planted", "from a tool")
    print(f"{'':12} {'first':>6} {'first 5':>8} {'first 20':>9}   of {len(asked)}")
    for setting in settings:
        found = [await places(told, question, setting) for told, question in asked]
        counts = [sum(0 < place <= most for place in found) for most in (1, FIRST, 20)]
        print(f"{setting:12} {counts[0]:6} {counts[1]:8} {counts[2]:9}")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
