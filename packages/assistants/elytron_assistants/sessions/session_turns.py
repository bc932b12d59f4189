"""Convert a session to turns: messages for what was said, marks for what was done."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import PurePath
from typing import Final

from elytron.importers.message_shape import optional_title
from elytron_assistants.sessions.memory_files import CHANNEL, MemoryFile, MemoryNote
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, SessionEntry
from elytron_assistants.tool_marks import MarkKind, SessionMark, without_home
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import HostOpaqueRef, HostRefRelation, Message, ToolObservation, TurnSource

BATCH_TURNS: Final = 200
BATCH_CHARS: Final = 500_000
_SESSION, _ASSISTANT, _FILE = "session", "assistant", "memory_file"


def entry_id(session: str, entry: SessionEntry, /) -> str:
    """Return the id under which an entry is stored exactly once, however it is read."""
    # Without a prompt id, the text distinguishes the entry.
    text = entry.text if not entry.id else ""
    return _joined_digest(session, entry.id, entry.role.value, text)


def former_id(session: str, entry: SessionEntry, /) -> str:
    """Return the id under which earlier versions' hooks stored an entry."""
    return _joined_digest(session, entry.id, entry.role.value, entry.text)


def session_drafts(session: AssistantSession, /) -> Iterator[TurnDraft]:
    """Yield a turn for each entry of a session. A subagent's prompts are stored as an assistant's words too."""
    for entry in session.entries:
        is_subagent_task = session.parent is not None and entry.role is EvidenceRole.USER
        role = EvidenceRole.ASSISTANT if is_subagent_task else entry.role
        is_tool_note = role is EvidenceRole.TOOL
        text = without_home(entry.text.replace(f"{session.folder}/", "")) if is_tool_note else entry.text
        metadata = {"branch": session.branch, "parent_session": session.parent}
        model = optional_title(entry.model)
        yield TurnDraft(
            messages=(Message(role=role, text=text[: limits.MESSAGE_CHARS], at=entry.at),),
            host_id=entry_id(session.id, entry),
            metadata={key: without_home(value)[: limits.NAME_CHARS] for key, value in metadata.items() if value},
            source=TurnSource(ingress=_SESSION, provider=session.host.value, model_resolved=model),
            tool_observations=tuple(_mark_observations(entry.marks, session.folder or "")),
            host_refs=origin_refs(session.host.value, session.id),
        )


def note_drafts(file: MemoryFile, notes: Sequence[MemoryNote], /, *, at: Instant) -> Iterator[TurnDraft]:
    """Yield a turn for each note of a memory file, with the trust of the file's origin."""
    name = without_home(str(file.path))
    for note in notes:
        yield TurnDraft(
            messages=(Message(role=file.origin.role, text=note.text, at=at, authority=file.origin.authority),),
            host_id=note.id,
            metadata={"file": name[-limits.METADATA_CHARS :], "line": note.line},
            source=TurnSource(ingress=_FILE),
            host_refs=origin_refs(CHANNEL, note_conversation(file)),
        )


def note_conversation(file: MemoryFile, /) -> str:
    """Return the conversation of a memory file's notes: its path, truncated at the front if it is too long."""
    return optional_title(without_home(str(file.path))[-limits.NAME_CHARS :]) or _joined_digest(str(file.path))


def origin_refs(host: str, session: str, /) -> tuple[HostOpaqueRef, ...]:
    """Return references for erasing everything from one assistant or one session."""
    return tuple(
        HostOpaqueRef(host_kind=host, business_ref_type=kind, business_ref_id=name, relation=HostRefRelation.ORIGIN)
        for kind, name in ((_ASSISTANT, host), (_SESSION, session))
    )


def draft_batches(drafts: Iterator[TurnDraft], /) -> Iterator[tuple[TurnDraft, ...]]:
    """Group drafts into batches limited by number and characters."""
    batch: list[TurnDraft] = []
    chars = 0
    for draft in drafts:
        batch.append(draft)
        chars += len(draft.messages[0].text)
        if len(batch) >= BATCH_TURNS or chars >= BATCH_CHARS:
            yield tuple(batch)
            batch, chars = [], 0
    if batch:
        yield tuple(batch)


def prompt_digests(session: AssistantSession, entries: Sequence[SessionEntry], /) -> list[str]:
    """Return a digest for each prompt, equal in a fork that copied it, and "" for other entries."""
    # Only Claude Code copies entry ids into a fork.
    has_stable_ids = session.host is AssistantHost.CLAUDE_CODE
    return [
        _joined_digest(entry.id if has_stable_ids else entry.text)[:12] if entry.role is EvidenceRole.USER else ""
        for entry in entries
    ]


def _mark_observations(marks: Sequence[SessionMark], folder: str) -> Iterator[ToolObservation]:
    """Yield an entry's marks. Over the limit, failed commands, decisions and outside content take precedence."""
    distinct_marks = list(dict.fromkeys(marks))
    if len(distinct_marks) > limits.TOOL_OBSERVATIONS:
        distinct_marks.sort(key=lambda mark: not (mark.exit_code or mark.kind in {MarkKind.DECISION, MarkKind.OUTSIDE}))
    for mark_number, mark in enumerate(distinct_marks[: limits.TOOL_OBSERVATIONS]):
        text = _relative_path(mark.text, folder) if mark.kind is MarkKind.FILE else mark.summary
        yield ToolObservation(
            observation_id=f"{mark.kind.value}-{mark_number}",
            tool_name=optional_title(mark.tool) or mark.kind.value,
            summary=without_home(text),
            external_content=mark.is_outside,
        )


def _relative_path(text: str, folder: str) -> str:
    path = PurePath(text)
    return path.relative_to(folder).as_posix() if folder and path.is_relative_to(folder) else text


def _joined_digest(*parts: str) -> str:
    return blake2b("\n".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()
