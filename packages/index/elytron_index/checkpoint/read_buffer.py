"""The bytes of a checkpoint on their way in, laid once where its index will read them."""

import mmap
import sys
from contextlib import suppress
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from elytron_index.checkpoint import codec
from elytron_index.checkpoint.codec import HEAD_BYTES, Bytes

MAPPED = 128 * 1024
"""Size from which on bytes are in a separate map, not in memory that the allocator keeps for later."""
FETCHED = 16 * 1024 * 1024
"""From this size on a thread fetches half of the memory while the first pieces are laid in the other."""


class Arriving:
    """A checkpoint that is taken piece by piece into memory of its whole size, which its first bytes tell."""

    def __init__(self, most: int, /, *, labels: str = "") -> None:
        """Take no checkpoint that says to be longer than `most`, nor one with other `labels` (see `SpaceIndex`)."""
        self._most = most
        self._labels = labels
        self._head = b""
        self._data: bytearray | mmap.mmap | None = None
        self._filled = 0
        self._fetching: Thread | None = None

    def take(self, piece: bytes, /) -> None:
        """Take the next bytes."""
        if self._data is None:
            self._head += piece
            if len(self._head) < HEAD_BYTES:
                return
            size = codec.size_of(self._head, self._labels)
            self._data = room(size if size <= self._most else 0)
            if len(self._data) >= FETCHED:
                rest = np.frombuffer(self._data, np.uint8)[len(self._data) // 2 :]
                self._fetching = Thread(target=_fetch, args=(rest,))
                self._fetching.start()
            piece, self._head = self._head, b""
        end = self._filled + len(piece)
        if end <= len(self._data):
            if self._fetching is not None and end > len(self._data) // 2:
                self._fetching.join()
                self._fetching = None
            # NumPy lets other threads run meanwhile, who read the next pieces.
            np.frombuffer(self._data, np.uint8)[self._filled : end] = np.frombuffer(piece, np.uint8)
        self._filled = end

    @property
    def data(self) -> Bytes:
        """The checkpoint; nothing where what came is none of this version, or not the whole of one."""
        return self._data if self._data is not None and self._filled == len(self._data) else b""


def room(size: int, /) -> bytearray | mmap.mmap:
    """Return memory for `size` bytes, all zero; a large one goes back to the system when its last reader is gone."""
    if size < MAPPED:
        return bytearray(size)
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    found = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if sys.platform == "linux":
        # All of it will be written: pages of 2 MiB, if it has room for them, take a ninth of the time to get.
        with suppress(OSError):
            found.madvise(mmap.MADV_HUGEPAGE)
    return found


def _fetch(memory: NDArray[np.uint8]) -> None:
    """Have the system give what is behind `memory`: a virtual machine that has used none for a while waits for it."""
    memory[:: mmap.PAGESIZE] = 0
