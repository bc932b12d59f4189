"""Sessions of Claude Code: JSON Lines in which each entry names the one that it follows, so that a file is a tree."""

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
_SPOKEN: Final = ("user", "assistant", "attachment")
_SILENT: Final = frozenset({
    "assistant", "system", "progress", "file-history-snapshot", "queue-operation", "last-prompt", "custom-title",
    "ai-title", "summary", "pr-link", "agent-name", "permission-mode", "agent-setting",
})  # fmt: skip
"""Types of entries of which nothing more is stored; the rest that is not read is unknown."""
_TITLES: Final = ("customTitle", "aiTitle", "summary")
_HEAD_FIELDS: Final = ("gitBranch", "sessionId", *_TITLES)
_SUBAGENTS, _SUBAGENT = "subagents", "agent-"
"""The folder of subagents' files inside that of their session; in earlier versions they were beside it."""
_PEEKED_LINES: Final = 50
END_BYTES: Final = 4 * 1024 * 1024
"""Bytes at the end of a file that hold its last turn, with the results of its tools."""


@dataclass(frozen=True, slots=True)
class PathEntry:
    """What is read of an entry, with its place in the tree: the number of the one that it follows, None for a root."""

    offset: int
    follows: int | None
    is_program: bool
    """True for the words of a program: the entry is marked as such, or is the summary behind a compaction."""
    kind: str
    uuid: str
    text: str
    at: Instant | None
    head: ForeignObject
    """Its few fields about the session and the model."""
    calls: tuple[ToolRun, ...]
    results: tuple[tuple[str, ToolEnding], ...]


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[session_files.SessionSource]:  # noqa: ARG001 - as for databases
    """Yield the session files below the folder of projects."""
    yield from session_files.file_sources(_HOST, place, tally, read_session, session_folder)


def read_session(
    path: Path, position: session_files.SessionPosition | None, tally: ReadTally, /
) -> AssistantSession | None:
    """Return what is new in a session's file since `position`; all of it if entries before that were taken back."""
    is_subagent = path.parent.name == _SUBAGENTS or path.name.startswith(_SUBAGENT)
    with session_files.open_regular(path) as file:
        start = session_files.resume_offset(file, position)
        entries = read_tree(file, tally, start=start, is_subagent=is_subagent, is_resumed=start > 0)
        live = live_entries(entries)
        if start and 0 not in live:
            # The person went back to an entry before the offset: what an earlier run stored may be off the path.
            start, entries = 0, read_tree(file, tally, is_subagent=is_subagent)
            live = live_entries(entries)
    log, heads = session_log(entries, live, tally), [entry.head for entry in entries]
    return log.session(
        path.stem,
        _HOST,
        session_folder(path),
        branch=next((branch for head in heads if (branch := head.text("gitBranch"))), None),
        parent=next((head.text("sessionId") for head in heads), "") or None if is_subagent else None,
        title=next((title for head in reversed(heads) if (title := head.text(*_TITLES))), None),
        first_id=next((entry.uuid for entry in entries if entry.uuid), ""),
        resume_at=log.turns[-1].offset if log.turns else start,
        is_whole=not start,
    )


def session_folder(path: Path, /) -> str | None:
    """Return the folder in which a session began; None if the beginning of its file names none."""
    with session_files.open_regular(path) as file:
        for number, (_, value) in enumerate(session_files.read_objects(file, ReadTally())):
            if (folder := value.text("cwd")) or number > _PEEKED_LINES:
                return folder or None
    return None


def read_end(path: Path, session: str, /) -> AssistantSession:
    """Return what the end of a session's file says, for its last turn. Raises OSError, ValueError."""
    tally = ReadTally()
    with session_files.open_regular(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - END_BYTES)
        file.seek(start)
        if start:
            file.readline()  # the line that the end begins in
        entries = read_tree(file, tally, start=file.tell())
    return session_log(entries, live_entries(entries), tally).session(session, _HOST, None)


def read_tree(
    file: BinaryIO, tally: ReadTally, /, *, start: int = 0, is_subagent: bool = False, is_resumed: bool = False
) -> list[PathEntry]:
    """Return the entries of a file in its order; those of subagents inside it are counted only."""
    entries: list[PathEntry] = []
    places: dict[str, int] = {}
    boundary = ""
    for offset, value in session_files.read_objects(file, tally, start=start):
        if value.get("isSidechain") and not is_subagent:
            tally.skipped[SkipCause.SIDE_CHAIN] += value.text("type") in _SPOKEN
            continue
        is_root = value.fields.get("parentUuid", "") is None
        parent = value.text("parentUuid")
        if value.text("subtype") == "compact_boundary":
            boundary, parent, is_root = value.text("uuid"), value.text("logicalParentUuid"), False
        # The line of a parent that is not there was damaged or too long, or is before the offset.
        usual = len(entries) - 1 if entries and not (is_resumed and parent) else None
        is_summary = bool(boundary) and parent == boundary
        if uuid := value.text("uuid"):
            places[uuid] = len(entries)
        is_program = is_summary or is_program_entry({**value.fields, "isSidechain": False})
        follows = None if is_root else places.get(parent, usual)
        entries.append(_path_entry(value, offset=offset, follows=follows, is_program=is_program))
    return entries


def _path_entry(value: ForeignObject, *, offset: int, follows: int | None, is_program: bool) -> PathEntry:
    """Return what is read of an entry, without its tools' outputs."""
    message, queued = value.part("message"), value.part("attachment")
    parts = message.parts("content")
    is_queued = queued.text("type") == "queued_command" and queued.text("commandMode") in {"", "prompt"}
    return PathEntry(
        offset,
        follows,
        is_program,
        value.text("type"),
        value.text("uuid"),
        queued.words("prompt") if is_queued else message.words("content"),
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
    # The words "exit code" in the output of a command that passed are the command's own.
    return read_result(part.words("content"), is_error=is_error, is_plain=not is_error)


def live_entries(entries: list[PathEntry], /) -> frozenset[int]:
    """Return the numbers of the entries on the path to the last one; the person left all others."""
    live: set[int] = set()
    numbers = range(len(entries) - 1, -1, -1)
    place = next((number for number in numbers if entries[number].kind in _SPOKEN), None)
    while place is not None:
        live.add(place)
        place = entries[place].follows
    return frozenset(live)


def session_log(entries: list[PathEntry], live: frozenset[int], tally: ReadTally, /) -> SessionLog:
    """Return what was said on the path, and what was taken back."""
    log = SessionLog(tally)
    dead = SessionLog(tally, calls=log.calls)  # results of parallel tools stand beside the path
    for place, entry in enumerate(entries):
        _read_entry(log if place in live else dead, entry, tally)
    log.taken_back += dead.turns
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
