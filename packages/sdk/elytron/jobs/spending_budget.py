"""Spending on models: calls within the budget of a day, and their recorded cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes import jobs
from elytron_core.planes.jobs import (
    NOTHING,
    ModelUsage,
    SpendingHistory,
)
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy import spending_budget
from elytron_core.ports.models import LanguageModel, PromptMessage, PromptRole, TextCompletion
from elytron_core.ports.store import DocumentRef, JournalAction

if TYPE_CHECKING:
    from elytron_models.answer import AnswerCorrection


SPENDING_REF = DocumentRef(jobs.SPENDING, jobs.KEY)


ValueT = TypeVar("ValueT", bound=Value)


_Change = Callable[[SpendingHistory, Instant], SpendingHistory]


class BudgetReached(Exception):
    """The space has used up what models may cost it today."""


@dataclass(slots=True)
class ModelAsker:
    """Calls one model on behalf of one space, and counts the usage."""

    ctx: OperationContext
    space: SpaceId
    model: LanguageModel
    spent: ModelUsage = field(default=NOTHING)

    async def ask(self, prompt: Sequence[PromptMessage], /, *, schema: str | None, max_tokens: int) -> TextCompletion:
        """Return the model's answer, counted in the day's history. Raises BudgetReached, ModelError.

        The call is held in the history before it is made, so that workers side by side cannot overdraw together.
        """
        tokens = sum(spending_budget.estimate_tokens(message.text) for message in prompt) + max_tokens
        held_at = await self._hold(tokens)
        # A failed call was made too, so it counts.
        call_usage = ModelUsage(calls=1)
        try:
            completion = await self.model.complete(prompt, schema=schema, max_tokens=max_tokens)
            call_usage = ModelUsage(
                calls=1,
                prompt_tokens=completion.prompt_tokens,
                completion_tokens=completion.completion_tokens,
                cost=completion.cost,
            )
            return completion
        finally:
            self.spent = self.spent.plus(call_usage)
            await self._settle(held_at, tokens, call_usage)

    async def structured(self, prompt: Sequence[PromptMessage], shape: type[ValueT], /, *, max_tokens: int) -> ValueT:
        """Return the model's answer as a `shape`. Raises ModelRefused if it gives none, even after one retry.

        What is nearly JSON is repaired; a truncated answer is not, because half a sentence would look like a whole one.
        """
        # Imported late: most processes that read a queue call no model.
        from elytron_core.policy.extraction.model_facts import schema_of
        from elytron_models.answer import WrittenText, correct_answer

        schema = schema_of(shape)

        async def asked(correction: "AnswerCorrection | None", /) -> WrittenText:
            correction_messages = () if correction is None else _correction_said(correction)
            completion = await self.ask((*prompt, *correction_messages), schema=schema, max_tokens=max_tokens)
            return WrittenText(completion.text, is_cut=completion.is_cut)

        return await correct_answer(asked, shape, name=self.model.name)

    async def _hold(self, tokens: int) -> Instant:
        def hold(history: SpendingHistory, now: Instant) -> SpendingHistory:
            if not spending_budget.budget_allows(
                self.ctx.budget, spending_budget.spent_today(history, now), tokens=tokens
            ):
                raise BudgetReached
            return spending_budget.hold_call(history, now, tokens=tokens)

        return await self._change_spending(hold)

    async def _settle(self, held_at: Instant, tokens: int, cost: ModelUsage) -> None:
        await self._change_spending(
            lambda history, _: spending_budget.settle_call(history, held_at, tokens=tokens, spent=cost)
        )

    async def _change_spending(self, change: _Change) -> Instant:
        async def plan(record: SpaceRecord) -> SettledChanges[Instant]:
            (document,) = await self.ctx.store.get(self.space, (SPENDING_REF,))
            history = SpendingHistory.from_bytes(document.body) if document is not None else SpendingHistory()
            now = self.ctx.clock.now()
            changes = ChangeSet(record)
            revision = document.revision if document is not None else 0
            changes.put(SPENDING_REF, change(history, now), expects=revision, action=JournalAction.MAINTENANCE)
            return SettledChanges(now, changes)

        changed_at, _ = await settle_changes(self.ctx, self.space, plan)
        return changed_at


async def spent_on(ctx: OperationContext, space: SpaceId, /) -> SpendingHistory:
    """Return what models have cost `space` in the last days."""
    (document,) = await ctx.store.get(space, (SPENDING_REF,))
    return SpendingHistory.from_bytes(document.body) if document is not None else SpendingHistory()


def _correction_said(correction: "AnswerCorrection") -> tuple[PromptMessage, PromptMessage]:
    return PromptMessage(PromptRole.ASSISTANT, correction.answer), PromptMessage(PromptRole.USER, correction.question)
