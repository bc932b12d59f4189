"""A session as every reader returns it, and the builder that collects it turn by turn."""

from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from elytron.importers.message_shape import optional_title
from elytron_assistants.tool_marks import SessionMark, ToolEnding, ToolRun, call_decisions, command_fixes
from elytron_core.clock import Instant
from elytron_core.evidence import EvidenceRole
from elytron_core.text.program_parts import typed_text

_KINDS, _KIND_CHARS = 200, 60
"""Maximum number of unknown record types counted by name, and maximum length of such a name."""


class AssistantHost(StrEnum):
    """A coding assistant whose sessions can be read. The value is also the channel of what is stored."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    CURSOR = "cursor"
    COPILOT = "copilot"
    MEMORY_FILES = "memory-files"
    """Memory files of all assistants."""


class SkipCause(StrEnum):
    """Why something on disk is not stored."""

    PROGRAM = "program"
    """Text in the user's role that a program wrote."""
    REWOUND = "rewound"
    """A prompt or reply that the person took back."""
    FORK = "fork"
    """A prompt or reply that a fork copied from another session."""
    SIDE_CHAIN = "side_chain"
    """A subagent's entry inside another session."""
    SUBAGENT = "subagent"
    """A subagent's session, imported only on request."""
    NO_FOLDER = "no_folder"
    """A session, note or file that does not say which folder it belongs to."""
    NO_WORDS = "no_words"
    """A session in which nobody typed anything."""
    PAUSED = "paused"
    """A session or memory file of a folder in which hooks are paused."""
    OLDER = "older"
    """A session that last changed before the requested time."""
    TOO_LONG = "too_long"
    """A line, record or file over the size limit."""
    DAMAGED = "damaged"
    """A line or record that is not valid JSON."""
    COMPRESSED = "compressed"
    """A compressed file, if no zstd module is installed."""
    UNREADABLE = "unreadable"
    """A file that cannot be opened, or a database without the expected tables."""
    LINK = "link"
    """A link, pipe or device in a sessions folder."""
    OLD_STORAGE = "old_storage"
    """OpenCode's storage from before version 1.2, made of single JSON files."""
    REPLACED = "replaced"
    """An older copy of a session that also exists in a newer format."""


@dataclass(slots=True)
class ReadTally:
    """Counts of bytes read, items skipped by cause, and records of unknown type."""

    read_bytes: int = 0
    is_stopped: bool = False
    """True once the run is cancelled, so that a reading thread stops."""
    skipped: Counter[SkipCause] = field(default_factory=Counter[SkipCause])
    unknown: Counter[str] = field(default_factory=Counter[str])

    on_progress: Callable[[], None] | None = None

    def add_bytes(self, count: int, /) -> None:
        """Count bytes read, and report progress after each mebibyte."""
        mebibytes_before = self.read_bytes >> 20
        self.read_bytes += count
        if self.on_progress is not None and self.read_bytes >> 20 != mebibytes_before:
            self.on_progress()

    def note_unknown(self, host: AssistantHost, kind: object, /, *, silent: Container[str] = ()) -> None:
        """Count a record of a type unknown to `host`'s reader. `silent` types are known and have nothing to store."""
        name = f"{host.value}:{str(kind)[:_KIND_CHARS]}"
        if str(kind) not in silent and (name in self.unknown or len(self.unknown) < _KINDS):
            self.unknown[name] += 1


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One side's words. `id` is the prompt's id; a reply carries the id of the prompt it answers, or "" without one."""

    role: EvidenceRole
    text: str
    id: str = ""
    at: Instant | None = None
    model: str = ""
    marks: tuple[SessionMark, ...] = ()


@dataclass(frozen=True, slots=True)
class AssistantSession:
    """One session: where it took place and what was said. `parent` is set for a subagent's session.

    A later run resumes reading at the file offset `resume_at`. `taken_back` are entries that the person took back and
    that an earlier run may have stored.
    """

    id: str
    host: AssistantHost
    folder: str | None
    entries: tuple[SessionEntry, ...]
    branch: str | None = None
    parent: str | None = None
    fork_of: str | None = None
    title: str | None = None
    first_id: str = ""
    resume_at: int = 0
    taken_back: tuple[SessionEntry, ...] = ()
    is_whole: bool = True
    """False if only the end of the file was read."""

    def with_reply(self, text: str, /) -> "AssistantSession":
        """Return only the session's last turn, with `text` as its reply. An empty text leaves the reply unchanged."""
        prompts = [entry_index for entry_index, entry in enumerate(self.entries) if entry.role is EvidenceRole.USER]
        entries = list(self.entries[prompts[-1] :] if prompts else self.entries)
        if text.strip():
            reply = next((entry for entry in entries if entry.role is EvidenceRole.ASSISTANT), None)
            empty_reply = SessionEntry(EvidenceRole.ASSISTANT, "", entries[0].id if entries else "")
            entries = [
                *(entry for entry in entries if entry is not reply),
                replace(reply or empty_reply, text=text.strip()),
            ]
        return replace(self, entries=tuple(entries))


