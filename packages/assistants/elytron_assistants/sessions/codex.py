"""Codex sessions: one rollout file per thread, whose response items are messages and actions."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from elytron_assistants.foreign_json import ForeignObject
from elytron_assistants.sessions import session_files
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SessionLog, SkipCause
from elytron_assistants.tool_marks import read_call, read_result

_HOST: Final = AssistantHost.CODEX
_COMPRESSED: Final = ".zst"
_ID_CHARS: Final = 36
_TEXTS: Final = ("input_text", "output_text", "text")
_SILENT: Final = frozenset({
    "turn_context", "compacted", "world_state", "inter_agent_communication", "inter_agent_communication_metadata",
    "response_item/reasoning", "response_item/image_generation_call", "response_item/tool_search_call",
    "response_item/tool_search_output", "response_item/agent_message", "response_item/compaction",
    "response_item/context_compaction", "response_item/ghost_snapshot", "response_item/other",
})  # fmt: skip
"""Lines and items with nothing to store. `agent_message` is addressed to another agent."""
_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")


@dataclass(slots=True)
class _RolloutState:
    """The state of a thread while its file is read."""

    log: SessionLog
    meta: ForeignObject = field(default_factory=lambda: ForeignObject({}))
    model: str = ""
    has_items: bool = False
    events: SessionLog | None = None
    """Messages that old files record only as events."""
    earlier_turns: int = 0
    """Number of rolled-back turns that begin before the offset."""


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[session_files.SessionSource]:  # noqa: ARG001 - needed for databases
    """Yield the rollout files. If a thread has a plain and a compressed file, only the plain one is yielded."""
    previous_path: Path | None = None
    suffixes = (".jsonl", f".jsonl{_COMPRESSED}")
    # Files come in name order, so a plain file comes right before its compressed copy.
    for source in session_files.file_sources(_HOST, place, tally, read_session, _thread_folder, suffixes=suffixes):
        if source.path.suffix == _COMPRESSED and source.path.with_suffix("") == previous_path:
            tally.skipped[SkipCause.REPLACED] += 1
        else:
            yield source
        previous_path = source.path


def read_session(
    path: Path, position: session_files.SessionPosition | None, tally: ReadTally, /
) -> AssistantSession | None:
    """Read what is new in a thread's file since `position`, or all of it if earlier turns were rolled back."""
    with session_files.open_lines(path) as file:
        if file is None:
            tally.skipped[SkipCause.COMPRESSED] += 1
            return None
        start_offset = 0 if path.suffix == _COMPRESSED else session_files.resume_offset(file, position)
        rollout = _read_rollout(session_files.read_objects(file, tally, start=start_offset), tally)
        if start_offset and rollout.earlier_turns:
            start_offset = 0
            rollout = _read_rollout(session_files.read_objects(file, tally), tally)
    log = rollout.log if rollout.has_items or rollout.events is None else rollout.events
    thread_meta = rollout.meta if not start_offset else _first_meta(path)
    subagent_source = thread_meta.part("source").part("subagent")
    return log.session(
        thread_meta.text("id") or path.name.partition(".")[0][-_ID_CHARS:],
        _HOST,
        thread_meta.text("cwd") or None,
        branch=thread_meta.part("git").text("branch") or None,
        parent=subagent_source.part("thread_spawn").text("parent_thread_id")
        or ("unknown" if "subagent" in thread_meta.part("source").fields else None),
        fork_of=thread_meta.text("forked_from_id") or None,
        resume_at=log.turns[-1].offset if log.turns else start_offset,
        is_whole=not start_offset,
    )


def _read_rollout(lines: Iterator[tuple[int, ForeignObject]], tally: ReadTally) -> _RolloutState:
    rollout = _RolloutState(SessionLog(tally))
    for offset, line in lines:
        payload, said_at = line.part("payload"), line.text("timestamp")
        match line.text("type"):
            case "session_meta":
                # A fork repeats its parent's metadata after its own.
                rollout.meta = payload if not rollout.meta.fields else rollout.meta
            case "turn_context":
                rollout.model = payload.text("model") or rollout.model
            case "response_item":
                _read_item(rollout, payload, said_at, offset, tally)
            case "event_msg":
                _read_event(rollout, payload, said_at, offset, tally)
            case kind:
                tally.note_unknown(_HOST, kind, silent=_SILENT)
    return rollout


def _read_item(rollout: _RolloutState, item: ForeignObject, said_at: str, offset: int, tally: ReadTally) -> None:
    role = item.text("role")
    kind = item.text("type") or ("message" if role else "")  # the first versions wrote no type
    if kind == "message":
        rollout.has_items |= role in {"user", "assistant"}
        _add_words(rollout, rollout.log, role, item.words("content", kinds=_TEXTS), said_at, offset)
    elif kind in _CALLS:
        call_id, name = item.text("call_id", "id"), item.text("name") or kind
        rollout.log.add_call(read_call(call_id, name, item.arguments("action", "arguments", "input")))
    elif kind in {"function_call_output", "custom_tool_call_output"}:
        output = item.words("output", kinds=_TEXTS) or item.part("output").words("content", kinds=_TEXTS)
        rollout.log.add_result(item.text("call_id"), read_result(output))
    else:
        tally.note_unknown(_HOST, f"response_item/{kind}", silent=_SILENT)


def _read_event(rollout: _RolloutState, event: ForeignObject, said_at: str, offset: int, tally: ReadTally) -> None:
    """Read an event. Events that repeat response items count only in files without such items."""
    kind = event.text("type")
    if kind == "thread_rolled_back":
        turn_count = event.get("num_turns")
        count = turn_count if isinstance(turn_count, int) else 1
        rollout.earlier_turns += max(0, count - len(rollout.log.turns))
        rollout.log.roll_back(count)
    elif not rollout.has_items and kind in {"user_message", "agent_message"}:
        rollout.events = rollout.events or SessionLog(tally)
        role = "user" if kind == "user_message" else "assistant"
        _add_words(rollout, rollout.events, role, event.text("message"), said_at, offset)


def _add_words(rollout: _RolloutState, log: SessionLog, role: str, text: str, said_at: str, offset: int) -> None:  # noqa: PLR0917 - a line's parts
    spoken_at = ForeignObject({"at": said_at}).time("at")
    if role == "user":
        # The format has no message id, so the line's time distinguishes equal prompts.
        entry_id = blake2b(f"{said_at}\n{text}".encode("utf-8", "replace"), digest_size=16).hexdigest()
        log.add_prompt(text, entry_id, at=spoken_at, offset=offset)
    elif role == "assistant":
        log.add_reply(text, at=spoken_at, model=rollout.model)


def _thread_folder(path: Path) -> str | None:
    return _first_meta(path).text("cwd") or None


def _first_meta(path: Path) -> ForeignObject:
    """Return the thread metadata from a file's first line."""
    with session_files.open_lines(path) as file:
        first_line = next(session_files.read_objects(file, ReadTally()), None) if file is not None else None
    return first_line[1].part("payload") if first_line is not None else ForeignObject({})
