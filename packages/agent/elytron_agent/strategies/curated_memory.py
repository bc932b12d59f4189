"""The strategy `curated`: MEMORY.md and USER.md, frozen in the system prompt of a run, changed by the tool `memory`."""

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from elytron.api import MemoryFace
from elytron_agent import limits, text_checks
from elytron_agent.strategies.entries import (
    DELIMITER,
    Entries,
    EntryAction,
    EntryFiles,
    EntryOperation,
    EntryRefusal,
    EntryStore,
    ListTarget,
    write_entries,
)
from elytron_agent.strategies.strategy import RunMemory, TurnExchange, session_search
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core.clock import Clock, SystemClock
from elytron_core.errors import ElytronError
from elytron_core.model import Request
from elytron_core.policy.projection.sections import escape_line

logger = logging.getLogger(__name__)
HEADINGS: Final = {ListTarget.MEMORY: "MEMORY (your own notes)", ListTarget.USER: "USER PROFILE (who the user is)"}
_DESCRIPTION: Final = (
    "Keep short notes that stand before you in every later run. target 'user': who the user is, preferences, habits. "
    "target 'memory': your own notes on environment, conventions, lessons. action 'add' takes content; 'replace' and "
    "'remove' take old_text, a part of the entry that no other has. Several changes go as a list of operations: all "
    "are done or none, and only the result has to fit the limit. A change shows from the next run on."
)
_DONE: Final = "Saved. This change is complete: do not repeat it."


