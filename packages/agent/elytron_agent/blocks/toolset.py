"""The tools of blocks, archival memory and conversation search, under the names that agents know them by."""

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AliasChoices, BeforeValidator, Field

from elytron.api import MemoryFace
from elytron_agent import limits, text_checks
from elytron_agent.blocks import shelf as edits
from elytron_agent.blocks.archive import ArchivalMemory, answer_of, search_conversations, tags_of
from elytron_agent.blocks.shelf import BlockAuthor, BlockShelf, MemoryBlock
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core import limits as core_limits
from elytron_core.errors import NotFound, PreconditionFailed


class ToolNaming(StrEnum):
    """Naming of the tools; arguments are taken under either spelling."""

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
"""Tags as a model gives them: a list, or one text with commas; blank ones count for nothing."""
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
            "new", "new_str", "new_string", "new_content", description="Text in its place; empty deletes it."
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
            "line", "insert_line", default=-1, description="Insert behind this line; 0 is the beginning, -1 the end."
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
    top_k: Annotated[int, Field(ge=1, le=limits.ARCHIVAL_TOP_K_MAX)] = limits.ARCHIVAL_TOP_K
    tags: Tags = ()


class ConversationSearchArguments(ToolArguments):
    """Arguments of `conversation_search`."""

    query: Query
    limit: Annotated[int, Field(ge=1, le=limits.CONVERSATION_HITS_MAX)] = limits.CONVERSATION_HITS
    conversation_id: str | None = None


class BlockTools:
    """Tools over one agent's memory for one run. `seen` are the blocks as the run's model was shown them.

    An edit of a block that changed since it was seen is refused once, with what the block says now.
    """

    def __init__(
        self,
        memory: MemoryFace,
        /,
        *,
        shelf: BlockShelf,
        archive: ArchivalMemory,
        seen: Iterable[MemoryBlock] = (),
        naming: ToolNaming = ToolNaming.SAGE,
    ) -> None:
        self._memory = memory
        self._shelf = shelf
        self._archive = archive
        self._seen = {block.label: block.version for block in seen}
        self._naming = naming
        self._order = asyncio.Lock()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Return the tools. A call of any of them may be repeated under its key."""
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
                "Search long-term memory by meaning; tags narrow it to what has one of them.",
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
        named = _LETTA.get(name, name) if self._naming is ToolNaming.LETTA else name
        return typed_tool(named, description, arguments, act, may_repeat=True, read_only=read_only)

    async def _replace(self, given: ReplaceArguments, key: CallKey, /) -> ToolAnswer:
        return await self._edit(
            given.block, given.new, lambda text: edits.replace_text(text, given.old, given.new), key
        )

    async def _append(self, given: AppendArguments, key: CallKey, /) -> ToolAnswer:
        return await self._edit(given.block, given.content, lambda text: edits.append_text(text, given.content), key)

    async def _insert(self, given: InsertArguments, key: CallKey, /) -> ToolAnswer:
        def insert(text: str) -> str:
            return edits.insert_text(text, given.content, given.line)

        return await self._edit(given.block, given.content, insert, key)

    async def _rethink(self, given: RethinkArguments, key: CallKey, /) -> ToolAnswer:
        return await self._edit(given.block, given.content, lambda _text: given.content, key)

    async def _edit(self, label: str, new: str, change: Callable[[str], str], key: CallKey) -> ToolAnswer:
        # The text of a block is in every prompt.
        if (refusal := text_checks.refusal_of(new)) is not None:
            return ToolAnswer(text=f"The text was refused: {refusal}.", is_error=True)
        async with self._order:
            try:
                block = await self._shelf.edit(
                    label, change, expected_version=self._seen.get(label), call=str(key), by=BlockAuthor.MODEL
                )
            except PreconditionFailed:
                block = await self._shelf.read(label)
                told = f"Block {label!r} was changed by others, and nothing was written. It says now:\n{block.value}"
                answer = ToolAnswer(text=told, is_error=True)
            except NotFound:
                labels = ", ".join(block.label for block in await self._shelf.list())
                return ToolAnswer(text=f"There is no block {label!r}. There are: {labels or 'none'}.", is_error=True)
            else:
                answer = ToolAnswer(text=f"Block {label!r} was edited: {len(block.value)}/{block.limit} characters.")
            self._seen[label] = block.version
            return answer

    async def _archive_content(self, given: ArchivalInsertArguments, key: CallKey, /) -> str:
        await self._archive.insert(given.content, tags=given.tags, call=str(key))
        return "Stored in archival memory."

    async def _search_archive(self, given: ArchivalSearchArguments, _key: CallKey, /) -> ToolAnswer:
        return answer_of(await self._archive.search(given.query, top_k=given.top_k, tags=given.tags))

    async def _search_conversations(self, given: ConversationSearchArguments, _key: CallKey, /) -> ToolAnswer:
        hits = await search_conversations(
            self._memory, given.query, limit=given.limit, conversation=given.conversation_id
        )
        return answer_of(hits)
