"""Console routes for memories: a memory's surroundings, counted erasure, and file export and import."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Final, TypeVar

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from elytron.flows.transcript_import import TranscriptImportReport, import_transcript
from elytron_adapter.envelope import RejectedAnswer
from elytron_adapter.http.archives import MEDIA_TYPE, receive_file, work_folder
from elytron_adapter.http.requests import AUDIT_ID, query_flag
from elytron_adapter.http.responses import render_answer
from elytron_adapter.surface import Route
from elytron_console.routes.console_calls import ConsoleCall, ConsoleRoute
from elytron_console.sessions import ROOT
from elytron_core import limits as core_limits
from elytron_core.contracts.archive import MemoryImportReport
from elytron_core.contracts.facts import FactDetailReport, FactDetailRequest
from elytron_core.contracts.memories import (
    MemoryControlReport,
    MemoryEraseRequest,
    MemoryForgetRequest,
    MemoryGetRequest,
    MemoryHistoryReport,
    MemoryHistoryRequest,
    MemoryId,
)
from elytron_core.contracts.recall import RecallHit
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest
from elytron_core.errors import InvalidInput
from elytron_core.model import Request as OperationRequest
from elytron_core.model import Value
from elytron_core.scope import Reason, Scope, ScopedRequest, Space

TRANSCRIPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file of messages that is sent."""
EGO_NODES: Final = 200
"""Memories around one memory that one answer has at most."""
EGO_TEXT_CHARS: Final = 400


ReportT = TypeVar("ReportT", bound=Value)


class EgoNode(Value):
    """A memory next to another one: the beginning of its text, empty if it may not be read or is gone."""

    id: str
    text: str = ""


class EgoGraph(Value):
    """A memory's surroundings, of at most 200 memories; `clipped` if there are more."""

    id: str
    rests: tuple[EgoNode, ...] = ()
    """Memories that it is based on."""
    versions: tuple[EgoNode, ...] = ()
    """Versions of the fact, oldest first, including itself."""
    derived: tuple[EgoNode, ...] = ()
    """Memories based on it."""
    clipped: bool = False


async def _show_surroundings(call: ConsoleCall) -> Value | Response:
    """Show what a memory is based on, its versions, and what is based on it."""
    graph = await _EgoReading(call).graph(call.request.query_params.get("id", ""))
    return render_answer(graph) if isinstance(graph, RejectedAnswer) else graph


class _EgoReading:
    """Reads the surroundings through operations, each called as the requesting principal."""

    def __init__(self, call: ConsoleCall, /) -> None:
        self._call = call
        self._scope = call.scope()
        self._remaining_nodes = EGO_NODES

    async def graph(self, name: str) -> EgoGraph | RejectedAnswer:
        """Return the surroundings of the memory `name`, or why it cannot be read."""
        scope = self._scope
        own_report = await self._call.perform("get", MemoryGetRequest(id=name, include_private=True, scope=scope))
        detail = await self._fact(name)
        if isinstance(own_report, RejectedAnswer) and detail is None:
            return own_report
        history_request = MemoryHistoryRequest(id=name, include_private=True, scope=scope)
        history_report = await self._report("history", history_request, MemoryHistoryReport)
        # A preview of an erasure names what is based on a memory; nothing is hidden or erased.
        preview_request = MemoryForgetRequest(ids=(name,), dry_run=True, scope=scope)
        preview = await self._report("forget", preview_request, MemoryControlReport)
        fact_evidence = detail.fact.evidence if detail is not None else ()
        derived_memories = preview.derived if preview is not None else ()
        events = history_report.items if history_report is not None and detail is not None else ()
        texts = {item.id: item.text for item in events if item.text}
        ids = tuple(dict.fromkeys((*(item.id for item in events), name))) if detail is not None else ()
        return EgoGraph(
            id=name,
            versions=tuple(_ego_node(each, texts.get(each, "")) for each in self._within_bound(ids)),
            rests=tuple([await self._node(each) for each in self._within_bound(fact_evidence)]),
            derived=tuple([await self._node(each) for each in self._within_bound(derived_memories)]),
            clipped=len(fact_evidence) + len(ids) + len(derived_memories) > EGO_NODES,
        )

    def _within_bound(self, ids: Sequence[str]) -> Sequence[str]:
        """Return those of `ids` that fit."""
        shown_ids = ids[: self._remaining_nodes]
        self._remaining_nodes -= len(shown_ids)
        return shown_ids

    async def _node(self, name: str) -> EgoNode:
        hit = await self._report("get", MemoryGetRequest(id=name, include_private=True, scope=self._scope), RecallHit)
        return _ego_node(name, hit.text if hit is not None else "")

    async def _fact(self, name: str) -> FactDetailReport | None:
        """Return the fact of this id, None if the id belongs to another memory."""
        try:
            detail = FactDetailRequest(id=name, include_private=True, scope=self._scope)
        except InvalidInput:
            return None
        return await self._report("get_fact", detail, FactDetailReport)

    async def _report(self, operation: str, request: ScopedRequest, kind: type[ReportT]) -> ReportT | None:
        answer = await self._call.perform(operation, request)
        report = None if isinstance(answer, RejectedAnswer) else answer.report
        return report if isinstance(report, kind) else None


