"""Memory and clock of an evaluation, and what its turns left in memory."""

from collections.abc import Sequence
from typing import Final

import elytron
from elytron_agent.hooks.contract import HookSettings
from elytron_agent.hooks.session import space_of
from elytron_agent.hooks.turn_hooks import TurnHooks
from elytron_core.clock import FrozenClock
from elytron_core.contracts.facts import FactListRequest
from elytron_core.limits import PAGE_MAX
from elytron_core.planes.facts import FactState

SHARES: Final = (0.5, 0.7, 0.79, 0.81, 0.9, 1.2)
"""Shares of a limit that a context has when it is looked at whether it is compacted."""
ASKING: Final = "asking"
"""The conversation in which questions are asked, so that recent turns answer none of them."""


class HookStage:
    """Tells turns to hooks on one memory, and reads what is stored of them."""

    def __init__(
        self, memory: elytron.MemoryRuntime, clock: FrozenClock, /, *, settings: HookSettings | None = None
    ) -> None:
        self.clock = clock
        self._memory = memory
        self._settings = settings or HookSettings()

    def hooks(self) -> TurnHooks:
        """Return hooks over the memory; the caller closes them if their settings name a model."""
        secret = b"of this evaluation"
        return TurnHooks(self._memory, settings=self._settings, clock=self.clock, session_secret=secret)

    async def tell(self, hooks: TurnHooks, turns: Sequence[str], /, *, session: str, ids: str = "t") -> None:
        """Tell the turns, the same answer to each, under ids that follow from their places."""
        await self.tell_pairs(hooks, [(text, "I see.") for text in turns], session=session, ids=ids)

    async def tell_pairs(
        self, hooks: TurnHooks, turns: Sequence[tuple[str, str]], /, *, session: str, ids: str = "t"
    ) -> None:
        """Tell turns with their answers, under ids that follow from their places."""
        for number, (text, reply) in enumerate(turns):
            async with hooks.turn(text, session_id=session, turn_id=f"{ids}{number}") as turn:
                turn.answered(reply)

    async def recalled_facts(self, hooks: TurnHooks, question: str, /, *, session: str) -> list[str]:
        """Return the contents of the facts that a question is reminded of."""
        async with hooks.turn(question, session_id=session, conversation=ASKING) as turn:
            ids = turn.before.recalled_fact_ids
        contents = {fact.id: fact.content for fact in await self._entries(session)}
        return [contents[name] for name in ids]

    async def kept(self, session: str, /) -> list[str]:
        """Return the messages that are stored of a session, in their order."""
        report = await self._memory.replay(elytron.MemoryReplayRequest(scope=self._scope(session), limit=PAGE_MAX))
        return [message.text for turn in report.turns for message in turn.messages]

    async def facts_of(self, session: str, /) -> list[str]:
        """Return the contents of all facts of a session, in any state."""
        return [fact.content for fact in await self._entries(session)]

    async def compacted_rightly(
        self, hooks: TurnHooks, turns: Sequence[tuple[str, str]], /, *, session: str, question: str
    ) -> int:
        """Return for how many of `SHARES` the context is compacted if, and only if, the settings say so."""
        right = 0
        for number, share in enumerate(SHARES):
            name = f"{session}-{number}"
            await self.tell_pairs(hooks, turns, session=name)
            async with hooks.turn(question, session_id=name) as turn:
                tokens = turn.before.context_tokens
            async with hooks.turn(question, session_id=name, max_input_tokens=round(tokens / share)) as turn:
                right += (turn.before.compacted > 0) == (share >= self._settings.compact_threshold)
        return right

    async def _entries(self, session: str) -> Sequence[elytron.FactEntry]:
        request = FactListRequest(scope=self._scope(session), states=tuple(FactState), limit=PAGE_MAX)
        return (await self._memory.list_facts(request)).items

    def _scope(self, session: str) -> elytron.Scope:
        return elytron.Scope(space=space_of(self._settings.memory_project, session))
