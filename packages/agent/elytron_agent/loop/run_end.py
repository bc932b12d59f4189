"""End of a run: its event, the report to a strategy, and the documents of a run, stored or not."""

import logging
from typing import Protocol

from elytron_agent.runs.deadline import WorkCancelled, finished
from elytron_agent.runs.events import ANSWERS, RunEnded
from elytron_agent.runs.journal import CallApproval, CallResult, RunEnd, RunRecord, StepReply
from elytron_agent.strategies.strategy import Ending, Exchange, MemoryStrategy
from elytron_core.errors import ElytronError

logger = logging.getLogger(__name__)


class RunDocuments(Protocol):
    """Documents of one run, each stored before what follows from it is done."""

    async def reply(self, run: str, reply: StepReply, /) -> None: ...

    async def approve(self, run: str, approval: CallApproval, /) -> None: ...

    async def result(self, run: str, result: CallResult, /) -> None: ...

    async def end(self, run: str, end: RunEnd, /) -> None: ...


class NoDocuments:
    """Documents of a run of which nothing is kept: they are not stored at all."""

    async def reply(self, run: str, reply: StepReply, /) -> None:
        pass

    async def approve(self, run: str, approval: CallApproval, /) -> None:
        pass

    async def result(self, run: str, result: CallResult, /) -> None:
        pass

    async def end(self, run: str, end: RunEnd, /) -> None:
        pass


def end_of(record: RunRecord, /) -> RunEnded:
    """Return the end of a run that is over."""
    end = record.end
    assert end is not None
    return RunEnded(
        run=record.input.run,
        reason=end.reason,
        text=record.text,
        problem=end.problem,
        usage=end.usage,
        turn=end.turn,
    )


async def tell_end(strategy: MemoryStrategy | None, record: RunRecord, /) -> None:
    """Report a run's end to the strategy: in the same words each time, as a crash may hide an earlier report."""
    end = record.end
    if strategy is None or end is None or not record.input.is_stored:
        return
    asked_at = record.input.at
    exchange = Exchange(
        prompt=record.input.text,
        answer=record.text,
        asked_at=asked_at,
        answered_at=max(end.at if end.at is not None else asked_at, asked_at),
        ending=Ending.COMPLETED if end.reason in ANSWERS else Ending.FAILED,
        turn=record.input.run,
        is_stored=True,
    )
    try:
        await finished(strategy.after_run(record.input.thread, exchange))
    except (ElytronError, OSError, WorkCancelled) as error:
        # The end is stored: a strategy that fails here does not keep the thread from going on.
        logger.warning("a strategy could not take the end of a run (%s)", type(error).__name__)
