"""The tree view of a space: days of conversation, tiers of facts, and insights. It is computed on each read."""

import json
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from elytron.api import MemoryFace
from elytron_agent.hooks.facts import fact_entries, holds_at, insights_of
from elytron_core.clock import Clock, Instant, format_instant
from elytron_core.contracts.facts import FactEntry
from elytron_core.contracts.inspection import LedgerTurn, MemoryReplayRequest
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.evidence import EvidenceRole
from elytron_core.model import Value
from elytron_core.planes.facts import FactTier
from elytron_core.planes.transcript import TurnLifecycle
from elytron_core.scope import Scope
from elytron_turn.sizes import first_words

TREE_DEPTH: Final = 8
TREE_LIMIT: Final = 200
TREE_PATH_CHARS: Final = 512
TREE_ABSTRACT_WORDS: Final = 200
TREE_SAMPLES: Final = 20
TREE_TURNS: Final = 1_000
"""Number of a conversation's latest turns that the tree shows."""


ROOT: Final = "/"
ABSTRACT: Final = ".abstract"
OVERVIEW: Final = ".overview"
_PATH: Final = re.compile(r"(?:/[^/\s\x00-\x1f\x7f\\]+)+")


class EntryKind(StrEnum):
    """Kind of the entry at a path."""

    FOLDER = "folder"
    FILE = "file"


class TreeFile(Value):
    """A file of the tree: one memory as text."""

    path: str
    text: str
    at: Instant


class TreeEntry(Value):
    """One line of a listing. A folder has its abstract."""

    path: str
    kind: EntryKind
    chars: int = 0
    files: int = 0
    abstract: str = ""


class TreeListing(Value):
    """The entries below a folder by path, folders first. `has_more` means that the limit cut the list."""

    path: str
    entries: tuple[TreeEntry, ...]
    has_more: bool = False


def checked_path(path: str, /) -> str:
    """Return a valid path. Raises InvalidInput if it is relative, too long, or leaves the tree."""
    path_parts = path.split("/")
    is_plain = path == ROOT or (_PATH.fullmatch(path) is not None and not {".", ".."} & set(path_parts))
    if not is_plain or len(path) > TREE_PATH_CHARS:
        problem = "must be an absolute path without spaces, dot segments, double or trailing slashes"
        raise InvalidInput(field="path", problem=problem)
    return path


class FileFolders:
    """Files in folders."""

    def __init__(self, files: Iterable[TreeFile], /, *, folders: Sequence[str] = ()) -> None:
        self._files = {file.path: file for file in sorted(files, key=lambda file: file.path)}
        self._folders: dict[str, list[TreeFile]] = {name: [] for name in (ROOT, *folders)}
        for file in self._files.values():
            for name in _folders_above(file.path):
                self._folders.setdefault(name, []).append(file)
        for name in folders:
            for parent_folder in _folders_above(name):
                self._folders.setdefault(parent_folder, [])

    def listed(self, path: str, /, *, depth: int, limit: int) -> TreeListing:
        """Return the entries up to `depth` levels below a folder. Raises NotFound."""
        if path not in self._folders:
            raise NotFound(what="folder", name=path)
        all_entries = [*map(self._folder, self._folders), *map(_file_entry, self._files.values())]
        entries_below = [
            entry for entry in all_entries if entry.path != path and 0 < _path_depth(path, entry.path) <= depth
        ]
        entries_below.sort(key=lambda entry: (entry.kind is EntryKind.FILE, entry.path))
        return TreeListing(path=path, entries=tuple(entries_below[:limit]), has_more=len(entries_below) > limit)

    def text(self, path: str, /) -> str:
        """Return the text of a file, or a folder's abstract or overview under its own name. Raises NotFound."""
        if path in self._files:
            return self._files[path].text
        folder, _, name = path.rpartition("/")
        if (folder or ROOT) not in self._folders or name not in {ABSTRACT, OVERVIEW}:
            raise NotFound(what="file", name=path)
        return self.abstract(folder or ROOT) if name == ABSTRACT else self.overview(folder or ROOT)

    def abstract(self, path: str, /) -> str:
        """Return a short description of a folder: how much it holds, from when, and how its newest files begin."""
        files = self._newest(path)
        if not files:
            return f"{path} is empty."
        period_text = f"{format_instant(files[-1].at)} to {format_instant(files[0].at)}"
        lines = [f"{path} contains {len(files)} {'file' if len(files) == 1 else 'files'} of {period_text}."]
        lines += (f"{file.path.rpartition('/')[2]}: {' '.join(file.text.split())}" for file in files)
        return first_words("\n".join(lines), TREE_ABSTRACT_WORDS)

    def overview(self, path: str, /) -> str:
        """Return figures about a folder and the paths of some of its files, as JSON."""
        files = self._newest(path)
        folder_figures: dict[str, object] = {
            "path": path,
            "folders": sum(1 for name in self._folders if name != path and _path_depth(path, name) > 0),
            "files": len(files),
            "chars": sum(len(file.text) for file in files),
            "samples": [file.path for file in files[:TREE_SAMPLES]],
        }
        if files:
            folder_figures |= {"first_at": format_instant(files[-1].at), "last_at": format_instant(files[0].at)}
        return json.dumps(folder_figures, indent=1)

    def _newest(self, path: str) -> list[TreeFile]:
        return sorted(self._folders[path], key=lambda file: (-file.at, file.path))

    def _folder(self, path: str) -> TreeEntry:
        files = self._folders[path]
        total_chars = sum(len(file.text) for file in files)
        return TreeEntry(
            path=path, kind=EntryKind.FOLDER, chars=total_chars, files=len(files), abstract=self.abstract(path)
        )


