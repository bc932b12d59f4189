"""Compaction of a thread: write a summary, check it, and commit it in place of old turns."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from elytron_agent.runs.settings import RunDeadline, WorkCancelled, finish_work
from elytron_agent.runs.source import AgentParts
from elytron_core.contracts.continuity import SummaryDraft, SummaryWrite
from elytron_core.contracts.memories import MemoryForgetRequest, MemoryListRequest
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.errors import ElytronError, InvalidInput, ModelError
from elytron_core.ports.chat import ChatRole, Message
from elytron_models.answer import ask_for
from elytron_turn import limits
from elytron_turn.compaction import (
    CompactionPlan,
    TurnSize,
    WindowSummaryDraft,
    extract_summary,
    plan_compaction,
    problem_of,
    summary_request,
)
from elytron_turn.context import (
    WindowSummary,
    WindowTurn,
    reference_message,
    summary_text,
    text_message,
    turn_messages,
)
from elytron_turn.sizes import bytes_of, message_bytes, tokens_of

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ThreadCompactor:
    """Compact one thread."""

    agent: AgentParts
    deadline: RunDeadline | None = None
    """Deadline of the run that compacts. If a summary is late, an extract replaces it."""

    def past_share(self, *, zone: str) -> float:
        """Return the share of the window that earlier turns take."""
        return sum(size.tokens for size in self._sizes(zone)) / self.agent.window.tokens

    def plan(self, total_tokens: int, /, *, zone: str, is_forced: bool = False) -> CompactionPlan | None:
        """Return a plan for a request of `total_tokens`, or None if no turn has to or may leave the window."""
        sizes = self._sizes(zone)
        # The current summary becomes part of the next one.
        replaced_tokens = min(self._tokens(self._summary_bytes(self._previous)), limits.SUMMARY_TOKENS)
        return plan_compaction(
            sizes,
            fixed_tokens=max(total_tokens - sum(size.tokens for size in sizes) - replaced_tokens, 0),
            max_tokens=self._tokens(self.agent.max_bytes()),
            threshold=1.0,
            is_forced=is_forced,
        )

    async def carry_out(self, planned: CompactionPlan, /) -> WindowSummary:
        """Summarise the turns that `planned` evicts, and commit. Raises InvalidInput if the window has changed."""
        summary = await self._summed_up(planned)
        await self._commit(summary)
        return summary

    async def shorten(self, planned: CompactionPlan, /) -> WindowSummary | None:
        """Like `carry_out`, but commit only if the window becomes shorter; otherwise return None.

        Raises InvalidInput if the window has changed.
        """
        summary = await self._summed_up(planned)
        saved_bytes = bytes_of(self._messages(summary.covers)) + self._summary_bytes(self._previous)
        if self._summary_bytes(summary.text) >= saved_bytes and not summary.is_extract:
            # The model's summary is too long. An extract of first sentences may be shorter.
            summary = summary.model_copy(update={"text": self._extract(summary.covers), "is_extract": True})
        if self._summary_bytes(summary.text) >= saved_bytes:
            logger.warning("a summary was discarded because it is no shorter than its %d turns", len(summary.covers))
            return None
        await self._commit(summary)
        return summary

    async def _summed_up(self, planned: CompactionPlan) -> WindowSummary:
        thread = self.agent.thread
        turns = tuple(turn for turn in thread.past if turn.run in planned.evicted)
        if tuple(turn.run for turn in turns) != planned.evicted:
            raise InvalidInput(field="plan", problem="was made for another window: create a new plan")
        head = thread.head
        summary_text = await self._write_summary(turns, self._previous)
        return WindowSummary(
            number=head.summaries + 1,
            text=summary_text or self._extract(planned.evicted),
            covers=planned.evicted,
            previous=head.summary,
            at=self.agent.clock.now(),
            is_extract=summary_text is None,
        )

    async def _commit(self, summary: WindowSummary) -> None:
        # Update the window first, otherwise recall could return the summary in addition to its own turns.
        await self.agent.thread.compact(summary)
        await self._keep(summary)

    @property
    def _previous(self) -> str:
        summary = self.agent.thread.summary
        return summary.text if summary is not None else ""

    def _extract(self, runs: Collection[str]) -> str:
        return extract_summary([turn for turn in self.agent.thread.past if turn.run in runs], self._previous)

    def _messages(self, runs: Collection[str]) -> list[Message]:
        past_turns = (turn for turn in self.agent.thread.past if turn.run in runs)
        return [message for turn in past_turns for message in turn_messages(turn, zone="UTC")]

    def _summary_bytes(self, text: str) -> int:
        return message_bytes(reference_message(summary_text(text, ""))) if text else 0

    def _tokens(self, size_bytes: int) -> int:
        return tokens_of(size_bytes, factor=self.agent.factor)

    async def undo(self) -> WindowSummary:
        """Restore the turns of the latest summary and return it. Raises NotFound if there is none.

        Recall no longer finds this summary, and finds the previous one again.
        """
        thread = self.agent.thread
        if thread.summary is not None:
            await self._withdraw(await thread.journal.summary(thread.name, thread.summary.number) or thread.summary)
        undone_summary = await thread.uncompact()
        if thread.summary is not None and not thread.summary.is_erased:
            await self._keep(thread.summary)
        return undone_summary

    def _sizes(self, zone: str) -> list[TurnSize]:
        return [
            TurnSize(run=turn.run, tokens=self._tokens(bytes_of(turn_messages(turn, zone=zone))))
            for turn in self.agent.thread.past
        ]

    async def _write_summary(self, turns: Sequence[WindowTurn], previous: str) -> str | None:
        """Return a model's summary whose quotes occur in the turns, with one retry, or None."""
        request = summary_request(turns, previous, window=self.agent.models.summary_window(self.agent.window))
        for _ in range(2):
            timeout_s = self.deadline.timeout_s() if self.deadline is not None else None
            try:
                draft_request = ask_for(self.agent.models.summary, request, WindowSummaryDraft)
                draft = (await finish_work(draft_request, timeout_s=timeout_s)).value
            except (ModelError, TimeoutError, WorkCancelled):
                return None
            problem = problem_of(draft, turns, previous)
            if problem is None:
                return draft.text
            retry_message = text_message(ChatRole.USER, f"Your summary was rejected: {problem}. Write it again.")
            request = request.model_copy(update={"messages": (*request.messages, retry_message)})
        return None

    async def _withdraw(self, undone: WindowSummary) -> None:
        """Remove a summary from memory. A newer summary of the conversation stays."""
        agent = self.agent
        channel, conversation = agent.scope.conversation_key
        filters = RecallFilters(planes=(RecallPlane.SUMMARY,), channels=(channel,), conversations=(conversation,))
        request = MemoryListRequest(scope=agent.scope, filters=filters, limit=1)
        stored_hits = [hit for hit in (await agent.memory.list(request)).items if hit.text == _stored_text(undone)]
        if stored_hits:
            await agent.memory.forget(
                MemoryForgetRequest(scope=agent.scope, ids=(stored_hits[0].id,), reason="the compaction was undone")
            )

    async def _keep(self, summary: WindowSummary) -> None:
        """Store the summary in memory too. The thread already has it, so a failure changes nothing."""
        head = self.agent.thread.head
        covered_runs = head.runs - len(head.window)
        draft = SummaryDraft(text=_stored_text(summary), messages=max(2 * covered_runs, 1))
        try:
            write_request = MemoryWriteRequest(scope=self.agent.scope, write=SummaryWrite(summary=draft))
            await self.agent.memory.write(write_request)
        except ElytronError:
            return


def _stored_text(summary: WindowSummary) -> str:
    """Return the text of a summary in the form stored in memory."""
    return summary.text[: limits.SUMMARY_CHARS]
