"""The rows of a damaged database file, read page by page.

A page at its own place needs nothing of SQLite's trees, so a file without its header, cut short or overwritten in its
middle gives up all rows whose bytes are whole. Where bytes were put in or taken out, pages are elsewhere, and there a
blob's own bytes could be made to look like a page: only pages that a tree names are looked for, and a shift that no
length of the file proves is believed if two of them are there. The format is
https://www.sqlite.org/fileformat2.html.
"""

import mmap
import os
import struct
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from elytron_core import limits
from elytron_store.sqlite import schema

_MAGIC = b"SQLite format 3\0"
_INNER_INDEX, _INNER_TABLE, _LEAF_INDEX, _LEAF_TABLE = 2, 5, 10, 13
_WITH_ROWS = frozenset({_INNER_INDEX, _LEAF_INDEX, _LEAF_TABLE})
"""Inner pages of tables have row ids only; those of indexes have rows."""
_ROW_KINDS = frozenset(bytes([kind]) for kind in _WITH_ROWS)
_PAGES_TRIED = 256
"""Number of unread pages that are looked for away from their own positions."""
_ROW_BYTES = limits.DOCUMENT_BYTES + limits.SEAL_BYTES + 4 * schema.PAGE_BYTES
"""Bytes of the longest row: a document. A damaged or forged length is not followed beyond it."""
_NEIGHBOURS = 8
"""Number of unread pages near a displaced one, of which another must be there too."""
_SCHEMA_ROWS = {(str, str, str, int, str), (str, str, str, int, type(None))}
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_WAL_HEADER, _WAL_FRAME = struct.Struct(">8I"), struct.Struct(">6I")
_PAGE_BYTES = range(512, 65_537)
_WHOLE = (0, 1, 2, 3, 4, 6, 8)
"""Bytes of a whole number by its serial type."""
_BROKEN = (IndexError, ValueError, struct.error)
"""Errors of reading bytes that are no row."""

Cell = tuple[Any, ...]


