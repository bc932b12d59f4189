"""Subscriptions of a stream: the journal itself, or a report that is made again each time the journal has grown.

A report covers all that was committed up to its sequence, so a burst of commits is one report. Reports come out of
the same door as a command's: decoded, judged by the policy, under the caller's limits, each time.
"""

import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue, ValidationError

from elytron.journal.follower import Follower, StoreJournals, entry_pages
from elytron.registry import WIRE_OPERATIONS
from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import AcceptedAnswer, CallTransport, DuplicatedAnswer, RejectedAnswer
from elytron_adapter.identity.access_keys import Principal
from elytron_core import limits
from elytron_core.contracts.inspection import LedgerOrder, MemoryReplayReport
from elytron_core.errors import LimitExceeded, Unauthorized
from elytron_core.events import EventGap, JournalEvent, StreamKind
from elytron_core.model import Value, invalid_input
from elytron_core.scope import Scope

REPORTS: dict[StreamKind, str] = {
    StreamKind.PROJECTION: "project",
    StreamKind.INSPECTION: "inspect",
    StreamKind.REPLAY: "replay",
    StreamKind.CAPABILITY: "capabilities",
}
"""The operation whose report a kind of subscription sends."""
QUIET = frozenset({"projection"})
"""Actions that change nothing which a report shows: a note that something was shown must not show it again."""


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """Limits of a stream, and the interval of its checks."""

    frame_bytes: int = limits.FRAME_BYTES
    at_once: int = limits.FRAMES_AT_ONCE
    waiting: int = limits.FRAMES_WAITING
    waiting_bytes: int = limits.FRAMES_WAITING_BYTES
    send_s: float = limits.FRAME_SEND_S
    subscriptions: int = limits.SUBSCRIPTIONS
    each: int = limits.STREAMS_PER_PRINCIPAL
    recheck_s: float = limits.STREAM_RECHECK_S
    heartbeat_s: float = limits.EVENTS_HEARTBEAT_S
    poll_s: float = limits.EVENTS_POLL_S


class ServerStreams:
    """State that the streams of one server share: the entrance, the journals, and a count per principal."""

    def __init__(self, entrance: CallerEntrance, /, *, bounds: StreamBounds | None = None) -> None:
        context = entrance.dispatcher.runtime.context
        self.entrance = entrance
        budget = context.profile.budget
        self.bounds = bounds or StreamBounds(frame_bytes=budget.http_body_bytes, subscriptions=budget.subscriptions)
        self.journals = StoreJournals(context.store, context.commits, poll_s=self.bounds.poll_s)
        self._open: Counter[str] = Counter()

    @contextmanager
    def place(self, principal: Principal, /) -> Generator[None]:
        """Count a stream of `principal` while it is open. Raises LimitExceeded."""
        if self._open[principal.id] >= self.bounds.each:
            raise LimitExceeded(what="open streams of one caller", limit=self.bounds.each)
        self._open[principal.id] += 1
        self.entrance.streams += 1
        try:
            yield
        finally:
            self.entrance.streams -= 1
            self._open[principal.id] -= 1
            self._open += Counter()  # forgets who has none

    async def ended(self, authorization: str | None, /) -> Unauthorized | None:
        """Return when the server begins to end (None), or the credential holds no longer."""
        return await self.entrance.ended(authorization, recheck_s=self.bounds.recheck_s)


@dataclass(frozen=True, slots=True)
class ReportedState:
    """A report as JSON, and the journal's sequence that it covers."""

    sequence: int
    report: bytes


def operation_of(kind: StreamKind, /) -> str | None:
    """Return the operation of `kind`, or None where this server has none."""
    named = REPORTS.get(kind)
    return named if any(operation.name == named for operation in WIRE_OPERATIONS) else None


async def subscribed_reports(
    streams: ServerStreams,
    principal: Principal,
    /,
    *,
    operation: str,
    payload: dict[str, JsonValue],
    request_id: str,
    after: int,
) -> AsyncIterator[ReportedState | RejectedAnswer]:
    """Yield the report of `operation` now, where the journal is beyond `after`, and each time it has grown.

    A refusal is the last that is yielded.
    """
    entrance = streams.entrance
    follower = streams.journals.follow(entrance.space_of(principal, _payload_scope(payload)))
    await follower.begin(None)
    # A space that nothing was written to yet has its report too.
    is_due = follower.sequence > after or after == 0
    while True:
        if is_due:
            # The place first, then the report: it may know more than it is said to cover, never less.
            covered = follower.sequence
            answer = await entrance.call(
                principal,
                transport=CallTransport.WSS,
                operation=operation,
                request_id=request_id,
                payload=json.dumps(payload).encode(),
            )
            match answer:
                case AcceptedAnswer(report=report) | DuplicatedAnswer(report=report):
                    if _says_something(report):
                        yield ReportedState(covered, envelope.encode_value(report))
                    payload = _next_request(payload, report)
                    is_due = isinstance(report, MemoryReplayReport) and report.has_more
                case RejectedAnswer():
                    yield answer
                    return
                case _:
                    return
            continue
        found = await follower.next()
        is_due = isinstance(found, EventGap) or any(event.action not in QUIET for event in found)


async def follower_entries(follower: Follower, gap: EventGap | None, /) -> AsyncGenerator[JournalEvent | EventGap]:
    """Yield the entries behind the place of a reader that has begun, and the gaps; `gap` opened as it began."""
    async for page in entry_pages(follower, gap):
        if isinstance(page, EventGap):
            yield page
            continue
        for event in page:
            yield event


def _payload_scope(payload: dict[str, JsonValue]) -> Scope | None:
    try:
        return Scope.model_validate(payload["scope"]) if payload.get("scope") is not None else None
    except ValidationError as error:
        raise invalid_input(error, model=Scope, known=Scope.model_fields) from None


def _says_something(report: Value) -> bool:
    return not isinstance(report, MemoryReplayReport) or bool(report.turns)


def _next_request(payload: dict[str, JsonValue], report: Value) -> dict[str, JsonValue]:
    """Return the next request: a replay goes on behind the last turn that was sent."""
    if isinstance(report, MemoryReplayReport) and report.turns:
        return {**payload, "cursor": cast("str", report.turns[-1].id), "order": LedgerOrder.FIRST.value}
    return payload
