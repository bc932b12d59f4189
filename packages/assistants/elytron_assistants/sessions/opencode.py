"""Sessions of OpenCode: rows of its database, in the tables of version 1 or of version 2, never of both."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from elytron_assistants.sessions.session_files import (
    LINE_BYTES,
    SessionSource,
    as_a_whole,
    open_database,
    parse_object,
    table_columns,
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

_HOST: Final = AssistantHost.OPENCODE
_SILENT_PARTS: Final = frozenset({
    "reasoning", "file", "patch", "snapshot", "step-start", "step-finish", "compaction", "subtask", "retry", "agent",
})  # fmt: skip
_SILENT_ROWS: Final = frozenset({
    "system", "synthetic", "compaction", "shell", "model-switched", "agent-switched", "location-switched", "idle",
})  # fmt: skip


class _SessionRow(NamedTuple):
    """A row of either table of sessions."""

    id: str
    parent: str | None
    fork_of: str | None
    folder: str | None
    title: str | None
    changed: int


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[SessionSource]:
    """Yield the sessions in a database, or in each database of a folder."""
    files = [place] if place.is_file() else sorted(place.glob("opencode*.db")) if place.is_dir() else []
    if not files and (place / "storage" / "session").is_dir():
        tally.skipped[SkipReason.OLD_STORAGE] += 1
    for file in files:
        connection = open_database(file, stack, tally)
        if connection is None:
            continue
        try:
            is_second = _has_rows(connection, "session_message")
            rows = _session_rows(connection, "session_v2" if is_second else "session")
        except sqlite3.Error:
            tally.skipped[SkipReason.UNREADABLE] += 1
            continue
        share = file.stat().st_size // max(1, len(rows))
        fill = _fill_second if is_second else _fill_first
        for row in rows:
            read = as_a_whole(partial(_read_session, connection, row, fill))
            yield SessionSource(_HOST, file, share, row.changed, read, key=row.id, peek=partial(getattr, row, "folder"))


def _has_rows(connection: sqlite3.Connection, table: str) -> bool:
    if not table_columns(connection, table):
        return False
    return connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None  # noqa: S608 - our own words


def _session_rows(connection: sqlite3.Connection, table: str) -> list[_SessionRow]:
    """Return the sessions by the time of their beginning, so that a fork comes behind its origin."""
    known = table_columns(connection, table)
    names = ("id", "parent_id", "fork_session_id", "directory", "title", "time_updated")
    columns = ", ".join(name if name in known else f"NULL AS {name}" for name in names)
    found = connection.execute(f"SELECT {columns} FROM {table} ORDER BY time_created, id")  # noqa: S608 - our own words
    rows: list[_SessionRow] = []
    for session, *named, changed in found:
        parent, fork_of, folder, title = (json_text(value) or None for value in named)
        rows.append(_SessionRow(str(session), parent, fork_of, folder, title, optional_time(changed) or 0))
    return rows


def _read_session(
    connection: sqlite3.Connection,
    row: _SessionRow,
    fill: Callable[[sqlite3.Connection, str, SessionLog, ReadTally], None],
    tally: ReadTally,
) -> AssistantSession | None:
    """Return a session, as a whole: its rows may change."""
    log = SessionLog(tally)
    try:
        fill(connection, row.id, log, tally)
    except sqlite3.Error:
        tally.skipped[SkipReason.UNREADABLE] += 1
        return None
    return log.session(row.id, _HOST, row.folder, parent=row.parent, fork_of=row.fork_of, title=row.title)


# What is too long is not handed over by SQLite.
_MESSAGES: Final = """SELECT id, time_created, CASE WHEN length(CAST(data AS BLOB)) <= ? THEN data END
    FROM message WHERE session_id = ? ORDER BY time_created, id"""
_PARTS: Final = """SELECT id, CASE WHEN length(CAST(data AS BLOB)) <= ? THEN data END
    FROM part WHERE message_id = ? ORDER BY id"""
_ROWS: Final = """SELECT id, type, time_created, CASE WHEN length(CAST(data AS BLOB)) <= ? THEN data END
    FROM session_message WHERE session_id = ? ORDER BY seq"""


def _objects(rows: sqlite3.Cursor, tally: ReadTally) -> Iterator[tuple[tuple[object, ...], Mapping[str, Json]]]:
    """Yield the rows whose last column is a JSON object, with that."""
    for *fields, data in rows:
        if not isinstance(data, str | bytes):
            tally.skipped[SkipReason.TOO_LONG] += 1
            continue
        tally.read_bytes += len(data)
        if (value := parse_object(data)) is None:
            tally.skipped[SkipReason.DAMAGED] += 1
        else:
            yield tuple(fields), value


def _fill_first(connection: sqlite3.Connection, session: str, log: SessionLog, tally: ReadTally) -> None:
    """Read the tables of version 1: messages, and parts of these."""
    messages = connection.execute(_MESSAGES, (LINE_BYTES, session))
    for (message_id, created), message in _objects(messages, tally):
        parts = connection.execute(_PARTS, (LINE_BYTES, message_id))
        texts: list[str] = []
        for (part_id,), part in _objects(parts, tally):
            kind = part.get("type")
            if kind == "text" and not is_program_entry(part):
                texts.append(json_text(part.get("text")))
            elif kind == "tool":
                _add_tool(log, str(part.get("callID") or part_id), json_text(part.get("tool")), part)
            elif kind != "text":
                tally.note_unknown(_HOST, kind, silent=_SILENT_PARTS)
        at = optional_time(created)
        if message.get("role") == "user":
            log.add_prompt("\n".join(texts), str(message_id), at=at)
        elif message.get("role") == "assistant":
            log.add_reply("\n".join(texts), at=at, model=json_text(message.get("modelID")) or None)


def _fill_second(connection: sqlite3.Connection, session: str, log: SessionLog, tally: ReadTally) -> None:
    """Read the table of version 2."""
    rows = connection.execute(_ROWS, (LINE_BYTES, session))
    for (row_id, kind, created), data in _objects(rows, tally):
        at = optional_time(created)
        if kind == "user":
            log.add_prompt(json_text(data.get("text")), str(row_id), at=at)
        elif kind == "assistant":
            for part in map(json_object, json_list(data.get("content"))):
                if part.get("type") == "tool":
                    _add_tool(log, json_text(part.get("id")), json_text(part.get("name")), part)
            model = json_object(data.get("model"))
            log.add_reply(part_texts(data.get("content")), at=at, model=json_text(model.get("id")) or None)
        else:
            tally.note_unknown(_HOST, kind, silent=_SILENT_ROWS)


def _add_tool(log: SessionLog, call_id: str, name: str, part: Mapping[str, Json]) -> None:
    state = json_object(part.get("state"))
    code = json_object(state.get("metadata")).get("exit")
    call = ToolCall(call_id, name, arguments_of(state.get("input")), exit_code=code if isinstance(code, int) else None)
    log.add_call(call)
    if state.get("status") in ("completed", "error"):
        log.add_result(call_id, output=json_text(state.get("output")), is_error=state["status"] == "error")
