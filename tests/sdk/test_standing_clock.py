"""Order comes from the journal: a stopped clock gives the same answers as an advancing one."""

import asyncio
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

import elytron
from elytron import MemoryRuntime
from elytron_core.clock import FrozenClock
from elytron_core.contracts.recall import RecallExtent
from elytron_core.ids import SeededIds

WORDS = ("tea", "coffee", "harbour", "dog", "ferry", "Mina", "Porto", "Lisbon", "green", "works")
SENTENCES = (
    "{0}.",
    "{0} {1}.",
    "I live in {0}.",
    "I moved. I live in {0} now.",
    "My favourite colour is {0}.",
    "I changed my mind: {0} {1} now.",
    "Always answer in {0}.",
)
QUESTIONS = ("{0}", "{0} {1}?", "Where do I live now?", "What is my latest {0}?", "Tell me everything about {0}")
ACTIONS = (
    *("add", "talk", "fact", "correct", "forget", "undo", "erase"),
    *("recall", "recall", "retell", "project", "list", "facts", "maintain"),
)
DATES = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d)?")


class Step(NamedTuple):
    """One call: its action, text, conversation, and target memory."""

    action: str
    words: tuple[str, str]
    form: int
    conversation: str
    chosen: int


STEPS = st.builds(
    Step,
    st.sampled_from(ACTIONS),
    st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS)),
    st.integers(0, 100),
    st.sampled_from("ab"),
    st.integers(0, 100),
)


class Script:
    """A memory that runs steps and stores their answers, with memories in order of arrival."""

    def __init__(self, memory: MemoryRuntime) -> None:
        self.memory = memory
        self.ids: list[str] = []
        self.answers: list[object] = []

    def place(self, memory: str) -> str:
        turn, _, part = memory.partition("#")
        return f"{self.ids.index(turn) if turn in self.ids else 'drawn'}#{part}"

    async def change(self, step: Step) -> None:
        """Do a step that writes."""
        text = SENTENCES[step.form % len(SENTENCES)].format(*step.words)
        chosen = self.ids[step.chosen % len(self.ids)] if self.ids else "none"
        match step.action:
            case "add":
                self.ids += (await self.memory.add(text, conversation=step.conversation)).ids
            case "talk":
                talk = [{"role": "user", "content": text}, {"role": "assistant", "content": " ".join(step.words)}]
                self.ids += (await self.memory.add(talk, conversation=step.conversation)).ids
            case "fact":
                report = await self.memory.add_fact(step.words[0], text)
                self.ids += [name for name in report.ids if name not in self.ids]
            case "correct":
                decisions = (await self.memory.correct(chosen, text)).decisions
                self.ids += [one.new_id for one in decisions if one.new_id is not None]
            case "forget" | "undo":
                await self.memory.forget(chosen, undo=step.action == "undo")
            case "erase":
                await self.memory.erase(chosen)
            case _:
                await self.memory.maintain()

    async def answer(self, step: Step) -> object:
        """Return what a step that reads answers."""
        query = QUESTIONS[step.form % len(QUESTIONS)].format(*step.words)
        match step.action:
            case "recall":
                report = await self.memory.recall(query, limit=5, neighbours=1)
                hits = [(self.place(hit.id), hit.text, hit.newer and self.place(hit.newer)) for hit in report.hits]
                sides = [(hit.before, hit.after) for hit in report.hits]
                return hits, [[one.text for one in (*before, *after)] for before, after in sides]
            case "retell":
                report = await self.memory.recall(
                    f"Tell me everything about {step.words[0]}", extent=RecallExtent.NEEDED
                )
                # A fact extracted from a message is as old as that message, but arrived after others of that time.
                return [hit.text for hit in report.hits if hit.id.partition("#")[0] in self.ids]
            case "project":
                block = await self.memory.project(query, conversation=step.conversation)
                return DATES.sub("TIME", block.system_memory_block)
            case "list":
                return [hit.text for hit in (await self.memory.list(limit=50)).items]
            case "facts":
                return [(fact.topic, fact.content, fact.state) for fact in (await self.memory.list_facts()).items]
            case _:
                return None

    async def do(self, step: Step) -> None:
        try:
            if step.action in {"recall", "retell", "project", "list", "facts"}:
                self.answers.append((step, await self.answer(step)))
            else:
                await self.change(step)
        except elytron.ElytronError as error:
            self.answers.append((step, error.key))


async def answers_of(url: str, steps: list[Step], *, look_ms: int, step_ms: int) -> list[object]:
    """Return the steps' answers with a clock that advances this far at each read, and between the steps."""
    clock = FrozenClock(step_ms=look_ms)
    async with elytron.open(url, space="s", clock=clock, ids=SeededIds()) as memory:
        script = Script(memory)
        for step in steps:
            clock.advance(step_ms)
            await script.do(step)
        return script.answers


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(STEPS, min_size=10, max_size=40))
def test_a_stopped_clock_gives_the_same_answers_as_an_advancing_one(steps: list[Step]) -> None:
    advancing = asyncio.run(answers_of("memory:", steps, look_ms=0, step_ms=3_000))
    assert asyncio.run(answers_of("memory:", steps, look_ms=0, step_ms=1)) == advancing
    with tempfile.TemporaryDirectory() as folder:
        for url in ("memory:", f"file:{Path(folder) / 'f'}", str(Path(folder) / "m.db")):
            assert asyncio.run(answers_of(url, steps, look_ms=0, step_ms=0)) == advancing
