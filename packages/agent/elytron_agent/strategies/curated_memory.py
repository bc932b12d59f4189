"""Curated memory: short notes in lists of limited size, and the strategy `curated` over MEMORY.md and USER.md."""

import asyncio
import json
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import Annotated, Any, Final, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.blocks.block_repository import learning_refusal
from elytron_agent.blocks.injections import broken_rules, refusal_of
from elytron_agent.blocks.view import AgentMemoryView
from elytron_agent.strategies.strategy import RunMemory, TurnExchange, session_search
from elytron_agent.tool import CallKey, Tool, ToolAnswer, ToolArguments, typed_tool
from elytron_core.clock import Clock, SystemClock
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded, NotFound, PreconditionFailed, StoreBusy
from elytron_core.model import Request, Value
from elytron_core.policy.admission.own_output import strip_own_output
from elytron_core.policy.projection.sections import escape_line
from elytron_core.policy.redaction import scrub_secrets
from elytron_store.file.disk import NEW_SUFFIX, locked_file, make_folder, write_file

MEMORY_CHARS: Final = 2_200
USER_CHARS: Final = 1_375
CURATED_CHARS_MAX: Final = 50_000
"""Default limits of MEMORY.md and USER.md including separators, and the highest limit that can be configured."""
CURATED_SHOWN: Final = 2
"""Multiple of its limit up to which a snapshot shows an oversized file."""
CURATED_OPERATIONS: Final = 50
CURATED_FAILURES: Final = 3
"""Number of failed attempts to make room after which the tool tells the model to continue without storing."""
CURATED_FULL_PERCENT: Final = 90
CURATED_PREVIEW_CHARS: Final = 80
CURATED_ATTEMPTS: Final = 8
"""Number of attempts at a change while others keep changing the entries."""
CURATED_LOCK_S: Final = 5.0
CURATED_PAUSE_S: Final = 0.005
"""How long a change waits for its file, and the pause between two attempts."""
CURATED_FILE_BYTES: Final = 1024 * 1024


DELIMITER: Final = "\n§\n"
_MARK: Final = DELIMITER.strip()

Entries = tuple[str, ...]


class ListTarget(StrEnum):
    """A list: the assistant's own notes, or its knowledge of the user."""

    MEMORY = "memory"
    USER = "user"

    @property
    def file_name(self) -> str:
        return "MEMORY.md" if self is ListTarget.MEMORY else "USER.md"


class EntryAction(StrEnum):
    """Action on an entry."""

    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


class EntryOperation(ToolArguments):
    """One change. `content` is the new text, `old_text` a part of the entry to change."""

    action: EntryAction
    content: Annotated[str, Field(max_length=CURATED_CHARS_MAX)] = ""
    old_text: Annotated[str, Field(max_length=CURATED_CHARS_MAX)] = ""


class EntryRefusal(NamedTuple):
    """Why nothing was changed. `shows_entries` means that the model needs to see the entries to correct its call."""

    error: str
    matches: tuple[str, ...] = ()
    shows_entries: bool = False


def parse_entries(text: str, /) -> Entries:
    """Parse the entries of a file, trimmed and without duplicates."""
    return tuple(dict.fromkeys(entry for part in text.split(DELIMITER) if (entry := part.strip())))


def write_entries(entries: Sequence[str], /) -> str:
    """Return the text of a file with these entries."""
    return DELIMITER.join(entries)


def is_written(text: str, /, *, limit: int) -> bool:
    """Return whether parsing a file's text and writing it again would give the same text."""
    parts = [entry for part in text.split(DELIMITER) if (entry := part.strip())]
    return text.strip() == write_entries(parts) and all(len(entry) <= limit for entry in parts)


