"""Assistants' memory files: instructions written by a person and notes taken by the assistant, read note by note."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Final

from elytron_assistants.sessions.claude_code import session_folder
from elytron_assistants.sessions.session_files import open_regular
from elytron_assistants.sessions.session_log import AssistantHost, ReadTally, SkipCause
from elytron_assistants.tool_marks import without_home
from elytron_core.evidence import EvidenceAuthority, EvidenceRole

CHANNEL: Final = AssistantHost.MEMORY_FILES.value
_FILE_BYTES: Final = 1024 * 1024
_NOTE_CHARS: Final = 4_000
_HAND_WRITTEN: Final = ("CLAUDE.md", "AGENTS.md", "GEMINI.md")
_IN_REPOSITORY: Final = (*_HAND_WRITTEN, "CLAUDE.local.md", ".claude/CLAUDE.md")
_BULLET: Final = re.compile(r"(?:[-*+]|\d{1,3}[.)]) +(?=\S)")
_HEADING: Final = re.compile(r"(#{1,6}) +(\S.*)")
_FRONT_MATTER: Final = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_FOLDER: Final = re.compile(r"^[-*#\s]*(?:applies_to: *)?cwd *[:=] *`?([^\s`,;]+)")


class NoteOrigin(StrEnum):
    """Who wrote a memory file, which decides how far it is trusted."""

    PERSON = "person"
    """The person's own file in their home folder."""
    ASSISTANT = "assistant"
    """Notes that an assistant took by itself."""
    REPOSITORY = "repository"
    """A file in the repository, which others may have written."""

    @property
    def role(self) -> EvidenceRole:
        return {"person": EvidenceRole.USER, "assistant": EvidenceRole.ASSISTANT}.get(self.value, EvidenceRole.TOOL)

    @property
    def authority(self) -> EvidenceAuthority | None:
        """The note's authority; None derives it from the role."""
        authorities = {
            "assistant": EvidenceAuthority.ARCHIVE_EVIDENCE,
            "repository": EvidenceAuthority.EXTERNAL_CONTENT,
        }
        return authorities.get(self.value)


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A memory file. `folder` is the project it belongs to; None means the person's own, "" an unknown folder."""

    path: Path
    origin: NoteOrigin
    folder: str | None = None
    is_sectioned: bool = False
    """True if each section names its own folder."""


@dataclass(frozen=True, slots=True)
class MemoryNote:
    """One note of a memory file. `line` is its first line, counted from 1."""

    id: str
    text: str
    line: int
    folder: str | None


def find_memory_files(homes: Iterable[Path], projects: Path, roots: Iterable[Path], /) -> Iterator[MemoryFile]:
    """Yield the memory files that exist: the person's own, those of the repositories `roots`, and assistants' notes."""
    for home in homes:
        yield from (MemoryFile(home / name, NoteOrigin.PERSON) for name in _HAND_WRITTEN if (home / name).is_file())
        memories = home / "memories" / "MEMORY.md"
        if memories.is_file():
            yield MemoryFile(memories, NoteOrigin.ASSISTANT, folder="", is_sectioned=True)
    for root in dict.fromkeys(roots):
        rules = sorted((root / ".claude" / "rules").glob("*.md"))
        for path in (*(root / name for name in _IN_REPOSITORY), *rules):
            # Any part of the path may be a symbolic link, so a repository could point outside itself.
            if path.is_file() and path.resolve() == root.resolve() / path.relative_to(root):
                yield MemoryFile(path, NoteOrigin.REPOSITORY, str(root))
    for path in sorted(projects.glob("*/memory/*.md")):
        yield MemoryFile(path, NoteOrigin.ASSISTANT, _project_owner(path.parents[1]))


def _project_owner(project: Path) -> str:
    """Return the folder named by the sessions next to an assistant's notes, or an empty string."""
    sessions = (file for file in sorted(project.glob("*.jsonl")) if file.is_file() and not file.is_symlink())
    return next((folder for file in sessions if (folder := session_folder(file))), "")


def read_notes(file: MemoryFile, tally: ReadTally, /) -> list[MemoryNote]:
    """Return a file's notes: each bullet or paragraph with its heading, or a topic file as a single note."""
    try:
        with open_regular(file.path) as note_file:
            data = note_file.read(_FILE_BYTES + 1)
    except OSError:
        tally.skipped[SkipCause.UNREADABLE] += 1
        return []
    tally.read_bytes += len(data)
    if len(data) > _FILE_BYTES:
        tally.skipped[SkipCause.TOO_LONG] += 1
        return []
    text = _without_comments(data.decode("utf-8-sig", "replace"))
    is_topic_file = file.origin is NoteOrigin.ASSISTANT and file.path.name != "MEMORY.md"
    blocks = [(1, _FRONT_MATTER.sub("", text), "")] if is_topic_file else _note_blocks(text)
    notes: dict[str, MemoryNote] = {}
    for line, block, named_folder in blocks:
        if words := without_home(block)[:_NOTE_CHARS].strip():
            digest = blake2b(f"{file.path}\n{words}".encode("utf-8", "replace"), digest_size=16).hexdigest()
            notes[digest] = MemoryNote(digest, words, line, named_folder if file.is_sectioned else file.folder)
    return list(notes.values())


def _without_comments(text: str) -> str:
    """Remove HTML comments and preserve line numbers. An unterminated comment is left in place."""
    pieces: list[str] = []
    kept_until = 0
    while (comment_start := text.find("<!--", kept_until)) >= 0 and (
        comment_end := text.find("-->", comment_start)
    ) >= 0:
        pieces += (text[kept_until:comment_start], "\n" * text.count("\n", comment_start, comment_end))
        kept_until = comment_end + len("-->")
    return "".join((*pieces, text[kept_until:]))


def _note_blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield each bullet and paragraph with its first line and the folder that its section names.

    A heading applies to the notes below it. A first-level heading starts a new section.
    """
    heading, folder, first_line = "", "", 0
    block: list[str] = []
    for number, line in enumerate((*text.splitlines(), ""), 1):
        title = _HEADING.fullmatch(line.strip())
        if block and (title or not line.strip() or _BULLET.match(line)):
            block_text = "\n".join(block).strip()
            yield first_line, f"{heading}: {block_text}" if heading else block_text, folder
            block = []
        if folder_match := _FOLDER.match(line):
            # A relative folder would be resolved against wherever the import runs.
            folder = folder_match[1] if folder_match[1].startswith("~") or Path(folder_match[1]).is_absolute() else ""
        if title is not None:
            heading, folder = title[2].strip(), "" if len(title[1]) == 1 else folder
        elif line.strip() and not line.startswith("@"):
            first_line = first_line if block else number
            block.append(line if block else _BULLET.sub("", line, count=1))
