"""Sessions of Cursor: rows in the editor's database, and the transcripts of its command line, which have no times."""

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from elytron_assistants.sessions.session_files import (
    LINE_BYTES,
    SessionSource,
    as_a_whole,
    open_database,
    open_regular,
    parse_object,
    read_document,
    read_objects,
    table_columns,
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

_HOST: Final = AssistantHost.CURSOR
_TRANSCRIPTS: Final = "agent-transcripts"
_QUERY: Final = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_SIGNS: Final = re.compile(r"[^A-Za-z0-9]")
_PATH_KEYS: Final = ("path", "file_path", "target_file", "working_directory", "cwd")
_RANGE: Final = """SELECT key, CASE WHEN length(CAST(value AS BLOB)) <= ? THEN value END
    FROM cursorDiskKV WHERE key >= ? AND key < ? AND value IS NOT NULL ORDER BY key"""


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[SessionSource]:
    """Yield the composers in the editor's database below `place`, and the transcripts of the command line."""
    file = place if place.is_file() else place / "globalStorage" / "state.vscdb"
    if file.is_file():
        yield from _composers(file, tally, stack)
    for entry in walk_files(place, tally, suffixes=(".jsonl",)):
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        if _project_name(path) is not None:
            read = as_a_whole(partial(_read_transcript, path, status.st_mtime_ns))
            yield SessionSource(_HOST, path, status.st_size, status.st_mtime_ns, read)


def _composers(file: Path, tally: ReadTally, stack: ExitStack) -> Iterator[SessionSource]:
    connection = open_database(file, stack, tally)
    if connection is None:
        return
    if not table_columns(connection, "cursorDiskKV") >= {"key", "value"}:
        tally.skipped[SkipReason.UNREADABLE] += 1
        return
    folders = _composer_folders(file.parents[1] / "workspaceStorage", tally)
    rows = _key_range(connection, "composerData:", tally)
    composers = [(key.partition(":")[2], value) for key, value in rows]
    share = file.stat().st_size // max(1, len(composers))
    for composer, value in sorted(composers, key=lambda each: (optional_time(each[1].get("createdAt")) or 0, each[0])):
        changed = optional_time(value.get("lastUpdatedAt") or value.get("createdAt")) or 0
        folder = folders.get(composer)
        read = as_a_whole(partial(_read_composer, connection, composer, value, folder))
        yield SessionSource(_HOST, file, share, changed, read, key=composer, peek=partial(_known_folder, folder))


def _known_folder(folder: str | None) -> str | None:
    return folder


def _key_range(
    connection: sqlite3.Connection, prefix: str, tally: ReadTally
) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Yield the objects under the keys that begin with `prefix`, by the index of keys."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    for key, value in connection.execute(_RANGE, (LINE_BYTES, prefix, end)):
        if not isinstance(value, str | bytes):
            tally.skipped[SkipReason.TOO_LONG] += 1
            continue
        tally.read_bytes += len(value)
        if (parsed := parse_object(value)) is None:
            tally.skipped[SkipReason.DAMAGED] += 1
        else:
            yield str(key), parsed


def _composer_folders(storage: Path, tally: ReadTally) -> dict[str, str]:
    """Return the folder of each composer that a workspace's own database lists."""
    folders: dict[str, str] = {}
    for workspace in sorted(storage.glob("*/workspace.json")):
        document = read_document(workspace, tally) or {}
        folder = _file_path(json_text(document.get("folder")))
        database = workspace.with_name("state.vscdb")
        if not folder or not database.is_file():
            continue
        with ExitStack() as stack:
            connection = open_database(database, stack, tally)
            if connection is None or not table_columns(connection, "ItemTable"):
                continue
            query = "SELECT value FROM ItemTable WHERE key = 'composer.composerData'"
            for (value,) in connection.execute(query):
                listed = parse_object(value) if isinstance(value, str | bytes) else None
                for composer in map(json_object, json_list((listed or {}).get("allComposers"))):
                    folders[json_text(composer.get("composerId"))] = folder
    return folders


def _file_path(address: str) -> str:
    """Return the path of a `file:` address; empty for one on another machine."""
    parts = urlsplit(address)
    return url2pathname(unquote(parts.path)) if parts.scheme == "file" and not parts.netloc else ""


def _read_composer(
    connection: sqlite3.Connection,
    composer: str,
    head: Mapping[str, Json],
    folder: str | None,
    tally: ReadTally,
) -> AssistantSession | None:
    log = SessionLog(tally)
    try:
        bubbles = {
            key.rpartition(":")[2]: bubble for key, bubble in _key_range(connection, f"bubbleId:{composer}:", tally)
        }
    except sqlite3.Error:
        tally.skipped[SkipReason.UNREADABLE] += 1
        return None
    headers = [
        json_text(json_object(each).get("bubbleId")) for each in json_list(head.get("fullConversationHeadersOnly"))
    ]
    order = [each for each in headers if each in bubbles] or sorted(
        bubbles, key=lambda each: optional_time(bubbles[each].get("timestamp")) or 0
    )
    begun = optional_time(head.get("createdAt"))
    for bubble_id in order:
        bubble = bubbles[bubble_id]
        folder = folder or json_text(bubble.get("workspaceProjectDir")) or None
        text = json_text(bubble.get("text")) or json_text(bubble.get("rawText"))
        at = optional_time(bubble.get("timestamp")) or begun
        match bubble.get("type"):
            case 1:
                log.add_prompt(text, bubble_id, at=at)
            case 2:
                log.add_reply(text, at=at)
            case kind:
                tally.note_unknown(_HOST, f"bubble/{kind}")
    return log.session(composer, _HOST, folder, title=json_text(head.get("name")) or None)


def _read_transcript(
    path: Path,
    changed: int,
    tally: ReadTally,
    /,
) -> AssistantSession | None:
    """Return a transcript of the command line; its lines have no ids, and its file's time is the only one."""
    log, at = SessionLog(tally), optional_time(changed // 1_000_000)
    repeats, paths = Counter[str](), list[str]()
    with open_regular(path) as file:
        for _, line in read_objects(file, tally):
            content = json_object(line.get("message")).get("content")
            match line.get("role"):
                case "user":
                    text = part_texts(content)
                    text = "\n".join(_QUERY.findall(text)) or text
                    log.add_prompt(text, f"{repeats[text]}:{text}", at=at)
                    repeats[text] += 1
                case "assistant":
                    log.add_reply(part_texts(content), at=at)
                    for part in map(json_object, json_list(content)):
                        if part.get("type") == "tool_use":
                            arguments = arguments_of(part.get("input"))
                            log.add_call(ToolCall("", json_text(part.get("name")), arguments))
                            paths += [json_text(arguments.get(key)) for key in _PATH_KEYS]
                case kind:
                    tally.note_unknown(_HOST, kind)
    return log.session(path.stem, _HOST, _named_folder(_project_name(path) or "", paths))


def _project_name(path: Path) -> str | None:
    """Return the name of the project's folder that a transcript is in; None if the file is none."""
    names = path.parts
    return names[names.index(_TRANSCRIPTS) - 1] if _TRANSCRIPTS in names[1:] else None


def _named_folder(project: str, paths: list[str]) -> str | None:
    """Return the folder that one of a session's own paths is in and that has the project's name.

    The name writes every sign as `-`, so that alone it may mean several folders.
    """
    for text in paths:
        if text and Path(text).is_absolute():
            for folder in (Path(text), *Path(text).parents):
                if _SIGNS.sub("-", str(folder)).strip("-") == project.strip("-"):
                    return str(folder)
    return None
