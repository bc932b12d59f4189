"""Measure whether recall finds what a time refers to: in words of several languages, or with `as_of` and `known_at`.

    python -m benchmarks.quality_times

Everything is told at its own time and asked at a later one. A question is met if its answer comes first. If a time is
described by an event, the answer must come before statements about the same matter from another time.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import elytron
from elytron_core.clock import FrozenClock, Instant, instant
from elytron_core.planes.facts import FactAuthority, FactKind

ABSENT = "not: "
"""Prefix of texts that must not be found."""
LIFE = Path(__file__).parent / "quality_data" / "times" / "life.json"


async def told(life: dict[str, Any], clock: FrozenClock, /) -> elytron.MemoryRuntime:
    """Return a memory that was told everything in `life`, each at its time."""
    memory = await elytron.open("memory:", space="life", clock=clock).__aenter__()
    for at, text in life["said"]:
        await memory.add(text, at=at)
    for recorded, held_from, topic, content in life["believed"]:
        clock.advance(instant(recorded) - clock.now())
        draft = elytron.FactDraft(
            fact_kind=FactKind.PROFILE,
            topic=topic,
            content=content,
            authority=FactAuthority.USER_ASSERTED,
            valid_from=_moment(held_from),
        )
        await memory.write(elytron.MemoryWriteRequest(write=elytron.LongTermExtraction(facts=(draft,))))
    clock.advance(instant(life["now"]) - clock.now())
    return memory


async def met(memory: elytron.MemoryRuntime, life: dict[str, Any], /) -> dict[str, list[str]]:
    """Return the questions whose answer does not come first, by subject."""
    turns = elytron.RecallFilters(planes=(elytron.RecallPlane.TRANSCRIPT,))
    missed: dict[str, list[str]] = {
        "asked_of_words": [], "asked_in_languages": [], "asked_of_anchors": [], "asked_of_times": []
    }  # fmt: skip
    for asked in ("asked_of_words", "asked_in_languages"):
        for query, answer in life[asked]:
            hits = (await memory.recall(query, filters=turns)).hits
            if not hits or hits[0].text != answer:
                missed[asked].append(query)
    for query, answer, other in life["asked_of_anchors"]:
        found = [hit.text for hit in (await memory.recall(query, filters=turns)).hits]
        if answer not in found or other in found[: found.index(answer)]:
            missed["asked_of_anchors"].append(query)
    for query, as_of, known_at, answer in life["asked_of_times"]:
        facts = elytron.RecallFilters(
            planes=(elytron.RecallPlane.LONG_TERM,), as_of=_moment(as_of), known_at=_moment(known_at)
        )
        found = [hit.text for hit in (await memory.recall(query, filters=facts)).hits]
        is_met = answer.removeprefix(ABSENT) not in found if answer.startswith(ABSENT) else found[:1] == [answer]
        if not is_met:
            missed["asked_of_times"].append(f"{query} as of {as_of}, known at {known_at}")
    return missed


async def run() -> None:
    """Print how many questions are met, and which are not."""
    life = json.loads(LIFE.read_text("utf-8"))
    memory = await told(life, FrozenClock())
    missed = await met(memory, life)
    await memory.close()
    for asked, questions in missed.items():
        print(f"{asked.replace('_', ' '):<18} {len(life[asked]) - len(questions):>3} of {len(life[asked])} are met")
        for question in questions:
            print(f"    not: {question}")


def _moment(text: str | None) -> Instant | None:
    return instant(text) if text is not None else None


if __name__ == "__main__":
    asyncio.run(run())