class CuratedSettings(Request):
    """The section `curated` of a configuration. Limits count characters; `directory` asks for files."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    memory_char_limit: Annotated[int, Field(ge=1, le=limits.CURATED_CHARS_MAX)] = limits.MEMORY_CHARS
    user_char_limit: Annotated[int, Field(ge=1, le=limits.CURATED_CHARS_MAX)] = limits.USER_CHARS
    directory: str | None = None


class MemoryArguments(ToolArguments):
    """Arguments of `memory`: one change, or a list of them."""

    action: EntryAction | None = None
    target: ListTarget = ListTarget.MEMORY
    content: str = ""
    old_text: str = ""
    operations: Annotated[tuple[EntryOperation, ...], Field(max_length=limits.CURATED_OPERATIONS)] = ()


class CuratedStrategy:
    """Curated memory over any memory, local or remote. `folder` is where its files are, if they are asked for."""

    def __init__(
        self,
        memory: MemoryFace,
        /,
        *,
        settings: CuratedSettings | None = None,
        folder: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = settings or CuratedSettings()
        bounds = {ListTarget.MEMORY: settings.memory_char_limit, ListTarget.USER: settings.user_char_limit}
        files = EntryFiles(folder, clock=clock or SystemClock()) if folder is not None else None
        self._memory = memory
        self._store = EntryStore(memory, bounds=bounds, files=files)

    async def before_run(self, _conversation: str, _prompt: str, /) -> RunMemory:
        """Return the snapshot of this run, and its tools. What they change shows in the next run."""
        shown = [await self._shown(target) for target in ListTarget]
        tools = (MemoryTool(self._store).tool, session_search(self._memory))
        return RunMemory(system="\n\n".join(filter(None, shown)), tools=tools)

    async def _shown(self, target: ListTarget) -> str:
        try:
            async with asyncio.timeout(limits.RUN_TIMEOUT_S):
                return snapshot_of(target, await self._store.read(target), self._store.limit_of(target))
        except (ElytronError, OSError) as error:
            name = target.file_name
            logger.warning("%s cannot be read: the run goes on without it (%s)", name, type(error).__name__)
            return ""

    async def after_run(self, _conversation: str, _exchange: TurnExchange, /) -> None:
        """Do nothing: the model itself writes by its tool."""

    async def close(self) -> None:
        """Do nothing: who opened the memory closes it."""


class MemoryTool:
    """The tool `memory` of one run. It counts attempts that found no room, and ends them."""

    def __init__(self, store: EntryStore, /) -> None:
        self._store = store
        self._failures = 0

    @property
    def tool(self) -> Tool:
        """Return the tool."""
        return typed_tool("memory", _DESCRIPTION, MemoryArguments, self._change, may_repeat=True)

    async def _change(self, given: MemoryArguments, key: CallKey, /) -> ToolAnswer:
        operations = given.operations
        if not operations and given.action is not None:
            operations = (EntryOperation(action=given.action, content=given.content, old_text=given.old_text),)
        if not operations:
            return _tool_answer(
                {"success": False, "error": "action is needed, or a list of operations."}, is_error=True
            )
        before = await self._store.read(given.target)
        made = await self._store.change(given.target, operations, call=str(key))
        if isinstance(made, EntryRefusal):
            return self._refused(given.target, made, before)
        self._failures = 0
        return _tool_answer(_change_answer(given.target, operations, made, before, self._store.limit_of(given.target)))

    def _refused(self, target: ListTarget, refusal: EntryRefusal, entries: Entries) -> ToolAnswer:
        told: dict[str, Any] = {"success": False, "error": refusal.error}
        if refusal.matches:
            told["matches"] = list(refusal.matches)
        if refusal.shows_entries:
            self._failures += 1
            if self._failures > limits.CURATED_FAILURES:
                error = "This failed several times. Memory stays as it is: do not try again, and answer the user now."
                return _tool_answer({"success": False, "done": True, "error": error}, is_error=True)
            told["current_entries"] = [_shown_entry(target, entry) for entry in entries]
            told["usage"] = _usage_line(entries, self._store.limit_of(target))
        return _tool_answer(told, is_error=True)


def snapshot_of(target: ListTarget, entries: Entries, limit: int, /) -> str:
    """Return entries as a system prompt shows them, with how full they are; nothing for none."""
    if not entries:
        return ""
    text = DELIMITER.join(_shown_entry(target, entry) for entry in entries)
    most = limits.CURATED_SHOWN * limit
    if len(text) > most:
        text = f"{text[:most]}\n[{len(text) - most:,} characters are not shown: remove or shorten entries]"
    return f"{HEADINGS[target]} [{_usage_line(entries, limit)}]\n{text}"


def _shown_entry(target: ListTarget, entry: str) -> str:
    """Return an entry as a model is shown it: blocked if it looks like an injection, else with its lines escaped."""
    broken = text_checks.broken_rules(entry)
    if broken:
        return f"[BLOCKED: an entry of {target.file_name} is not shown ({', '.join(broken)}); remove it]"
    return "\n".join(map(escape_line, entry.split("\n")))


def _usage_line(entries: Sequence[str], limit: int) -> str:
    used = len(write_entries(entries))
    return f"{_used_percent(used, limit)}%, {used:,}/{limit:,} characters{', OVER BUDGET' if used > limit else ''}"


def _used_percent(used: int, limit: int) -> int:
    return min(100, 100 * used // limit)


def _change_answer(
    target: ListTarget, operations: Sequence[EntryOperation], made: Entries, before: Entries, limit: int
) -> dict[str, Any]:
    """Return the answer to a change that was stored. It shows no entries: a model would begin to change them again."""
    told: dict[str, Any] = {
        "success": True,
        "done": True,
        "target": target.value,
        "usage": _usage_line(made, limit),
        "entry_count": len(made),
        "message": f"{len(operations)} operations done." if made != before else "Nothing new: it is there already.",
        "note": _DONE,
    }
    if _used_percent(len(write_entries(made)), limit) >= limits.CURATED_FULL_PERCENT:
        told["warning"] = "Nearly full: merge or remove entries when you next write."
    return told


def _tool_answer(fields: dict[str, Any], *, is_error: bool = False) -> ToolAnswer:
    return ToolAnswer(text=json.dumps(fields, ensure_ascii=False), is_error=is_error)
