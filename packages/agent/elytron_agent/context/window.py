"""The window of a thread: which turns a model sees as they were, and which stand under a summary."""

from typing import Annotated

from pydantic import Field

from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.ports.chat import Message


class WindowTurn(Value):
    """One run in the window: the user's message, and the model's replies with the results of tools."""

    run: str
    at: Instant
    input: str
    items: tuple[Message, ...] = ()
    is_pending: bool = False
    """True if the run is not over."""
    memories: tuple[str, ...] = ()
    """The ids under which memory holds what was said in it."""


class Summary(Value):
    """Summary of turns that left the window, with the content of the summary before it."""

    number: Annotated[int, Field(ge=1)]
    text: str
    covers: tuple[str, ...]
    """The runs that left the window for this summary; those of earlier summaries are theirs."""
    previous: int = 0
    """The number of the summary that it took in; 0 for none."""
    at: Instant
    is_extract: bool = False
    """True if it was made of the turns' own sentences, without a model."""
    is_erased: bool = False
    """True if its text was erased with a turn that it may cover."""


class ThreadLease(Value):
    """Hold of one process on a thread. It ends at `until`, if its holder does not renew it."""

    holder: str
    until: Instant


class ThreadHead(Value):
    """State of a thread. Each run is in `window`, or covered by exactly one summary of the chain."""

    window: tuple[str, ...] = ()
    """The runs that are shown as they were, oldest first."""
    open: str | None = None
    """The run that is not over."""
    summary: int = 0
    """The number of the summary before the window; 0 for none."""
    summaries: int = 0
    """Number of summaries ever made; the next one gets the next number."""
    epoch: int = 0
    """Number of times that the stable part of the context was rebuilt."""
    runs: int = 0
    """Number of started runs."""
    lease: ThreadLease | None = None
    """Process that runs the thread now."""
    compacted_at: Instant | None = None


def compacted(head: ThreadHead, summary: Summary, /) -> ThreadHead:
    """Return `head` with the runs that `summary` covers out of the window, and a new epoch begun."""
    assert head.window[: len(summary.covers)] == summary.covers
    assert summary.previous == head.summary
    return head.model_copy(
        update={
            "window": head.window[len(summary.covers) :],
            "summary": summary.number,
            "summaries": max(head.summaries, summary.number),
            "epoch": head.epoch + 1,
            "compacted_at": summary.at,
        }
    )


def uncompacted(head: ThreadHead, summary: Summary, /) -> ThreadHead:
    """Return `head` as it would be without its latest `summary`: what it covers is back in the window."""
    assert summary.number == head.summary
    return head.model_copy(
        update={"window": (*summary.covers, *head.window), "summary": summary.previous, "epoch": head.epoch + 1}
    )
