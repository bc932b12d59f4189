"""Compaction carried out: the plan is looked at, a summary is written and checked, and both are committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from elytron_agent import limits
from elytron_agent.context import compaction
from elytron_agent.context.compaction import CompactionPlan, TurnSize, bytes_of, plan_compaction, tokens_of
from elytron_agent.context.request import WindowSummary, WindowTurn, text_message, turn_messages
from elytron_agent.runs.parts import AgentParts
from elytron_agent.runs.settings import RunDeadline, WorkCancelled, finish_work
from elytron_core.contracts.continuity import SummaryDraft, SummaryWrite
from elytron_core.contracts.control import MemoryForgetRequest, MemoryListRequest
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.errors import ElytronError, InvalidInput, ModelError
from elytron_core.ports.chat import ChatRole
from elytron_models.answer import ask_for

_UNDONE: Final = "the compaction was undone"


@dataclass(slots=True)
class ThreadCompactor:
    """Compacts one thread."""

    agent: AgentParts
    deadline: RunDeadline | None = None
    """That of the run which compacts; a summary that is late is an extract."""

    @property
    def max_tokens(self) -> int:
        """Return how many tokens the window has: what is set, and what the model takes."""
        most = self.agent.settings.max_context_tokens
        return min(most, self.agent.models.main.info.context_tokens or most)

    def max_bytes(self, share: float, /) -> int:
        """Return how many bytes a request may have in `share` of what it may have before it is shortened."""
        tokens = self.max_tokens * self.agent.settings.compaction_threshold * share
        return int(tokens * limits.BYTES_PER_TOKEN / self.agent.factor)

    @property
    def window_bytes(self) -> int:
        """Return how many bytes of a request fit the window as a whole."""
        return int(self.max_tokens * limits.BYTES_PER_TOKEN / self.agent.factor)

    def past_share(self, *, zone: str) -> float:
        """Return the share of the window that earlier turns fill."""
        return sum(size.tokens for size in self._sizes(zone)) / self.max_tokens

    def plan(self, total_tokens: int, /, *, zone: str, is_forced: bool = False) -> CompactionPlan | None:
        """Return what leaves the window if its request has `total_tokens`, or None if nothing does or may."""
        settings = self.agent.settings
        sizes = self._sizes(zone)
        return plan_compaction(
            sizes,
            fixed_tokens=max(total_tokens - sum(size.tokens for size in sizes), 0),
            max_tokens=self.max_tokens,
            threshold=settings.compaction_threshold,
            is_forced=is_forced,
        )

    async def carry_out(self, planned: CompactionPlan, /) -> WindowSummary:
        """Sum up what `planned` evicts, and commit it. Raises InvalidInput if the window is another by now."""
        thread = self.agent.thread
        turns = tuple(turn for turn in thread.past if turn.run in planned.evicted)
        if tuple(turn.run for turn in turns) != planned.evicted:
            raise InvalidInput(field="plan", problem="is of another window: make a new one")
        head, before = thread.head, thread.summary
        written = await self._written(turns, before.text if before is not None else "")
        made = WindowSummary(
            number=head.summaries + 1,
            text=written or compaction.extract_summary(turns, before.text if before is not None else ""),
            covers=planned.evicted,
            previous=head.summary,
            at=self.agent.clock.now(),
            is_extract=written is None,
        )
        await thread.compact(made)
        await self._keep(made)
        return made

    async def undo(self) -> WindowSummary:
        """Bring the turns of the latest summary back into the window, and return it. Raises NotFound if there is none.

        Recall finds it no more, and the one before it again.
        """
        thread = self.agent.thread
        if thread.summary is not None:
            await self._withdraw(await thread.journal.summary(thread.name, thread.summary.number) or thread.summary)
        undone = await thread.uncompact()
        if thread.summary is not None and not thread.summary.is_erased:
            await self._keep(thread.summary)
        return undone

    def _sizes(self, zone: str) -> list[TurnSize]:
        return [
            TurnSize(run=turn.run, tokens=tokens_of(bytes_of(turn_messages(turn, zone=zone)), factor=self.agent.factor))
            for turn in self.agent.thread.past
        ]

    async def _written(self, turns: Sequence[WindowTurn], previous: str) -> str | None:
        """Return a model's summary whose quotes are in the turns, asked for again once; else None."""
        asked = compaction.summary_request(turns, previous)
        for _ in range(2):
            timeout_s = self.deadline.timeout_s() if self.deadline is not None else None
            try:
                answer = ask_for(self.agent.models.summary, asked, compaction.WindowSummaryDraft)
                draft = (await finish_work(answer, timeout_s=timeout_s)).value
            except (ModelError, TimeoutError, WorkCancelled):
                return None
            problem = compaction.problem_of(draft, turns, previous)
            if problem is None:
                return draft.text
            again = text_message(ChatRole.USER, f"Your summary was not taken: {problem}. Write it again.")
            asked = asked.model_copy(update={"messages": (*asked.messages, again)})
        return None

    async def _withdraw(self, undone: WindowSummary) -> None:
        """Have memory no longer find a summary; one that was written of the conversation since then stays."""
        agent = self.agent
        channel, conversation = agent.scope.conversation_key
        filters = RecallFilters(planes=(RecallPlane.SUMMARY,), channels=(channel,), conversations=(conversation,))
        request = MemoryListRequest(scope=agent.scope, filters=filters, limit=1)
        stored = [hit for hit in (await agent.memory.list(request)).items if hit.text == _stored_text(undone)]
        if stored:
            await agent.memory.forget(MemoryForgetRequest(scope=agent.scope, ids=(stored[0].id,), reason=_UNDONE))

    async def _keep(self, made: WindowSummary) -> None:
        """Have memory find the summary too. The thread has it already, so a refusal changes nothing."""
        head = self.agent.thread.head
        covered = head.runs - len(head.window)
        draft = SummaryDraft(text=_stored_text(made), messages=max(2 * covered, 1))
        try:
            write = MemoryWriteRequest(scope=self.agent.scope, write=SummaryWrite(summary=draft))
            await self.agent.memory.write(write)
        except ElytronError:
            return


def _stored_text(summary: WindowSummary) -> str:
    """Return the text of a summary as memory has it."""
    return summary.text[: limits.SUMMARY_CHARS]
