"""Import sessions and memory files into the memory of their folder. Later runs import only what is new."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from elytron.documents.stored_values import values_at
from elytron.importers.message_shape import optional_title
from elytron.runtime import MemoryRuntime
from elytron.runtime_records import RecordDraft, records_of
from elytron_assistants.project_identity import ProjectSource, space_name, working_copy
from elytron_assistants.project_registry import ProjectKey, ProjectMemory, project_memory
from elytron_assistants.sessions.memory_files import CHANNEL, MemoryFile, find_memory_files, read_notes
from elytron_assistants.sessions.session_files import SessionPosition, SessionSource, digest_before, open_lines
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SkipCause
from elytron_assistants.sessions.session_places import AssistantPlaces, find_sources
from elytron_assistants.sessions.session_turns import (
    draft_batches,
    entry_id,
    former_id,
    note_conversation,
    note_drafts,
    prompt_digests,
    session_drafts,
)
from elytron_assistants.tiers import write_tiers
from elytron_assistants.tool_marks import without_home
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.memories import MemoryForgetRequest
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft, WriteOutcome
from elytron_core.ids import SpaceId, TurnId
from elytron_core.model import Value
from elytron_core.planes.records import Record
from elytron_core.planes.transcript import TURN_NAMES, TurnName, TurnOrigin
from elytron_core.policy.imported_messages import ERASED
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import Scope
from elytron_core.text.program_parts import DROP_LIST_VERSION

NAMESPACE: Final = ("elytron:sessions",)
"""Namespace of the records in the person's space that store how far each source was read."""
_POSITIONS_AT_ONCE: Final = 50
_PROMPTS_KEPT: Final = 2_000
_RETIRED: Final = "it is no longer in its memory file"
_TAKEN_BACK: Final = "it was taken back in its session"

Progress = Callable[[int, int], None]


class FiledSessions(Value):
    """What was stored in one space."""

    space: str
    label: str
    sessions: int = 0
    stored: int = 0


class SessionImportReport(Value):
    """What an import read, stored and skipped. `read_bytes` counts bytes read by this run."""

    space: str
    """The person's space."""
    sources: int = 0
    """Number of session files, sessions in databases, and memory files that were found."""
    unchanged: int = 0
    """Sources without changes, which were not read."""
    sessions: int = 0
    notes: int = 0
    read_bytes: int = 0
    stored: int = 0
    updated: int = 0
    duplicates: int = 0
    erased: int = 0
    """Number of turns that were not stored because they had been erased before."""
    hidden: int = 0
    """Turns hidden by this run: taken back in their session, or removed from their memory file."""
    skipped: dict[SkipCause, int] = {}
    unknown: dict[str, int] = {}
    """Number of records of unknown types, by assistant and type."""
    scrubbed: dict[str, int] = {}
    """Number of credentials redacted before storing, by kind."""
    spaces: tuple[FiledSessions, ...] = ()
    changed: bool = False
    dry_run: bool = False


class ListedSession(Value):
    """A session on disk, the folder that it names, and whether it was imported."""

    host: AssistantHost
    path: str
    folder: str | None = None
    size_bytes: int
    changed_at: Instant
    state: str


@dataclass(frozen=True, slots=True)
class ImportChoice:
    """What to import: which assistants, since when, with subagents or not, and whether to read everything again."""

    hosts: tuple[AssistantHost, ...] = tuple(AssistantHost)
    since: Instant | None = None
    subagents: bool = False
    again: bool = False
    dry_run: bool = False


