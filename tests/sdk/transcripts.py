"""Shorthands for committing turns in transcript tests."""

from pathlib import Path

import elytron
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId

SUPPORT = elytron.Scope(space=SpaceId("ada"), channel="web", conversation="support")


def delta(turn_id: str = "t1", text: str = "I like tea", **more: object) -> elytron.CanonicalTurnDelta:
    """Return a finished turn of one question and one answer."""
    said = {
        "turn_id": turn_id,
        "input_messages": ({"text": text, "speaker": "Ada"},),
        "assistant_message": {"role": EvidenceRole.ASSISTANT, "text": "Noted."},
    }
    return elytron.CanonicalTurnDelta.model_validate(said | more)


async def commit(
    memory: elytron.MemoryRuntime,
    turn_id: str = "t1",
    text: str = "I like tea",
    *,
    scope: elytron.Scope | None = SUPPORT,
    **more: object,
) -> elytron.MemoryTranscriptCommitReport:
    """Commit one turn."""
    request = elytron.MemoryTranscriptCommitRequest(scope=scope, delta=delta(turn_id, text, **more))
    return await memory.commit_transcript(request)


async def turn(
    memory: elytron.MemoryRuntime, transition: str, *turns: str, scope: elytron.Scope | None = SUPPORT
) -> elytron.MemoryTranscriptLifecycleReport:
    """Change the lifecycle of turns."""
    request = elytron.MemoryTranscriptLifecycleRequest.model_validate(
        {"scope": scope, "transition": transition, "turn_ids": turns}
    )
    return await memory.request_transcript_lifecycle(request)


async def view(
    memory: elytron.MemoryRuntime, audience: str = "host_ui", *, scope: elytron.Scope | None = SUPPORT, **more: object
) -> elytron.MemoryTranscriptReplayReport:
    """Read a page through one view."""
    request = elytron.MemoryTranscriptReplayRequest.model_validate({"scope": scope, "view": audience} | more)
    return await memory.replay_transcript(request)


def bytes_below(folder: Path) -> bytes:
    """Return every byte of every file below a folder."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())
