"""Copilot CLI sessions: one event log per session. VS Code passes its hooks a transcript of the same events."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from elytron_assistants.foreign_json import ForeignObject
from elytron_assistants.sessions import session_files
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SessionLog, SkipCause
from elytron_assistants.tool_marks import read_call, read_result

_HOST: Final = AssistantHost.COPILOT
_EVENTS: Final = "events.jsonl"
_SILENT: Final = frozenset({
    "assistant.turn_start", "assistant.turn_end", "assistant.reasoning", "assistant.intent", "hook.start", "hook.end",
    "session.compaction_start", "session.compaction_complete", "session.shutdown", "session.resume", "session.info",
    "session.model_change", "subagent.started", "subagent.completed", "system.message", "tool.user_requested", "abort",
})  # fmt: skip


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[session_files.SessionSource]:  # noqa: ARG001 - needed for databases
    """Yield the event logs below the sessions folder."""
    for source in session_files.file_sources(_HOST, place, tally, read_session, session_folder):
        if source.path.name == _EVENTS:
            yield source


def read_session(
    path: Path, position: session_files.SessionPosition | None, tally: ReadTally, /
) -> AssistantSession | None:
    """Read what is new in a session's log since `position`."""
    first_event, log = ForeignObject({}), SessionLog(tally)
    with session_files.open_regular(path) as file:
        start_offset = session_files.resume_offset(file, position)
        for offset, event in session_files.read_objects(file, tally, start=start_offset):
            if event.text("type") == "session.start":
                first_event = event.part("data")
            else:
                _read_event(log, event, offset, tally)
    context = (first_event if not start_offset else _first_event(path)).part("context")
    return log.session(
        path.parent.name if path.name == _EVENTS else path.stem,
        _HOST,
        context.text("cwd") or None,
        branch=context.text("branch") or None,
        resume_at=log.turns[-1].offset if log.turns else start_offset,
        is_whole=not start_offset,
    )


def session_folder(path: Path, /) -> str | None:
    """Return the folder named in a session's first event."""
    return _first_event(path).part("context").text("cwd") or None


def _first_event(path: Path) -> ForeignObject:
    with session_files.open_regular(path) as file:
        first_line = next(session_files.read_objects(file, ReadTally()), None)
    return first_line[1].part("data") if first_line is not None else ForeignObject({})


def _read_event(log: SessionLog, event: ForeignObject, offset: int, tally: ReadTally) -> None:
    data, event_time, kind = event.part("data"), event.time("timestamp"), event.text("type")
    if event.text("agentId") or data.text("parentToolCallId"):
        tally.skipped[SkipCause.SIDE_CHAIN] += kind in {"user.message", "assistant.message"}
        return
    match kind:
        case "user.message":
            # Sometimes the typed text exists only in the form sent to the model, mixed with program text.
            log.add_prompt(data.text("content", "transformedContent"), event.text("id"), at=event_time, offset=offset)
        case "assistant.message":
            log.add_reply(data.text("content"), at=event_time)
        case "tool.execution_start":
            log.add_call(read_call(data.text("toolCallId"), data.text("toolName"), data.arguments("arguments")))
        case "tool.execution_complete":
            result = read_result(data.part("result").text("content"), is_error=data.get("success") is False)
            log.add_result(data.text("toolCallId"), result)
        case _:
            tally.note_unknown(_HOST, kind, silent=_SILENT)
