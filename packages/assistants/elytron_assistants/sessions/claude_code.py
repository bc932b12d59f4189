"""Sessions of Claude Code: JSON Lines in which each entry names the one that it follows, so that a file is a tree."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from elytron_assistants.sessions.session_files import (
    SessionPosition,
    SessionSource,
    open_regular,
    read_objects,
    resume_offset,
    walk_files,
)
from elytron_assistants.sessions.session_records import (
    AssistantHost,
    AssistantSession,
    ReadTally,
    SessionLog,
    SkipReason,
    json_list,
    json_object,
    json_text,
    optional_time,
    part_texts,
)
from elytron_assistants.sessions.tool_marks import ToolCall, arguments_of
from elytron_core.strict_json import Json
from elytron_core.text.program_parts import is_program_entry

_HOST: Final = AssistantHost.CLAUDE_CODE
_SILENT: Final = frozenset({
    "assistant", "system", "progress", "file-history-snapshot", "queue-operation", "last-prompt", "custom-title",
    "ai-title", "summary", "pr-link", "agent-name", "permission-mode", "agent-setting",
})  # fmt: skip
"""Types of entries that say nothing; the rest that is not read is unknown."""
_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_SPOKEN: Final = ("user", "assistant", "attachment")
_SUBAGENTS: Final = "subagents"
_PEEKED_LINES: Final = 50
END_BYTES: Final = 4 * 1024 * 1024
"""Bytes at the end of a file that hold its last turn, with the results of its tools."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """An entry with its place in the tree: the number of the one that it follows, None for a root."""

    offset: int
    value: Mapping[str, Json]
    follows: int | None
    is_summary: bool = False
    """True behind a compaction: the model's words, marked as its own or not."""


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[SessionSource]:  # noqa: ARG001 - one form for all
    """Yield the session files below the folder of projects."""
    for entry in walk_files(place, tally, suffixes=(".jsonl",)):
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        yield SessionSource(
            _HOST, path, status.st_size, status.st_mtime_ns, partial(read_session, path), peek=partial(_peek, path)
        )


def read_session(path: Path, position: SessionPosition | None, tally: ReadTally, /) -> AssistantSession | None:
    """Return what is new in a session's file since `position`; all of it if entries before that were taken back."""
    parent = path.parents[1].name if path.parent.name == _SUBAGENTS else None
    with open_regular(path) as file:
        start = resume_offset(file, position)
        entries = read_tree(file, tally, start=start, is_subagent=parent is not None, is_resumed=start > 0)
        live = live_entries(entries)
        if start and 0 not in live:
            # The person went back to an entry before the offset: what an earlier run stored may be off the path.
            start, entries = 0, read_tree(file, tally, is_subagent=parent is not None)
            live = live_entries(entries)
    if not entries:
        return None
    log = session_log(entries, live, tally)
    folder = next((text for each in entries if (text := json_text(each.value.get("cwd")))), None)
    branch = next((text for each in entries if (text := json_text(each.value.get("gitBranch")))), None)
    titles = [json_text(each.value.get(key)) for each in entries for kind, key in _TITLES.items()
              if each.value.get("type") == kind]  # fmt: skip
    return log.session(
        path.stem,
        _HOST,
        _peek(path) if start else folder,
        branch=branch,
        parent=parent,
        title=next((title for title in reversed(titles) if title), None),
        first_id=next((text for each in entries if (text := json_text(each.value.get("uuid")))), ""),
        resume_at=log.turns[-1].offset if log.turns else start,
        is_whole=not start,
    )


def read_end(path: Path, session: str, /) -> AssistantSession:
    """Return what the end of a session's file says, for its last turn. Raises OSError, ValueError."""
    tally = ReadTally()
    with open_regular(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - END_BYTES)
        file.seek(start)
        if start:
            file.readline()  # the line that the end begins in
        entries = read_tree(file, tally, start=file.tell())
    return session_log(entries, live_entries(entries), tally).session(session, _HOST, None)


