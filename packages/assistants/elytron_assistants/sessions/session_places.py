"""Where assistants store their sessions and memory files, by platform and environment variables."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from elytron_assistants.sessions import claude_code, codex, copilot, cursor, gemini, opencode
from elytron_assistants.sessions.session_files import ReadFile, SessionSource
from elytron_assistants.sessions.session_log import AssistantHost, ReadTally, SkipCause

FindSessions = Callable[[Path, ReadTally, ExitStack], Iterator[SessionSource]]
READERS: Final[Mapping[AssistantHost, FindSessions]] = {
    AssistantHost.CLAUDE_CODE: claude_code.find_sessions,
    AssistantHost.CODEX: codex.find_sessions,
    AssistantHost.GEMINI: gemini.find_sessions,
    AssistantHost.OPENCODE: opencode.find_sessions,
    AssistantHost.CURSOR: cursor.find_sessions,
    AssistantHost.COPILOT: copilot.find_sessions,
}
"""The reader of each assistant."""
TRANSCRIPTS: Final[Mapping[AssistantHost, ReadFile]] = {
    AssistantHost.CLAUDE_CODE: claude_code.read_session,
    AssistantHost.CODEX: codex.read_session,
    AssistantHost.GEMINI: gemini.read_transcript,
    AssistantHost.CURSOR: cursor.read_transcript,
    AssistantHost.COPILOT: copilot.read_session,
}
"""The reader of a session file, for assistants with one file per session."""


@dataclass(frozen=True, slots=True)
class AssistantPlaces:
    """The folders and files of all of one person's assistants."""

    sessions: Mapping[AssistantHost, tuple[Path, ...]]
    memory_homes: tuple[Path, ...]
    """Folders that contain the person's own memory files."""
    claude_projects: Path
    roots: tuple[Path, ...] = ()
    """Repositories whose memory files are read, instead of those named by sessions."""

    def at(self, host: AssistantHost, path: Path, /) -> "AssistantPlaces":
        """Return a copy in which `path` replaces the places of one assistant."""
        if host is AssistantHost.MEMORY_FILES:
            return replace(self, memory_homes=(), roots=(path,))
        return replace(self, sessions={**self.sessions, host: (path,)})


def places_of(environment: Mapping[str, str], home: Path, /) -> AssistantPlaces:
    """Return the places for a home folder, taking the overriding variables in `environment` into account."""
    from platformdirs import user_config_path, user_data_path

    def moved(variable: str, usual: Path) -> Path:
        path = environment.get(variable, "")
        return Path(path).expanduser() if path else usual

    claude_folder = moved("CLAUDE_CONFIG_DIR", home / ".claude")
    codex_home = moved("CODEX_HOME", home / ".codex")
    gemini_home = moved("GEMINI_CLI_HOME", home) / ".gemini"
    # OpenCode uses the Linux folders on macOS too.
    data = (moved("XDG_DATA_HOME", home / ".local" / "share") / "opencode", user_data_path("opencode", appauthor=False))
    database = environment.get("OPENCODE_DB", "")
    editor_folder = user_config_path("Cursor", appauthor=False, roaming=True) / "User"
    return AssistantPlaces(
        sessions={
            AssistantHost.CLAUDE_CODE: (claude_folder / "projects",),
            AssistantHost.CODEX: (codex_home / "sessions", codex_home / "archived_sessions"),
            AssistantHost.GEMINI: (gemini_home / "tmp",),
            AssistantHost.OPENCODE: (Path(database).expanduser(),) if database else tuple(dict.fromkeys(data)),
            AssistantHost.COPILOT: (home / ".copilot" / "session-state",),
            AssistantHost.CURSOR: (editor_folder, moved("CURSOR_CONFIG_DIR", home / ".cursor") / "projects"),
        },
        memory_homes=(claude_folder, codex_home, gemini_home),
        claude_projects=claude_folder / "projects",
    )


def find_sources(
    host: AssistantHost, places: tuple[Path, ...], tally: ReadTally, stack: ExitStack, /
) -> list[SessionSource]:
    """Return an assistant's sessions in `places`. Databases stay open until `stack` closes."""
    sources: list[SessionSource] = []
    reader = READERS.get(host)
    if reader is None:
        return sources
    for place in places:
        try:
            sources += reader(place, tally, stack)
        except sqlite3.Error:  # a damaged database, of which some queries may have worked
            tally.skipped[SkipCause.UNREADABLE] += 1
    return sources