class DatabasePages:
    """The pages of a database file, overlaid with those that its WAL committed."""

    def __init__(self, data: bytes | mmap.mmap, wal: bytes | mmap.mmap, /) -> None:
        self._data, self._wal = data, wal
        self._later: dict[int, int] = {}
        self._has_header = data[:16] == _MAGIC
        self.size = self._page_size()
        self._lay_over()
        # The last one may be cut.
        self.count = max(-(-len(data) // self.size), *self._later, 0)
        surplus_bytes = len(data) % self.size
        self._longer = len(data) - self._header_number(28) * self.size if self._has_header else 0
        """By how many bytes the file is longer than its header says."""
        shifts = (0, self._longer, *((surplus_bytes, surplus_bytes - self.size) if surplus_bytes else ()))
        self._shifts = tuple(dict.fromkeys(shifts))
        """Offsets in bytes by which pages may be displaced, 0 first."""
        self._is_read = bytearray(self.count + 2)
        self._tree: set[int] = set()
        """Pages that an inner page or the schema names: they contain no blob bytes."""
        self.is_marked = bytes(data[68:72]) == schema.APPLICATION_ID.to_bytes(4, "big")
        """True if the header says that the file is a store."""

    def rows(self) -> Iterator[tuple[Cell, bool]]:
        """Yield every fully readable row of every table and index, possibly more than once.

        The flag says that the row was displaced: the caller recognises a row by its checksum, which has no key.
        """
        for number in range(1, self.count + 1):
            yield from ((row, False) for row in self._rows_on(number, 0))
        for shift in self._shifts[1:]:
            yield from self._rows_moved(shift)
        # A program that opened the damaged file may have cut it to whole pages, which removes the trace of a shift.
        unread_numbers = (number for number in sorted(self._tree) if number <= self.count and not self._is_read[number])
        for number in islice(unread_numbers, _PAGES_TRIED):
            shift = None if self._is_read[number] else self._find_shift(number)
            if shift is not None:
                self._shifts += (shift,)
                for each in self._shifts[1:]:  # again, for a page that has cells at both positions
                    yield from self._rows_moved(each)

    def unread_pages(self) -> int:
        """Return the number of pages that should have content but could not be read; call it after `rows`."""
        if len(self._shifts) > 1:
            return max(1, self._missing_pages())
        free_pages = self._header_number(36) if self._has_header else self._is_read.count(0)
        unread_count = sum(not was_read for was_read in self._is_read[2 : self.count + 1])
        return max(0, unread_count - free_pages) + self._missing_pages()

    def fold(self, file: int, /) -> None:
        """Write the WAL's pages into the open `file` itself, durably."""
        for number, at in self._later.items():
            os.pwrite(file, self._wal[at : at + self.size], (number - 1) * self.size)
        os.fsync(file)

    def _missing_pages(self) -> int:
        """Return the number of pages that the file had according to its header and that are cut off."""
        return max(0, self._header_number(28) - self.count) if self._has_header else 0

    def _header_number(self, offset: int) -> int:
        return int.from_bytes(self._page(1, 0)[offset : offset + 4], "big")

    def _page_size(self) -> int:
        size = int.from_bytes(self._data[16:18], "big") if self._has_header else 0
        # The field has two bytes, so the format writes 1 for the largest size.
        size = 65_536 if size == 1 else size
        return size if size in _PAGE_BYTES and size & (size - 1) == 0 else schema.PAGE_BYTES

    def _lay_over(self) -> None:
        """Find the last committed copy of each page in the WAL."""
        if len(self._wal) < _WAL_HEADER.size:
            return
        magic, _, size, _, *salts, _, _ = _WAL_HEADER.unpack(self._wal[: _WAL_HEADER.size])
        if magic not in _WAL_MAGIC or size != self.size:
            return
        open_frames: dict[int, int] = {}
        step = _WAL_FRAME.size + size
        for at in range(_WAL_HEADER.size, len(self._wal) - step + 1, step):
            number, committed_pages, *frame_salts, _, _ = _WAL_FRAME.unpack(self._wal[at : at + _WAL_FRAME.size])
            # Frames of an earlier round follow, which the file still contains.
            if frame_salts != salts:
                return
            open_frames[number] = at + _WAL_FRAME.size
            # Frames after the last commit mark belong to an unfinished transaction.
            if committed_pages:
                self._later |= open_frames
                open_frames.clear()

    def _page(self, page_number: int, shift: int) -> bytes:
        later_offset = self._later.get(page_number)
        if later_offset is not None:
            return self._wal[later_offset : later_offset + self.size]
        start = max(0, (page_number - 1) * self.size + shift)
        return self._data[start : start + self.size].ljust(self.size, b"\0")

    def _rows_moved(self, shift: int) -> Iterator[tuple[Cell, bool]]:
        # A displaced inner page names further pages.
        visited_pages: set[int] = set()
        while numbers := [number for number in self._tree - visited_pages if number <= self.count]:
            visited_pages.update(numbers)
            for number in sorted(numbers):
                yield from ((row, True) for row in self._rows_on(number, shift))

    def _find_shift(self, page_number: int) -> int | None:
        """Return the offset in bytes of a displaced page; None if it is not near."""
        other_pages = [
            other for other in self._tree if other <= self.count and other != page_number and not self._is_read[other]
        ]
        near_shifts = range(1 - self.size, self.size)
        for shift in dict.fromkeys(base + near for base in (0, self._longer) for near in near_shifts):
            start = (page_number - 1) * self.size + shift
            if start > 0 and self._data[start : start + 1] in _ROW_KINDS and shift not in self._shifts:
                near = sorted(other_pages, key=lambda other: abs(other - page_number))[:_NEIGHBOURS]
                if self._is_whole(page_number, shift, 2) and any(self._is_whole(other, shift, 1) for other in near):
                    return shift
        return None

    def _is_whole(self, page_number: int, shift: int, least_rows: int) -> bool:
        """Return whether there is a page with at least `least_rows` rows, all of which can be read."""
        page = self._page(page_number, shift)
        cell_offsets = self._cell_places(page, 0)
        return (
            cell_offsets is not None
            and len(cell_offsets) >= least_rows
            and all(any(self._rows_at(page, cell_offset, page[0], shift)) for cell_offset in cell_offsets)
        )

    def _cell_places(self, page: bytes, head_offset: int) -> list[int] | None:
        """Return where the cells of a page begin; None for bytes that are no page of a tree."""
        kind, cells = page[head_offset], int.from_bytes(page[head_offset + 3 : head_offset + 5], "big")
        first_pointer = head_offset + (12 if kind in {_INNER_INDEX, _INNER_TABLE} else 8)
        if kind not in {*_WITH_ROWS, _INNER_TABLE} or first_pointer + 2 * cells > self.size:
            return None
        cell_offsets = [
            int.from_bytes(page[at : at + 2], "big") for at in range(first_pointer, first_pointer + 2 * cells, 2)
        ]
        return (
            cell_offsets
            if len(set(cell_offsets)) == len(cell_offsets) and all(at < self.size for at in cell_offsets)
            else None
        )

    def _rows_on(self, page_number: int, shift: int) -> Iterator[Cell]:
        page, head = self._page(page_number, shift), 100 if page_number == 1 else 0
        kind, cell_offsets = page[head], self._cell_places(page, head)
        if cell_offsets is None:
            return
        if kind in {_INNER_INDEX, _INNER_TABLE}:
            child_pointers = [page[at : at + 4] for at in (head + 8, *cell_offsets)]
            self._tree.update(int.from_bytes(child, "big") for child in child_pointers)
        if kind == _INNER_TABLE:
            self._is_read[page_number] = 1
            return
        is_whole = True
        for at in cell_offsets:
            rows = list(self._rows_at(page, at, kind))
            if not rows:
                # Bytes inserted into this page move its cells, which are at its end, and not the pointers at its
                # beginning.
                page_views = (
                    self._page(page_number, other_shift) for other_shift in self._shifts if other_shift != shift
                )
                rows = [row for view in page_views for row in self._rows_at(view, at, kind)]
            self._tree.update(row[3] for row in rows if tuple(map(type, row)) in _SCHEMA_ROWS)
            is_whole = is_whole and bool(rows)
            yield from rows
        self._is_read[page_number] |= is_whole

    def _rows_at(self, page: bytes, cell_offset: int, kind: int, *more_shifts: int) -> Iterator[Cell]:
        """Yield the row whose cell begins at `cell_offset`, once for each possible position of its overflow pages."""
        for shift in (*self._shifts, *more_shifts):
            with suppress(*_BROKEN):
                payload, has_overflow = self._payload(page, cell_offset, kind, shift)
                yield _decode_row(payload)
                if not has_overflow:
                    return

    def _payload(self, page: bytes, offset: int, kind: int, shift: int) -> tuple[bytes, bool]:
        """Return the bytes of the row whose cell begins at `offset`, and whether some are on overflow pages."""
        offset += 4 if kind == _INNER_INDEX else 0
        payload_bytes, offset = _read_varint(page, offset)
        if kind == _LEAF_TABLE:
            # The file format defines how much of a row stays on its page.
            _, offset = _read_varint(page, offset)
        least_local = (self.size - 12) * 32 // 255 - 23
        most_local = self.size - 35 if kind == _LEAF_TABLE else (self.size - 12) * 64 // 255 - 23
        local_bytes = payload_bytes
        if payload_bytes > most_local:
            local_bytes = least_local + (payload_bytes - least_local) % (self.size - 4)
            local_bytes = local_bytes if local_bytes <= most_local else least_local
        if payload_bytes > _ROW_BYTES or offset + local_bytes > self.size:
            raise ValueError(payload_bytes)
        parts, remaining_bytes = [page[offset : offset + local_bytes]], payload_bytes - local_bytes
        next_page = (
            int.from_bytes(page[offset + local_bytes : offset + local_bytes + 4], "big") if remaining_bytes else 0
        )
        while remaining_bytes > 0:
            if not 0 < next_page <= self.count:
                raise ValueError(next_page)
            overflow_page = self._page(next_page, shift)
            self._is_read[next_page] = 1
            next_page = int.from_bytes(overflow_page[:4], "big")
            parts.append(overflow_page[4 : 4 + remaining_bytes])
            remaining_bytes -= self.size - 4
        return b"".join(parts), payload_bytes > local_bytes


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the number at `offset`, and the position after it."""
    value = 0
    for byte_offset in range(offset, offset + 8):
        value = value << 7 | data[byte_offset] & 0x7F
        if data[byte_offset] < 0x80:
            return value, byte_offset + 1
    return value << 8 | data[offset + 8], offset + 9


def _decode_row(payload: bytes) -> Cell:
    header_bytes, at = _read_varint(payload, 0)
    values: list[Any] = []
    body = header_bytes
    while at < header_bytes:
        kind, at = _read_varint(payload, at)
        length = (kind - 12) // 2 if kind >= 12 else 8 if kind == 7 else _WHOLE[kind] if kind < 7 else 0
        data = payload[body : body + length]
        if len(data) < length:
            raise ValueError(kind)
        body += length
        match kind:
            case 0:
                values.append(None)
            case 7:
                values.append(struct.unpack(">d", data)[0])
            case 8 | 9:
                values.append(kind - 8)
            case _ if kind < 7:
                values.append(int.from_bytes(data, "big", signed=True))
            case _:
                values.append(data.decode() if kind % 2 else data)
    return tuple(values)


@contextmanager
def open_pages(path: Path, /) -> Generator[DatabasePages]:
    """Open the file at `path` and its WAL; pages are read on demand."""
    with ExitStack() as open_files:
        yield DatabasePages(
            *(_map_file(open_files, mapped_path) for mapped_path in (path, path.with_name(f"{path.name}-wal")))
        )


def _map_file(open_files: ExitStack, path: Path) -> bytes | mmap.mmap:
    try:
        file = open_files.enter_context(path.open("rb"))
    except FileNotFoundError:
        return b""
    if not os.fstat(file.fileno()).st_size:
        return b""
    return open_files.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