@dataclass(slots=True)
class SessionImport:
    """One running import. It reads each source, stores it in its project, and records how far it got."""

    memory: MemoryRuntime
    person: str
    places: AssistantPlaces
    choice: ImportChoice = field(default_factory=ImportChoice)
    place: ProjectMemory | None = None
    """If set, the memory of all sessions; otherwise each session goes to its own folder's memory."""
    is_paused: Callable[[Path], bool] = lambda _: False
    """Returns whether hooks are paused in a folder. Its sessions and notes then wait for a later run."""
    tally: ReadTally = field(default_factory=ReadTally)
    counts: Counter[str] = field(default_factory=Counter[str])
    scrubbed: Counter[str] = field(default_factory=Counter[str])
    spaces: dict[str, FiledSessions] = field(default_factory=dict[str, FiledSessions])
    positions: dict[str, SessionPosition] = field(default_factory=dict[str, SessionPosition])
    _pending_positions: dict[str, SessionPosition] = field(default_factory=dict[str, SessionPosition])
    _memories: dict[str, ProjectMemory] = field(default_factory=dict[str, ProjectMemory])

    async def run(self, progress: Progress | None = None) -> SessionImportReport:
        """Import everything new and report what was done. The next run resumes an interrupted one."""
        self.positions = await read_positions(self.memory, self.person)
        with ExitStack() as stack:
            sources = [
                source
                for host in self.choice.hosts
                for source in await asyncio.to_thread(
                    find_sources, host, self.places.sessions.get(host, ()), self.tally, stack
                )
            ]
            self.tally.read_bytes = 0  # finding sources is not counted as reading
            due_sources = [source for source in _in_time_order(sources) if self._is_due(source)]
            total, bytes_read = sum(source.size for source in due_sources), 0
            try:
                for source in due_sources:
                    start_bytes, end_bytes = bytes_read - self.tally.read_bytes, bytes_read + source.size
                    self.tally.on_progress = partial(self._show_progress, progress, start_bytes, end_bytes, total)
                    await self._import_source(source)
                    bytes_read = end_bytes
                    self._show_progress(progress, end_bytes, end_bytes, total)
            finally:
                self.tally.is_stopped = True
        if AssistantHost.MEMORY_FILES in self.choice.hosts:
            await self._import_notes()
        await self._store_positions()
        return self._report(len(sources))

    async def import_one(self, source: SessionSource, /) -> SessionImportReport:
        """Import what is new in one session and report what was done."""
        record = await records_of(self.memory, scope=Scope(space=self.person)).get(NAMESPACE, position_key(source))
        # A new session may be a fork of any known session.
        self.positions = _positions_in([record]) if record else await read_positions(self.memory, self.person)
        await self._import_source(source)
        await self._store_positions()
        return self._report(1)

    def _show_progress(self, progress: Progress | None, start: int, end: int, total: int) -> None:
        if progress is not None:
            progress(min(start + self.tally.read_bytes, end), total)

    def _is_due(self, source: SessionSource) -> bool:
        """Return whether a source may contain something new, and count it if not."""
        if self.choice.since is not None and source.changed_ms < self.choice.since:
            self.tally.skipped[SkipCause.OLDER] += 1
            return False
        position = self.positions.get(position_key(source))
        is_current = position is not None and is_unchanged(source, position)
        if is_current and not self.choice.again and not (self.choice.subagents and position and not position.session):
            self.counts["unchanged"] += 1
            return False
        return True

    async def _import_source(self, source: SessionSource) -> None:
        position = self.positions.get(position_key(source))
        if position is not None and (self.choice.again or position.rules != DROP_LIST_VERSION or not position.session):
            position = None
        try:
            session = await asyncio.to_thread(source.read, position, self.tally)
            cause = self._omission(session) if session is not None else None
            place = await self._memory_of(session.folder or "") if session is not None and cause is None else None
        except (OSError, EOFError, ValueError, sqlite3.Error):
            self.tally.skipped[SkipCause.UNREADABLE] += 1
            return
        if session is None:
            return
        if cause is SkipCause.PAUSED:
            # No position is recorded, so the session is read once the pause is over.
            self.tally.skipped[cause] += 1
            return
        if place is not None:
            session = self._without_copies(session)
            await self._write_session(session, place)
            self._count_space(place, sessions=1)
            self.counts["sessions"] += 1
        elif cause is not None:
            self.tally.skipped[cause] += 1
        await self._note_position(source, position, session, is_stored=place is not None)

    def _omission(self, session: AssistantSession) -> SkipCause | None:
        """Return why a session is not stored, or None if it is to be stored."""
        if session.parent is not None and not self.choice.subagents:
            return SkipCause.SUBAGENT
        if not session.entries and not session.taken_back and session.is_whole:
            return SkipCause.NO_WORDS
        folder = Path(session.folder or "")
        if not folder.is_absolute():
            return SkipCause.NO_FOLDER
        return SkipCause.PAUSED if self.is_paused(folder) else None

    def _without_copies(self, session: AssistantSession) -> AssistantSession:
        """Remove the beginning that a fork copied from its origin."""
        if not session.is_whole:
            return session
        origin_digests = {
            digest
            for position in self.positions.values()
            if position.session not in {"", session.id}
            and ((session.first_id and position.first_id == session.first_id) or position.session == session.fork_of)
            for digest in position.prompts
        }
        digests = prompt_digests(session, session.entries)
        first_new = next(
            (index for index, digest in enumerate(digests) if digest and digest not in origin_digests), len(digests)
        )
        if not origin_digests or first_new == 0:
            return session
        self.tally.skipped[SkipCause.FORK] += first_new
        return replace(session, entries=session.entries[first_new:])

    async def _memory_of(self, folder: str) -> ProjectMemory:
        if self.place is not None:
            return self.place
        if folder not in self._memories:
            self._memories[folder] = await _folder_memory(self.memory, self.person, folder)
        return self._memories[folder]

    async def _write_session(self, session: AssistantSession, project_place: ProjectMemory) -> None:
        scope = Scope(
            space=project_place.spaces[0],
            channel=session.host.value,
            conversation=session.id,
            project=optional_title(Path(session.folder or "").name),
        )
        if session.host is AssistantHost.CLAUDE_CODE:
            known_turns = await self._stored_turns(scope, [former_id(session.id, entry) for entry in session.entries])
            entries = tuple(entry for entry in session.entries if former_id(session.id, entry) not in known_turns)
            self.counts[WriteOutcome.DUPLICATE] += len(session.entries) - len(entries)
            session = replace(session, entries=entries)
        await self._write(session_drafts(session), scope, project_place, title=optional_title(session.title or ""))
        ids = {entry_id(session.id, entry) for entry in session.entries}
        rewound_ids = [name for entry in session.taken_back if (name := entry_id(session.id, entry)) not in ids]
        await self._hide(rewound_ids, scope, project_place, _TAKEN_BACK)

    async def _write(
        self, drafts: Iterable[TurnDraft], scope: Scope, place: ProjectMemory, /, *, title: str | None = None
    ) -> None:
        for batch in draft_batches(iter(drafts)):
            turn_write = TranscriptWrite(turns=batch, origin=TurnOrigin.IMPORTED, title=title)
            request = MemoryWriteRequest(scope=scope, write=turn_write, dry_run=self.choice.dry_run)
            if self.choice.dry_run:
                report = await self.memory.operate(request)
            else:
                report = await write_tiers(self.memory, self.memory.operate, request, place)
            self.scrubbed.update(report.scrubbed)
            self.counts.update(
                "erased" if decision.reason == ERASED else decision.outcome.value for decision in report.decisions
            )
            self._count_space(place, stored=report.count(WriteOutcome.STORED))

    async def _hide(
        self, host_ids: list[str], scope: Scope, place: ProjectMemory, reason: str, /, *, undo: bool = False
    ) -> None:
        """Hide the turns stored under `host_ids` in all tiers; with `undo`, show them again."""
        for space in dict.fromkeys((place.spaces[0], place.person)) if not self.choice.dry_run else ():
            tier = scope.model_copy(update={"space": space})
            ids = list((await self._stored_turns(tier, host_ids)).values())
            for start in range(0, len(ids), limits.WRITES_PER_REQUEST):
                page = tuple(ids[start : start + limits.WRITES_PER_REQUEST])
                report = await self.memory.operate(MemoryForgetRequest(scope=tier, ids=page, reason=reason, undo=undo))
                self.counts["hidden"] += 0 if undo else sum(one.outcome == "changed" for one in report.decisions)

    async def _stored_turns(self, scope: Scope, host_ids: Iterable[str]) -> dict[str, TurnId]:
        """Return the stored turns of a conversation by host id."""
        context = self.memory.context
        record = await context.spaces.find(SpaceId(scope.space))
        if record is None:
            return {}
        tags = ((name, record.turn_name_tag(scope.conversation_key, name)) for name in host_ids)
        refs = {DocumentRef(TURN_NAMES, name_tag): name for name, name_tag in tags}
        turn_names = await values_at(context.store, SpaceId(scope.space), refs, TurnName)
        return {refs[ref]: name.turn for ref, name in turn_names.items()}

    async def _note_position(
        self, source: SessionSource, before: SessionPosition | None, session: AssistantSession, /, *, is_stored: bool
    ) -> None:
        is_longer = before is not None and not session.is_whole
        prompts = [digest for digest in prompt_digests(session, session.entries) if digest]
        old_prompts = before.prompts if before is not None and is_longer else ()
        self._pending_positions[position_key(source)] = SessionPosition(
            size=source.size,
            changed=source.changed,
            rules=DROP_LIST_VERSION,
            offset=session.resume_at,
            digest=_read_digest(source.path, session.resume_at),
            session=session.id if is_stored else "",
            folder=session.folder or "",
            first_id=before.first_id if before is not None and is_longer else session.first_id,
            prompts=tuple(dict.fromkeys((*old_prompts, *prompts)))[:_PROMPTS_KEPT],
        )
        self.positions |= self._pending_positions
        if len(self._pending_positions) >= _POSITIONS_AT_ONCE:
            await self._store_positions()

    async def _store_positions(self) -> None:
        if self._pending_positions and not self.choice.dry_run:
            drafts = [
                RecordDraft(NAMESPACE, key, position.model_dump(mode="json", exclude_defaults=True))
                for key, position in self._pending_positions.items()
            ]
            await records_of(self.memory, scope=Scope(space=self.person)).put_all(drafts)
        self._pending_positions.clear()

    async def _import_notes(self) -> None:
        """Import the memory files of the person, the assistants, and the repositories named by sessions."""
        folders = {position.folder for position in self.positions.values() if position.folder}
        roots = [git.top for folder in sorted(folders) if (git := working_copy(Path(folder))) is not None]
        places = self.places
        for file in find_memory_files(places.memory_homes, places.claude_projects, places.roots or roots):
            await self._import_file(file)

    async def _import_file(self, file: MemoryFile) -> None:
        key = _source_key(AssistantHost.MEMORY_FILES, file.path, "")
        try:
            status, position = file.path.stat(), self.positions.get(key)
        except OSError:
            self.tally.skipped[SkipCause.UNREADABLE] += 1
            return
        self.counts["files"] += 1
        if position is not None and (position.size, position.changed) == (status.st_size, status.st_mtime_ns):
            self.counts["unchanged"] += not self.choice.again
            if not self.choice.again:
                return
        if file.folder and self.is_paused(Path(file.folder)):
            self.tally.skipped[SkipCause.PAUSED] += 1
            return
        notes = read_notes(file, self.tally)
        changed_at = Instant(status.st_mtime_ns // 1_000_000)
        places: dict[str | None, ProjectMemory] = {}
        # Include the file's own folder, because all of its notes may have been removed.
        for folder in dict.fromkeys((file.folder, *(note.folder for note in notes))):
            folder_notes = [note for note in notes if note.folder == folder]
            if folder == "":
                self.tally.skipped[SkipCause.NO_FOLDER] += len(folder_notes)
                continue
            place = await self._memory_of(folder) if folder is not None else ProjectMemory(person=self.person)
            places[folder] = place
            await self._write(note_drafts(file, folder_notes, at=changed_at), _note_scope(file, place), place)
            self.counts["notes"] += len(folder_notes)
        ids = tuple(note.id for note in notes)
        earlier_ids = (*position.notes, *position.retired) if position is not None else ()
        retired_ids = [name for name in earlier_ids if name not in ids][-_PROMPTS_KEPT:]
        restored_ids = [name for name in position.retired if name in ids] if position is not None else []
        for place in places.values():
            await self._hide(retired_ids, _note_scope(file, place), place, _RETIRED)
            await self._hide(restored_ids, _note_scope(file, place), place, "", undo=True)
        self._pending_positions[key] = SessionPosition(
            size=status.st_size, changed=status.st_mtime_ns, notes=ids, retired=tuple(retired_ids)
        )

    def _count_space(self, place: ProjectMemory, /, *, sessions: int = 0, stored: int = 0) -> None:
        space = place.spaces[0]
        label = place.label if place.space is not None else "the person's own"
        space_sessions = self.spaces.get(space, FiledSessions(space=space, label=label))
        update = {"sessions": space_sessions.sessions + sessions, "stored": space_sessions.stored + stored}
        self.spaces[space] = space_sessions.model_copy(update=update)

    def _report(self, sources: int) -> SessionImportReport:
        counts, tally = self.counts, self.tally
        stored, updated, hidden = counts[WriteOutcome.STORED], counts[WriteOutcome.UPDATED], counts["hidden"]
        return SessionImportReport(
            space=self.person,
            sources=sources + counts["files"],
            unchanged=counts["unchanged"],
            sessions=counts["sessions"],
            notes=counts["notes"],
            read_bytes=tally.read_bytes,
            stored=stored,
            updated=updated,
            duplicates=counts[WriteOutcome.DUPLICATE],
            erased=counts["erased"],
            hidden=hidden,
            skipped={reason: tally.skipped[reason] for reason in SkipCause if tally.skipped[reason]},
            unknown=dict(sorted(tally.unknown.items())),
            scrubbed=dict(sorted(self.scrubbed.items())),
            spaces=tuple(sorted(self.spaces.values(), key=lambda filed: (-filed.stored, filed.label))),
            changed=not self.choice.dry_run and stored + updated + hidden > 0,
            dry_run=self.choice.dry_run,
        )


def _read_digest(path: Path, offset: int) -> str:
    """Return the digest of the bytes before the resume offset, or an empty string if reading restarts."""
    if not offset:
        return ""
    with open_lines(path) as file:
        return digest_before(file, offset) if file is not None else ""


async def _folder_memory(memory: MemoryRuntime, person: str, folder: str) -> ProjectMemory:
    """Return a folder's memory. A missing folder that was in no repository gets a memory of its own."""
    project_place = await project_memory(memory, Path(folder), person=person)
    is_outside_repository = project_place.repository is None or project_place.repository.source is ProjectSource.FOLDER
    if is_outside_repository and is_gone(folder):
        # Two missing projects must not end up sharing the parent folder that contained both.
        space = space_name(f"path:{folder}")
        label = optional_title(Path(folder).name) or space
        return ProjectMemory(
            person=person, space=space, label=label, keys={space: ProjectKey(space=space, path=folder)}
        )
    return project_place


def is_gone(folder: str, /) -> bool:
    """Return whether a folder no longer exists."""
    return not Path(folder).is_dir()


def _in_time_order(sources: list[SessionSource]) -> list[SessionSource]:
    """Sort the sources by time, because what is stored last is listed first.

    For assistants other than Claude Code, sources stay grouped in their order, where a fork follows its origin. The
    origin may have changed after the fork, so times would reverse them.
    """
    latest_ms = Counter[AssistantHost]()
    for source in sources:
        latest_ms[source.host] = max(latest_ms[source.host], source.changed_ms)

    def changed_ms(source: SessionSource) -> int:
        return source.changed_ms if source.host is AssistantHost.CLAUDE_CODE else latest_ms[source.host]

    return sorted(sources, key=changed_ms)


def position_key(source: SessionSource, /) -> str:
    """Return the key of the record that stores how far a source was read."""
    return _source_key(source.host, source.path, source.key)


def is_unchanged(source: SessionSource, position: SessionPosition, /) -> bool:
    """Return whether a source is unchanged since it was read under the current rules."""
    size = position.size if source.key else source.size  # a database's size says nothing about one session
    has_same_state = (position.size, position.changed, position.rules) == (size, source.changed, DROP_LIST_VERSION)
    return has_same_state and source.changed > 0


async def read_positions(memory: MemoryRuntime, person: str, /) -> dict[str, SessionPosition]:
    """Return how far each source was read. Records that cannot be parsed are ignored."""
    return _positions_in([record async for record in records_of(memory, scope=Scope(space=person)).below(NAMESPACE)])


def _positions_in(records: Iterable[Record]) -> dict[str, SessionPosition]:
    positions: dict[str, SessionPosition] = {}
    for record in records:
        try:
            positions[record.key] = SessionPosition.model_validate(record.value)
        except ValidationError:
            continue
    return positions


async def list_sessions(
    memory: MemoryRuntime, person: str, places: AssistantPlaces, hosts: Iterable[AssistantHost], /
) -> tuple[ListedSession, ...]:
    """Return the sessions on disk, most recently changed first."""
    positions, sessions = await read_positions(memory, person), list[ListedSession]()
    with ExitStack() as stack:
        for host in hosts:
            for source in find_sources(host, places.sessions.get(host, ()), ReadTally(), stack):
                sessions.append(_listed_session(source, positions))
    return tuple(sorted(sessions, key=lambda each: -each.changed_at))


def _listed_session(source: SessionSource, positions: Mapping[str, SessionPosition]) -> ListedSession:
    position = positions.get(position_key(source))
    state = "new" if position is None else "imported" if position.session else "skipped"
    if position is not None and not is_unchanged(source, position):
        state = "grown"
    try:
        folder = position.folder if position is not None else source.peek() if source.peek is not None else None
    except OSError:
        folder = None
    return ListedSession(
        host=source.host,
        path=without_home(str(source.path)),
        folder=without_home(folder) if folder else None,
        size_bytes=source.size,
        changed_at=Instant(source.changed_ms),
        state=state,
    )


def _note_scope(file: MemoryFile, project_place: ProjectMemory) -> Scope:
    project = optional_title(project_place.label) if project_place.space is not None else None
    return Scope(space=project_place.spaces[0], channel=CHANNEL, conversation=note_conversation(file), project=project)


def _source_key(host: AssistantHost, path: Path, key: str) -> str:
    return blake2b(f"{host.value}\n{path}\n{key}".encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
