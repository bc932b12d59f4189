"""Blobs of a file store: one file each, in chunks with their checksums, closed by an end mark.

    file  = magic ∙ chunk* ∙ end
    chunk = length, checksum ∙ bytes          end = a chunk without bytes; without it the file was cut

A checksum is of the bytes' length and CRC-32, and binds space, key and place: no chunk can replace another.
"""

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from io import FileIO
from itertools import islice
from pathlib import Path
from threading import Lock
from zlib import crc32

from elytron_core import limits
from elytron_core.errors import NotFound, StoreClosed, StoreCorrupt
from elytron_core.strict_json import frame_checksum
from elytron_store.file import disk
from elytron_store.file.disk import (
    StorePaths,
    locked_file,
    move_durably,
    sync_file,
    try_lock,
    while_reading,
    while_writing,
    write_all,
)
from elytron_store.manifest import is_folder

_MAGIC = b"elyblob\x01"
_HEAD = struct.Struct(">I8s")
_SUMMED = struct.Struct(">QII")
SUFFIX = ".blob"
WINDOW_CHUNKS = 16
"""Number of chunks read in one step: 4 MiB."""


class BlobWriter:
    """An unfinished blob, invisible until published. Calls block and may run in any thread, one at a time.

    It creates nothing before its first write, so an owner who leaves early leaves nothing behind.
    """

    def __init__(self, paths: StorePaths, name: str, key: str, /, *, busy_wait_s: float) -> None:
        self.size = 0
        self._where = paths
        self._name = name
        self._key = key
        self._busy_wait_s = busy_wait_s
        self._count = 0
        self._path = paths.incoming / os.urandom(16).hex()
        self._file: FileIO | None = None
        self._over = False
        self._mutex = Lock()

    def write(self, data: bytes, /) -> None:
        """Append `data`, 1 to `limits.BLOB_CHUNK_BYTES` long, as the next chunk."""
        self.size += len(data)
        with self._mutex, while_writing("writing a blob"):
            self._put(self._opened(), data)

    def publish(self, target: Path, /) -> None:
        """Finish the blob and move it to `target`, durably. Raises OSError."""
        with self._mutex:
            file = self._opened()
            self._put(file, b"")
            sync_file(file)
            if sys.platform == "win32":
                file.close()  # on Windows an open file cannot be moved
            move_durably(self._path, target)
            file.close()
            self._over = True

    def discard(self) -> None:
        """Remove a blob that was not published."""
        with self._mutex:
            if self._file is not None and not self._over:
                self._file.close()
                self._path.unlink(missing_ok=True)
            self._over = True

    def _opened(self) -> FileIO:
        if self._over:
            raise StoreClosed  # its owner left while this call waited for a thread
        if self._file is None:
            # Between its creation and its lock the file looks abandoned; the gate keeps a sweep out.
            with locked_file(_gate_path(self._where), wait_s=self._busy_wait_s):
                disk.make_folder(self._where.incoming)
                self._file = disk.create_file(self._path)
                has_lock = try_lock(self._file)
            assert has_lock, "no other writer knows this name"
            write_all(self._file, _MAGIC)
        return self._file

    def _put(self, file: FileIO, data: bytes) -> None:
        write_all(file, _HEAD.pack(len(data), _seal_chunk(self._name, self._key, self._count, data)) + data)
        self._count += 1


class BlobReader:
    """A blob being read. Calls block and may run in any thread, one at a time."""

    def __init__(self, paths: StorePaths, name: str, key: str, /) -> None:
        self._where = paths
        self._name = name
        self._key = key
        self._file: FileIO | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._over = False
        self._mutex = Lock()

    def next(self) -> Sequence[bytes]:
        """Return the next chunks, none after the last. Raises NotFound, StoreCorrupt."""
        with self._mutex:
            if self._over:
                return ()
            if self._file is None:
                self._file = open_blob(self._where, self._name, self._key)
                if self._file is None:
                    raise NotFound(what="blob", name=self._key)
                self._chunks = blob_chunks(self._file, self._name, self._key)
            return tuple(islice(self._chunks, WINDOW_CHUNKS))

    def close(self) -> None:
        with self._mutex:
            self._over = True
            if self._file is not None:
                self._file.close()


def open_blob(paths: StorePaths, name: str, key: str, /) -> FileIO | None:
    """Return the file of a blob, None if there is none."""
    with while_reading("a blob"):
        try:
            return FileIO(paths.blob_of(name, key), "r")
        except FileNotFoundError:
            return None


def blob_chunks(file: FileIO, name: str, key: str, /) -> Iterator[bytes]:
    """Yield the blob's chunks, each verified. Raises StoreCorrupt at the first that is damaged, cut or misplaced."""
    damage_error = StoreCorrupt(what=f"blob {key}")
    if _read_sized(file, len(_MAGIC)) != _MAGIC:
        raise damage_error
    count = 0
    while True:
        head_bytes = _read_sized(file, _HEAD.size)
        if len(head_bytes) < _HEAD.size:
            raise damage_error
        size, checksum = _HEAD.unpack(head_bytes)
        if size > limits.BLOB_CHUNK_BYTES:
            raise damage_error
        data = _read_sized(file, size)
        if len(data) != size or checksum != _seal_chunk(name, key, count, data):
            raise damage_error
        if not data:
            break
        yield data
        count += 1
    if _read_sized(file, 1):
        raise damage_error


def is_whole(file: FileIO, name: str, key: str, /) -> bool:
    """Return whether every chunk of the blob is undamaged."""
    try:
        for _ in blob_chunks(file, name, key):
            pass
    except StoreCorrupt:
        return False
    return True


def blob_keys(paths: StorePaths, name: str, /) -> list[str]:
    """Return the keys of a space's blobs, in order."""
    with while_reading("a space's blobs"):
        try:
            file_names = [path.name for path in paths.blobs_of(name).iterdir()]
        except FileNotFoundError:
            return []
    return sorted(each.removesuffix(SUFFIX) for each in file_names if each.endswith(SUFFIX))


def sweep_uploads(paths: StorePaths, /, *, busy_wait_s: float) -> None:
    """Remove the leftovers of dead blob writers; live ones hold their files' locks."""
    with locked_file(_gate_path(paths), wait_s=busy_wait_s):
        if not is_folder(paths.incoming):
            return
        for path in paths.incoming.iterdir():
            try:
                with FileIO(path, "r+") as file:
                    has_lock = try_lock(file)
            except FileNotFoundError:
                continue  # its writer has just published it
            # The lock ended with the handle, but the name is random: no living writer reuses it.
            if has_lock:
                path.unlink(missing_ok=True)


def _gate_path(paths: StorePaths) -> Path:
    return paths.locks / "incoming"


def _read_sized(file: FileIO, size: int) -> bytes:
    with while_reading("a blob"):
        return disk.read_up_to(file.read, size)


def _seal_chunk(name: str, key: str, offset: int, data: bytes) -> bytes:
    # Blobs are long, and read while a caller waits: this checksum takes a fifth of the time of BLAKE2b.
    return frame_checksum(name.encode(), key.encode(), _SUMMED.pack(offset, len(data), crc32(data)))
