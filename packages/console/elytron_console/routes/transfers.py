"""Export and import of a space by files: its archive, and messages of other programs."""

import asyncio
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from elytron.flows.transcript_import import TranscriptImportReport, import_transcript
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import CallTransport, RejectedAnswer
from elytron_adapter.http.archives import MEDIA_TYPE, ArchiveHandlers, query_flag, receive_file, work_folder
from elytron_adapter.http.requests import query_scope
from elytron_adapter.http.responses import principal_of, render_answer, request_id_of
from elytron_adapter.surface import Surface, SurfaceDescription
from elytron_console import limits
from elytron_console.journal import JournalReader
from elytron_console.sessions import GROUP, ROOT, ConsoleDoor, value_response
from elytron_core.contracts.archive import MemoryImportReport
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest
from elytron_core.errors import InvalidInput
from elytron_core.scope import Scope

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

    def __init__(self, entrance: CallerEntrance, request: Request, scope: Scope, /) -> None:
        self._entrance = entrance
        self._request = request
        self.scope = scope

    async def write(self, request: MemoryWriteRequest, /) -> MemoryWriteReport:
        """Commit `request`. Raises WriteRefused."""
        answer = await self._entrance.call(
            principal_of(self._request.scope),
            transport=CallTransport.CONSOLE,
            operation="write",
            request_id=request_id_of(self._request.scope),
            payload=request,
        )
        if isinstance(answer, RejectedAnswer):
            raise WriteRefused(answer)
        assert isinstance(answer.report, MemoryWriteReport)
        return answer.report


def transfer_surfaces(entrance: CallerEntrance, door: ConsoleDoor, journal: JournalReader, /) -> Iterable[Surface]:
    """Return the surfaces that export and import a space."""
    archives = ArchiveHandlers(entrance, CallTransport.CONSOLE)
    places = asyncio.Semaphore(limits.TRANSCRIPTS_AT_ONCE)

    async def sent(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FILE_TYPE:
            raise HTTPException(415, headers={"Accept": _FILE_TYPE})
        name, dry_run = _file_name(request), query_flag(request, "dry_run")
        scope = Scope(space=journal.space_of(principal_of(request.scope), query_scope(request.query_params)))
        async with places, work_folder() as folder:
            path = folder / name
            await receive_file(request, path, limit=limits.TRANSCRIPT_BYTES)
            writes = CallerWrites(entrance, request, scope)
            try:
                report = await import_transcript(writes, path, dry_run=dry_run, place=name)
            except WriteRefused as refused:
                return render_answer(refused.answer)
        return value_response(report)

    fetch = SurfaceDescription(
        "console_fetch_archive", "Fetch what of the space may leave it, or all of it, as one archive file.", None,
        MEDIA_TYPE, ("If-None-Match",), ("space", "include_private"), group=GROUP, answer="The archive.",
    )  # fmt: skip
    send = SurfaceDescription(
        "console_send_archive", "Read an archive file into the space, or say what that would bring.", MEDIA_TYPE,
        MemoryImportReport, ("If-Match",), ("space", "mode", "dry_run"), group=GROUP,
    )  # fmt: skip
    messages = SurfaceDescription(
        "console_send_transcript", "Read the messages of another program's export, or say what that would bring.",
        _FILE_TYPE, TranscriptImportReport, (), ("space", "name", "dry_run"), group=GROUP,
    )  # fmt: skip
    return (
        door.surface("GET", "/archive", archives.fetch, fetch),
        door.surface("PUT", "/archive", archives.send, send, is_repeatable=True),
        door.surface("PUT", "/transcripts", sent, messages, is_repeatable=True),
    )


def _file_name(request: Request) -> str:
    """Return the name of the file that is sent; a file of the same name is the same one."""
    name = request.query_params.get("name", "")
    is_one = name == PurePosixPath(name).name and name not in {"", ".", ".."} and "\\" not in name
    if not is_one or not name.isprintable() or len(name.encode("utf-8", "replace")) > _NAME_BYTES:
        raise InvalidInput(field="name", problem=f"is no name of a file, of at most {_NAME_BYTES} bytes")
    return name
