"""Memory tools under the names that models know: blocks, archive and search, or files below `/memories`.

File commands answer in the vendor's wording, on which models were trained.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import wraps
from itertools import accumulate
from typing import Annotated, Any, Concatenate, Final, ParamSpec

from pydantic import AliasChoices, BeforeValidator, Field

from elytron_agent import limits
from elytron_agent.blocks.archive import answer_of, tags_of
from elytron_agent.blocks.block_repository import (
    BlockAuthor,
    BlockDraft,
    BlockRepository,
    MemoryBlock,
    append_text,
    insert_text,
    replace_text,
)
from elytron_agent.blocks.injections import refusal_of
from elytron_agent.blocks.view import AgentMemoryView
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core import limits as core_limits
from elytron_core.errors import ElytronError, NotFound, PreconditionFailed

ARCHIVAL_TOP_K_MAX: Final = 20
CONVERSATION_HITS_MAX: Final = 50
FILE_LINES: Final = 999_999
"""Maximum number of lines of one file that the memory tool shows."""


class ToolNaming(StrEnum):
    """Naming scheme of the tools. Arguments are accepted under both spellings."""

    SAGE = "sage"
    """`memory_append`, `archival_insert`, `archival_search`."""
    LETTA = "letta"
    """`core_memory_append`, `archival_memory_insert`, `archival_memory_search`."""


_LETTA: Final = {
    "memory_append": "core_memory_append",
    "archival_insert": "archival_memory_insert",
    "archival_search": "archival_memory_search",
}


def _spelling_field(*names: str, **more: Any) -> Any:
    return Field(validation_alias=AliasChoices(*names), **more)


def _list_tags(tags: object) -> object:
    return tags_of(tags) if isinstance(tags, str) else tags


BlockName = Annotated[str, _spelling_field("block", "label", "name", description="Label of the block, such as human.")]
Tags = Annotated[tuple[str, ...], BeforeValidator(_list_tags), Field(max_length=core_limits.TAGS)]
"""Tags from a model: a list, or one text with commas. Blank tags are ignored."""
Query = Annotated[str, Field(min_length=1, max_length=core_limits.QUERY_CHARS)]


class ReplaceArguments(ToolArguments):
    """Arguments of `memory_replace`."""

    block: BlockName
    old: Annotated[
        str,
        _spelling_field(
            "old", "old_str", "old_string", "old_content", description="Text of the block to replace, exact."
        ),
    ]
    new: Annotated[
        str,
        _spelling_field(
            "new", "new_str", "new_string", "new_content", description="Replacement text; empty deletes the old text."
        ),
    ]


class AppendArguments(ToolArguments):
    """Arguments of `memory_append`."""

    block: BlockName
    content: Annotated[str, _spelling_field("content", "new_str", "text", min_length=1)]


class InsertArguments(ToolArguments):
    """Arguments of `memory_insert`."""

    block: BlockName
    content: Annotated[str, _spelling_field("content", "new", "new_str", "new_string", "text")]
    line: Annotated[
        int,
        _spelling_field(
            "line", "insert_line", default=-1, description="Line to insert after; 0 is the beginning, -1 the end."
        ),
    ]


class RethinkArguments(ToolArguments):
    """Arguments of `memory_rethink`."""

    block: BlockName
    content: Annotated[
        str, _spelling_field("content", "new_memory", "new_value", description="The whole new text of the block.")
    ]


class ArchivalInsertArguments(ToolArguments):
    """Arguments of `archival_insert`."""

    content: Annotated[str, Field(min_length=1, max_length=core_limits.MESSAGE_CHARS)]
    tags: Tags = ()


class ArchivalSearchArguments(ToolArguments):
    """Arguments of `archival_search`."""

    query: Query
    top_k: Annotated[int, Field(ge=1, le=ARCHIVAL_TOP_K_MAX)] = limits.ARCHIVAL_TOP_K
    tags: Tags = ()


class ConversationSearchArguments(ToolArguments):
    """Arguments of `conversation_search`."""

    query: Query
    limit: Annotated[int, Field(ge=1, le=CONVERSATION_HITS_MAX)] = limits.CONVERSATION_HITS
    conversation_id: str | None = None


class BlockTools:
    """Tools for one agent's memory during one run. `seen` holds the blocks as they were shown to the model.

    An edit of a block that changed since then is refused once, with the block's current text.
    """

    def __init__(
        self,
        view: AgentMemoryView,
        /,
        *,
        seen: Iterable[MemoryBlock] = (),
        naming: ToolNaming = ToolNaming.SAGE,
    ) -> None:
        self._view = view
        self._repository = view.blocks
        self._versions = {block.label: block.version for block in seen}
        self._naming = naming
        self._order = asyncio.Lock()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools. Any call may be repeated under its key."""
        return (
            self._tool("memory_replace", "Replace text in a core memory block.", ReplaceArguments, self._replace),
            self._tool("memory_append", "Append a line to a core memory block.", AppendArguments, self._append),
            self._tool("memory_insert", "Insert text at a line of a core memory block.", InsertArguments, self._insert),
            self._tool("memory_rethink", "Replace the text of a core memory block.", RethinkArguments, self._rethink),
            self._tool(
                "archival_insert",
                "Store something in long-term memory, with tags to find it by.",
                ArchivalInsertArguments,
                self._archive_content,
            ),
            self._tool(
                "archival_search",
                "Search long-term memory by meaning; with tags, only memories that have one of them.",
                ArchivalSearchArguments,
                self._search_archive,
                read_only=True,
            ),
            self._tool(
                "conversation_search",
                "Search what was said in all conversations, or in one.",
                ConversationSearchArguments,
                self._search_conversations,
                read_only=True,
            ),
        )

    def _tool(self, name: str, description: str, arguments: Any, act: Any, *, read_only: bool = False) -> Tool:
        tool_name = _LETTA.get(name, name) if self._naming is ToolNaming.LETTA else name
        return typed_tool(tool_name, description, arguments, act, may_repeat=True, read_only=read_only)

    async def _replace(self, arguments: ReplaceArguments, key: CallKey, /) -> ToolAnswer:
        return await self._edit(
            arguments.block, arguments.new, lambda text: replace_text(text, arguments.old, arguments.new), key
        )

    async def _append(self, arguments: AppendArguments, key: CallKey, /) -> ToolAnswer:
        return await self._edit(
            arguments.block, arguments.content, lambda text: append_text(text, arguments.content), key
        )

    async def _insert(self, arguments: InsertArguments, key: CallKey, /) -> ToolAnswer:
        def insert(text: str) -> str:
            return insert_text(text, arguments.content, arguments.line)

        return await self._edit(arguments.block, arguments.content, insert, key)

    async def _rethink(self, arguments: RethinkArguments, key: CallKey, /) -> ToolAnswer:
        return await self._edit(arguments.block, arguments.content, lambda _text: arguments.content, key)

    async def _edit(self, label: str, new: str, change: Callable[[str], str], key: CallKey) -> ToolAnswer:
        # The text of a block becomes part of every prompt.
        if (refusal := refusal_of(new)) is not None:
            return ToolAnswer(text=f"The text was rejected: {refusal}.", is_error=True)
        # Calls may run concurrently, and each needs the version that the previous one stored.
        async with self._order:
            try:
                block = await self._repository.edit(
                    label, change, expected_version=self._versions.get(label), call=str(key), by=BlockAuthor.MODEL
                )
            except PreconditionFailed:
                block = await self._repository.read(label)
                conflict_notice = (
                    f"Block {label!r} was changed by others, so nothing was written. It now reads:\n{block.value}"
                )
                answer = ToolAnswer(text=conflict_notice, is_error=True)
            except NotFound:
                labels = ", ".join(block.label for block in await self._repository.list())
                return ToolAnswer(text=f"There is no block {label!r}. Available: {labels or 'none'}.", is_error=True)
            else:
                answer = ToolAnswer(text=f"Block {label!r} was edited: {len(block.value)}/{block.limit} characters.")
            self._versions[label] = block.version
            return answer

    async def _archive_content(self, arguments: ArchivalInsertArguments, key: CallKey, /) -> str:
        await self._view.archive.insert(arguments.content, tags=arguments.tags, call=str(key))
        return "Stored in archival memory."

    async def _search_archive(self, arguments: ArchivalSearchArguments, _key: CallKey, /) -> ToolAnswer:
        return answer_of(await self._view.archive.search(arguments.query, top_k=arguments.top_k, tags=arguments.tags))

    async def _search_conversations(self, arguments: ConversationSearchArguments, _key: CallKey, /) -> ToolAnswer:
        return answer_of(
            await self._view.search_conversations(
                arguments.query, limit=arguments.limit, conversation=arguments.conversation_id
            )
        )


