"""Byte strings sorted in bounded memory, for digests over all documents of a space of any size."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from heapq import merge
from typing import IO, Final
from weakref import finalize

from elytron_core.errors import StoreUnavailable

_AT_ONCE: Final = 16_384
"""Number of records in memory; each further run of as many is in the file."""
_BLOCK: Final = 512
"""Number of records that are read back and unmasked at once, of each run."""


class SortedRecords:
    """Sorted records of `size` bytes each, with duplicates. Beyond a limit they are spilled to a temporary file.

    The file has no name, and is masked by a key that only this object has: a digest of a short text can be guessed.
    """

    def __init__(self, record_bytes: int, /) -> None:
        self._size = record_bytes
        self._fresh: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._runs = 0
        self._key = os.urandom(32)

    def __len__(self) -> int:
        return self._runs * _AT_ONCE + len(self._fresh)

    def __iter__(self) -> Iterator[bytes]:
        """Yield the records in order. Raises StoreUnavailable if the temporary file cannot be read."""
        return merge(sorted(self._fresh), *map(self._read_run, range(self._runs)))

    def add(self, record: bytes, /) -> None:
        """Add a record. Raises StoreUnavailable if there is no room for the temporary file."""
        self._fresh.append(record)
        if len(self._fresh) == _AT_ONCE:
            self._spill()

    def _spill(self) -> None:
        self._fresh.sort()
        first_block = self._runs * (_AT_ONCE // _BLOCK)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed when this object goes
                finalize(self, self._file.close)
            self._file.seek(0, os.SEEK_END)
            for block_number, start in enumerate(range(0, _AT_ONCE, _BLOCK), first_block):
                self._file.write(self._mask(block_number, b"".join(self._fresh[start : start + _BLOCK])))
        except OSError as error:
            raise _temporary_refusal(error) from error
        self._fresh = []
        self._runs += 1

    def _read_run(self, run_number: int) -> Iterator[bytes]:
        file, block_bytes = self._file, self._size * _BLOCK
        assert file is not None
        first_block = run_number * (_AT_ONCE // _BLOCK)
        for block_number in range(first_block, first_block + _AT_ONCE // _BLOCK):
            try:
                file.seek(block_number * block_bytes)
                block = self._mask(block_number, file.read(block_bytes))
            except OSError as error:
                raise _temporary_refusal(error) from error
            for start in range(0, block_bytes, self._size):
                yield block[start : start + self._size]

    def _mask(self, block_number: int, block: bytes) -> bytes:
        mask_bytes = hashlib.shake_256(self._key + block_number.to_bytes(8, "big")).digest(len(block))
        return (int.from_bytes(block, "big") ^ int.from_bytes(mask_bytes, "big")).to_bytes(len(block), "big")


def _temporary_refusal(error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"the system's folder for temporary files cannot be used ({error.strerror}): make room, or set TMPDIR"
    )
