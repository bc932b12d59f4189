"""Claude Code sessions: JSON Lines files whose entries name their predecessor and so form a tree."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from elytron_assistants.foreign_json import ForeignObject
from elytron_assistants.sessions import session_files
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SessionLog, SkipCause
from elytron_assistants.tool_marks import ToolEnding, ToolRun, read_call, read_result
from elytron_core.clock import Instant
from elytron_core.text.program_parts import is_program_entry

_HOST: Final = AssistantHost.CLAUDE_CODE
_MESSAGE_KINDS: Final = ("user", "assistant", "attachment")
_SILENT: Final = frozenset({
    "assistant", "system", "progress", "file-history-snapshot", "queue-operation", "last-prompt", "custom-title",
    "ai-title", "summary", "pr-link", "agent-name", "permission-mode", "agent-setting",
})  # fmt: skip
"""Entry types with nothing more to store. Any other unread type is reported as unknown."""
_TITLES: Final = ("customTitle", "aiTitle", "summary")
_HEAD_FIELDS: Final = ("gitBranch", "sessionId", *_TITLES)
_SUBAGENTS, _SUBAGENT = "subagents", "agent-"
"""Folder of subagents' files inside the session's folder. Earlier versions had them next to the session's file."""
_PEEKED_LINES: Final = 50
END_BYTES: Final = 4 * 1024 * 1024
"""Bytes at the end of a file that are enough for its last turn, including tool results."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """What is read of an entry, and its place in the tree. `follows` is the predecessor's number, None for a root."""

    offset: int
    follows: int | None
    is_program: bool
    """True for text written by a program: the entry is marked as such, or it is the summary after a compaction."""
    kind: str
    uuid: str
    text: str
    at: Instant | None
    head: ForeignObject
    """The entry's few fields about session and model."""
    calls: tuple[ToolRun, ...]
    results: tuple[tuple[str, ToolEnding], ...]


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[session_files.SessionSource]:  # noqa: ARG001 - needed for databases
    """Yield the session files below the projects folder."""
    yield from session_files.file_sources(_HOST, place, tally, read_session, session_folder)


def read_session(
    path: Path, position: session_files.SessionPosition | None, tally: ReadTally, /
) -> AssistantSession | None:
    """Read what is new in a session file since `position`, or all of it if earlier entries were rewound."""
    is_subagent = path.parent.name == _SUBAGENTS or path.name.startswith(_SUBAGENT)
    with session_files.open_regular(path) as file:
        start_offset = session_files.resume_offset(file, position)
        entries = read_tree(file, tally, start=start_offset, is_subagent=is_subagent, is_resumed=start_offset > 0)
        live_numbers = live_entries(entries)
        if start_offset and 0 not in live_numbers:
            # The person went back to an entry before the offset, so earlier runs may have stored turns that were left.
            start_offset, entries = 0, read_tree(file, tally, is_subagent=is_subagent)
            live_numbers = live_entries(entries)
    log, entry_heads = session_log(entries, live_numbers, tally), [entry.head for entry in entries]
    return log.session(
        path.stem,
        _HOST,
        session_folder(path),
        branch=next((branch for head in entry_heads if (branch := head.text("gitBranch"))), None),
        parent=next((head.text("sessionId") for head in entry_heads), "") or None if is_subagent else None,
        title=next((title for head in reversed(entry_heads) if (title := head.text(*_TITLES))), None),
        first_id=next((entry.uuid for entry in entries if entry.uuid), ""),
        resume_at=log.turns[-1].offset if log.turns else start_offset,
        is_whole=not start_offset,
    )


def session_folder(path: Path, /) -> str | None:
    """Return a session's start folder, or None if the beginning of its file names none."""
    with session_files.open_regular(path) as file:
        for number, (_, value) in enumerate(session_files.read_objects(file, ReadTally())):
            if (folder := value.text("cwd")) or number > _PEEKED_LINES:
                return folder or None
    return None


def read_end(path: Path, session: str, /) -> AssistantSession:
    """Read the end of a session file, enough for its last turn. Raises OSError, ValueError."""
    tally = ReadTally()
    with session_files.open_regular(path) as file:
        start_offset = max(0, file.seek(0, os.SEEK_END) - END_BYTES)
        file.seek(start_offset)
        if start_offset:
            file.readline()  # skip the partial first line
        entries = read_tree(file, tally, start=file.tell())
    return session_log(entries, live_entries(entries), tally).session(session, _HOST, None)


