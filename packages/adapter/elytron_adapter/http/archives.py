"""Archives over HTTP: downloaded and uploaded as a stream, through a temporary file that only the server can read."""

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from elytron_adapter.access_keys import OPERATORS
from elytron_adapter.dispatch import CallerAdmission, word_of
from elytron_adapter.envelope import AcceptedAnswer, CallHeaders, CallOrigin, CallTransport
from elytron_adapter.envelope import Response as Answer
from elytron_adapter.http.requests import AUDIT_ID, body_pieces, query_flag, query_scope, require_length
from elytron_adapter.http.responses import principal_of, render_answer, request_app, request_id_of
from elytron_adapter.surface import Route, Surface, build_surfaces
from elytron_core import limits
from elytron_core.contracts.archive import (
    ImportMode,
    MemoryImportReport,
    MemoryImportRequest,
    MemorySpaceExportReport,
    MemorySpaceExportRequest,
)
from elytron_core.errors import InvalidInput, LimitExceeded, PreconditionFailed
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.scope import ScopedRequest

MEDIA_TYPE = "application/zip"
CONTENTS = "X-Archive-Contents"
"""Header of a fetched archive: a JSON object with its documents, those left out, and other spaces of the same user."""
_CHUNK = 256 * 1024


class ArchiveHandlers:
    """Answers requests for the archive of a space, each through the operation and as the requesting principal."""

    def __init__(
        self,
        admission: CallerAdmission,
        transport: CallTransport,
        /,
        *,
        archive_bytes: int = limits.HTTP_ARCHIVE_BYTES,
    ) -> None:
        self._admission = admission
        self._transport = transport
        self._archive_bytes = archive_bytes

    async def fetch(self, request: Request) -> Response:
        """Write the archive to a temporary file, and stream it; it is removed when the answer ends."""
        folder = TemporaryDirectory(prefix="elytron-")
        try:
            answer = await self._call(
                request,
                _export_request(
                    request, Path(folder.name), include_private=query_flag(request.query_params, "include_private")
                ),
            )
            if not isinstance(answer, AcceptedAnswer):
                folder.cleanup()
                return render_answer(answer)
            report = answer.report
            assert isinstance(report, MemorySpaceExportReport)
            self._require_bound(report.size_bytes)
            etag = _archive_etag(report)
            if request.headers.get("if-none-match") == etag:
                folder.cleanup()
                return Response(status_code=304, headers={"ETag": etag})
        except BaseException:
            folder.cleanup()
            raise
        headers = {
            "ETag": etag,
            "Content-Length": str(report.size_bytes),
            "Content-Disposition": 'attachment; filename="memory.elytron.zip"',
            CONTENTS: json.dumps(
                {"documents": report.documents, "left_out": report.redacted, "other_spaces": report.other_spaces}
            ),
        }
        # From here on the answer owns the folder and removes it at its end.
        return StreamingResponse(_read_pieces(Path(report.path), folder), media_type=MEDIA_TYPE, headers=headers)

    async def send(self, request: Request) -> Response:
        """Receive the archive into a temporary file, and import that."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
            raise HTTPException(415, headers={"Accept": MEDIA_TYPE})
        require_length(request.scope, limit=self._archive_bytes)
        mode, dry_run = _import_mode(request), query_flag(request.query_params, "dry_run")
        # Checked before the body is read, so that a rejected caller sends no archive in vain.
        archive_word = word_of(principal_of(request.scope).kind, mode)
        async with work_folder() as folder:
            await self._require_match(request, folder)
            path = folder / "sent.zip"
            await receive_file(request, path, limit=self._archive_bytes)
            import_request = MemoryImportRequest(
                path=os.fspath(path),
                mode=mode,
                word=archive_word,
                dry_run=dry_run,
                scope=query_scope(request.query_params),
            )
            return render_answer(await self._call(request, import_request))

    def _require_bound(self, size: int) -> None:
        if size > self._archive_bytes:
            raise LimitExceeded(what="bytes of an archive", limit=self._archive_bytes, found=size)

    async def _require_match(self, request: Request, folder: Path) -> None:
        """Raise PreconditionFailed if the caller saw another state of the space."""
        expected_etag = request.headers.get("if-match")
        if expected_etag is None:
            return
        # An ETag does not say for which of the two forms it was made.
        for include_private in (True, False):
            answer = await self._call(request, _export_request(request, folder, include_private=include_private))
            if not isinstance(answer, AcceptedAnswer):
                raise PreconditionFailed
            if expected_etag in {"*", _archive_etag(answer.report)}:
                return
        raise PreconditionFailed

    async def _call(self, request: Request, payload: ScopedRequest) -> Answer:
        """Call as the principal, only in its space, but with an operator's right to the server's own file."""
        principal = principal_of(request.scope)
        if principal.kind not in OPERATORS:
            principal = replace(principal, kind=PrincipalKind.OPERATOR)
        return await self._admission.call(
            principal,
            origin=CallOrigin(self._transport),
            operation="export" if isinstance(payload, MemorySpaceExportRequest) else "import",
            request_id=request_id_of(request.scope),
            payload=payload,
            headers=CallHeaders(audit_id=request.headers.get(AUDIT_ID)),
        )


def _export_request(request: Request, folder: Path, *, include_private: bool) -> MemorySpaceExportRequest:
    path = folder / f"{'whole' if include_private else 'public'}.zip"
    return MemorySpaceExportRequest(
        path=os.fspath(path), include_private=include_private, scope=query_scope(request.query_params)
    )


def _archive_etag(report: Value) -> str:
    assert isinstance(report, MemorySpaceExportReport)
    return f'"{report.state_fingerprint}"'


def _import_mode(request: Request) -> ImportMode:
    try:
        return ImportMode(request.query_params.get("mode", ImportMode.BOOTSTRAP))
    except ValueError:
        raise InvalidInput(field="mode", problem=f"must be one of {', '.join(ImportMode)}") from None


async def _read_pieces(path: Path, folder: TemporaryDirectory[str]) -> AsyncIterator[bytes]:
    with folder:
        async with await anyio.open_file(path, "rb") as file:
            while chunk := await file.read(_CHUNK):
                yield chunk


async def receive_file(request: Request, path: Path, /, *, limit: int) -> None:
    """Write the body to `path` in pieces. Raises as `body_pieces` does."""
    async with await anyio.open_file(path, "wb") as file:
        async for piece in body_pieces(request.scope, request.receive, limit=limit):
            await file.write(piece)


@asynccontextmanager
async def work_folder() -> AsyncGenerator[Path]:
    """Yield a folder that only the server can access, during the block."""
    with TemporaryDirectory(prefix="elytron-") as folder:
        yield Path(folder)


PATH = "/v1/archive"


def archive_surfaces(
    admission: CallerAdmission, /, *, archive_bytes: int = limits.HTTP_ARCHIVE_BYTES
) -> tuple[Surface, ...]:
    """Return the surfaces that export and import a space's archive, of at most `archive_bytes`."""
    handlers = ArchiveHandlers(admission, CallTransport.HTTP, archive_bytes=archive_bytes)
    routes = (
        Route(
            "GET", PATH, handlers.fetch, "fetch_archive",
            "Download the non-private part of the space, or all of it, as an archive.", None, MEDIA_TYPE,
            headers=("If-None-Match",), query=("space", "include_private"),
            outcome="The archive. `ETag` identifies its contents;"
            f" `{CONTENTS}` counts what it includes and leaves out.",
        ),
        Route(
            "PUT", PATH, handlers.send, "send_archive", "Import an archive file into the space.", MEDIA_TYPE,
            MemoryImportReport, headers=("If-Match",), query=("space", "mode", "dry_run"),
        ),
    )  # fmt: skip
    return build_surfaces(routes, request_app)
