"""Archives that arrive in pieces. They wait in a folder of this process and are gone with it."""

import asyncio
import hashlib
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from elytron_a2a_shell.messages import MigrationChunk
from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.ids import IdSource

Whose = tuple[str, str]
"""A principal's id and its name for the archive."""


@dataclass(slots=True)
class _PeerUpload:
    path: Path
    count: int
    sha256: str
    touched_ms: int
    received: int = 0
    size: int = 0
    last: bytes = b""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class PeerUploads:
    """Puts pieces together, each principal's apart from all others', while its folder is `kept`."""

    def __init__(self, *, clock: Clock, ids: IdSource, archive_bytes: int = limits.HTTP_ARCHIVE_BYTES) -> None:
        self._folder: Path | None = None
        self._clock = clock
        self._ids = ids
        self._archive_bytes = archive_bytes
        self._waiting: dict[Whose, _PeerUpload] = {}

    @contextmanager
    def kept(self) -> Generator[None]:
        """Have a folder for the block; it is gone afterwards with all that is in it."""
        with TemporaryDirectory(prefix="elytron-a2a-") as folder:
            self._folder = Path(folder)
            try:
                yield
            finally:
                self._folder = None
                self._waiting.clear()

    async def take(self, principal: str, chunk: MigrationChunk, /) -> Path | None:
        """Keep a piece and return the file of the whole archive after its last one, else None.

        A piece that came already is no error. Raises InvalidInput for a piece out of order or a broken archive,
        LimitExceeded.
        """
        whose = principal, chunk.upload
        upload = self._waiting.get(whose) or self._begin(whose, chunk)
        async with upload.lock:
            data = _chunk_bytes(chunk)
            if (chunk.count, chunk.sha256) != (upload.count, upload.sha256):
                raise InvalidInput(field="count and sha256", problem="are not those of the pieces before")
            if chunk.index == upload.received - 1 and hashlib.sha256(data).digest() == upload.last:
                return None
            if chunk.index != upload.received:
                raise InvalidInput(field="index", problem=f"is not the next one, {upload.received}")
            if upload.size + len(data) > self._archive_bytes:
                self.drop(principal, chunk.upload)
                raise LimitExceeded(
                    what="bytes of an archive", limit=self._archive_bytes, found=upload.size + len(data)
                )
            await asyncio.to_thread(_append_chunk, upload.path, data)
            upload.received += 1
            upload.size += len(data)
            upload.last = hashlib.sha256(data).digest()
            upload.touched_ms = self._clock.now()
            if upload.received < upload.count:
                return None
            if await asyncio.to_thread(_file_digest, upload.path) != upload.sha256:
                self.drop(principal, chunk.upload)
                raise InvalidInput(field="sha256", problem="is not that of the pieces: send the archive again")
            return upload.path

    def received(self, principal: str, name: str, /) -> int:
        """Return how many pieces of an archive are here."""
        found = self._waiting.get((principal, name))
        return found.received if found is not None else 0

    def drop(self, principal: str, name: str, /) -> None:
        """Forget an archive and remove its file."""
        found = self._waiting.pop((principal, name), None)
        if found is not None:
            found.path.unlink(missing_ok=True)

    def _begin(self, whose: Whose, chunk: MigrationChunk) -> _PeerUpload:
        if chunk.index != 0:
            raise InvalidInput(field="index", problem="is not the next one, 0")
        oldest = self._clock.now() - limits.A2A_UPLOAD_KEEP_MS
        for stale in [key for key, found in self._waiting.items() if found.touched_ms < oldest]:
            self.drop(*stale)
        each = sum(1 for principal, _ in self._waiting if principal == whose[0])
        for found, limit in ((len(self._waiting), limits.A2A_UPLOADS), (each, limits.A2A_UPLOADS_EACH)):
            if found >= limit:
                raise LimitExceeded(what="archives under way", limit=limit, found=found + 1)
        assert self._folder is not None
        path = self._folder / self._ids.new()
        upload = _PeerUpload(path, chunk.count, chunk.sha256, self._clock.now())
        self._waiting[whose] = upload
        return upload


def _chunk_bytes(chunk: MigrationChunk) -> bytes:
    try:
        return b64decode(chunk.data, validate=True)
    except NotBase64:
        raise InvalidInput(field="data", problem="is not base64") from None


def _append_chunk(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