def read_tree(
    file: BinaryIO, tally: ReadTally, /, *, start: int = 0, is_subagent: bool = False, is_resumed: bool = False
) -> list[PathEntry]:
    """Return a file's entries in file order. Entries of subagents inside it are only counted."""
    entries: list[PathEntry] = []
    index_by_uuid: dict[str, int] = {}
    boundary_uuid = ""
    for offset, value in session_files.read_objects(file, tally, start=start):
        if value.get("isSidechain") and not is_subagent:
            tally.skipped[SkipCause.SIDE_CHAIN] += value.text("type") in _MESSAGE_KINDS
            continue
        is_root = value.fields.get("parentUuid", "") is None
        parent = value.text("parentUuid")
        if value.text("subtype") == "compact_boundary":
            boundary_uuid, parent, is_root = value.text("uuid"), value.text("logicalParentUuid"), False
        # A missing parent was on a damaged or overlong line, or lies before the offset.
        preceding_index = len(entries) - 1 if entries and not (is_resumed and parent) else None
        is_summary = bool(boundary_uuid) and parent == boundary_uuid
        if uuid := value.text("uuid"):
            index_by_uuid[uuid] = len(entries)
        is_program = is_summary or is_program_entry({**value.fields, "isSidechain": False})
        parent_index = None if is_root else index_by_uuid.get(parent, preceding_index)
        entries.append(_path_entry(value, offset=offset, follows=parent_index, is_program=is_program))
    return entries


def _path_entry(value: ForeignObject, *, offset: int, follows: int | None, is_program: bool) -> PathEntry:
    """Return what is read of an entry, which includes no tool output."""
    message, attachment = value.part("message"), value.part("attachment")
    parts = message.parts("content")
    is_queued_prompt = attachment.text("type") == "queued_command" and attachment.text("commandMode") in {"", "prompt"}
    return PathEntry(
        offset,
        follows,
        is_program,
        value.text("type"),
        value.text("uuid"),
        attachment.words("prompt") if is_queued_prompt else message.words("content"),
        value.time("timestamp"),
        ForeignObject({**value.only(*_HEAD_FIELDS).fields, **message.only("id", "model").fields}),
        tuple(
            read_call(part.text("id"), part.text("name"), part.arguments("input"))
            for part in parts
            if part.text("type") in {"tool_use", "server_tool_use"}
        ),
        tuple((part.text("tool_use_id"), _tool_result(part)) for part in parts if part.text("type") == "tool_result"),
    )


def _tool_result(part: ForeignObject) -> ToolEnding:
    is_error = bool(part.get("is_error"))
    # If a command succeeded, the words "exit code" in its output are its own text.
    return read_result(part.words("content"), is_error=is_error, is_plain=not is_error)


def live_entries(entries: list[PathEntry], /) -> frozenset[int]:
    """Return the numbers of the entries on the path to the last message. The person left all other branches."""
    live_numbers: set[int] = set()
    numbers = range(len(entries) - 1, -1, -1)
    message_number = next((number for number in numbers if entries[number].kind in _MESSAGE_KINDS), None)
    while message_number is not None:
        live_numbers.add(message_number)
        message_number = entries[message_number].follows
    return frozenset(live_numbers)


def session_log(entries: list[PathEntry], live: frozenset[int], tally: ReadTally, /) -> SessionLog:
    """Build the log of what was said on the live path and what was taken back."""
    log = SessionLog(tally)
    dead_log = SessionLog(tally, calls=log.calls)  # results of parallel tool calls can be off the path
    for entry_number, entry in enumerate(entries):
        _read_entry(log if entry_number in live else dead_log, entry, tally)
    log.taken_back += dead_log.turns
    return log


def _read_entry(log: SessionLog, entry: PathEntry, tally: ReadTally) -> None:
    for call_id, result in entry.results:
        log.add_result(call_id, result)
    match entry.kind:
        case "user" | "attachment" if entry.is_program or entry.results:
            tally.skipped[SkipCause.PROGRAM] += not entry.results
        case "user" | "attachment":
            log.add_prompt(entry.text, entry.uuid, at=entry.at, offset=entry.offset)
        case "assistant" if not entry.is_program:
            log.add_reply(entry.text, at=entry.at, model=entry.head.text("model"), key=entry.head.text("id"))
            for call in entry.calls:
                log.add_call(call)
        case kind:
            tally.note_unknown(_HOST, kind, silent=_SILENT)
