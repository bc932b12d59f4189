"""Evaluation of turn hooks: ten rates over scripted turns, each with the bar that it is held to."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import elytron
from elytron_agent.hooks.items import Json, items_of
from elytron_agent.hooks.reference import is_reference
from elytron_agent.hooks.session import space_of
from elytron_agent.hooks.settings import HookSettings
from elytron_agent.hooks.turn_hooks import TurnHooks
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.contracts.knowledge.facts import FactListRequest
from elytron_core.ids import SeededIds
from elytron_core.limits import PAGE_MAX
from elytron_core.model import Value
from elytron_core.planes.knowledge.long_term import State

SAID: Final = (
    "My name is Ada Byron.",
    "I prefer short answers.",
    "I like oat milk in coffee.",
    "Today I need to buy bread.",
    "This week I need a haircut.",
)
LASTING: Final = {"Ada Byron", "short answers"}
OF_THE_WEEK: Final = {"oat milk in coffee", "a haircut"}
OF_THE_DAY: Final = {"to buy bread"}
QUESTIONS: Final = ("Who am I?", "How do I like my coffee?", "What do I need today?", "Tell me a joke.")
SMALL_TALK: Final = (
    ("The tide table hangs in the kitchen.", "Good to know."),
    ("Our dinghy is called Petrel.", "A fine name."),
    ("The boat house was painted blue.", "It must look well."),
    ("Ok", "Ok"),
    ("The harbour closes at nine.", "Then we must be early."),
    ("Ok", "Ok"),
)


class Rate(Value):
    """One rate, and the bar: at least that, or at most where `is_ceiling`."""

    name: str
    value: float
    bar: float
    is_ceiling: bool = False

    @property
    def holds(self) -> bool:
        return self.value <= self.bar if self.is_ceiling else self.value >= self.bar


class HookRates(Value):
    """The rates of one run; precision and recall of facts are one of the ten."""

    rates: tuple[Rate, ...]

    @property
    def hold(self) -> bool:
        return all(rate.holds for rate in self.rates)

    def of(self, name: str, /) -> float:
        """Return the rate of that name."""
        return next(rate.value for rate in self.rates if rate.name == name)


async def evaluate(store: str = "memory:", /) -> HookRates:
    """Return the rates of hooks on a store; each scenario has sessions of its own there."""
    clock = FrozenClock(step_ms=1)
    async with elytron.open(store, space=None, clock=clock, ids=SeededIds()) as memory:
        told = _Scenarios(memory, clock)
        rates = [*await told.history(), *await told.facts(), *await told.repeats(), *await told.walls()]
        return HookRates(rates=(*rates, *await told.compaction()))


class _Scenarios:
    """Tells turns to hooks and counts what comes of them."""

    def __init__(self, memory: elytron.MemoryRuntime, clock: FrozenClock, /) -> None:
        self._memory = memory
        self._clock = clock

    async def history(self) -> tuple[Rate, ...]:
        """Tell a talk whose host sends all of it each time, and whose model repeats what it was shown."""
        hooks, history = self._hooks(), list[Json]()
        items = twice = 0
        for said, reply in SMALL_TALK:
            history.append({"role": "user", "content": said})
            async with hooks.turn(history, session_id="history") as turn:
                seen = Counter(item.identity for item in items_of(turn.messages))
                sent = Counter(item.identity for item in items_of(history))
                items += seen.total()
                twice += (seen - sent - Counter(set(seen))).total()
                shown = [str(item.words) for item in items_of(turn.messages) if is_reference(item)]
                turn.answered("\n".join([reply, *shown]))
            history.append({"role": "assistant", "content": reply})
        kept = await self._kept("history")
        meant = [text for pair in SMALL_TALK for text in pair]
        echoes = (Counter(kept) - Counter(meant)).total()
        same = sum(one == other for one, other in zip(kept, meant, strict=False))
        return (
            Rate(name="prompt_duplicate_rate", value=_share(twice, items), bar=0, is_ceiling=True),
            Rate(name="persisted_history_echo_rate", value=_share(echoes, len(kept)), bar=0, is_ceiling=True),
            Rate(name="history_equivalence", value=_share(same, max(len(kept), len(meant))), bar=1),
        )

    async def facts(self) -> tuple[Rate, ...]:
        """Tell facts of all tiers, and ask the same day, the next day, after the week, and after a year."""
        hooks = self._hooks()
        await self._tell(hooks, SAID, session="facts")
        meant = LASTING | OF_THE_WEEK | OF_THE_DAY
        right = shown = wanted = 0
        for question in QUESTIONS:
            found = await self._values(hooks, question, session="facts")
            right, shown, wanted = right + len(found & meant), shown + len(found), wanted + len(meant)
        gone, over, stayed = 0, 0, 0
        for days, past in ((1, OF_THE_DAY), (7, OF_THE_DAY | OF_THE_WEEK), (365, OF_THE_DAY | OF_THE_WEEK)):
            self._clock.advance(days * DAY_MS)
            found = await self._values(hooks, QUESTIONS[0], session="facts")
            gone, over, stayed = gone + len(past - found), over + len(past), stayed + len(found & LASTING)
        return (
            Rate(name="fact_recall_precision", value=_share(right, shown), bar=1),
            Rate(name="fact_recall_recall", value=_share(right, wanted), bar=1),
            Rate(name="durable_fact_survival", value=_share(stayed, 3 * len(LASTING)), bar=1),
            Rate(name="expired_fact_suppression", value=_share(gone, over), bar=1),
        )

    async def repeats(self) -> tuple[Rate, ...]:
        """Tell each turn three times under its id, then the same words under new ids."""
        hooks = self._hooks()
        await self._tell(hooks, SAID, session="repeats")
        kept, facts = await self._kept("repeats"), await self._facts("repeats")
        unchanged = 0
        for _ in range(2):
            await self._tell(hooks, SAID, session="repeats")
            unchanged += (kept, facts) == (await self._kept("repeats"), await self._facts("repeats"))
        await self._tell(hooks, SAID, session="repeats", ids="again")
        return (
            Rate(name="idempotency", value=_share(unchanged, 2), bar=1),
            Rate(
                name="duplicate_growth",
                value=_share(len(await self._facts("repeats")), len(facts)),
                bar=1.05,
                is_ceiling=True,
            ),
        )

    async def walls(self) -> tuple[Rate, ...]:
        """Tell each of several sessions a secret, and ask all of them for those of the others."""
        hooks = self._hooks()
        people = {f"key-{number}": f"Name{number}" for number in range(4)}
        for key, name in people.items():
            await self._tell(hooks, (f"My name is {name}.",), session=hooks.session_of(key))
        leaks = asked = 0
        for key, own in people.items():
            for name in people.values():
                async with hooks.turn(f"Is there a {name}? Who am I?", credential=key) as turn:
                    shown = "\n".join(str(message["content"]) for message in turn.messages[:-1])
                asked += 1
                leaks += any(other in shown for other in people.values() if other != own)
        return (Rate(name="session_isolation_leak", value=_share(leaks, asked), bar=0, is_ceiling=True),)

    async def compaction(self) -> tuple[Rate, ...]:
        """Ask for contexts of many limits: one is compacted exactly from four fifths on."""
        right, limits = 0, (0.5, 0.7, 0.79, 0.81, 0.9, 1.2)
        for number, share in enumerate(limits):
            hooks, session = self._hooks(), f"compaction-{number}"
            await self._tell(hooks, [f"{said} {said}" for said, _ in SMALL_TALK], session=session)
            async with hooks.turn("And now?", session_id=session) as turn:
                tokens = turn.before.context_tokens
            async with hooks.turn("And now?", session_id=session, max_input_tokens=round(tokens / share)) as turn:
                right += (turn.before.compacted > 0) == (share >= HookSettings().compact_threshold)
        return (Rate(name="compaction_triggers", value=_share(right, len(limits)), bar=1),)

    def _hooks(self) -> TurnHooks:
        return TurnHooks(self._memory, clock=self._clock, session_secret=b"of this evaluation")

    async def _tell(self, hooks: TurnHooks, turns: Sequence[str], /, *, session: str, ids: str = "t") -> None:
        for number, text in enumerate(turns):
            async with hooks.turn(text, session_id=session, turn_id=f"{ids}{number}") as turn:
                turn.answered("I see.")

    async def _values(self, hooks: TurnHooks, question: str, /, *, session: str) -> set[str]:
        async with hooks.turn(question, session_id=session, conversation="asking") as turn:
            ids = turn.before.recalled_fact_ids
        contents = {fact.id: fact.content for fact in await self._entries(session)}
        return {contents[name].partition(": ")[2] for name in ids}

    async def _kept(self, session: str) -> list[str]:
        scope = self._scope(session)
        report = await self._memory.replay(elytron.MemoryReplayRequest(scope=scope, limit=PAGE_MAX))
        return [message.text for turn in report.turns for message in turn.messages]

    async def _facts(self, session: str) -> list[str]:
        return [fact.content for fact in await self._entries(session)]

    async def _entries(self, session: str) -> Sequence[elytron.FactEntry]:
        request = FactListRequest(scope=self._scope(session), states=tuple(State), limit=PAGE_MAX)
        return (await self._memory.list_facts(request)).items

    def _scope(self, session: str) -> elytron.Scope:
        return elytron.Scope(space=space_of(HookSettings().memory_project, session))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