@dataclass(slots=True)
class SessionTurn:
    """A prompt, its reply, and the tool calls between them. `offset` is the turn's position in the file."""

    prompt: SessionEntry | None = None
    reply: SessionEntry | None = None
    reply_key: str = ""
    calls: list[ToolRun] = field(default_factory=list[ToolRun])
    offset: int = 0

    @property
    def entries(self) -> Iterator[SessionEntry]:
        """Yield the prompt and the reply. Marks are attached to the reply, or to the prompt if there is no reply."""
        marks = tuple(mark for call in self.calls for mark in call.marks)
        if self.prompt is not None:
            # Reading a web page does not make the person's own words less trusted.
            inner_marks = tuple(mark for mark in marks if not mark.is_outside)
            yield replace(self.prompt, marks=inner_marks if self.reply is None else ())
        if self.reply is not None:
            yield replace(self.reply, marks=marks)


class SessionLog:
    """Builder for a session: takes prompts, replies, tool calls and results in order."""

    def __init__(self, tally: ReadTally, /, *, calls: dict[str, ToolRun] | None = None) -> None:
        self.turns: list[SessionTurn] = []
        self.taken_back: list[SessionTurn] = []
        self.calls: dict[str, ToolRun] = {} if calls is None else calls
        self._tally = tally

    def add_prompt(self, text: str, entry_id: str, /, *, at: Instant | None = None, offset: int = 0) -> None:
        """Begin a turn with the typed part of `text`. Text written only by programs begins no turn."""
        prompt_text = typed_text(text)
        if not prompt_text:
            self._tally.skipped[SkipCause.PROGRAM] += bool(text.strip())
            return
        self.turns.append(SessionTurn(SessionEntry(EvidenceRole.USER, prompt_text, entry_id, at), offset=offset))

    def add_reply(self, text: str, /, *, at: Instant | None = None, model: str = "", key: str = "") -> None:
        """Set the turn's reply, so the last one counts. Parts of one message, which share `key`, are joined."""
        if not (text := text.strip()):
            return
        turn = self._turn()
        if key and turn.reply_key == key and turn.reply is not None:
            text = f"{turn.reply.text}\n{text}"
        prompt_id = turn.prompt.id if turn.prompt is not None else ""
        turn.reply, turn.reply_key = SessionEntry(EvidenceRole.ASSISTANT, text, prompt_id, at, model), key

    def add_call(self, call: ToolRun, /) -> None:
        """Add a tool call to the current turn. A later state of the same call replaces the earlier one."""
        calls = self._turn().calls
        earlier_call = self.calls.get(call.id) if call.id else None
        if earlier_call in calls:
            calls[calls.index(earlier_call)] = call
        else:
            calls.append(call)
        if call.id:
            self.calls[call.id] = call

    def add_result(self, call_id: str, result: ToolEnding, /) -> None:
        """Record how a tool call ended."""
        if (call := self.calls.get(call_id)) is not None:
            call.finish(result)

    def roll_back(self, count: int, /) -> None:
        """Move the last `count` turns to those taken back."""
        if count > 0:
            self.taken_back += self.turns[-count:]
            del self.turns[-count:]

    def _turn(self) -> SessionTurn:
        if not self.turns:
            self.turns.append(SessionTurn())
        return self.turns[-1]

    def session(self, session_id: str, host: AssistantHost, folder: str | None, /, **fields: Any) -> AssistantSession:
        """Return the collected session. Entries for fixed commands and decisions follow the turns they belong to."""
        digest = blake2b(session_id.encode("utf-8", "replace"), digest_size=16).hexdigest()
        name = session_id if optional_title(session_id) == session_id else digest
        taken_back = tuple(entry for turn in self.taken_back for entry in turn.entries)
        self._tally.skipped[SkipCause.REWOUND] += len(taken_back)
        session = AssistantSession(name, host, folder, tuple(self._entries()), taken_back=taken_back)
        return replace(session, **fields)

    def _entries(self) -> Iterator[SessionEntry]:
        fixes_by_turn = command_fixes(turn.calls for turn in self.turns)
        for turn_index, turn in enumerate(self.turns):
            entries = list(turn.entries)
            yield from entries
            last_at = entries[-1].at if entries else None
            # Marks are not searchable, but people search for these.
            for key, text in (fixes_by_turn.get(turn_index, {}) | call_decisions(turn.calls)).items():
                yield SessionEntry(EvidenceRole.TOOL, text, key, last_at)
