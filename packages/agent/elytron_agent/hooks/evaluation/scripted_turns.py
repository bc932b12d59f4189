"""Ten rates over turns that ship with the product, every bar of which is to hold."""

from collections import Counter
from typing import Final

import elytron
from elytron_agent.hooks.evaluation.hook_stage import SHARES, HookStage
from elytron_agent.hooks.evaluation.rates import HookRate, HookRates, rate_of
from elytron_agent.hooks.items import items_of
from elytron_agent.hooks.reference import is_reference
from elytron_agent.hooks.turn_hooks import TurnHooks
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.ids import SeededIds
from elytron_models.chat_messages import Json

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


async def evaluate_hooks(store: str = "memory:", /) -> HookRates:
    """Return the rates of hooks on a store; each scenario has sessions of its own there."""
    clock = FrozenClock(step_ms=1)
    async with elytron.open(store, space=None, clock=clock, ids=SeededIds()) as memory:
        told = _HookScenarios(memory, clock)
        rates = [*await told.history(), *await told.facts(), *await told.repeats(), *await told.walls()]
        return HookRates(rates=(*rates, *await told.compaction()))


class _HookScenarios(HookStage):
    """Tells turns to hooks and counts what comes of them."""

    async def history(self) -> tuple[HookRate, ...]:
        """Tell a talk whose host sends all of it each time, and whose model repeats what it was shown."""
        hooks, history = self.hooks(), list[Json]()
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
        kept = await self.kept("history")
        meant = [text for pair in SMALL_TALK for text in pair]
        echoes = (Counter(kept) - Counter(meant)).total()
        same = sum(one == other for one, other in zip(kept, meant, strict=False))
        return (
            rate_of("prompt_duplicate_rate", twice, items),
            rate_of("persisted_history_echo_rate", echoes, len(kept)),
            rate_of("history_equivalence", same, max(len(kept), len(meant))),
        )

    async def facts(self) -> tuple[HookRate, ...]:
        """Tell facts of all tiers, and ask the same day, the next day, after the week, and after a year."""
        hooks = self.hooks()
        await self.tell(hooks, SAID, session="facts")
        meant = LASTING | OF_THE_WEEK | OF_THE_DAY
        right = shown = wanted = 0
        for question in QUESTIONS:
            found = await self._values(hooks, question)
            right, shown, wanted = right + len(found & meant), shown + len(found), wanted + len(meant)
        gone, over, stayed = 0, 0, 0
        for days, past in ((1, OF_THE_DAY), (7, OF_THE_DAY | OF_THE_WEEK), (365, OF_THE_DAY | OF_THE_WEEK)):
            self.clock.advance(days * DAY_MS)
            found = await self._values(hooks, QUESTIONS[0])
            gone, over, stayed = gone + len(past - found), over + len(past), stayed + len(found & LASTING)
        return (
            rate_of("fact_recall_precision", right, shown),
            rate_of("fact_recall_recall", right, wanted),
            rate_of("durable_fact_survival", stayed, 3 * len(LASTING)),
            rate_of("expired_fact_suppression", gone, over),
        )

    async def _values(self, hooks: TurnHooks, question: str) -> set[str]:
        facts = await self.recalled_facts(hooks, question, session="facts")
        return {fact.partition(": ")[2] for fact in facts}

    async def repeats(self) -> tuple[HookRate, ...]:
        """Tell each turn three times under its id, then the same words under new ids."""
        hooks = self.hooks()
        await self.tell(hooks, SAID, session="repeats")
        kept, facts = await self.kept("repeats"), await self.facts_of("repeats")
        unchanged = 0
        for _ in range(2):
            await self.tell(hooks, SAID, session="repeats")
            unchanged += (kept, facts) == (await self.kept("repeats"), await self.facts_of("repeats"))
        await self.tell(hooks, SAID, session="repeats", ids="again")
        return (
            rate_of("idempotency", unchanged, 2),
            rate_of("duplicate_growth", len(await self.facts_of("repeats")), len(facts)),
        )

    async def walls(self) -> tuple[HookRate, ...]:
        """Tell each of several sessions a secret, and ask all of them for those of the others."""
        hooks = self.hooks()
        people = {f"key-{number}": f"Name{number}" for number in range(4)}
        for key, name in people.items():
            await self.tell(hooks, (f"My name is {name}.",), session=hooks.session_of(key))
        leaks = asked = 0
        for key, own in people.items():
            for name in people.values():
                async with hooks.turn(f"Is there a {name}? Who am I?", credential=key) as turn:
                    shown = "\n".join(str(message["content"]) for message in turn.messages[:-1])
                asked += 1
                leaks += any(other in shown for other in people.values() if other != own)
        return (rate_of("session_isolation_leak", leaks, asked),)

    async def compaction(self) -> tuple[HookRate, ...]:
        """Ask for contexts of many limits: one is compacted exactly from four fifths on."""
        told = [(f"{said} {said}", "I see.") for said, _ in SMALL_TALK]
        right = await self.compacted_rightly(self.hooks(), told, session="compaction", question="And now?")
        return (rate_of("compaction_triggers", right, len(SHARES)),)
