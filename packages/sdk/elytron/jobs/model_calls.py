"""Asking the language model within the day's budget, and reading typed values from what it answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from elytron.context import OperationContext
from elytron.documents.change_set import ChangeSet
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes import jobs
from elytron_core.planes.jobs import NOTHING, ModelUsage, SpendingBook
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy import maintenance
from elytron_core.policy.extraction import prompts as shapes
from elytron_core.ports.models import LanguageModel, PromptMessage, PromptRole, TextCompletion
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_models.answer import AnswerCorrection, WrittenText, correct_answer

BOOK_REF = DocumentRef(jobs.SPENDING, jobs.KEY)
ValueT = TypeVar("ValueT", bound=Value)
_Change = Callable[[SpendingBook, Instant], SpendingBook]


class BudgetReached(Exception):
    """The space has used up what models may cost it today."""


@dataclass(slots=True)
class ModelAsker:
    """Asks one model on behalf of one space, and counts what that came to."""

    ctx: OperationContext
    space: SpaceId
    model: LanguageModel
    spent: ModelUsage = field(default=NOTHING)

    async def ask(self, prompt: Sequence[PromptMessage], /, *, schema: str | None, max_tokens: int) -> TextCompletion:
        """Return what the model writes, counted into the day's book. Raises BudgetReached, ModelError.

        The call is held in the book before it is made, so that workers side by side cannot overdraw together.
        """
        tokens = sum(maintenance.estimate_tokens(said.text) for said in prompt) + max_tokens
        held_at = await self._hold(tokens)
        cost = ModelUsage(calls=1)
        try:
            answer = await self.model.complete(prompt, schema=schema, max_tokens=max_tokens)
            cost = ModelUsage(
                calls=1,
                prompt_tokens=answer.prompt_tokens,
                completion_tokens=answer.completion_tokens,
                cost=answer.cost,
            )
            return answer
        finally:
            self.spent = self.spent.plus(cost)
            await self._settle(held_at, tokens, cost)

    async def structured(self, prompt: Sequence[PromptMessage], shape: type[ValueT], /, *, max_tokens: int) -> ValueT:
        """Return the model's answer as a `shape`. Raises ModelRefused where it gives none, even when asked once more.

        What is nearly JSON is repaired; what was cut off is not, for half a sentence would pass for a whole one.
        """
        schema = shapes.schema_of(shape)

        async def asked(correction: AnswerCorrection | None, /) -> WrittenText:
            more = () if correction is None else _correction_said(correction)
            answer = await self.ask((*prompt, *more), schema=schema, max_tokens=max_tokens)
            return WrittenText(answer.text, is_cut=answer.is_cut)

        return await correct_answer(asked, shape, name=self.model.name)

    async def _hold(self, tokens: int) -> Instant:
        def hold(book: SpendingBook, now: Instant) -> SpendingBook:
            if not maintenance.budget_allows(self.ctx.budget, maintenance.spent_today(book, now), tokens=tokens):
                raise BudgetReached
            return maintenance.hold_call(book, now, tokens=tokens)

        return await self._keep_book(hold)

    async def _settle(self, held_at: Instant, tokens: int, cost: ModelUsage) -> None:
        await self._keep_book(lambda book, _: maintenance.settle_call(book, held_at, tokens=tokens, spent=cost))

    async def _keep_book(self, change: _Change) -> Instant:
        async def plan(record: SpaceRecord) -> SettledChanges[Instant]:
            (document,) = await self.ctx.store.get(self.space, (BOOK_REF,))
            book = SpendingBook.from_bytes(document.body) if document is not None else SpendingBook()
            now = self.ctx.clock.now()
            changes = ChangeSet(record)
            revision = document.revision if document is not None else 0
            changes.put(BOOK_REF, change(book, now), expects=revision, action=JournalAction.MAINTENANCE)
            return SettledChanges(now, changes)

        kept_at, _ = await settle_changes(self.ctx, self.space, plan)
        return kept_at


async def spent_on(ctx: OperationContext, space: SpaceId, /) -> SpendingBook:
    """Return what models have cost `space` in the last days."""
    (document,) = await ctx.store.get(space, (BOOK_REF,))
    return SpendingBook.from_bytes(document.body) if document is not None else SpendingBook()


def _correction_said(correction: AnswerCorrection) -> tuple[PromptMessage, PromptMessage]:
    return PromptMessage(PromptRole.ASSISTANT, correction.answer), PromptMessage(PromptRole.USER, correction.question)
