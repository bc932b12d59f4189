"""Reading a space's log: the header, the frames behind it, and what damage leaves of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Protocol, Self

from elytron_core.errors import StoreCorrupt, StoreUnavailable
from elytron_core.ports.store import Ref
from elytron_store.file import frame
from elytron_store.file.disk.failures import while_reading
from elytron_store.file.frame import Block, Header
from elytron_store.path_probe import is_folder

_GUESS_BYTES = 4096
"""Read at once where a block is expected: most are shorter."""
_WALK_BYTES = 64 * 1024
"""Read at once where frames are walked one after the other."""
_SEARCH_BYTES = 1024 * 1024
_HEADER_READS = 3
"""A mark that is being written at this moment may look damaged once."""
_RECORD_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Hole:
    """A stretch of the log in which no frame can be recognised."""

    start: int
    end: int


class Readable(Protocol):
    """Source of a log's bytes: a file, or memory."""

    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def read(self, size: int = -1, /) -> bytes | None: ...

    def close(self) -> None: ...


class Log:
    """One generation of a space's log, open for reading. What it shows stays, even when a newer one replaces it."""

    def __init__(self, file: Readable, header: Header, /) -> None:
        self.header = header
        self._file = file
        # If both marks are lost, everything counts as acknowledged: rather a hole to repair than a commit cut off.
        self.acknowledged = self.size() if header.acknowledged is None else header.acknowledged

    @classmethod
    def open(cls, path: Path, /) -> Self | None:
        """Open the log at `path`, None if there is none. Raises StoreCorrupt if its header is lost."""
        with while_reading("a space's log"):
            try:
                file = FileIO(path, "r")
            except FileNotFoundError:
                if not is_folder(path.parent.parent):
                    raise StoreUnavailable(
                        "the folder of this file store was moved or removed: put it back, or open it at its new place"
                    ) from None
                return None
            header = _read_header(file)
        if header is None:
            file.close()
            raise StoreCorrupt(what=f"the header of space folder {path.parent.name[:16]!r}")
        return cls(file, header)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        """Return the length of the file, which may hold more than is acknowledged, or after damage less."""
        with while_reading("a space's log"):
            return self._file.seek(0, 2)

    def read(self, at: int, size: int, /) -> bytes:
        """Return up to `size` bytes at offset `at`; fewer at the end of the file."""
        with while_reading("a space's log"):
            self._file.seek(at)
            data = self._file.read(size) or b""
            while 0 < len(data) < size and (more := self._file.read(size - len(data))):
                data += more
        return data

    def block_at(self, at: int, /) -> Block | None:
        """Return the block at offset `at`, None if none is whole."""
        return self._block_in(self.read(at, _GUESS_BYTES), at)

    def frame_at(self, at: int, /) -> Block | None:
        """Return the block of the frame that begins at `at`: its first copy or, if that is damaged, its second."""
        block = self.block_at(at)
        if block is not None and block.copy == 0:
            return block
        found = self._find_block(at + 1, self.size())
        return found if found is not None and found.offset == at else None

    def frames(self, start: int, end: int, /) -> Iterator[Block | Hole]:
        """Walk the frames from offset `start` to `end`; what cannot be read between them comes as holes."""
        at = start
        window, window_at = b"", start
        while at < end:
            if at + _GUESS_BYTES > window_at + len(window):
                window, window_at = self.read(at, min(_WALK_BYTES, end - at)), at
            block = self._block_in(window[at - window_at : at - window_at + _GUESS_BYTES], at)
            if block is None or block.copy != 0 or block.end > end:
                block = self._find_block(at + 1, end)
            if block is None or block.end > end or block.offset < at:
                yield Hole(at, end)
                return
            if block.offset > at:
                yield Hole(at, block.offset)
            yield block
            at = block.end

    def is_whole(self, block: Block, /) -> bool:
        """Return whether both copies of the block and all bodies of its frame are undamaged."""
        return self.has_both_copies(block) and not any(self.damaged(block))

    def has_both_copies(self, block: Block, /) -> bool:
        """Return whether both copies of the block are there."""
        second_at = block.offset + (block.bodies_at - block.offset) // 2
        copies = self.block_at(block.offset), self.block_at(second_at)
        return all(copy is not None and copy.offset == block.offset for copy in copies)

    def damaged(self, block: Block, /) -> Iterator[frame.KeptDocument | frame.KeptAnswer]:
        """Walk the documents and answers of `block` whose body is damaged."""
        for kept, at in frame.bodies(block):
            if not is_sound(kept, self.read(at, frame.CHECKSUM_BYTES + kept.size)):
                yield kept

    def _block_in(self, data: bytes, at: int) -> Block | None:
        """Return the block at offset `at`, which `data` begins with, perhaps not to its end."""
        length = frame.record_bytes(data)
        if length is None or length > _RECORD_BYTES_MAX:
            return None
        if frame.HEAD_BYTES + length > len(data):
            data = self.read(at, frame.HEAD_BYTES + length)
        return frame.decode_block(data, salt=self.header.salt, at=at)

    def _find_block(self, start: int, end: int) -> Block | None:
        """Return the first whole block at or behind `start`."""
        at = start
        while at < end:
            window = self.read(at, min(_SEARCH_BYTES, end - at))
            place = window.find(frame.MAGIC)
            while place >= 0:
                block = self.block_at(at + place)
                if block is not None:
                    return block
                place = window.find(frame.MAGIC, place + 1)
            if len(window) < len(frame.MAGIC):
                return None
            at += len(window) - len(frame.MAGIC) + 1
        return None


def _read_header(file: FileIO) -> Header | None:
    header: Header | None = None
    for _ in range(_HEADER_READS):
        file.seek(0)
        header = frame.decode_header(file.read(frame.HEADER_BYTES) or b"")
        if header is not None and header.acknowledged is not None:
            break
    return header


def is_sound(kept: frame.KeptDocument | frame.KeptAnswer, sealed: bytes, /) -> bool:
    """Return whether `sealed` is the whole and undamaged body of `kept`."""
    if len(sealed) != frame.CHECKSUM_BYTES + kept.size:
        return False
    match kept:
        case frame.KeptDocument():
            ref = Ref(kept.collection, kept.key)
            return frame.open_document(ref, kept.revision, sealed) is not None
        case frame.KeptAnswer():
            return frame.open_answer(kept.key, sealed) is not None
