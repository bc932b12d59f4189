"""The summary of a conversation, renewed by the model when enough was said since."""

from elytron.documents.stored_values import value_at
from elytron.passes.pass_context import NEEDS_MODEL, KnownTurn, Work, ended, skipped
from elytron_core import limits
from elytron_core.contracts.admin.maintenance import PassOutcome
from elytron_core.contracts.planes import SummaryDraft, SummaryWrite
from elytron_core.ids import TurnId
from elytron_core.model import Value
from elytron_core.planes.admin.jobs import Pass
from elytron_core.planes.conversation import summaries, transcript
from elytron_core.policy.extraction import prompts
from elytron_core.policy.maintenance import due
from elytron_core.ports.store import Ref

TURNS_READ = 400


class SummaryAnswer(Value, extra="ignore"):
    """A model's summary of a conversation."""

    summary: str


async def sum_up(work: Work, /) -> PassOutcome:
    """Renew the conversation's summary if it is due: from 40 messages on, then for every 20 new ones."""
    if work.asker is None:
        return skipped(Pass.SUMMARY, NEEDS_MODEL)
    ref = Ref(summaries.SUMMARIES, work.tag)
    known, _ = await value_at(work.ctx.store, work.space, ref, summaries.SessionSummary)
    covered = known.through_sequence if known is not None else 0
    turns = await _turns_after(work, covered)
    messages = (known.messages if known is not None else 0) + sum(len(turn.turn.messages) for turn in turns)
    if not due.is_summary_due(messages, known):
        return skipped(Pass.SUMMARY, "not_due")
    earlier = known.text if known is not None and known.forgotten_at is None else ""
    data = prompts.summary_data(earlier, [turn.turn for turn in turns], most=work.chars)
    answer = await work.ask(prompts.SUMMARY, data, SummaryAnswer)
    text = answer.summary.strip()[: limits.SUMMARY_CHARS]
    if not text:
        return ended(Pass.SUMMARY, {"empty": 1}, changed=0)
    draft = SummaryDraft(
        text=text, messages=messages, through_sequence=turns[-1].turn.sequence, model=work.asker.model.name
    )
    report = await work.write(SummaryWrite(summary=draft))
    return ended(Pass.SUMMARY, {"messages": messages}, changed=report.changed)


async def _turns_after(work: Work, sequence: int) -> list[KnownTurn]:
    after = transcript.turn_id(work.tag, sequence)
    documents = await work.ctx.store.scan(
        work.space, transcript.TURNS, prefix=f"{work.tag}.", after=after, limit=TURNS_READ
    )
    return [KnownTurn(TurnId(document.ref.key), transcript.Turn.from_bytes(document.body)) for document in documents]