def apply_operations(
    entries: Entries, operations: Sequence[EntryOperation], /, *, limit: int
) -> Entries | EntryRefusal:
    """Return the entries after all operations, or why none was applied. Only the final result must fit the limit."""
    changed_entries = list(entries)
    for number, operation in enumerate(operations, 1):
        refusal = _apply_operation(changed_entries, operation)
        if refusal is not None:
            return _of_batch(refusal, number, operation) if len(operations) > 1 else refusal
    chars_before, chars_after = len(write_entries(entries)), len(write_entries(changed_entries))
    # A list that is already too long may still become shorter.
    if chars_after > limit and chars_after >= chars_before:
        error = (
            f"The entries would have {chars_after:,} of {limit:,} characters. Nothing was written. "
            "Shorten, merge or remove entries in the same call, as a list of operations."
        )
        return EntryRefusal(error, shows_entries=True)
    return tuple(changed_entries)


def _of_batch(refusal: EntryRefusal, number: int, operation: EntryOperation) -> EntryRefusal:
    error_text = f"Operation {number} ({operation.action}): {refusal.error} No operation was applied: all are, or none."
    return refusal._replace(error=error_text, shows_entries=True)


def _apply_operation(working: list[str], operation: EntryOperation) -> EntryRefusal | None:
    """Apply one operation to `working`, or return why it cannot be applied."""
    content = operation.content.strip()
    if operation.action is not EntryAction.REMOVE:
        refusal = _refused_content(content)
        if refusal is not None:
            return refusal
    if operation.action is EntryAction.ADD:
        if content not in working:
            working.append(content)
        return None
    entry_index = _find_entry(working, operation)
    if isinstance(entry_index, EntryRefusal):
        return entry_index
    if operation.action is EntryAction.REMOVE:
        working.pop(entry_index)
    elif content in working and working[entry_index] != content:
        working.pop(entry_index)  # a duplicate entry adds nothing
    else:
        working[entry_index] = content
    return None


def _refused_content(content: str) -> EntryRefusal | None:
    if not content:
        return EntryRefusal("content is required.")
    if any(line.strip() == _MARK for line in content.split("\n")):
        return EntryRefusal(f"content has a line with only {_MARK}, which separates entries.")
    refusal = refusal_of(content)
    return EntryRefusal(f"content was rejected: {refusal}.") if refusal is not None else None


def _find_entry(working: Sequence[str], operation: EntryOperation) -> int | EntryRefusal:
    """Return the index of the only entry that contains `old_text`; of equal entries, the first."""
    old_text = operation.old_text.strip()
    if not old_text:
        return EntryRefusal(
            f"{operation.action} needs old_text: a part of the entry that no other entry contains.", shows_entries=True
        )
    match_indices = [index for index, entry in enumerate(working) if old_text in entry]
    if not match_indices:
        return EntryRefusal("No entry has this old_text: repeat a part of one exactly.", shows_entries=True)
    distinct_entries = list(dict.fromkeys(working[index] for index in match_indices))
    if len(distinct_entries) > 1:
        previews = tuple(_entry_preview(entry) for entry in distinct_entries)
        return EntryRefusal("Several entries have this old_text: quote more of the intended one.", previews)
    return match_indices[0]


def _entry_preview(entry: str) -> str:
    preview_chars = CURATED_PREVIEW_CHARS
    return entry if len(entry) <= preview_chars else f"{entry[:preview_chars]}..."


class FileText(NamedTuple):
    """Content of a file as text and as bytes. `text` is None if it is not UTF-8."""

    text: str | None
    data: bytes


