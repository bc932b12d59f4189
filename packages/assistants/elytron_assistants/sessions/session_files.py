"""Read other programs' files: never through links, line by line, resuming where the last run ended."""

import hashlib
import importlib
import io
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from elytron.importers.memories.foreign_tables import WorkLimit
from elytron_assistants.foreign_json import ForeignObject, parse_object
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SkipCause
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.model import Value

LINE_BYTES: Final = limits.IMPORT_LINE_BYTES
"""Longer lines are skipped without being loaded into memory."""
DOCUMENT_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a file that is a single JSON document."""
_DEPTH: Final = 8
_ENTRIES: Final = 500_000
"""Maximum number of directory entries examined per assistant."""
_DIGESTED_BYTES: Final = 4096
_BUSY_S: Final = 5
_WAL_MODE: Final = 2
"""Value of byte 18 of an SQLite file in WAL mode."""
_ZSTD_MODULES: Final = ("compression.zstd", "backports.zstd", "zstandard")


class SessionPosition(Value):
    """How far a source was read. `prompts` are digests of its prompts, used to recognise copies in a fork."""

    size: int
    changed: int
    rules: int = 0
    """Version of the rules that decide which program text is dropped."""
    offset: int = 0
    digest: str = ""
    """Digest of the bytes just before `offset`."""
    session: str = ""
    """Session whose turns were stored, or an empty string if nothing was stored."""
    folder: str = ""
    first_id: str = ""
    prompts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """For a memory file: the ids of its notes."""
    retired: tuple[str, ...] = ()
    """For a memory file: the ids of notes that it no longer contains."""


ReadFile = Callable[[Path, SessionPosition | None, ReadTally], AssistantSession | None]


@dataclass(frozen=True, slots=True)
class SessionSource:
    """A readable session: a file, or a session in a database. `changed` is its modification time in ns or ms."""

    host: AssistantHost
    path: Path
    size: int
    changed: int
    read: Callable[[SessionPosition | None, ReadTally], AssistantSession | None]
    key: str = ""
    """Identifies the session if the file contains several."""
    peek: Callable[[], str | None] | None = None
    """Returns the session's folder by reading only its beginning."""

    @property
    def changed_ms(self) -> int:
        """The modification time in milliseconds since 1970."""
        return self.changed // 1_000_000 if self.changed > limits.LATEST_MS else self.changed


def file_sources(
    host: AssistantHost,
    place: Path,
    tally: ReadTally,
    read: ReadFile,
    peek: Callable[[Path], str | None],
    /,
    *,
    suffixes: tuple[str, ...] = (".jsonl",),
) -> Iterator[SessionSource]:
    """Yield the session files below a folder."""
    for entry in walk_files(place, tally, suffixes=suffixes):
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        yield SessionSource(
            host, path, status.st_size, status.st_mtime_ns, partial(read, path), peek=partial(peek, path)
        )


def whole_source(
    host: AssistantHost,
    file: Path,
    size: int,
    changed: int,
    read: Callable[[ReadTally], AssistantSession | None],
    /,
    *,
    key: str,
    folder: str | None,
) -> SessionSource:
    """Return a source for a session in a database. It is always read as a whole, because any row may change."""
    return SessionSource(host, file, size, changed, lambda _, tally: read(tally), key=key, peek=lambda: folder)


def walk_files(folder: Path, tally: ReadTally, /, *, suffixes: tuple[str, ...]) -> Iterator[os.DirEntry[str]]:
    """Yield the files below `folder` in name order. Links, pipes and devices are only counted."""
    folders, entry_count = [(os.fspath(folder), 0)], 0
    while folders:
        current_folder, depth = folders.pop()
        try:
            entries = sorted(os.scandir(current_folder), key=lambda entry: entry.name)
        except OSError:
            continue
        entry_count += len(entries)
        if entry_count > _ENTRIES:
            return
        subfolders: list[tuple[str, int]] = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                subfolders += [(entry.path, depth + 1)] if depth < _DEPTH else []
            elif entry.name.endswith(suffixes):
                if entry.is_file(follow_symlinks=False):
                    yield entry
                else:
                    tally.skipped[SkipCause.LINK] += 1
        folders += reversed(subfolders)