def _file_entry(file: TreeFile) -> TreeEntry:
    return TreeEntry(path=file.path, kind=EntryKind.FILE, chars=len(file.text))


def _folders_above(path: str) -> list[str]:
    """Return all parent folders of a path."""
    parts = path.split("/")[1:-1]
    return [ROOT, *("/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1))]


def _path_depth(folder: str, path: str) -> int:
    """Return how many levels a path is below a folder, or 0 if it is elsewhere."""
    folder_prefix = folder if folder == ROOT else f"{folder}/"
    return path[len(folder_prefix) :].count("/") + 1 if path.startswith(folder_prefix) and path != folder else 0


EVENTS: Final = "/events"
TIERS: Final = "/memory_tiers"
INSIGHTS: Final = "/insights"
FOLDERS: Final = (EVENTS, TIERS, *(f"{TIERS}/{tier}" for tier in FactTier), INSIGHTS)


class MemoryTree:
    """Present one conversation of a space, with the space's facts, as folders and files."""

    def __init__(self, memory: MemoryFace, scope: Scope, clock: Clock, /) -> None:
        self._memory = memory
        self._scope = scope
        self._clock = clock

    async def list(self, path: str = ROOT, /, *, depth: int = TREE_DEPTH, limit: int = TREE_LIMIT) -> TreeListing:
        """Return the entries below a folder, each folder with its abstract. Raises InvalidInput, NotFound."""
        checked_path(path)
        return (await self._folders()).listed(path, depth=max(1, depth), limit=max(1, limit))

    async def read(self, path: str, /) -> str:
        """Return the text of a file. Every folder has the files `.abstract` and `.overview`.

        Raises InvalidInput, NotFound.
        """
        checked_path(path)
        return (await self._folders()).text(path)

    async def _folders(self) -> FileFolders:
        at = self._clock.now()
        entries = await fact_entries(self._memory, self._scope)
        files = [_turn_file(turn) for turn in await self._turns()]
        files += [_fact_file(entry) for entry in entries if holds_at(entry, at)]
        recorded_instants = {entry.id: entry.recorded_at for entry in entries}
        files += [
            TreeFile(path=f"{INSIGHTS}/{insight.id}", text=insight.summary, at=recorded_instants[insight.fact_ids[-1]])
            for insight in insights_of(entries, at=at)
        ]
        return FileFolders((file for file in files if file.text), folders=FOLDERS)

    async def _turns(self) -> tuple[LedgerTurn, ...]:
        report = await self._memory.replay(MemoryReplayRequest(scope=self._scope, limit=TREE_TURNS))
        return tuple(turn for turn in report.turns if turn.lifecycle is TurnLifecycle.ACTIVE)


def _turn_file(turn: LedgerTurn) -> TreeFile:
    messages = [message for message in turn.messages if message.text and not message.forgotten]
    message_lines = [
        f"{message.speaker or message.role}: {message.text}"
        for message in messages
        if message.role is not EvidenceRole.SYSTEM
    ]
    turn_instant = next((message.at for message in messages if message.at is not None), turn.recorded_at)
    return TreeFile(
        path=f"{EVENTS}/{_day_text(turn_instant)}/{turn.sequence:06}", text="\n".join(message_lines), at=turn_instant
    )


def _fact_file(entry: FactEntry) -> TreeFile:
    end_line = f"\nuntil: {format_instant(entry.valid_to)}" if entry.valid_to is not None else ""
    certainty_text = f"{entry.certainty:.2f}" if entry.certainty is not None else entry.confidence
    text = f"{entry.content}\ntopic: {entry.topic}\nconfidence: {certainty_text}{end_line}"
    return TreeFile(path=f"{TIERS}/{entry.tier or FactTier.L0}/{entry.id}", text=text, at=entry.observed_at)


def _day_text(at: Instant) -> str:
    return format_instant(at)[: len("2026-08-03")]
