"""Compaction carried out: the plan is looked at, a summary is written and checked, and both are committed."""

from collections.abc import Sequence
from dataclasses import dataclass

from elytron.api import MemoryFace
from elytron_agent.context import limits, summary
from elytron_agent.context.compaction import CompactionPlan, TurnSize, plan
from elytron_agent.context.request import turn_messages
from elytron_agent.context.tokens import bytes_of, tokens_of
from elytron_agent.context.window import Summary, WindowTurn
from elytron_agent.runs.thread import Thread
from elytron_core.clock import Clock
from elytron_core.contracts.conversation.write import MemoryWriteRequest
from elytron_core.contracts.planes import SummaryDraft, SummaryWrite
from elytron_core.errors import ElytronError, InvalidInput, ModelError
from elytron_core.ports.chat import ChatModel, InputMessage, Role, TextPart
from elytron_core.scope import Scope
from elytron_models.structured_answer import ask_for


@dataclass(slots=True)
class Compactor:
    """Compacts one thread."""

    memory: MemoryFace
    scope: Scope | None
    thread: Thread
    model: ChatModel
    clock: Clock
    max_tokens: int
    threshold: float

    def plan(self, total_tokens: int, /, *, factor: float, zone: str, is_forced: bool = False) -> CompactionPlan | None:
        """Return what leaves the window if its request has `total_tokens`, or None if nothing does or may."""
        sizes = self.sizes(factor=factor, zone=zone)
        fixed = max(total_tokens - sum(size.tokens for size in sizes), 0)
        return plan(
            sizes, fixed_tokens=fixed, max_tokens=self.max_tokens, threshold=self.threshold, is_forced=is_forced
        )

    def sizes(self, *, factor: float, zone: str) -> tuple[TurnSize, ...]:
        """Return the sizes of the turns that are over, oldest first."""
        return tuple(
            TurnSize(run=turn.run, tokens=tokens_of(bytes_of(turn_messages(turn, zone=zone)), factor=factor))
            for turn in self.thread.past
        )

    async def carry_out(self, planned: CompactionPlan, /) -> Summary:
        """Sum up what `planned` evicts, and commit it. Raises InvalidInput if the window is another by now."""
        turns = tuple(turn for turn in self.thread.past if turn.run in planned.evicted)
        if tuple(turn.run for turn in turns) != planned.evicted:
            raise InvalidInput(field="plan", problem="is of another window: make a new one")
        head, before = self.thread.head, self.thread.summary
        written = await self._written(turns, before.text if before is not None else "")
        made = Summary(
            number=head.summaries + 1,
            text=written or summary.extract(turns, before.text if before is not None else ""),
            covers=planned.evicted,
            previous=head.summary,
            at=self.clock.now(),
            is_extract=written is None,
        )
        await self.thread.compact(made)
        await self._keep(made)
        return made

    async def _written(self, turns: Sequence[WindowTurn], previous: str) -> str | None:
        """Return a model's summary whose quotes are in the turns, asked for again once; else None."""
        asked = summary.request(turns, previous)
        for _ in range(2):
            try:
                draft = (await ask_for(self.model, asked, summary.SummaryDraft)).value
            except ModelError:
                return None
            problem = summary.problem_of(draft, turns, previous)
            if problem is None:
                return draft.text
            again = TextPart(text=f"Your summary was not taken: {problem}. Write it again.")
            asked = asked.model_copy(
                update={"messages": (*asked.messages, InputMessage(role=Role.USER, parts=(again,)))}
            )
        return None

    async def _keep(self, made: Summary) -> None:
        """Have memory find the summary too. The thread has it already, so a refusal changes nothing."""
        covered = self.thread.head.runs - len(self.thread.head.window)
        draft = SummaryDraft(text=made.text[: limits.SUMMARY_CHARS], messages=max(2 * covered, 1))
        try:
            await self.memory.write(MemoryWriteRequest(scope=self.scope, write=SummaryWrite(summary=draft)))
        except ElytronError:
            return
