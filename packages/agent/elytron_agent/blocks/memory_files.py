"""The memory tool's six commands over blocks: each block is a file below `/memories`.

Answers have the words of the vendor's own file tool, which models were trained on.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from itertools import accumulate
from typing import Concatenate, Final, ParamSpec

from elytron_agent import limits, text_checks
from elytron_agent.blocks.shelf import BlockAuthor, BlockDraft, BlockShelf, MemoryBlock
from elytron_agent.tool import ToolAnswer
from elytron_core.errors import ElytronError, PreconditionFailed

ROOT: Final = "/memories"
_DEPTH: Final = 2
_AROUND: Final = 2
"""Number of lines before and after a change that are shown."""
_NUMBER_WIDTH: Final = len(str(limits.FILE_LINES))
_UNITS: Final = "BKMG"
P = ParamSpec("P")
Command = Callable[Concatenate["MemoryFiles", P], Awaitable[ToolAnswer]]


class _NotDone(Exception):
    """Why a command was not done, in words for the model."""


def _file_command(work: Callable[Concatenate["MemoryFiles", P], Awaitable[str]], /) -> Command[P]:
    """Return `work` as a command that answers also what it does not do."""

    @wraps(work)
    async def command(self: "MemoryFiles", /, *args: P.args, **kwargs: P.kwargs) -> ToolAnswer:
        try:
            return ToolAnswer(text=await work(self, *args, **kwargs))
        except _NotDone as error:
            return ToolAnswer(text=str(error), is_error=True)
        except ElytronError as error:
            return ToolAnswer(text=error.message, is_error=True)

    return command


class MemoryFiles:
    """Files over a shelf of blocks. Each command answers a text; `is_error` says that nothing was done."""

    def __init__(self, shelf: BlockShelf, /) -> None:
        self._shelf = shelf

    @_file_command
    async def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """Show a file with line numbers, or the files below a folder."""
        label, files = _label_of(path), await self._files()
        if (block := files.get(label)) is not None:
            return _numbered_lines(path, block.value, view_range)
        if label and not _files_below(files, label):
            raise _NotDone(f"The path {path} does not exist. Please provide a valid path.")
        return _folder_listing(path, _files_below(files, label))

    @_file_command
    async def create(self, path: str, file_text: str) -> str:
        """Create a file; one that exists is not overwritten."""
        label, files = _label_of(path), await self._files()
        if not label or _files_below(files, label):
            raise _NotDone(f"The path {path} is not a file.")
        _require_harmless(file_text)
        try:
            await self._shelf.create(BlockDraft(label=label, value=file_text), by=BlockAuthor.MODEL)
        except PreconditionFailed:
            raise _NotDone(f"File {path} already exists") from None
        return f"File created successfully at: {path}"

    @_file_command
    async def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a text that is in the file exactly once."""
        block = await self._file(path)
        places = _part_places(block.value, old_str)
        if not places:
            raise _NotDone(f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.")
        if len(places) > 1:
            told = ", ".join(str(block.value.count("\n", 0, place) + 1) for place in places)
            raise _NotDone(
                f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {told}. "
                "Please ensure it is unique"
            )
        _require_harmless(new_str)
        (place,) = places
        value = block.value[:place] + new_str + block.value[place + len(old_str) :]
        await self._write(path, block, value)
        changed = block.value.count("\n", 0, place)
        shown = _line_range(value.split("\n"), max(0, changed - _AROUND), changed + _AROUND + 1)
        return "\n".join(
            ("The memory file has been edited. Here is the snippet showing the change (with line numbers):", *shown)
        )

    @_file_command
    async def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert text behind a line; 0 is the beginning."""
        block = await self._file(path)
        lines = block.value.split("\n")
        if not lines[-1]:
            lines.pop()
        if not 0 <= insert_line <= len(lines):
            raise _NotDone(
                f"Invalid `insert_line` parameter: {insert_line}. It should be within the range [0, {len(lines)}]."
            )
        _require_harmless(insert_text)
        lines.insert(insert_line, insert_text.rstrip("\n"))
        value = "\n".join(lines)
        await self._write(path, block, value if value.endswith("\n") else f"{value}\n")
        return f"The file {path} has been edited."

    @_file_command
    async def delete(self, path: str) -> str:
        """Delete a file, or a folder with what it holds."""
        label, files = _label_of(path), await self._files()
        if not label:
            raise _NotDone(f"Cannot delete the {ROOT} directory itself")
        gone = _taken_files(files, label)
        if not gone:
            raise _NotDone(f"The path {path} does not exist")
        for block in gone:
            await self._shelf.delete(block.label, expected_version=block.version)
        return f"Successfully deleted {path}"

    @_file_command
    async def rename(self, old_path: str, new_path: str) -> str:
        """Rename a file or a folder; what exists is not overwritten."""
        old, new, files = _label_of(old_path), _label_of(new_path), await self._files()
        if not old:
            raise _NotDone(f"Cannot rename the {ROOT} directory itself")
        moved = _taken_files(files, old)
        if not moved:
            raise _NotDone(f"The path {old_path} does not exist")
        if not new or _taken_files(files, new):
            raise _NotDone(f"The destination {new_path} already exists")
        if new.startswith(f"{old}/"):
            raise _NotDone(f"The destination {new_path} is inside {old_path}")
        _require_writable(moved)
        for block in moved:
            # The text is there already, so its new place is no new text of the model.
            kept = block.model_dump(include=BlockDraft.model_fields.keys() - {"label"})
            await self._shelf.create(BlockDraft(label=new + block.label.removeprefix(old), **kept))
            await self._shelf.delete(block.label, expected_version=block.version)
        return f"Successfully renamed {old_path} to {new_path}"

    @_file_command
    async def clear(self) -> str:
        """Delete every block that is not read-only."""
        for block in (await self._files()).values():
            if not block.read_only:
                await self._shelf.delete(block.label, expected_version=block.version)
        return "All memory cleared"

    async def _files(self) -> dict[str, MemoryBlock]:
        return {block.label: block for block in await self._shelf.list()}

    async def _file(self, path: str) -> MemoryBlock:
        label, files = _label_of(path), await self._files()
        if (block := files.get(label)) is not None:
            return block
        if not label or _files_below(files, label):
            raise _NotDone(f"The path {path} is not a file.")
        raise _NotDone(f"The path {path} does not exist. Please provide a valid path.")

    async def _write(self, path: str, block: MemoryBlock, value: str) -> None:
        try:
            await self._shelf.edit(
                block.label, lambda _text: value, expected_version=block.version, by=BlockAuthor.MODEL
            )
        except PreconditionFailed:
            now = _numbered_lines(path, (await self._shelf.read(block.label)).value, None)
            raise _NotDone(f"The file {path} was changed by others, and nothing was written. {now}") from None


def _label_of(path: str) -> str:
    """Return the label that a path names; nothing for the root."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise _NotDone(f"Path must start with {ROOT}, got: {path}")
    parts = [part for part in path.removeprefix(ROOT).split("/") if part not in {"", "."}]
    if ".." in parts:
        raise _NotDone(f"Path {path} would escape {ROOT} directory")
    return "/".join(parts)


def _files_below(files: Mapping[str, MemoryBlock], label: str) -> dict[str, MemoryBlock]:
    """Return the files in a folder, by their path from there."""
    start = f"{label}/" if label else ""
    return {name.removeprefix(start): block for name, block in files.items() if name.startswith(start)}


def _taken_files(files: Mapping[str, MemoryBlock], label: str) -> list[MemoryBlock]:
    """Return the file of this label, or the files of this folder."""
    return [files[label]] if label in files else list(_files_below(files, label).values())


def _require_harmless(text: str) -> None:
    """Refuse what may not stand in every prompt, as blocks do."""
    if (refusal := text_checks.refusal_of(text)) is not None:
        raise _NotDone(f"The text was refused: {refusal}.")


def _require_writable(blocks: Sequence[MemoryBlock]) -> None:
    if any(block.read_only for block in blocks):
        raise _NotDone("this block is read-only: nothing was changed")


def _part_places(text: str, part: str) -> list[int]:
    found: list[int] = []
    place = text.find(part) if part else -1
    while place >= 0:
        found.append(place)
        place = text.find(part, place + 1)
    return found


def _numbered_lines(path: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > limits.FILE_LINES:
        raise _NotDone(f"File {path} exceeds maximum line limit of {limits.FILE_LINES:,} lines.")
    start, end = 0, len(lines)
    if view_range is not None and len(view_range) == 2:
        start = max(1, view_range[0]) - 1
        end = end if view_range[1] == -1 else view_range[1]
    return "\n".join((f"Here's the content of {path} with line numbers:", *_line_range(lines, start, end)))


def _line_range(lines: Sequence[str], start: int, end: int) -> list[str]:
    return [f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines[start:end], start + 1)]


def _folder_listing(path: str, files: Mapping[str, MemoryBlock]) -> str:
    """Return the files and folders of a folder, two levels deep, with their sizes."""
    sizes = {name: len(block.value.encode()) for name, block in files.items() if not _is_hidden(name)}
    shown: dict[str, int] = {}
    for name, size in sizes.items():
        parts = name.split("/")
        folders = [f"{folder}/" for folder in accumulate(parts[:-1], lambda outer, inner: f"{outer}/{inner}")]
        for folder in folders[:_DEPTH]:
            shown[folder] = shown.get(folder, 0) + size
        if len(parts) <= _DEPTH:
            shown[name] = size
    top = path.rstrip("/")
    lines = [
        f"{_size_text(sum(sizes.values()))}\t{top}",
        *(f"{_size_text(shown[name])}\t{top}/{name}" for name in sorted(shown)),
    ]
    head = f"Here're the files and directories up to {_DEPTH} levels deep in {path}, excluding hidden items:"
    return "\n".join((head, *lines))


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _size_text(size: int) -> str:
    unit = 0
    value = float(size)
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f}{_UNITS[unit]}" if value.is_integer() else f"{value:.1f}{_UNITS[unit]}"
