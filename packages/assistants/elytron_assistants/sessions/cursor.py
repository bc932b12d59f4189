"""Cursor sessions: rows of the editor's database, and the command line's transcripts, which carry no times."""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from elytron.importers.memories.foreign_tables import plain_columns
from elytron_assistants.foreign_json import ForeignObject, parse_object
from elytron_assistants.sessions import session_files
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SessionLog, SkipCause
from elytron_assistants.tool_marks import PATH_KEYS, read_call

_HOST: Final = AssistantHost.CURSOR
_TRANSCRIPTS: Final = "agent-transcripts"
_QUERY: Final = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_SIGNS: Final = re.compile(r"[^A-Za-z0-9]")
_BUBBLE_FIELDS: Final = ("type", "text", "rawText", "timestamp", "workspaceProjectDir")
_SILENT: Final = frozenset({"turn_ended"})
_DRIVE: Final = re.compile(r"^/(?=[A-Za-z]:)")
"""The slash before a Windows drive letter in a file URL."""
_LISTED: Final = "SELECT value FROM ItemTable WHERE key = 'composer.composerData'"
_RANGE: Final = """SELECT key, CASE WHEN length(CAST(value AS BLOB)) <= ? THEN value END
    FROM cursorDiskKV WHERE key >= ? AND key < ? AND value IS NOT NULL ORDER BY key"""


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[session_files.SessionSource]:
    """Yield the composers in the editor's database below `place`, and the command line's transcripts."""
    file = place if place.is_file() else place / "globalStorage" / "state.vscdb"
    if file.is_file():
        yield from _composer_sources(file, tally, stack)
    for source in session_files.file_sources(_HOST, place, tally, read_transcript, lambda _: None):
        if _TRANSCRIPTS in source.path.parts:
            yield source


def _composer_sources(file: Path, tally: ReadTally, stack: ExitStack) -> Iterator[session_files.SessionSource]:
    connection = session_files.open_database(file, stack, tally)
    if connection is None:
        return
    if not plain_columns(connection, "cursorDiskKV") >= {"key", "value"}:
        tally.skipped[SkipCause.UNREADABLE] += 1
        return
    folders = _composer_folders(file.parents[1] / "workspaceStorage", tally)
    composers = dict(_key_range(connection, "composerData:", tally))
    bytes_each = file.stat().st_size // max(1, len(composers))
    for key, composer in sorted(composers.items(), key=lambda each: (each[1].time("createdAt") or 0, each[0])):
        changed_at = composer.time("lastUpdatedAt") or composer.time("createdAt") or 0
        folder = folders.get(key)
        read_source = partial(_read_composer, connection, key, composer, folder)
        yield session_files.whole_source(_HOST, file, bytes_each, changed_at, read_source, key=key, folder=folder)


def _key_range(connection: sqlite3.Connection, prefix: str, tally: ReadTally) -> Iterator[tuple[str, ForeignObject]]:
    """Yield the last key part and the object of each key with `prefix`, using a range scan of the key index."""
    end_key = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    rows = connection.execute(_RANGE, (session_files.LINE_BYTES, prefix, end_key))
    for (key,), value in session_files.row_objects(rows, tally):
        yield str(key).rpartition(":")[2], value


def _composer_folders(storage: Path, tally: ReadTally) -> dict[str, str]:
    """Return folders by composer id, read from the workspaces' own databases."""
    folders: dict[str, str] = {}
    for workspace_file in sorted(storage.glob("*/workspace.json")):
        document = session_files.read_document(workspace_file, tally)
        address = urlsplit(document.text("folder") if document is not None else "")
        database = workspace_file.with_name("state.vscdb")
        if address.scheme != "file" or address.netloc or not database.is_file():
            continue
        with ExitStack() as stack:
            connection = session_files.open_database(database, stack, tally)
            if connection is not None and plain_columns(connection, "ItemTable"):
                for (value,) in connection.execute(_LISTED):
                    listing = parse_object(value) if isinstance(value, str | bytes) else None
                    for composer in listing.parts("allComposers") if listing is not None else ():
                        folders[composer.text("composerId")] = _DRIVE.sub("", unquote(address.path))
    return folders


def _read_composer(
    connection: sqlite3.Connection, composer: str, head: ForeignObject, folder: str | None, tally: ReadTally, /
) -> AssistantSession | None:
    log = SessionLog(tally)
    rows = _key_range(connection, f"bubbleId:{composer}:", tally)
    bubbles = {key: bubble.only(*_BUBBLE_FIELDS) for key, bubble in rows}
    headers = [header.text("bubbleId") for header in head.parts("fullConversationHeadersOnly")]
    order = [each for each in headers if each in bubbles]
    for bubble_id in order or sorted(bubbles, key=lambda each: bubbles[each].time("timestamp") or 0):
        bubble = bubbles[bubble_id]
        folder = folder or bubble.text("workspaceProjectDir") or None
        bubble_time = bubble.time("timestamp") or head.time("createdAt")
        match bubble.get("type"):
            case 1:
                log.add_prompt(bubble.text("text", "rawText"), bubble_id, at=bubble_time)
            case 2:
                log.add_reply(bubble.text("text", "rawText"), at=bubble_time)
            case kind:
                tally.note_unknown(_HOST, f"bubble/{kind}")
    return log.session(composer, _HOST, folder, title=head.text("name") or None)


def read_transcript(
    path: Path, _: session_files.SessionPosition | None, tally: ReadTally, /
) -> AssistantSession | None:
    """Read a transcript of the command line. Its lines carry no ids or times, so the file's time is used for all."""
    log, repeat_counts, paths = SessionLog(tally), Counter[str](), list[str]()
    with session_files.open_regular(path) as file:
        changed_at = session_files.changed_at(file)
        for _offset, line in session_files.read_objects(file, tally):
            message = line.part("message")
            text = message.words("content")
            match line.text("role"):
                case "user":
                    typed_words = "\n".join(_QUERY.findall(text)) or text
                    log.add_prompt(typed_words, f"{repeat_counts[typed_words]}:{typed_words}", at=changed_at)
                    repeat_counts[typed_words] += 1
                case "assistant":
                    log.add_reply(text, at=changed_at)
                    for part in message.parts("content"):
                        if part.text("type") == "tool_use":
                            arguments = part.arguments("input")
                            log.add_call(read_call("", part.text("name"), arguments))
                            paths.append(arguments.text(*PATH_KEYS, "working_directory", "cwd"))
                case role:
                    tally.note_unknown(_HOST, role or line.text("type"), silent=_SILENT)
    is_in_project_folder = _TRANSCRIPTS in path.parts
    folder = _named_folder(path.parts[path.parts.index(_TRANSCRIPTS) - 1], paths) if is_in_project_folder else None
    return log.session(path.stem, _HOST, folder)


def _named_folder(project: str, paths: list[str]) -> str | None:
    """Return the ancestor folder of one of the session's paths that matches the project name, or None.

    The project name replaces every special character with `-`, so the name by itself is ambiguous.
    """
    for text in paths:
        if text and Path(text).is_absolute():
            for folder in (Path(text), *Path(text).parents):
                if _SIGNS.sub("-", str(folder)).strip("-") == project.strip("-"):
                    return str(folder)
    return None