def read_tree(
    file: BinaryIO, tally: ReadTally, /, *, start: int = 0, is_subagent: bool = False, is_resumed: bool = False
) -> list[TreeEntry]:
    """Return the entries of a file in its order; those of subagents inside it are counted only."""
    file.seek(start)
    entries: list[TreeEntry] = []
    places: dict[str, int] = {}
    boundary: object = None
    for offset, value in read_objects(file, tally, start=start):
        if value.get("isSidechain") and not is_subagent:
            tally.skipped[SkipReason.SIDE_CHAIN] += value.get("type") in _SPOKEN[:2]
            continue
        parent = value.get("parentUuid", value.get("logicalParentUuid", ""))
        if value.get("subtype") == "compact_boundary":
            boundary, parent = value.get("uuid"), value.get("logicalParentUuid") or ""
        # The line of a parent that is not there was damaged or too long, or is before the offset.
        usual = len(entries) - 1 if entries and not (is_resumed and parent) else None
        follows = None if parent is None else places.get(str(parent), usual)
        is_summary = boundary is not None and value.get("parentUuid") == boundary
        uuid = value.get("uuid")
        if isinstance(uuid, str):
            places[uuid] = len(entries)
        entries.append(TreeEntry(offset, value, follows, is_summary))
    return entries


def live_entries(entries: list[TreeEntry], /) -> frozenset[int]:
    """Return the numbers of the entries on the path to the last one; the person left all others."""
    live: set[int] = set()
    place = next((at for at in range(len(entries) - 1, -1, -1) if entries[at].value.get("type") in _SPOKEN), None)
    while place is not None:
        live.add(place)
        place = entries[place].follows
    return frozenset(live)


def session_log(entries: list[TreeEntry], live: frozenset[int], tally: ReadTally, /) -> SessionLog:
    """Return what was said on the path, and what was taken back."""
    log = SessionLog(tally)
    dead = SessionLog(tally, calls=log.calls)  # results of parallel tools stand beside the path
    for place, entry in enumerate(entries):
        _read_entry(log if place in live else dead, entry, tally)
    log.taken_back += dead.turns
    return log


def _read_entry(log: SessionLog, entry: TreeEntry, tally: ReadTally) -> None:
    value = entry.value
    message, at = json_object(value.get("message")), optional_time(value.get("timestamp"))
    match value.get("type"):
        case "user":
            parts = [json_object(part) for part in json_list(message.get("content"))]
            results = [part for part in parts if part.get("type") == "tool_result"]
            for part in results:
                output = part_texts(part.get("content"))
                log.add_result(json_text(part.get("tool_use_id")), output=output, is_error=bool(part.get("is_error")))
            is_program = entry.is_summary or is_program_entry({**value, "isSidechain": False})
            if is_program and not results:
                tally.skipped[SkipReason.PROGRAM] += 1
            elif not results:
                log.add_prompt(
                    part_texts(message.get("content")), json_text(value.get("uuid")), at=at, offset=entry.offset
                )
        case "assistant" if not is_program_entry({**value, "isSidechain": False}):
            model = json_text(message.get("model")) or None
            log.add_reply(part_texts(message.get("content")), at=at, model=model, key=json_text(message.get("id")))
            for part in map(json_object, json_list(message.get("content"))):
                if part.get("type") in ("tool_use", "server_tool_use"):
                    name, call_id = json_text(part.get("name")), json_text(part.get("id"))
                    log.add_call(ToolCall(call_id, name, arguments_of(part.get("input"))))
        case "attachment":
            queued = json_object(value.get("attachment"))
            if queued.get("type") == "queued_command" and queued.get("commandMode", "prompt") == "prompt":
                prompt = part_texts(queued.get("prompt"))
                log.add_prompt(prompt, json_text(value.get("uuid")), at=at, offset=entry.offset)
        case kind:
            tally.note_unknown(_HOST, kind, silent=_SILENT)


def _peek(path: Path) -> str | None:
    tally = ReadTally()
    with open_regular(path) as file:
        for number, (_, value) in enumerate(read_objects(file, tally)):
            if (folder := json_text(value.get("cwd"))) or number > _PEEKED_LINES:
                return folder or None
    return None