def _ego_node(name: str, text: str) -> EgoNode:
    return EgoNode(id=name, text=text[:EGO_TEXT_CHARS])


class CountedErasure(OperationRequest):
    """Erase memories, or a whole space, as counted by a preview.

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


async def _erase_counted(call: ConsoleCall) -> Value | Response:
    """Count an erasure, or erase what was counted."""
    counted_erasure = await call.body(CountedErasure)
    preview = await _erase_memories(call, counted_erasure, dry_run=True)
    if counted_erasure.count is None or isinstance(preview, Response):
        return preview
    if counted_erasure.count != preview.count:
        raise InvalidInput(field="count", problem=f"is now {preview.count}: review the preview again")
    return await _erase_memories(call, counted_erasure, dry_run=False)


async def _erase_memories(call: ConsoleCall, counted: CountedErasure, *, dry_run: bool) -> CountedReceipt | Response:
    erase_request = MemoryEraseRequest(
        scope=counted.scope, ids=counted.ids, whole_space=counted.whole_space, reason=counted.reason, dry_run=dry_run
    )
    answer = await call.perform("erase", erase_request, audit_id=call.request.headers.get(AUDIT_ID))
    if isinstance(answer, RejectedAnswer):
        return render_answer(answer)
    report = answer.report
    assert isinstance(report, MemoryControlReport)
    return CountedReceipt(count=sum(report.removed.values()), report=report)


ARCHIVE: Final = f"{ROOT}/archive"
TRANSCRIPTS: Final = f"{ROOT}/transcripts"
_FILE_TYPE: Final = "application/octet-stream"
_NAME_BYTES: Final = 200


class WriteRefused(Exception):
    """A write of an import was refused; `answer` says why."""

    def __init__(self, answer: RejectedAnswer, /) -> None:
        super().__init__(answer.reason)
        self.answer = answer


class CallerWrites:
    """The writes of an import, each a call of the principal who sent the file."""

    def __init__(self, call: ConsoleCall, scope: Scope, /) -> None:
        self._call = call
        self.scope = scope

    async def write(self, request: MemoryWriteRequest, /) -> MemoryWriteReport:
        """Commit `request`. Raises WriteRefused."""
        answer = await self._call.perform("write", request)
        if isinstance(answer, RejectedAnswer):
            raise WriteRefused(answer)
        assert isinstance(answer.report, MemoryWriteReport)
        return answer.report


async def _fetch_archive(call: ConsoleCall) -> Response:
    return await call.console.archives.fetch(call.request)


async def _send_archive(call: ConsoleCall) -> Response:
    return await call.console.archives.send(call.request)


async def _send_transcript(call: ConsoleCall) -> Value | Response:
    request = call.request
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FILE_TYPE:
        raise HTTPException(415, headers={"Accept": _FILE_TYPE})
    name, dry_run = _file_name(request), query_flag(request.query_params, "dry_run")
    order = request.query_params.get("date_order")
    writes = CallerWrites(call, Scope(space=call.space()))
    async with call.console.transcript_places, work_folder() as folder:
        path = folder / name
        await receive_file(request, path, limit=TRANSCRIPT_BYTES)
        try:
            return await import_transcript(writes, path, dry_run=dry_run, place=name, date_order=order)
        except WriteRefused as refusal:
            return render_answer(refusal.answer)


def _file_name(request: Request) -> str:
    """Return the name of the uploaded file; a file of the same name counts as the same."""
    name = request.query_params.get("name", "")
    is_plain_name = name == PurePosixPath(name).name and name not in {"", ".", ".."} and "\\" not in name
    if not is_plain_name or not name.isprintable() or len(name.encode("utf-8", "replace")) > _NAME_BYTES:
        raise InvalidInput(field="name", problem=f"must be a file name of at most {_NAME_BYTES} bytes")
    return name


MEMORY_ROUTES: Final[tuple[ConsoleRoute, ...]] = (
    Route("POST", f"{ROOT}/erasures", _erase_counted, "console_erasure",
          "Preview an erasure, or run a previewed one.", CountedErasure, CountedReceipt),
    Route("GET", f"{ROOT}/around", _show_surroundings, "console_around",
          "Show a memory's sources and versions, and the memories derived from it.", None, EgoGraph,
          query=("space", "id")),
    Route("GET", ARCHIVE, _fetch_archive, "console_fetch_archive",
          "Download the non-private part of the space, or all of it, as an archive.", None, MEDIA_TYPE,
          headers=("If-None-Match",), query=("space", "include_private"), outcome="The archive."),
    Route("PUT", ARCHIVE, _send_archive, "console_send_archive",
          "Import an archive file into the space, or preview the import.", MEDIA_TYPE, MemoryImportReport,
          headers=("If-Match",), query=("space", "mode", "dry_run"), is_repeatable=True),
    Route("PUT", TRANSCRIPTS, _send_transcript, "console_send_transcript",
          "Import messages exported by another program, or preview the import.", _FILE_TYPE, TranscriptImportReport,
          query=("space", "name", "dry_run", "date_order"), is_repeatable=True),
)  # fmt: skip