class EntryFiles:
    """MEMORY.md and USER.md in one folder. Every method blocks, so call it in a worker thread."""

    def __init__(self, folder: Path, /, *, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    @contextmanager
    def lock(self, target: ListTarget, /) -> Generator[None]:
        """Lock the file against other threads and processes. Raises InvalidInput, StoreBusy at once if it is locked."""
        make_folder(self._folder)
        with locked_file(self._place(f".{target.file_name}.lock"), wait_s=0):
            yield

    def read(self, target: ListTarget, /) -> FileText | None:
        """Return the content of the file, or None if it does not exist. Raises LimitExceeded, InvalidInput."""
        try:
            with self._place(target.file_name).open("rb") as file:
                data = file.read(CURATED_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        if len(data) > CURATED_FILE_BYTES:
            raise LimitExceeded(what=f"bytes in {target.file_name}", limit=CURATED_FILE_BYTES)
        try:
            return FileText(data.decode("utf-8"), data)
        except UnicodeDecodeError:
            return FileText(None, data)

    def write(self, target: ListTarget, entries: Entries, /) -> None:
        """Replace the file's content by these entries, atomically and durably. Raises InvalidInput."""
        self._write(target.file_name, write_entries(entries).encode())

    def append(self, target: ListTarget, text: str, entry: str, /) -> None:
        """Append `entry` to the file's current `text`, which stays unchanged. Raises InvalidInput."""
        file_text = f"{text.rstrip()}{DELIMITER}{entry}" if text.strip() else entry
        self._write(target.file_name, file_text.encode())

    def back_up(self, target: ListTarget, data: bytes, /) -> str:
        """Store a copy of a file that was edited by hand, once per content, and return the copy's name."""
        backup_prefix = f"{target.file_name}.bak."
        for path in sorted(self._folder.glob(f"{backup_prefix}*")):
            # Compare sizes first, so that few copies are read.
            if self._place(path.name).stat().st_size == len(data) and path.read_bytes() == data:
                return path.name
        backup_name = f"{backup_prefix}{self._clock.now()}"
        self._write(backup_name, data)
        return backup_name

    def _write(self, name: str, data: bytes) -> None:
        # The temporary file must not be a link either.
        self._place(f"{name}{NEW_SUFFIX}")
        write_file(self._place(name), data)

    def _place(self, name: str) -> Path:
        """Return the path of a file in the folder. Raises InvalidInput if it exists but is not a regular file."""
        path = self._folder / name
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            return path
        if S_ISREG(mode):
            return path
        kind_text = "a symbolic link" if S_ISLNK(mode) else "something other than a file"
        problem = f"has {kind_text} named {name}: put the file itself there, or name the folder of that file"
        raise InvalidInput(field="directory", problem=problem)


def entries_of(file: FileText | None, /) -> Entries:
    """Return the readable entries of a file."""
    return parse_entries(file.text) if file is not None and file.text is not None else ()


def is_edited_by_hand(file: FileText | None, /, *, limit: int) -> bool:
    """Return whether rewriting the entries of this file would lose some of its content."""
    return file is not None and (file.text is None or not is_written(file.text, limit=limit))


logger = logging.getLogger(__name__)

_NAMESPACE: Final = ("curated",)


class _StoredList(Value):
    """The stored record of a list. `calls` are the most recent tool calls that changed it."""

    entries: Entries = ()
    calls: Annotated[tuple[str, ...], Field(max_length=limits.BLOCK_CALLS)] = ()


class _ListVersion(Value):
    stored: _StoredList = _StoredList()
    version: int = 0


class EntryStore:
    """Entries by target. A change applies to the current entries, completely or not at all.

    With `files`, the files are authoritative: entries that a person adds in the same format are adopted.
    """

    def __init__(
        self, memory: MemoryFace, /, *, bounds: Mapping[ListTarget, int], files: EntryFiles | None = None
    ) -> None:
        self._memory = memory
        self._bounds = dict(bounds)
        self._files = files

    def limit_of(self, target: ListTarget, /) -> int:
        """Return the maximum number of characters of the entries, including separators."""
        return self._bounds[target]

    async def read(self, target: ListTarget, /) -> Entries:
        """Return the current entries."""
        if self._files is not None:
            file = await asyncio.to_thread(self._files.read, target)
            if file is not None:
                return entries_of(file)
        return (await self._version(target)).stored.entries

    async def change(
        self, target: ListTarget, operations: Sequence[EntryOperation], /, *, call: str
    ) -> Entries | EntryRefusal:
        """Apply operations to the entries and store the result. A `call` that already changed them changes nothing.

        Raises StoreBusy if others lock the file or keep changing the record for too long.
        """
        own_operations = [_own_words(operation) for operation in operations]
        if self._files is None:
            return await self._change_record(target, own_operations, call)
        with ExitStack() as locks:
            await _hold_file(locks, self._files, target)
            return await self._change_file(self._files, target, own_operations, call)

    async def _change_record(
        self, target: ListTarget, operations: Sequence[EntryOperation], call: str
    ) -> Entries | EntryRefusal:
        for _ in range(CURATED_ATTEMPTS):
            version = await self._version(target)
            if call in version.stored.calls:
                return version.stored.entries
            new_entries = await self._applied(target, version.stored.entries, operations)
            if isinstance(new_entries, EntryRefusal):
                return new_entries
            try:
                return await self._put(target, version, new_entries, call)
            except PreconditionFailed:
                continue
        raise StoreBusy(engine="curated", waited_s=0)

    async def _change_file(
        self, files: EntryFiles, target: ListTarget, operations: Sequence[EntryOperation], call: str
    ) -> Entries | EntryRefusal:
        """Change the file, then the record. After a crash in between, the next change adopts the file."""
        limit = self.limit_of(target)
        version, file = await self._version(target), await asyncio.to_thread(files.read, target)
        entries = version.stored.entries if file is None else entries_of(file)
        if call in version.stored.calls:
            return entries
        is_hand_edited = is_edited_by_hand(file, limit=limit)
        if is_hand_edited and file is not None and not _only_adds(file, operations):
            backup_name = await asyncio.to_thread(files.back_up, target, file.data)
            return EntryRefusal(
                f"{target.file_name} was edited by hand and is not a list of entries, so it is not overwritten. "
                f"A copy is in {backup_name}. Until a person repairs it, only single entries can be added."
            )
        new_entries = await self._applied(target, entries, operations)
        if isinstance(new_entries, EntryRefusal):
            return new_entries
        if is_hand_edited and file is not None and file.text is not None:
            if new_entries != entries:
                await asyncio.to_thread(files.append, target, file.text, new_entries[-1])
        elif new_entries != entries or file is None:
            await asyncio.to_thread(files.write, target, new_entries)
        try:
            return await self._put(target, version, new_entries, call)
        except ElytronError as error:
            # The file is written and authoritative. The next change updates the record from it.
            logger.warning("the record of %s is older than its file (%s)", target.file_name, type(error).__name__)
            return new_entries

    async def _applied(
        self, target: ListTarget, entries: Entries, operations: Sequence[EntryOperation]
    ) -> Entries | EntryRefusal:
        new_entries = apply_operations(entries, operations, limit=self.limit_of(target))
        if isinstance(new_entries, EntryRefusal):
            return new_entries
        refusal = await learning_refusal(self._memory, write_entries(entries), write_entries(new_entries))
        return new_entries if refusal is None else EntryRefusal(refusal)

    async def _version(self, target: ListTarget) -> _ListVersion:
        try:
            item = (await self._memory.get_record(_NAMESPACE, target.file_name)).record
        except NotFound:
            return _ListVersion()
        return _ListVersion(stored=_StoredList.model_validate(item.value), version=item.version)

    async def _put(self, target: ListTarget, version: _ListVersion, entries: Entries, call: str) -> Entries:
        stored_list = _StoredList(entries=entries, calls=(*version.stored.calls, call)[-limits.BLOCK_CALLS :])
        value: Any = stored_list.model_dump(mode="json")
        report = await self._memory.put_record(_NAMESPACE, target.file_name, value, expected_version=version.version)
        return _StoredList.model_validate(report.record.value).entries


async def _hold_file(locks: ExitStack, files: EntryFiles, target: ListTarget) -> None:
    """Lock a file. While others hold the lock, no thread waits, because its holder needs a thread too."""
    monotonic_time = asyncio.get_running_loop().time
    deadline_s = monotonic_time() + CURATED_LOCK_S
    while True:
        try:
            # The lock belongs to the file handle, so one thread may take it and another release it.
            await asyncio.to_thread(locks.enter_context, files.lock(target))
        except StoreBusy:
            if monotonic_time() >= deadline_s:
                raise
            await asyncio.sleep(CURATED_PAUSE_S)
        else:
            return


def _only_adds(file: FileText, operations: Sequence[EntryOperation]) -> bool:
    return file.text is not None and len(operations) == 1 and operations[0].action is EntryAction.ADD


def _own_words(operation: EntryOperation) -> EntryOperation:
    """Return an operation whose content is free of credentials and of text that memory itself produced."""
    return operation.model_copy(update={"content": strip_own_output(scrub_secrets(operation.content).text).text})


HEADINGS: Final = {ListTarget.MEMORY: "MEMORY (your own notes)", ListTarget.USER: "USER PROFILE (who the user is)"}
_DESCRIPTION: Final = (
    "Keep short notes, which you will see in every later run. target 'user': who the user is, preferences, habits. "
    "target 'memory': your own notes on environment, conventions, lessons. action 'add' takes content; 'replace' and "
    "'remove' take old_text, a part of the entry that no other contains. Pass several changes as a list of operations: "
    "all are done or none, and only the result has to fit the limit. You will see a change from the next run on."
)
_SAVED_NOTE: Final = "Saved. This change is complete: do not repeat it."


class CuratedSettings(Request):
    """The section `curated` of a configuration. Limits count characters; setting `directory` enables files."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    memory_char_limit: Annotated[int, Field(ge=1, le=CURATED_CHARS_MAX)] = MEMORY_CHARS
    user_char_limit: Annotated[int, Field(ge=1, le=CURATED_CHARS_MAX)] = USER_CHARS
    directory: str | None = None


class MemoryArguments(ToolArguments):
    """Arguments of `memory`: one change, or a list of them."""

    action: EntryAction | None = None
    target: ListTarget = ListTarget.MEMORY
    content: str = ""
    old_text: str = ""
    operations: Annotated[tuple[EntryOperation, ...], Field(max_length=CURATED_OPERATIONS)] = ()


class CuratedStrategy:
    """Curated memory in any memory, local or remote. `folder` is the base of its files if they are enabled."""

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
        """Return the snapshot and the tools for this run. Changes become visible in the next run."""
        sections = [await self._render_list(target) for target in ListTarget]
        tools = (MemoryTool(self._store).tool, session_search(AgentMemoryView.of(self._memory)))
        return RunMemory(system="\n\n".join(filter(None, sections)), tools=tools)

    async def _render_list(self, target: ListTarget) -> str:
        try:
            async with asyncio.timeout(limits.RUN_TIMEOUT_S):
                return snapshot_of(target, await self._store.read(target), self._store.limit_of(target))
        except (ElytronError, OSError) as error:
            name = target.file_name
            logger.warning("%s cannot be read: the run continues without it (%s)", name, type(error).__name__)
            return ""

    async def after_run(self, _conversation: str, _exchange: TurnExchange, /) -> None:
        """Do nothing, because the model stores entries itself through the tool."""

    async def close(self) -> None:
        """Do nothing, because whoever opened the memory closes it."""


class MemoryTool:
    """The tool `memory` of one run. It counts attempts that found no room, and stops them at a limit."""

    def __init__(self, store: EntryStore, /) -> None:
        self._store = store
        self._failures = 0

    @property
    def tool(self) -> Tool:
        """Return the tool."""
        return typed_tool("memory", _DESCRIPTION, MemoryArguments, self._change, may_repeat=True)

    async def _change(self, arguments: MemoryArguments, key: CallKey, /) -> ToolAnswer:
        operations = arguments.operations
        if not operations and arguments.action is not None:
            operations = (
                EntryOperation(action=arguments.action, content=arguments.content, old_text=arguments.old_text),
            )
        if not operations:
            return _tool_answer(
                {"success": False, "error": "action is needed, or a list of operations."}, is_error=True
            )
        entries_before = await self._store.read(arguments.target)
        new_entries = await self._store.change(arguments.target, operations, call=str(key))
        if isinstance(new_entries, EntryRefusal):
            return self._refused(arguments.target, new_entries, entries_before)
        self._failures = 0
        return _tool_answer(
            _change_answer(
                arguments.target, operations, new_entries, entries_before, self._store.limit_of(arguments.target)
            )
        )

    def _refused(self, target: ListTarget, refusal: EntryRefusal, entries: Entries) -> ToolAnswer:
        answer: dict[str, Any] = {"success": False, "error": refusal.error}
        if refusal.matches:
            answer["matches"] = list(refusal.matches)
        if refusal.shows_entries:
            self._failures += 1
            if self._failures > CURATED_FAILURES:
                error = "This failed several times. Memory stays as it is: do not try again, and answer the user now."
                return _tool_answer({"success": False, "done": True, "error": error}, is_error=True)
            answer["current_entries"] = [_shown_entry(target, entry) for entry in entries]
            answer["usage"] = _usage_line(entries, self._store.limit_of(target))
        return _tool_answer(answer, is_error=True)


def snapshot_of(target: ListTarget, entries: Entries, limit: int, /) -> str:
    """Return entries as a system prompt shows them, with their fill level, or "" if there are none."""
    if not entries:
        return ""
    text = DELIMITER.join(_shown_entry(target, entry) for entry in entries)
    max_chars = CURATED_SHOWN * limit
    if len(text) > max_chars:
        text = f"{text[:max_chars]}\n[{len(text) - max_chars:,} characters are not shown: remove or shorten entries]"
    return f"{HEADINGS[target]} [{_usage_line(entries, limit)}]\n{text}"


def _shown_entry(target: ListTarget, entry: str) -> str:
    """Return an entry in its form for a model: replaced if it looks like an injection, otherwise with escaped lines."""
    broken_names = broken_rules(entry)
    if broken_names:
        return f"[BLOCKED: an entry of {target.file_name} is not shown ({', '.join(broken_names)}); remove it]"
    return "\n".join(map(escape_line, entry.split("\n")))


def _usage_line(entries: Sequence[str], limit: int) -> str:
    chars = len(write_entries(entries))
    return f"{_used_percent(chars, limit)}%, {chars:,}/{limit:,} characters{', OVER BUDGET' if chars > limit else ''}"


def _used_percent(size: int, limit: int) -> int:
    return min(100, 100 * size // limit)


def _change_answer(
    target: ListTarget, operations: Sequence[EntryOperation], new_entries: Entries, before: Entries, limit: int
) -> dict[str, Any]:
    """Return the answer to a stored change. It shows no entries, because a model would start changing them again."""
    answer: dict[str, Any] = {
        "success": True,
        "done": True,
        "target": target.value,
        "usage": _usage_line(new_entries, limit),
        "entry_count": len(new_entries),
        "message": f"{len(operations)} operations done."
        if new_entries != before
        else "Nothing changed: it already exists.",
        "note": _SAVED_NOTE,
    }
    if _used_percent(len(write_entries(new_entries)), limit) >= CURATED_FULL_PERCENT:
        answer["warning"] = "Nearly full: merge or remove entries when you next write."
    return answer


def _tool_answer(fields: dict[str, Any], *, is_error: bool = False) -> ToolAnswer:
    return ToolAnswer(text=json.dumps(fields, ensure_ascii=False), is_error=is_error)
