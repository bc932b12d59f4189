"""The admission of a request's texts: one way for every operation that brings text in."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeVar

from elytron.context import OperationContext
from elytron.intake.scrubber import scrub_request
from elytron.profile_limits import require_chars
from elytron_core.model import Value

RequestT = TypeVar("RequestT", bound=Value)
ReportT = TypeVar("ReportT", bound=Value)
Perform = Callable[[OperationContext, RequestT], Awaitable[ReportT]]


def admitting(operation: Perform[RequestT, ReportT], /) -> Perform[RequestT, ReportT]:
    """Return `operation` with the texts of its request blacked out before it sees them.

    A report that has a field `scrubbed` says what was found. Raises InvalidInput for a text of nothing but memory's own
    output outside of turns and candidates, LimitExceeded for a text longer than the profile takes.
    """

    @wraps(operation)
    async def admit(ctx: OperationContext, request: RequestT, /) -> ReportT:
        clean, scrubbed = await scrub_request(request)
        require_chars(ctx.profile, scrubbed.longest)
        report = await operation(ctx, clean)
        if not scrubbed.found or "scrubbed" not in type(report).model_fields:
            return report
        return report.model_copy(update={"scrubbed": scrubbed.found})

    return admit
