"""What the children of rigs do to a store, reporting each call before it is made and after it returned.

A line is `try`, `did` or `err`, a verb, a token and the details. Every text contains its token, so that what a store
returns can be identified. The reader of the lines maintains a `benchmarks.rigs.book.Book`.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import elytron
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.scope import IdempotencyKey

Say = Callable[[str], None]

TURNS_TOGETHER = 3
_SHARED_TURNS = 12
_SHARED_SHARE = 0.1
TOPICS = ("harbour", "garden", "orchestra", "bakery", "glacier", "library", "ferry", "vineyard")


class Verb(StrEnum):
    """Operations on the runtime."""

    ADD = "add"
    """A text with an idempotency key."""
    PLAIN = "plain"
    """A text without one."""
    TURNS = "turns"
    """Several turns with host ids in one write."""
    SHARED = "shared"
    """A turn that other processes send too, under the same host id."""
    FACT = "fact"
    FORGET = "forget"
    ERASE = "erase"
    RECALL = "recall"


USUAL = {
    Verb.ADD: 40,
    Verb.PLAIN: 20,
    Verb.TURNS: 15,
    Verb.FACT: 10,
    Verb.FORGET: 6,
    Verb.ERASE: 2,
    Verb.RECALL: 3,
}
"""Relative frequency of each verb."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The traffic of one child. `name` is the prefix of its tokens and must be new in the store."""

    name: str
    seed: int
    spaces: tuple[str, ...] = ("alpha", "beta")
    conversations: int = 3
    tasks: int = 6
    calls: int = 1_000_000
    """Number of calls per task."""
    rounds: int = 1
    """Number of times the store is opened, used and closed."""
    script: tuple[Verb, ...] = ()
    """The verbs that each task uses, in this order. If empty, they are random."""
    shared: str = ""
    """Prefix of tokens that several children write. If empty, there are none."""


@dataclass(frozen=True, slots=True)
class Place:
    """A token and where it is written."""

    token: str
    space: str
    conversation: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the tokens of the turns that are written together."""
        return tuple(f"{self.token}p{number}" for number in range(TURNS_TOGETHER))

    @property
    def scope(self) -> elytron.Scope:
        return elytron.Scope(space=SpaceId(self.space), conversation=self.conversation)


def text_of(token: str, /) -> str:
    """Return the text written under `token`."""
    topic = TOPICS[sum(token.encode()) % len(TOPICS)]
    return f"{token} speaks of the {topic} and what was agreed there"


def token_of(text: str, /) -> str:
    """Return the token under which a text was written."""
    return text.partition(" ")[0]


async def write(memory: elytron.MemoryRuntime, verb: Verb, place: Place, /) -> elytron.MemoryWriteReport:
    """Make the write for `verb` and `place`, which is the same on every call."""
    match verb:
        case Verb.TURNS | Verb.SHARED:
            drafts = tuple(
                elytron.TurnDraft(messages=(elytron.Message(text=text_of(part)),), host_id=part)
                for part in (place.parts if verb is Verb.TURNS else (place.token,))
            )
            return await _write(memory, place, elytron.TranscriptWrite(turns=drafts))
        case Verb.FACT:
            fact = elytron.FactDraft(topic=f"topic {place.token}", content=text_of(place.token))
            return await _write(memory, place, elytron.LongTermExtraction(facts=(fact,)))
        case Verb.ADD:
            key: IdempotencyKey | None = place.token
        case _:
            key = None
    said = text_of(place.token)
    return await memory.add(said, user_id=place.space, conversation=place.conversation, idempotency_key=key)


async def _write(
    memory: elytron.MemoryRuntime, place: Place, body: elytron.TranscriptWrite | elytron.LongTermExtraction
) -> elytron.MemoryWriteReport:
    return await memory.write(elytron.MemoryWriteRequest(scope=place.scope, write=body))


async def run(memory: elytron.MemoryRuntime, plan: Plan, say: Say, /, *, round_: int = 0) -> None:
    """Run the plan's tasks concurrently until each has made its calls."""
    tasks = [_Task(memory, plan, say, f"{plan.name}r{round_}t{number}") for number in range(plan.tasks)]
    await asyncio.gather(*(task.run() for task in tasks))


class _Task:
    """One caller, which writes, and forgets and erases what it wrote."""

    def __init__(self, memory: elytron.MemoryRuntime, plan: Plan, say: Say, name: str) -> None:
        self._memory = memory
        self._plan = plan
        self._say = say
        self._name = name
        self._random = random.Random(f"{plan.seed} {name}")
        self._own: list[tuple[Place, str]] = []

    async def run(self) -> None:
        verbs, weights = list(USUAL), list(USUAL.values())
        script = self._plan.script
        for number in range(len(script) or self._plan.calls):
            verb = script[number] if script else self._random.choices(verbs, weights)[0]
            if verb in {Verb.FORGET, Verb.ERASE, Verb.RECALL} and not self._own:
                verb = Verb.ADD
            place = Place(
                f"{self._name}n{number}",
                self._random.choice(self._plan.spaces),
                f"talk{self._random.randrange(self._plan.conversations)}",
            )
            if self._plan.shared and self._random.random() < _SHARED_SHARE:
                token = f"{self._plan.shared}n{self._random.randrange(_SHARED_TURNS)}"
                verb, place = Verb.SHARED, Place(token, self._plan.spaces[0], "shared")
            try:
                await self._call(verb, place)
            except ElytronError as error:
                self._say(f"err {verb} {place.token} {error.key}")

    async def _call(self, verb: Verb, place: Place) -> None:
        match verb:
            case Verb.FORGET | Verb.ERASE:
                old, known = self._own.pop(self._random.randrange(len(self._own)))
                self._say(f"try {verb} {old.token}")
                if verb is Verb.FORGET:
                    await self._memory.forget(elytron.MemoryForgetRequest(scope=old.scope, ids=(known,)))
                else:
                    await self._memory.erase(elytron.MemoryEraseRequest(scope=old.scope, ids=(known,)))
                self._say(f"did {verb} {old.token}")
            case Verb.RECALL:
                old, known = self._random.choice(self._own)
                found = await self._memory.recall(text_of(old.token), user_id=old.space)
                if known not in {hit.id for hit in found.hits}:
                    self._say(f"err {verb} {old.token} not_recalled")
            case _:
                self._say(f"try {verb} {place.token} {place.space} {place.conversation}")
                report = await write(self._memory, verb, place)
                self._say(f"did {verb} {place.token} {' '.join(report.ids)}")
                if verb in {Verb.ADD, Verb.PLAIN}:
                    self._own.append((place, report.ids[0]))
