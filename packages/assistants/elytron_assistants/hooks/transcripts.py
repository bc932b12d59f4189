"""Store what a session's transcript contains and memory lacks, exactly as an import of the session would."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from elytron.runtime import MemoryRuntime
from elytron_assistants.hooks.events import HookEvent
from elytron_assistants.project_registry import ProjectMemory
from elytron_assistants.sessions import claude_code
from elytron_assistants.sessions.session_files import SessionPosition, SessionSource
from elytron_assistants.sessions.session_import import SessionImport
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SkipCause
from elytron_assistants.sessions.session_places import TRANSCRIPTS, find_sources, places_of
from elytron_assistants.sessions.session_turns import draft_batches, session_drafts
from elytron_core.contracts.transcript import WriteOutcome
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import TurnOrigin
from elytron_turn.memory import TurnMemory

_TAIL_ENTRIES: Final = 40
"""Number of entries sent to a server from the end of a session. The server recognises known ones by their ids."""


@dataclass(frozen=True, slots=True)
class StoredTurns:
    """Number of stored turns, and the session's last prompt and reply."""

    count: int = 0
    prompt: str = ""
    reply: str = ""


async def store_session(
    memory: MemoryRuntime, project_place: ProjectMemory, event: HookEvent, /, *, environment: Mapping[str, str]
) -> StoredTurns:
    """Store what is new in an event's session in its folder's memory. Raises InvalidInput without a transcript."""
    sessions: list[AssistantSession] = []
    with ExitStack() as stack:
        source = await asyncio.to_thread(_session_source, event, environment, stack)
        session_import = SessionImport(
            memory, project_place.person, places_of(environment, Path.home()), place=project_place
        )
        report = await session_import.import_one(replace(source, read=partial(_read_noted, source, event, sessions)))
    if report.skipped.get(SkipCause.UNREADABLE):
        raise _transcript_error()
    return StoredTurns(report.stored, *(_last_words(sessions[-1]) if sessions else ("", "")))


async def send_session(memory: TurnMemory, event: HookEvent, /, *, environment: Mapping[str, str]) -> StoredTurns:
    """Send the end of an event's session to a server. Raises InvalidInput without a transcript."""
    try:
        session = await asyncio.to_thread(_session_end, event, environment)
    except (OSError, ValueError):
        raise _transcript_error() from None
    if session is None or session.parent is not None or not session.entries:
        return StoredTurns()
    session = replace(session, entries=session.entries[-_TAIL_ENTRIES:])
    count = 0
    for batch in draft_batches(session_drafts(session)):
        # Stored like an import: a repeated turn is not a conflict, and an erased one stays erased.
        report = await memory.after(batch, origin=TurnOrigin.IMPORTED)
        count += report.count(WriteOutcome.STORED)
    return StoredTurns(count, *_last_words(session))


def _session_source(event: HookEvent, environment: Mapping[str, str], stack: ExitStack) -> SessionSource:
    """Return the source of an event's session. Raises InvalidInput if it is not on disk."""
    host, path = event.contract.sessions, event.transcript
    if path is not None and host in TRANSCRIPTS and path.is_file():
        status = path.stat()
        return SessionSource(host, path, status.st_size, status.st_mtime_ns, partial(TRANSCRIPTS[host], path))
    # The host may name no transcript, or one that has moved.
    host_places = places_of(environment, Path.home()).sessions.get(host, ())
    for source in find_sources(host, host_places, ReadTally(), stack):
        if event.session in {source.key, source.path.stem, source.path.parent.name}:
            return source
    raise _transcript_error()


def _read_noted(
    source: SessionSource,
    event: HookEvent,
    sessions: list[AssistantSession],
    position: SessionPosition | None,
    tally: ReadTally,
) -> AssistantSession | None:
    """Read a session and add it to `sessions`, with the event's reply and folder."""
    session = source.read(position, tally)
    if session is None:
        return None
    # With Codex, several threads may share an event's session id.
    name = session.id if session.host is AssistantHost.CODEX else event.session
    folder = session.folder or event.cwd or os.fspath(Path.home())
    sessions.append(replace(_with_reply(session, event.reply), id=name, folder=folder))
    return sessions[-1]


def _with_reply(session: AssistantSession, reply: str) -> AssistantSession:
    """Return the session with this reply to its last prompt, in case the file lacks it."""
    if not reply.strip():
        return session
    prompts = (entry_index for entry_index, entry in enumerate(session.entries) if entry.role is EvidenceRole.USER)
    prompt_index = max(prompts, default=len(session.entries))
    return replace(session, entries=(*session.entries[:prompt_index], *session.with_reply(reply).entries))


def _session_end(event: HookEvent, environment: Mapping[str, str]) -> AssistantSession | None:
    if event.contract.sessions is AssistantHost.CLAUDE_CODE and event.transcript is not None:
        session = claude_code.read_end(event.transcript, event.session)
    else:
        with ExitStack() as stack:
            session = _session_source(event, environment, stack).read(None, ReadTally())
    return replace(_with_reply(session, event.reply), folder=event.cwd or None) if session is not None else None


def _last_words(session: AssistantSession) -> tuple[str, str]:
    def texts(role: EvidenceRole) -> Iterator[str]:
        return (entry.text for entry in reversed(session.entries) if entry.role is role)

    return next(texts(EvidenceRole.USER), ""), next(texts(EvidenceRole.ASSISTANT), "")


def _transcript_error() -> InvalidInput:
    return InvalidInput(field="transcript_path", problem="does not name a readable transcript; nothing was stored")