@contextmanager
def open_regular(path: Path, /) -> Generator[BinaryIO]:
    """Open a regular file; links, pipes and devices are refused. Raises OSError."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - opened by descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("is not a regular file")
        yield file


@contextmanager
def open_lines(path: Path, /) -> Generator[BinaryIO | None]:
    """Open a file of lines, decompressing `.zst`; yield None if no zstd module is installed. Raises OSError."""
    with open_regular(path) as file:
        if path.suffix != ".zst":
            yield file
            return
        module = _zstd_module()
        if module is None:
            yield None
            return
        is_standard_library = hasattr(module, "ZstdFile")
        plain_file = module.ZstdFile(file) if is_standard_library else module.ZstdDecompressor().stream_reader(file)
        try:
            with plain_file:
                yield io.BufferedReader(plain_file)
        except module.ZstdError as error:
            raise OSError("is damaged") from error


def _zstd_module() -> Any | None:
    for name in _ZSTD_MODULES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def resume_offset(file: BinaryIO, position: SessionPosition | None, /) -> int:
    """Return the offset of `position` if the bytes before it are unchanged, otherwise 0."""
    if position is None or not position.offset or digest_before(file, position.offset) != position.digest:
        return 0
    return position.offset


def digest_before(file: BinaryIO, offset: int, /) -> str:
    """Return a digest of the bytes just before `offset`: enough of them to tell two files apart."""
    start_offset = max(0, offset - _DIGESTED_BYTES)
    file.seek(start_offset)
    return hashlib.blake2b(file.read(offset - start_offset), digest_size=16).hexdigest()


def read_objects(file: BinaryIO, tally: ReadTally, /, *, start: int = 0) -> Iterator[tuple[int, ForeignObject]]:
    """Yield each line's offset and JSON object, beginning at offset `start`.

    Lines that are too long or contain no object are counted as skipped. An incomplete last line is not.
    """
    if file.seekable():
        file.seek(start)
    offset = start
    while not tally.is_stopped and (line := file.readline(LINE_BYTES)):
        line_offset, offset = offset, offset + len(line)
        tally.add_bytes(len(line))
        is_line_complete = line.endswith(b"\n")
        if not is_line_complete and len(line) == LINE_BYTES:
            while (line_rest := file.readline(LINE_BYTES)) and not line_rest.endswith(b"\n"):
                offset += len(line_rest)
                tally.add_bytes(len(line_rest))
            offset += len(line_rest)
            tally.skipped[SkipCause.TOO_LONG] += 1
        elif line.strip():
            value = parse_object(line)
            if value is not None:
                yield line_offset, value
            elif is_line_complete:
                tally.skipped[SkipCause.DAMAGED] += 1


def read_document(path: Path, tally: ReadTally, /) -> ForeignObject | None:
    """Read a file that is one JSON object. If it is invalid or too large, count it as skipped and return None."""
    try:
        with open_regular(path) as file:
            data = file.read(DOCUMENT_BYTES + 1)
    except OSError:
        tally.skipped[SkipCause.UNREADABLE] += 1
        return None
    tally.add_bytes(len(data))
    value = parse_object(data) if len(data) <= DOCUMENT_BYTES else None
    if value is None:
        tally.skipped[SkipCause.DAMAGED if len(data) <= DOCUMENT_BYTES else SkipCause.TOO_LONG] += 1
    return value


def open_database(path: Path, stack: ExitStack, tally: ReadTally, /) -> sqlite3.Connection | None:
    """Open another program's SQLite file read-only until `stack` closes. On failure, count it and return None.

    Reading a closed database in WAL mode would leave two log files next to it, so a copy is read instead.
    """
    try:
        with open_regular(path) as file:
            file_header = file.read(100)
        log_path = Path(f"{path}-wal")
        if file_header[18:19] == bytes([_WAL_MODE]) and not log_path.exists():
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="elytron-sessions-"))
            path = Path(shutil.copyfile(path, Path(folder) / "copy.db"))
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S, check_same_thread=False
        )
        stack.callback(connection.close)
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        connection.execute("PRAGMA query_only = 1")
        WorkLimit(connection, path.stat().st_size + (log_path.stat().st_size if log_path.exists() else 0))
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except (OSError, sqlite3.Error):
        tally.skipped[SkipCause.UNREADABLE] += 1
        return None
    return connection


def row_objects(rows: sqlite3.Cursor, tally: ReadTally, /) -> Iterator[tuple[tuple[object, ...], ForeignObject]]:
    """Yield each row's other columns and the JSON object in its last one. Other rows are counted as skipped."""
    for *fields, data in rows:
        if not isinstance(data, str | bytes):
            tally.skipped[SkipCause.TOO_LONG] += 1
            continue
        tally.add_bytes(len(data))
        if (value := parse_object(data)) is None:
            tally.skipped[SkipCause.DAMAGED] += 1
        else:
            yield tuple(fields), value


def changed_at(file: BinaryIO, /) -> Instant:
    """Return a file's modification time."""
    return Instant(os.fstat(file.fileno()).st_mtime_ns // 1_000_000)
