"""A space's archive over HTTP."""

from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import CallTransport
from elytron_adapter.http.archives import MEDIA_TYPE, ArchiveHandlers
from elytron_adapter.http.responses import shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core import limits
from elytron_core.contracts.archive import MemoryImportReport

PATH = "/v1/archive"


def archive_surfaces(
    entrance: CallerEntrance, /, *, archive_bytes: int = limits.HTTP_ARCHIVE_BYTES
) -> tuple[Surface, ...]:
    """Return the surfaces that export and import a space's archive, of at most `archive_bytes`."""
    keeper = ArchiveHandlers(entrance, CallTransport.HTTP, archive_bytes=archive_bytes)
    fetch = SurfaceDescription(
        "fetch_archive", "Fetch what of the space may leave it, or all of it, as one archive file.", None, MEDIA_TYPE,
        ("If-None-Match",), ("space", "include_private"),
        answer="The archive; its ETag is the state of what it holds.",
    )  # fmt: skip
    send = SurfaceDescription(
        "send_archive", "Read an archive file into the space.", MEDIA_TYPE, MemoryImportReport,
        ("If-Match",), ("space", "mode", "dry_run"),
    )  # fmt: skip
    return (
        shown_surface(PATH, keeper.fetch, access=SurfaceAccess.MEMBER, methods=("GET",), told=fetch),
        shown_surface(PATH, keeper.send, access=SurfaceAccess.MEMBER, methods=("PUT",), told=send),
    )