ROOT: Final = "/memories"
_DEPTH: Final = 2
_AROUND: Final = 2
"""Number of lines shown before and after a change."""
_NUMBER_WIDTH: Final = len(str(FILE_LINES))
_UNITS: Final = "BKMG"
P = ParamSpec("P")
Command = Callable[Concatenate["MemoryFiles", P], Coroutine[Any, Any, ToolAnswer]]


class _NotDone(Exception):
    """A command was not performed. The message, worded for the model, says why."""


def _file_command(work: Callable[Concatenate["MemoryFiles", P], Awaitable[str]], /) -> Command[P]:
    """Wrap `work` as a command that returns a refusal as an error answer."""

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
    """File commands on stored blocks. Each answers with a text; `is_error` means that nothing was changed."""

    def __init__(self, repository: BlockRepository, /) -> None:
        self._repository = repository

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
        """Create a file. An existing file is not overwritten."""
        label, files = _label_of(path), await self._files()
        if not label or _files_below(files, label):
            raise _NotDone(f"The path {path} is not a file.")
        _require_harmless(file_text)
        try:
            await self._repository.create(BlockDraft(label=label, value=file_text), by=BlockAuthor.MODEL)
        except PreconditionFailed:
            raise _NotDone(f"File {path} already exists") from None
        return f"File created successfully at: {path}"

    @_file_command
    async def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a text that occurs in the file exactly once."""
        block = await self._file(path)
        part_positions = _part_places(block.value, old_str)
        if not part_positions:
            raise _NotDone(f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}.")
        if len(part_positions) > 1:
            line_numbers = ", ".join(str(block.value.count("\n", 0, position) + 1) for position in part_positions)
            raise _NotDone(
                f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: {line_numbers}. "
                "Please ensure it is unique"
            )
        _require_harmless(new_str)
        (position,) = part_positions
        value = block.value[:position] + new_str + block.value[position + len(old_str) :]
        await self._write(path, block, value)
        changed_line = block.value.count("\n", 0, position)
        snippet = _line_range(value.split("\n"), max(0, changed_line - _AROUND), changed_line + _AROUND + 1)
        return "\n".join(
            ("The memory file has been edited. Here is the snippet showing the change (with line numbers):", *snippet)
        )

    @_file_command
    async def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert text after a line; 0 is the beginning of the file."""
        block = await self._file(path)
        lines = block.value.split("\n")
        # The newline at the end of the last line does not start another line.
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
        """Delete a file, or a folder with everything in it."""
        label, files = _label_of(path), await self._files()
        if not label:
            raise _NotDone(f"Cannot delete the {ROOT} directory itself")
        blocks = _taken_files(files, label)
        if not blocks:
            raise _NotDone(f"The path {path} does not exist")
        for block in blocks:
            await self._repository.delete(block.label, expected_version=block.version)
        return f"Successfully deleted {path}"

    @_file_command
    async def rename(self, old_path: str, new_path: str) -> str:
        """Rename a file or folder. Nothing existing is overwritten."""
        old_label, new_label, files = _label_of(old_path), _label_of(new_path), await self._files()
        if not old_label:
            raise _NotDone(f"Cannot rename the {ROOT} directory itself")
        moved_blocks = _taken_files(files, old_label)
        if not moved_blocks:
            raise _NotDone(f"The path {old_path} does not exist")
        if not new_label or _taken_files(files, new_label):
            raise _NotDone(f"The destination {new_path} already exists")
        if new_label.startswith(f"{old_label}/"):
            raise _NotDone(f"The destination {new_path} is inside {old_path}")
        _require_writable(moved_blocks)
        for block in moved_blocks:
            # The text already exists, so moving it does not make it new text of the model.
            fields = block.model_dump(include=BlockDraft.model_fields.keys() - {"label"})
            # Create the new file first: if interrupted, the text exists twice rather than not at all.
            await self._repository.create(BlockDraft(label=new_label + block.label.removeprefix(old_label), **fields))
            await self._repository.delete(block.label, expected_version=block.version)
        return f"Successfully renamed {old_path} to {new_path}"

    @_file_command
    async def clear(self) -> str:
        """Delete every block that is not read-only."""
        for block in (await self._files()).values():
            if not block.read_only:
                await self._repository.delete(block.label, expected_version=block.version)
        return "All memory cleared"

    async def _files(self) -> dict[str, MemoryBlock]:
        return {block.label: block for block in await self._repository.list()}

    async def _file(self, path: str) -> MemoryBlock:
        label, files = _label_of(path), await self._files()
        if (block := files.get(label)) is not None:
            return block
        if not label or _files_below(files, label):
            raise _NotDone(f"The path {path} is not a file.")
        raise _NotDone(f"The path {path} does not exist. Please provide a valid path.")

    async def _write(self, path: str, block: MemoryBlock, value: str) -> None:
        try:
            await self._repository.edit(
                block.label, lambda _text: value, expected_version=block.version, by=BlockAuthor.MODEL
            )
        except PreconditionFailed:
            current_text = _numbered_lines(path, (await self._repository.read(block.label)).value, None)
            raise _NotDone(f"The file {path} was changed by others, so nothing was written. {current_text}") from None


