"""The ten rates over a host's own turns. A rate that the turns give nothing to measure for is named as unmeasured."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import elytron
from elytron_agent.hooks.evaluation.hook_stage import ASKING, SHARES, HookStage
from elytron_agent.hooks.evaluation.rates import CEILINGS, FLOORS, HookRates, rate_of
from elytron_agent.hooks.evaluation.turn_file import QuestionLine, TurnLine, TurnScript, WaitLine
from elytron_agent.hooks.items import items_of
from elytron_agent.hooks.reference import is_reference
from elytron_agent.hooks.turn_hooks import TurnHooks
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.text.similarity import normalise_text
from elytron_models.chat_messages import Json

_COMPACTED_FROM: Final = 4
"""Turns of a session from which on compaction is looked at."""


async def evaluate_turns(script: TurnScript, /, *, store: str = "memory:") -> HookRates:
    """Return the rates of hooks over the turns of `script`, in a store of their own."""
    clock = FrozenClock(step_ms=1)
    async with elytron.open(store, space=None, clock=clock, ids=SeededIds()) as memory:
        told = _ScriptTelling(memory, clock, script)
        async with told.hooks() as hooks:
            await told.all_lines(hooks)
            await told.other_sessions(hooks)
            await told.repeats(hooks)
            await told.compaction(hooks)
        return told.rates()


class _ScriptTelling(HookStage):
    """Tells the lines of a script to hooks, and counts part and whole of each rate."""

    def __init__(self, memory: elytron.MemoryRuntime, clock: FrozenClock, script: TurnScript, /) -> None:
        super().__init__(memory, clock, settings=script.settings)
        self._script = script
        self._parts: Counter[str] = Counter()
        self._wholes: Counter[str] = Counter()
        self._histories: dict[str, list[Json]] = {}

    def rates(self) -> HookRates:
        """Return the rates that there was something to measure for, in the order of the page."""
        bars, names = self._script.bars, [*CEILINGS, *FLOORS]
        measured = [name for name in names if self._wholes[name]]
        return HookRates(
            rates=tuple(rate_of(name, self._parts[name], self._wholes[name], bar=bars.get(name)) for name in measured),
            unmeasured=tuple(name for name in names if name not in measured),
        )

    async def all_lines(self, hooks: TurnHooks) -> None:
        """Tell the lines in their order, each turn with all of its session before it, as hosts send it."""
        is_later = False
        for number, line in enumerate(self._script.lines):
            match line:
                case TurnLine():
                    await self._tell(hooks, line, number)
                case QuestionLine():
                    await self._ask(hooks, line, is_later=is_later)
                case WaitLine(days=days):
                    is_later = True
                    self.clock.advance(days * DAY_MS)
        for session, turns in self._script.turns.items():
            kept, meant = await self.kept(session), [text for turn in turns for text in (turn.user, turn.assistant)]
            self._count("persisted_history_echo_rate", (Counter(kept) - Counter(meant)).total(), len(kept))
            same = sum(one == other for one, other in zip(kept, meant, strict=False))
            self._count("history_equivalence", same, max(len(kept), len(meant)))

    async def other_sessions(self, hooks: TurnHooks) -> None:
        """Ask each session the questions of the others: what they expect, and it has not said, is not shown to it."""
        said = {
            session: normalise_text("\n".join(f"{turn.user}\n{turn.assistant}" for turn in turns))
            for session, turns in self._script.turns.items()
        }
        for line in self._script.lines:
            if not isinstance(line, QuestionLine):
                continue
            for session in said.keys() - {line.session}:
                theirs = [text for text in line.expects if normalise_text(text) not in said[session]]
                if theirs:
                    shown = await self._reference(hooks, line.user, session)
                    self._count("session_isolation_leak", bool(_count_held(theirs, shown)), 1)

    async def repeats(self, hooks: TurnHooks) -> None:
        """Tell each session's turns to a session of their own, again under their ids, and then under new ids."""
        for number, turns in enumerate(self._script.turns.values()):
            session = f"evaluation.repeats-{number}"
            told = [(turn.user, turn.assistant) for turn in turns]
            await self.tell_pairs(hooks, told, session=session)
            before = await self.kept(session), await self.facts_of(session)
            await self.tell_pairs(hooks, told, session=session)
            self._count("idempotency", before == (await self.kept(session), await self.facts_of(session)), 1)
            await self.tell_pairs(hooks, told, session=session, ids="again")
            self._count("duplicate_growth", len(await self.facts_of(session)), len(before[1]))

    async def compaction(self, hooks: TurnHooks) -> None:
        """Ask for contexts of the longest session at shares of a limit."""
        turns = max(self._script.turns.values(), key=len)
        if len(turns) < _COMPACTED_FROM:
            return
        told = [(turn.user, turn.assistant) for turn in turns]
        right = await self.compacted_rightly(hooks, told, session="evaluation.compaction", question=turns[-1].user)
        self._count("compaction_triggers", right, len(SHARES))

    async def _tell(self, hooks: TurnHooks, line: TurnLine, number: int) -> None:
        """Tell one turn; its answer repeats the reference, as models do."""
        history = self._histories.setdefault(line.session, [])
        history.append({"role": "user", "content": line.user})
        async with hooks.turn(history, session_id=line.session, turn_id=f"t{number}") as turn:
            seen = Counter(item.identity for item in items_of(turn.messages))
            sent = Counter(item.identity for item in items_of(history))
            self._count("prompt_duplicate_rate", (seen - sent - Counter(set(seen))).total(), seen.total())
            echo = [str(item.words) for item in items_of(turn.messages) if is_reference(item)]
            turn.answered("\n".join([line.assistant, *echo]))
        history.append({"role": "assistant", "content": line.assistant})

    async def _ask(self, hooks: TurnHooks, line: QuestionLine, *, is_later: bool) -> None:
        shown = normalise_text("\n".join(await self.recalled_facts(hooks, line.user, session=line.session)))
        right, wrong = _count_held(line.expects, shown), _count_held(line.excludes, shown)
        self._count("fact_recall_recall", right, len(line.expects))
        self._count("fact_recall_precision", right, right + wrong)
        if is_later:
            self._count("durable_fact_survival", right, len(line.expects))
            self._count("expired_fact_suppression", len(line.excludes) - wrong, len(line.excludes))

    async def _reference(self, hooks: TurnHooks, question: str, session: str) -> str:
        """Return what a question is reminded of, in one form."""
        async with hooks.turn(question, session_id=session, conversation=ASKING) as turn:
            return normalise_text("\n".join(str(item.words) for item in items_of(turn.messages) if is_reference(item)))

    def _count(self, name: str, part: float, whole: float) -> None:
        self._parts[name] += int(part)
        self._wholes[name] += int(whole)


def _count_held(texts: Sequence[str], shown: str) -> int:
    return sum(normalise_text(text) in shown for text in texts)
