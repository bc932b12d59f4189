"""Directories of skills: the SKILL.md files that a host stores.

A directory is walked to a bounded depth. Each SKILL.md is read up to a limit; other files contribute names, sizes and
digests. A file is digested once, until its size or time changes, and not at all beyond a limit; its name and size are
then used instead. Links are never followed, so nothing outside the directory is read, and the files are only read.
Tools are read once for each state of the space.
"""

import asyncio
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from elytron_core.clock import Instant
from elytron_core.contracts.skills import (
    AgentSkillDirectoryReport,
    AgentSkillSummary,
    SkippedPath,
    SkipReason,
)
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.policy.skills import read_skill_file

AGENT_SKILL_DIRS: Final = 16
AGENT_SKILLS: Final = 500
"""SKILL.md files that all directories together may give."""
AGENT_SKILL_FILE_BYTES: Final = 256 * 1024
AGENT_SKILL_SCAN_BYTES: Final = 32 * 1024 * 1024
"""Bytes of the files beside SKILL.md that one scan reads for their fingerprints."""
AGENT_SKILL_NAME_CHARS: Final = 200
AGENT_SKILL_DESCRIPTION_CHARS: Final = 2_000
AGENT_SKILL_RESOURCES: Final = 1_000
"""Files beside one SKILL.md that are counted."""
AGENT_SKILL_ENTRIES: Final = 20_000
"""Names in all directories together that one scan looks at."""
AGENT_SKILL_DEPTH: Final = 6
AGENT_SKILL_SKIPS: Final = 100
AGENT_SKILL_RESCAN_MS: Final = 60_000
"""Time for which recall takes agent skill directories to be as they were last seen."""


FILE = "SKILL.md"
# A link that appears after the check is not followed, and a pipe without a writer is not waited for.
_READ_ONLY = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


_State = tuple[int, int, int, int]
"""Identity of a file: device, number, size and time of its last change."""
_Digests = dict[_State, str]


