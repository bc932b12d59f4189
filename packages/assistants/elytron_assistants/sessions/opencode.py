"""OpenCode sessions: rows of its database, from the tables of version 1 or version 2 but never both."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from elytron.importers.memories.foreign_tables import plain_columns
from elytron_assistants.foreign_json import ForeignObject, time_of
from elytron_assistants.sessions import session_files
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SessionLog, SkipCause
from elytron_assistants.tool_marks import read_call, read_result
from elytron_core.text.program_parts import is_program_entry

_HOST: Final = AssistantHost.OPENCODE
_SILENT: Final = frozenset({
    "reasoning", "file", "patch", "snapshot", "step-start", "step-finish", "compaction", "subtask", "retry", "agent",
    "system", "synthetic", "shell", "model-switched", "agent-switched", "location-switched", "idle", "text",
})  # fmt: skip
"""Part and row types with nothing more to store."""
# SQLite does not return values over the size limit.
_MESSAGES: Final = """SELECT id, time_created, CASE WHEN length(CAST(data AS BLOB)) <= ? THEN data END
    FROM message WHERE session_id = ? ORDER BY time_created, id"""
_PARTS: Final = """SELECT id, CASE WHEN length(CAST(data AS BLOB)) <= ? THEN data END
    FROM part WHERE message_id = ? ORDER BY id"""
_ROWS: Final = """SELECT id, type, time_created, CASE WHEN length(CAST(data AS BLOB)) <= ? THEN data END
    FROM session_message WHERE session_id = ? ORDER BY seq"""


class _SessionRow(NamedTuple):
    """A row of either sessions table."""

    id: str
    parent: str | None
    fork_of: str | None
    folder: str | None
    title: str | None
    changed: int


Fill = Callable[[sqlite3.Connection, str, SessionLog, ReadTally], None]


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[session_files.SessionSource]:
    """Yield the sessions in a database, or in each database of a folder."""
    files = [place] if place.is_file() else sorted(place.glob("opencode*.db"))
    if not files and (place / "storage" / "session").is_dir():
        tally.skipped[SkipCause.OLD_STORAGE] += 1
    for file in files:
        connection = session_files.open_database(file, stack, tally)
        if connection is None:
            continue
        try:
            is_version_2 = _has_rows(connection, "session_message")
            rows = _session_rows(connection, "session_v2" if is_version_2 else "session")
        except sqlite3.Error:
            tally.skipped[SkipCause.UNREADABLE] += 1
            continue
        bytes_each = file.stat().st_size // max(1, len(rows))
        for row in rows:
            read_source = partial(_read_session, connection, row, _fill_second if is_version_2 else _fill_first)
            yield session_files.whole_source(
                _HOST, file, bytes_each, row.changed, read_source, key=row.id, folder=row.folder
            )


def _has_rows(connection: sqlite3.Connection, table: str) -> bool:
    if not plain_columns(connection, table):
        return False
    return connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None  # noqa: S608 - a constant name


def _session_rows(connection: sqlite3.Connection, table: str) -> list[_SessionRow]:
    """Return the sessions by creation time, so that a fork follows its origin."""
    column_names = plain_columns(connection, table)
    names = ("id", "parent_id", "fork_session_id", "directory", "title", "time_updated")
    columns = ", ".join(name if name in column_names else f"NULL AS {name}" for name in names)
    rows: list[_SessionRow] = []
    for session, *texts, changed_at in connection.execute(f"SELECT {columns} FROM {table} ORDER BY time_created, id"):  # noqa: S608 - constant names
        parent, fork_of, folder, title = (value if isinstance(value, str) and value else None for value in texts)
        rows.append(_SessionRow(str(session), parent, fork_of, folder, title, time_of(changed_at) or 0))
    return rows


def _read_session(
    connection: sqlite3.Connection, row: _SessionRow, fill: Fill, tally: ReadTally
) -> AssistantSession | None:
    """Read a whole session, because any of its rows may change."""
    log = SessionLog(tally)
    fill(connection, row.id, log, tally)
    return log.session(row.id, _HOST, row.folder, parent=row.parent, fork_of=row.fork_of, title=row.title)


def _fill_first(connection: sqlite3.Connection, session: str, log: SessionLog, tally: ReadTally) -> None:
    """Read the tables of version 1: messages and their parts."""
    messages = connection.execute(_MESSAGES, (session_files.LINE_BYTES, session))
    for (message_id, created_at), message in session_files.row_objects(messages, tally):
        parts = connection.execute(_PARTS, (session_files.LINE_BYTES, message_id))
        texts: list[str] = []
        for (part_id,), part in session_files.row_objects(parts, tally):
            if part.text("type") == "text" and not is_program_entry(part.fields):
                texts.append(part.text("text"))
            elif part.text("type") == "tool":
                _add_tool(log, part.text("callID") or str(part_id), part.text("tool"), part.part("state"))
            else:
                tally.note_unknown(_HOST, part.text("type"), silent=_SILENT)
        if message.text("role") == "user":
            log.add_prompt("\n".join(texts), str(message_id), at=time_of(created_at))
        elif message.text("role") == "assistant":
            log.add_reply("\n".join(texts), at=time_of(created_at), model=message.text("modelID"))


def _fill_second(connection: sqlite3.Connection, session: str, log: SessionLog, tally: ReadTally) -> None:
    """Read the table of version 2."""
    rows = connection.execute(_ROWS, (session_files.LINE_BYTES, session))
    for (row_id, kind, created_at), data in session_files.row_objects(rows, tally):
        if kind == "user":
            log.add_prompt(data.text("text"), str(row_id), at=time_of(created_at))
        elif kind == "assistant":
            for part in data.parts("content"):
                if part.text("type") == "tool":
                    _add_tool(log, part.text("id"), part.text("name"), part.part("state"))
            log.add_reply(data.words("content"), at=time_of(created_at), model=data.part("model").text("id"))
        else:
            tally.note_unknown(_HOST, kind, silent=_SILENT)


def _add_tool(log: SessionLog, call_id: str, name: str, state: ForeignObject) -> None:
    code = state.part("metadata").get("exit")
    exit_code = code if isinstance(code, int) else None
    log.add_call(read_call(call_id, name, state.arguments("input"), exit_code=exit_code))
    if (status := state.text("status")) in {"completed", "error"}:
        log.add_result(call_id, read_result(state.text("output"), is_error=status == "error"))
