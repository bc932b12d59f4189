"""Erasures by count: what an erasure removes is counted and named first, and nothing else is erased then."""

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import AcceptedAnswer, CallTransport, DuplicatedAnswer, QueuedAnswer, RejectedAnswer
from elytron_adapter.envelope import Response as Answer
from elytron_adapter.http.requests import AUDIT_ID, read_body, require_json
from elytron_adapter.http.responses import principal_of, render_answer, request_id_of
from elytron_adapter.surface import Surface, SurfaceDescription
from elytron_console import limits
from elytron_console.sessions import GROUP, ConsoleDoor, value_response
from elytron_core import limits as core_limits
from elytron_core.contracts.control import MemoryControlReport, MemoryEraseRequest, MemoryId
from elytron_core.errors import InvalidInput
from elytron_core.model import Request as OperationRequest
from elytron_core.model import Value
from elytron_core.scope import Reason, Scope, Space


class CountedErasure(OperationRequest):
    """Erase memories, or a whole space, whose documents were counted before.

    Without `count` nothing is erased: the answer is the preview with its count. With another count than that of now, it
    is refused.
    """

    ids: Annotated[tuple[MemoryId, ...], Field(max_length=core_limits.WRITES_PER_REQUEST)] = ()
    whole_space: Space | None = None
    count: Annotated[int, Field(ge=0)] | None = None
    reason: Reason = ""
    scope: Scope | None = None


class CountedReceipt(Value):
    """Result of an erasure, or its preview, and the number of documents that it removes."""

    count: int
    report: MemoryControlReport


def erasure_surface(entrance: CallerEntrance, door: ConsoleDoor, /) -> Surface:
    """Return the surface that counts an erasure, and erases what was counted."""

    async def erased(request: Request) -> Response:
        require_json(request.headers)
        body = await read_body(request.scope, request.receive, limit=limits.BODY_BYTES)
        asked = envelope.decode_as(CountedErasure, body)
        previewed = await _erase_memories(entrance, request, asked, dry_run=True)
        if isinstance(previewed, RejectedAnswer):
            return render_answer(previewed)
        preview = _counted_report(previewed)
        if asked.count is None:
            return value_response(preview)
        if asked.count != preview.count:
            raise InvalidInput(field="count", problem=f"is {preview.count} now: look at the preview again")
        done = await _erase_memories(entrance, request, asked, dry_run=False)
        return render_answer(done) if isinstance(done, RejectedAnswer) else value_response(_counted_report(done))

    told = SurfaceDescription(
        "console_erasure",
        "Count what an erasure removes, or erase what was counted.",
        CountedErasure,
        CountedReceipt,
        group=GROUP,
    )
    return door.surface("POST", "/erasures", erased, told)


async def _erase_memories(
    entrance: CallerEntrance, request: Request, asked: CountedErasure, *, dry_run: bool
) -> Answer:
    erasure = MemoryEraseRequest(
        scope=asked.scope, ids=asked.ids, whole_space=asked.whole_space, reason=asked.reason, dry_run=dry_run
    )
    return await entrance.call(
        principal_of(request.scope),
        transport=CallTransport.CONSOLE,
        operation="erase",
        request_id=request_id_of(request.scope),
        payload=erasure,
        audit_id=request.headers.get(AUDIT_ID),
    )


def _counted_report(answer: AcceptedAnswer | DuplicatedAnswer | QueuedAnswer) -> CountedReceipt:
    report = answer.report
    assert isinstance(report, MemoryControlReport)
    return CountedReceipt(count=sum(report.removed.values()), report=report)
