"""Anthropic's memory tool: files below `/memories`, stored as memory blocks in one memory space."""

from typing import Any

from typing_extensions import override

from elytron.api import MemoryFace
from elytron.runtime import BlockingMemory
from elytron_agent.blocks.block_repository import BlockRepository
from elytron_agent.blocks.toolset import MemoryFiles
from elytron_agent.tool import ToolAnswer
from elytron_integrations.integration_table import require_framework
from elytron_integrations.user_memory import require_open_memory, user_memory

require_framework(__name__)

from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError  # noqa: E402
from anthropic.types.beta import (  # noqa: E402
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)


class AsyncElytronMemoryTool(BetaAsyncAbstractMemoryTool):
    """Memory tool for `AsyncAnthropic`, whose files are the memory blocks of one memory space.

    With `agent`, these are that agent's blocks; otherwise the blocks shared by the space's agents.
    """

    def __init__(
        self,
        memory: MemoryFace,
        *,
        space: str | None = None,
        agent: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = _user_files(memory, space, agent)

    @override
    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file with line numbers, or list a folder."""
        return _text_of(await self._files.view(command.path, command.view_range))

    @override
    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file. An existing file is not overwritten."""
        return _text_of(await self._files.create(command.path, command.file_text))

    @override
    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs exactly once in the file."""
        return _text_of(await self._files.str_replace(command.path, command.old_str, command.new_str))

    @override
    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert text after a line."""
        return _text_of(await self._files.insert(command.path, command.insert_line, command.insert_text))

    @override
    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder and everything below it."""
        return _text_of(await self._files.delete(command.path))

    @override
    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename a file or folder. An existing target is not overwritten."""
        return _text_of(await self._files.rename(command.old_path, command.new_path))

    @override
    async def clear_all_memory(self) -> str:
        """Delete every file that is not read-only."""
        return _text_of(await self._files.clear())


class ElytronMemoryTool(BetaAbstractMemoryTool):
    """Memory tool for `Anthropic`, over a blocking memory. Otherwise identical to the asynchronous one."""

    def __init__(
        self,
        memory: BlockingMemory[Any],
        *,
        space: str | None = None,
        agent: str | None = None,
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._memory = memory
        require_open_memory(memory)
        self._files = _user_files(memory.runtime, space, agent)

    @override
    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file with line numbers, or list a folder."""
        return _text_of(self._memory.run(self._files.view(command.path, command.view_range)))

    @override
    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file. An existing file is not overwritten."""
        return _text_of(self._memory.run(self._files.create(command.path, command.file_text)))

    @override
    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs exactly once in the file."""
        return _text_of(self._memory.run(self._files.str_replace(command.path, command.old_str, command.new_str)))

    @override
    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert text after a line."""
        return _text_of(self._memory.run(self._files.insert(command.path, command.insert_line, command.insert_text)))

    @override
    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder and everything below it."""
        return _text_of(self._memory.run(self._files.delete(command.path)))

    @override
    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename a file or folder. An existing target is not overwritten."""
        return _text_of(self._memory.run(self._files.rename(command.old_path, command.new_path)))

    @override
    def clear_all_memory(self) -> str:
        """Delete every file that is not read-only."""
        return _text_of(self._memory.run(self._files.clear()))


def _user_files(memory: MemoryFace, space: str | None, agent: str | None) -> MemoryFiles:
    return MemoryFiles(BlockRepository(user_memory(memory, space, operation="the memory tool"), agent=agent))


def _text_of(answer: ToolAnswer) -> str:
    """Return a command's answer to the model. Raises the client's ToolError if the command failed."""
    if answer.is_error:
        raise ToolError(answer.text)
    return answer.text
