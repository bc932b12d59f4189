"""Runs the extraction of a file in its own process, which the system ends if it exceeds its limits."""

import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass
from typing import Final

from elytron_core.errors import MissingExtra

RESOURCE_TEXT_CHARS: Final = 20_000_000
RESOURCE_CHUNK_CHARS: Final = 1_200
RESOURCE_CHUNKS: Final = 20_000
MAX_EXTRACTIONS: Final = 2
EXTRACTION_CPU_S: Final = 30
EXTRACTION_WAIT_S: Final = 60.0
EXTRACTION_MEMORY_BYTES: Final = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileChunk:
    """A piece of a file's text, with its page and the heading above it."""

    text: str
    page: int | None = None
    heading: str | None = None


class UnreadableUpload(Exception):
    """A file without readable text. `problem` says why, and reveals nothing of the file."""

    def __init__(self, problem: str, /) -> None:
        super().__init__(problem)
        self.problem = problem


class FileExtraction:
    """Extracts text from files, a limited number at once across callers, each in bounded memory."""

    def __init__(self, *, most: int = MAX_EXTRACTIONS) -> None:
        self._places = asyncio.Semaphore(most)

    async def chunks(self, data: bytes, media_type: str, /) -> tuple[FileChunk, ...]:
        """Return the text of a file in chunks of at most `RESOURCE_CHUNK_CHARS`.

        Raises UnreadableUpload, also for a file that has waited too long for its turn, and MissingExtra.
        """
        try:
            async with asyncio.timeout(EXTRACTION_WAIT_S):
                await self._places.acquire()
        except TimeoutError:
            raise UnreadableUpload("waited too long to be read: try again") from None
        try:
            return await read_chunks(data, media_type)
        finally:
            self._places.release()


async def read_chunks(data: bytes, media_type: str, /) -> tuple[FileChunk, ...]:
    """Return the text of a file in chunks, as `FileExtraction` does, without queueing."""
    _require_extra(media_type)
    bound_arguments = (
        RESOURCE_CHUNK_CHARS,
        RESOURCE_CHUNKS,
        RESOURCE_TEXT_CHARS,
        EXTRACTION_CPU_S,
        EXTRACTION_MEMORY_BYTES,
    )
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        _START,
        *sys.path,
        "--",
        media_type,
        *map(str, bound_arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(EXTRACTION_WAIT_S):
            output_bytes, _ = await child.communicate(data)
    except TimeoutError:
        raise UnreadableUpload("took longer to read than the server allows") from None
    finally:
        # Reached also when the caller is cancelled.
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    match child.returncode:
        case 0:
            pass
        case 4:
            raise UnreadableUpload("contains more text than the server accepts")
        case 3:
            raise UnreadableUpload("could not be read: it is damaged, locked, or of another type")
        case _:
            raise UnreadableUpload("took more time or memory to read than the server allows")
    chunks = tuple(FileChunk(**json.loads(line)) for line in output_bytes.splitlines())
    if not chunks:
        raise UnreadableUpload("contains no text")
    return chunks


_START = """
import sys
end = sys.argv.index("--")
sys.path[:] = sys.argv[1:end]
from elytron_gateway.extraction.file_text import main
sys.exit(main(sys.argv[end + 1:]))
"""
"""Started without the environment and the user's site, the child gets the module paths."""


def _require_extra(media_type: str) -> None:
    from importlib.util import find_spec

    required_modules = {"application/pdf": ("pypdf",), "text/plain": (), "text/markdown": (), "application/json": ()}
    if any(find_spec(name) is None for name in required_modules.get(media_type, ("kreuzberg",))):
        raise MissingExtra(extra="documents", purpose="reading documents")
