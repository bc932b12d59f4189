"""Split a space that several projects shared: each session moves to the project of the folder its transcript names.

Each session is copied first and then hidden in the old space, so an interrupted run loses nothing and can be repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from elytron.runtime import MemoryRuntime
from elytron_assistants.project_registry import ProjectMemory, project_memory
from elytron_assistants.sessions.claude_code import session_folder
from elytron_assistants.tiers import write_tiers
from elytron_core import limits
from elytron_core.contracts.memories import MemoryForgetRequest
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.ids import SpaceId, TurnId
from elytron_core.model import Value
from elytron_core.planes.transcript import TURNS, Turn, message_id
from elytron_core.ports.store import scan_documents
from elytron_core.scope import Scope

CHANNELS: Final = frozenset({"claude-code"})
"""Channels in which hooks stored turns of several projects."""
BATCH_TURNS: Final = 100
NO_FOLDER: Final = "no transcript names its folder"
FOLDER_GONE: Final = "its folder no longer exists"


class SplitPart(Value):
    """Sessions that moved to one space, or that stayed for one reason."""

    label: str
    space: str | None = None
    reason: str = ""
    sessions: int = 0
    turns: int = 0


class SpaceSplitReport(Value):
    """What happened to a space's hook sessions. Other memories in the space are not touched."""

    space: str
    moved: tuple[SplitPart, ...] = ()
    left: tuple[SplitPart, ...] = ()
    dry_run: bool = False


@dataclass(slots=True)
class SpaceSplit:
    """Move hook sessions out of `space`. `assigned` maps last path components to folders that the user chose."""

    memory: MemoryRuntime
    space: str
    person: str
    folders: Mapping[str, Path]
    """Folder by session id."""
    assigned: Mapping[str, Path] = field(default_factory=dict[str, Path])
    _parts: dict[tuple[str, str | None, str], SplitPart] = field(default_factory=dict[Any, SplitPart])

    async def run(self, *, dry_run: bool) -> SpaceSplitReport:
        """Move every session whose folder still exists and report the result. A dry run changes nothing."""
        self._parts = {}
        session: dict[str, Turn] = {}
        # Keys sort the turns of one conversation next to each other.
        async for document in scan_documents(self.memory.context.store, SpaceId(self.space), TURNS):
            turn = Turn.from_bytes(document.body)
            if turn.channel not in CHANNELS or not all(map(turn.is_kept, range(len(turn.messages)))):
                continue
            if any(each.conversation != turn.conversation for each in session.values()):
                await self._move_session(session, dry_run=dry_run)
                session = {}
            session[document.ref.key] = turn
        if session:
            await self._move_session(session, dry_run=dry_run)
        sorted_parts = sorted(self._parts.values(), key=lambda part: (part.label, part.space or ""))
        return SpaceSplitReport(
            space=self.space,
            moved=tuple(part for part in sorted_parts if part.space is not None),
            left=tuple(part for part in sorted_parts if part.space is None),
            dry_run=dry_run,
        )

    async def _move_session(self, session: Mapping[str, Turn], *, dry_run: bool) -> None:
        last_turn = list(session.values())[-1]
        name = last_turn.project or last_turn.conversation
        folder = self.folders.get(last_turn.conversation) or self.assigned.get(name)
        if folder is None or not folder.is_dir():
            self._count(name, None, NO_FOLDER if folder is None else FOLDER_GONE, session)
            return
        project_place = await project_memory(self.memory, folder, person=self.person)
        target = project_place.spaces[0]
        if target == self.space:
            return
        self._count(project_place.label or name, target, "", session)
        if not dry_run:
            names = list(session)
            for start in range(0, len(names), BATCH_TURNS):
                await self._move_turns(
                    {name: session[name] for name in names[start : start + BATCH_TURNS]}, project_place
                )

    async def _move_turns(self, turns: Mapping[str, Turn], project_place: ProjectMemory) -> None:
        last_turn = list(turns.values())[-1]
        scope = Scope(
            space=project_place.spaces[0],
            agent=last_turn.agent,
            app=last_turn.app,
            channel=last_turn.channel,
            conversation=last_turn.conversation,
        )
        transcript_write = TranscriptWrite(turns=tuple(_draft_of(name, turn) for name, turn in turns.items()))
        await write_tiers(
            self.memory, self.memory.operate, MemoryWriteRequest(scope=scope, write=transcript_write), project_place
        )
        ids = [message_id(TurnId(name), part) for name, turn in turns.items() for part in range(len(turn.messages))]
        for start in range(0, len(ids), limits.WRITES_PER_REQUEST):
            part = tuple(ids[start : start + limits.WRITES_PER_REQUEST])
            reason = f"moved to {project_place.spaces[0]}"
            request = MemoryForgetRequest(scope=Scope(space=self.space), ids=part, reason=reason)
            await self.memory.operate(request)

    def _count(self, label: str, space: str | None, reason: str, session: Mapping[str, Turn]) -> None:
        split_part = self._parts.get((label, space, reason), SplitPart(label=label, space=space, reason=reason))
        update = {"sessions": split_part.sessions + 1, "turns": split_part.turns + len(session)}
        self._parts[label, space, reason] = split_part.model_copy(update=update)


def session_folders(projects: Path, /) -> dict[str, Path]:
    """Map each Claude Code session to its start folder, read from the transcripts below `projects`."""
    files = (file for file in sorted(projects.glob("*/*.jsonl")) if file.is_file() and not file.is_symlink())
    folders = {file.stem: Path(session_folder(file) or "") for file in files}
    return {session: folder for session, folder in folders.items() if folder.is_absolute()}


def _draft_of(name: str, turn: Turn) -> TurnDraft:
    """Return a draft that copies a stored turn, with each message's own time or the time the turn was recorded."""
    return TurnDraft(
        messages=tuple(
            message if message.at is not None else message.model_copy(update={"at": turn.recorded_at})
            for message in turn.messages
        ),
        host_id=turn.host_id or f"moved:{name}",
        delivery=turn.delivery,
        tags=turn.tags,
        metadata=turn.metadata,
        source=turn.source,
        tool_observations=turn.tool_observations,
        items=turn.items,
        external_content_used=turn.external_content_used,
    )