class SkillDirs:
    """The agent skill directories of a runtime, and their contents at the last scan."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]] = (), /) -> None:
        self._roots: tuple[Path, ...] = ()
        for path in paths:
            self._mount(os.fspath(path))
        self._last_report: AgentSkillDirectoryReport | None = None
        self._digests: _Digests = {}
        self._lock = asyncio.Lock()

    @property
    def has_any(self) -> bool:
        """True if there are directories."""
        return bool(self._roots)

    async def add(self, path: str, /, *, at: Instant) -> AgentSkillDirectoryReport:
        """Add a directory and return the contents of all. Raises InvalidInput, LimitExceeded."""
        self._mount(path)
        return await self.scan(at=at)

    async def current(self, *, at: Instant) -> AgentSkillDirectoryReport:
        """Return what the directories hold, as seen at most `AGENT_SKILL_RESCAN_MS` ago."""
        report = self._last_report
        if report is not None and 0 <= at - (report.scanned_at or 0) < AGENT_SKILL_RESCAN_MS:
            return report
        return await self.scan(at=at)

    async def scan(self, *, at: Instant) -> AgentSkillDirectoryReport:
        """Scan the directories now and return their contents."""
        if not self._roots:
            return AgentSkillDirectoryReport(directories=0)
        async with self._lock:
            report = await asyncio.to_thread(scan_directories, self._roots, self._digests)
            self._last_report = report.model_copy(update={"scanned_at": at})
            return self._last_report

    def _mount(self, path: str) -> None:
        if "\0" in path or not path:
            raise InvalidInput(field="agent_skill_dirs", problem="does not name a directory")
        absolute_root = Path(path).expanduser().absolute()
        if absolute_root in self._roots:
            return
        if len(self._roots) == AGENT_SKILL_DIRS:
            raise LimitExceeded(what="agent skill directories", limit=AGENT_SKILL_DIRS)
        self._roots = (*self._roots, absolute_root)


def scan_directories(roots: Sequence[Path], digests: _Digests | None = None, /) -> AgentSkillDirectoryReport:
    """Return the contents of `roots`, in the order of roots and names. If two skills have one name, the first counts.

    `digests` are those of an earlier scan, by file, size and time; they are brought up to date.
    """
    scan_findings = _ScanFindings(known_digests=dict(digests or {}))
    for root in roots:
        scan_findings.read(root)
    if digests is not None:
        digests.clear()
        digests.update(scan_findings.digests)
    return AgentSkillDirectoryReport(
        directories=len(roots),
        skills=tuple(scan_findings.skills.values()),
        resources=sum(sum(skill.resources.values()) for skill in scan_findings.skills.values()),
        skipped=tuple(scan_findings.skipped[:AGENT_SKILL_SKIPS]),
        skipped_total=len(scan_findings.skipped),
    )


@dataclass(slots=True)
class _ScanFindings:
    """Findings of one scan so far."""

    skills: dict[str, AgentSkillSummary] = field(default_factory=dict[str, AgentSkillSummary])
    skipped: list[SkippedPath] = field(default_factory=list[SkippedPath])
    entries: int = 0
    known_digests: _Digests = field(default_factory=dict[_State, str])
    digests: _Digests = field(default_factory=dict[_State, str])
    unread_bytes: int = field(default_factory=lambda: AGENT_SKILL_SCAN_BYTES)

    def read(self, root: Path, /) -> None:
        if not os.path.isdir(root):  # noqa: PTH112  (which has a no also for what is no name of a folder)
            self._skip(root.name, SkipReason.MISSING)
            return
        for folder, folder_place in self._folders(root):
            if len(self.skills) == AGENT_SKILLS:
                self._skip(folder_place, SkipReason.TOO_MANY)
                return
            self._take(folder, folder_place)

    def _folders(self, root: Path) -> Iterator[tuple[Path, str]]:
        """Yield each folder that has a SKILL.md, with its path; folders below one belong to that skill."""
        unvisited: list[tuple[Path, str, int]] = [(root, root.name, 0)]
        while unvisited:
            folder, place, depth = unvisited.pop()
            folder_entries = self._names(folder, place)
            if any(entry.name == FILE for entry in folder_entries):
                yield folder, place
                continue
            # Reversed, since the stack returns the last one first.
            for entry in reversed(folder_entries):
                entry_path = f"{place}/{entry.name}"
                if entry.is_symlink():
                    self._skip(entry_path, SkipReason.SYMLINK)
                elif entry.is_dir(follow_symlinks=False):
                    if depth == AGENT_SKILL_DEPTH:
                        self._skip(entry_path, SkipReason.TOO_DEEP)
                    else:
                        unvisited.append((Path(entry.path), entry_path, depth + 1))

    def _names(self, folder: Path, place: str) -> list[os.DirEntry[str]]:
        """Return the entries of a folder by name; none if it is unreadable or enough was scanned."""
        if self.entries >= AGENT_SKILL_ENTRIES:
            self._skip(place, SkipReason.TOO_MANY)
            return []
        found_entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self.entries += 1
                    if self.entries > AGENT_SKILL_ENTRIES:
                        self._skip(place, SkipReason.TOO_MANY)
                        break
                    found_entries.append(entry)
        except OSError:
            self._skip(place, SkipReason.UNREADABLE)
        return sorted(found_entries, key=lambda entry: entry.name)

    def _take(self, folder: Path, place: str) -> None:
        text = _regular_text(folder / FILE)
        file = f"{place}/{FILE}"
        if isinstance(text, SkipReason):
            self._skip(file, text)
            return
        document = read_skill_file(text)
        if document is None:
            self._skip(file, SkipReason.NO_FRONT_MATTER)
            return
        name = " ".join(document.fields.get("name", "").split())[:AGENT_SKILL_NAME_CHARS]
        description = " ".join(document.fields.get("description", "").split())
        if not name or not description:
            self._skip(file, SkipReason.NO_DESCRIPTION if name else SkipReason.NO_NAME)
        elif name in self.skills:
            self._skip(file, SkipReason.DUPLICATE_NAME)
        else:
            resources, fingerprint = self._resources(folder, place, text)
            self.skills[name] = AgentSkillSummary(
                name=name,
                description=description[:AGENT_SKILL_DESCRIPTION_CHARS],
                place=file,
                resources=resources,
                fingerprint=fingerprint,
            )

    def _resources(self, folder: Path, place: str, text: str) -> tuple[dict[str, int], str]:
        """Return how many files each folder of a skill has, and the fingerprint of them all."""
        counts: Counter[str] = Counter()
        fingerprint_hash = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
        unvisited = [(folder, "", 0)]
        while unvisited:
            current_folder, path_prefix, depth = unvisited.pop()
            for entry in self._names(current_folder, place):
                path = f"{path_prefix}{entry.name}"
                if entry.is_symlink():
                    self._skip(f"{place}/{path}", SkipReason.SYMLINK)
                elif entry.is_dir(follow_symlinks=False):
                    if depth < AGENT_SKILL_DEPTH:
                        unvisited.append((Path(entry.path), f"{path}/", depth + 1))
                    else:
                        self._skip(f"{place}/{path}", SkipReason.TOO_DEEP)
                elif path != FILE:
                    if counts.total() == AGENT_SKILL_RESOURCES:
                        self._skip(place, SkipReason.TOO_MANY)
                        return dict(sorted(counts.items())), fingerprint_hash.hexdigest()
                    counts[path.partition("/")[0] if "/" in path else "."] += 1
                    digest = self._digest(entry)
                    fingerprint_hash.update(f"\0{path}\0{digest}".encode("utf-8", "surrogatepass"))
        return dict(sorted(counts.items())), fingerprint_hash.hexdigest()

    def _digest(self, entry: os.DirEntry[str]) -> str:
        """Return the size of a file with the digest of its bytes, if it may be read."""
        file_status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(file_status.st_mode):
            return str(file_status.st_size)
        file_identity = file_status.st_dev, file_status.st_ino, file_status.st_size, file_status.st_mtime_ns
        digest = self.known_digests.get(file_identity, "")
        if not digest and file_status.st_size <= self.unread_bytes:
            self.unread_bytes -= file_status.st_size
            digest = _digest_of(Path(entry.path), file_status.st_size)
        if digest:
            self.digests[file_identity] = digest
        return f"{file_status.st_size}\0{digest}"

    def _skip(self, place: str, reason: SkipReason) -> None:
        place_text = place.encode("utf-8", "replace").decode("utf-8")
        self.skipped.append(SkippedPath(place=place_text, reason=reason))


def _digest_of(path: Path, size: int) -> str:
    """Return the digest of a file's first `size` bytes; an empty text if it is unreadable."""
    try:
        with os.fdopen(os.open(path, _READ_ONLY), "rb") as skill_file:
            return hashlib.sha256(skill_file.read(size)).hexdigest()
    except OSError:
        return ""


def _regular_text(path: Path) -> str | SkipReason:
    """Return the text of a regular file, or why it is not read."""
    if path.is_symlink():
        return SkipReason.SYMLINK
    try:
        file_descriptor = os.open(path, _READ_ONLY)
    except OSError:
        return SkipReason.UNREADABLE
    # Checked on the open file: the path may refer to another one by now.
    if not stat.S_ISREG(os.fstat(file_descriptor).st_mode):
        os.close(file_descriptor)
        return SkipReason.NOT_A_FILE
    with os.fdopen(file_descriptor, "rb") as file:
        file_bytes = file.read(AGENT_SKILL_FILE_BYTES + 1)
    if len(file_bytes) > AGENT_SKILL_FILE_BYTES:
        return SkipReason.TOO_LARGE
    try:
        return file_bytes.decode("utf-8")
    except UnicodeDecodeError:
        return SkipReason.NOT_TEXT