def _label_of(path: str) -> str:
    """Return the label for a path, or "" for the root."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise _NotDone(f"Path must start with {ROOT}, got: {path}")
    parts = [part for part in path.removeprefix(ROOT).split("/") if part not in {"", "."}]
    if ".." in parts:
        raise _NotDone(f"Path {path} would escape {ROOT} directory")
    return "/".join(parts)


def _files_below(files: Mapping[str, MemoryBlock], label: str) -> dict[str, MemoryBlock]:
    """Return the files in a folder, by their relative paths."""
    label_prefix = f"{label}/" if label else ""
    return {name.removeprefix(label_prefix): block for name, block in files.items() if name.startswith(label_prefix)}


def _taken_files(files: Mapping[str, MemoryBlock], label: str) -> list[MemoryBlock]:
    """Return the file with this label, or all files of the folder with this label."""
    return [files[label]] if label in files else list(_files_below(files, label).values())


def _require_harmless(text: str) -> None:
    """Refuse text that must not be part of every prompt, as blocks do."""
    if (refusal := refusal_of(text)) is not None:
        raise _NotDone(f"The text was rejected: {refusal}.")


def _require_writable(blocks: Sequence[MemoryBlock]) -> None:
    if any(block.read_only for block in blocks):
        raise _NotDone("this block is read-only: nothing was changed")


def _part_places(text: str, part: str) -> list[int]:
    positions: list[int] = []
    position = text.find(part) if part else -1
    while position >= 0:
        positions.append(position)
        # Occurrences may overlap.
        position = text.find(part, position + 1)
    return positions


def _numbered_lines(path: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > FILE_LINES:
        raise _NotDone(f"File {path} exceeds maximum line limit of {FILE_LINES:,} lines.")
    start, end = 0, len(lines)
    if view_range is not None and len(view_range) == 2:
        start = max(1, view_range[0]) - 1
        end = end if view_range[1] == -1 else view_range[1]
    return "\n".join((f"Here's the content of {path} with line numbers:", *_line_range(lines, start, end)))


def _line_range(lines: Sequence[str], start: int, end: int) -> list[str]:
    return [f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines[start:end], start + 1)]


def _folder_listing(path: str, files: Mapping[str, MemoryBlock]) -> str:
    """Return a listing of a folder's files and folders with their sizes, two levels deep."""
    sizes = {name: len(block.value.encode()) for name, block in files.items() if not _is_hidden(name)}
    entry_sizes: dict[str, int] = {}
    for name, size in sizes.items():
        parts = name.split("/")
        folders = [f"{folder}/" for folder in accumulate(parts[:-1], lambda outer, inner: f"{outer}/{inner}")]
        for folder in folders[:_DEPTH]:
            entry_sizes[folder] = entry_sizes.get(folder, 0) + size
        if len(parts) <= _DEPTH:
            entry_sizes[name] = size
    top_path = path.rstrip("/")
    lines = [
        f"{_size_text(sum(sizes.values()))}\t{top_path}",
        *(f"{_size_text(entry_sizes[name])}\t{top_path}/{name}" for name in sorted(entry_sizes)),
    ]
    listing_head = f"Here're the files and directories up to {_DEPTH} levels deep in {path}, excluding hidden items:"
    return "\n".join((listing_head, *lines))


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _size_text(size: int) -> str:
    unit_index = 0
    value = float(size)
    while value >= 1024 and unit_index < len(_UNITS) - 1:
        value, unit_index = value / 1024, unit_index + 1
    return f"{value:.0f}{_UNITS[unit_index]}" if value.is_integer() else f"{value:.1f}{_UNITS[unit_index]}"
