"""Entries as files that people read and edit: locked, replaced as a whole, and never overwritten if edited by hand.

A symbolic link, or anything else that is no plain file, is refused in their places: a folder that another person filled
could otherwise have any file of the machine read to a model, or written over.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import Final, NamedTuple

from elytron_agent import limits
from elytron_agent.strategies.entries import DELIMITER, Entries, Target, is_written, parsed, written
from elytron_core.clock import Clock
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_store.file.disk.locks import locked
from elytron_store.file.disk.places import NEW_SUFFIX, make_folder, write_file

_BACKUPS: Final = ".bak."


class FileText(NamedTuple):
    """Contents of a file: its text, and its bytes. `text` is None if they are not UTF-8."""

    text: str | None
    data: bytes


class EntryFiles:
    """MEMORY.md and USER.md in one folder. All calls block: call them in a worker thread."""

    def __init__(self, folder: Path, /, *, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    @contextmanager
    def lock(self, target: Target, /) -> Generator[None]:
        """Hold the file against other threads and processes. Raises StoreBusy at once if it is held, InvalidInput."""
        make_folder(self._folder)
        with locked(self._place(f".{target.file_name}.lock"), wait_s=0):
            yield

    def read(self, target: Target, /) -> FileText | None:
        """Return what the file holds, None if there is none. Raises LimitExceeded, InvalidInput."""
        try:
            with self._place(target.file_name).open("rb") as file:
                data = file.read(limits.CURATED_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(data) > limits.CURATED_FILE_BYTES:
            raise LimitExceeded(what=f"bytes in {target.file_name}", limit=limits.CURATED_FILE_BYTES)
        try:
            return FileText(data.decode("utf-8"), data)
        except UnicodeDecodeError:
            return FileText(None, data)

    def write(self, target: Target, entries: Entries, /) -> None:
        """Leave the file with these entries, whole and for good, or as it was. Raises InvalidInput."""
        self._write(target.file_name, written(entries).encode())

    def append(self, target: Target, text: str, entry: str, /) -> None:
        """Leave the file with `entry` behind `text`, which stays as it is. Raises InvalidInput."""
        whole = f"{text.rstrip()}{DELIMITER}{entry}" if text.strip() else entry
        self._write(target.file_name, whole.encode())

    def back_up(self, target: Target, data: bytes, /) -> str:
        """Keep a copy of a file that was edited by hand, one for each state of it; return its name."""
        beginning = f"{target.file_name}{_BACKUPS}"
        for path in sorted(self._folder.glob(f"{beginning}*")):
            if self._place(path.name).stat().st_size == len(data) and path.read_bytes() == data:
                return path.name
        name = f"{beginning}{self._clock.now()}"
        self._write(name, data)
        return name

    def _write(self, name: str, data: bytes) -> None:
        self._place(f"{name}{NEW_SUFFIX}")
        write_file(self._place(name), data)

    def _place(self, name: str) -> Path:
        """Return the path of a file here. Raises InvalidInput if what is there is no plain file."""
        path = self._folder / name
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            return path
        if S_ISREG(mode):
            return path
        kind = "a symbolic link" if S_ISLNK(mode) else "no plain file"
        problem = f"has {kind} named {name}: put the file itself there, or name the folder of that file"
        raise InvalidInput(field="directory", problem=problem)


def entries_of(found: FileText | None, /) -> Entries:
    """Return the entries that can be read of a file."""
    return parsed(found.text) if found is not None and found.text is not None else ()


def is_edited_by_hand(found: FileText | None, /, *, limit: int) -> bool:
    """Return whether writing the entries of this file would lose something of it."""
    return found is not None and (found.text is None or not is_written(found.text, limit=limit))
