"""Sessions of Codex: a rollout file for each thread, whose response items are what was said and done."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

from elytron_assistants.sessions.session_files import (
    SessionPosition,
    SessionSource,
    open_lines,
    read_objects,
    resume_offset,
    walk_files,
)
from elytron_assistants.sessions.session_records import (
    AssistantHost,
    AssistantSession,
    ReadTally,
    SessionLog,
    SkipReason,
    json_object,
    json_text,
    optional_time,
    part_texts,
)
from elytron_assistants.sessions.tool_marks import ToolCall, arguments_of
from elytron_core.strict_json import Json

_HOST: Final = AssistantHost.CODEX
_COMPRESSED: Final = ".zst"
_ID_CHARS: Final = 36
_TEXTS: Final = ("input_text", "output_text", "text")
_SILENT_LINES: Final = frozenset({
    "turn_context", "compacted", "world_state", "inter_agent_communication", "inter_agent_communication_metadata",
})  # fmt: skip
_SILENT_ITEMS: Final = frozenset(
    f"response_item/{kind}"
    for kind in (
        *("reasoning", "image_generation_call", "tool_search_call", "tool_search_output", "agent_message"),
        *("compaction", "context_compaction", "ghost_snapshot", "other"),
    )
)
"""Items that say nothing; an agent's message is one to another agent."""
_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")


@dataclass(slots=True)
class _Rollout:
    """A thread while its file is read."""

    log: SessionLog
    meta: Mapping[str, Json] = field(default_factory=dict[str, Json])
    model: str | None = None
    items: int = 0
    events: SessionLog | None = None
    """What old files say in events only."""
    begun_before: int = 0
    """Turns that were rolled back and begin before the offset."""


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[SessionSource]:  # noqa: ARG001 - one form for all
    """Yield the rollout files; of a plain and a compressed one of the same thread, the plain one."""
    previous = ""
    # In the order of names, so that a plain file comes right before its compressed copy.
    for entry in walk_files(place, tally, suffixes=(".jsonl", ".jsonl.zst")):
        if entry.name.removesuffix(".zst") == previous:
            tally.skipped[SkipReason.REPLACED] += 1
            continue
        previous = entry.name
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        read = partial(read_session, path)
        yield SessionSource(_HOST, path, status.st_size, status.st_mtime_ns, read, peek=partial(_peek, path))


def read_session(path: Path, position: SessionPosition | None, tally: ReadTally, /) -> AssistantSession | None:
    """Return what is new in a thread's file since `position`; all of it if turns before that were rolled back."""
    with open_lines(path) as file:
        if file is None:
            tally.skipped[SkipReason.COMPRESSED] += 1
            return None
        start = 0 if path.suffix == _COMPRESSED else resume_offset(file, position)
        rollout = _read_rollout(read_objects(file, tally, start=start), tally)
        if start and rollout.begun_before:
            file.seek(start := 0)
            rollout = _read_rollout(read_objects(file, tally), tally)
    log = rollout.log if rollout.items or rollout.events is None else rollout.events
    meta = rollout.meta if not start else _first_meta(path)
    return log.session(
        json_text(meta.get("id")) or path.name.partition(".")[0][-_ID_CHARS:],
        _HOST,
        json_text(meta.get("cwd")) or None,
        branch=json_text(json_object(meta.get("git")).get("branch")) or None,
        parent=_parent_thread(json_object(meta.get("source"))),
        fork_of=json_text(meta.get("forked_from_id")) or None,
        resume_at=log.turns[-1].offset if log.turns else start,
        is_whole=not start,
    )


def _parent_thread(source: Mapping[str, Json]) -> str | None:
    """Return the thread that a subagent's thread works for."""
    spawned = json_object(json_object(source.get("subagent")).get("thread_spawn"))
    return json_text(spawned.get("parent_thread_id")) or ("unknown" if "subagent" in source else None)


def _read_rollout(lines: Iterator[tuple[int, Mapping[str, Json]]], tally: ReadTally) -> _Rollout:
    rollout = _Rollout(SessionLog(tally))
    for offset, line in lines:
        payload, said_at = json_object(line.get("payload")), json_text(line.get("timestamp"))
        match line.get("type"):
            case "session_meta":
                # A fork repeats its parent's line behind its own.
                rollout.meta = rollout.meta or payload
            case "turn_context":
                rollout.model = json_text(payload.get("model")) or rollout.model
            case "response_item":
                _read_item(rollout, payload, said_at, offset, tally)
            case "event_msg":
                _read_event(rollout, payload, said_at, offset, tally)
            case kind:
                tally.note_unknown(_HOST, kind, silent=_SILENT_LINES)
    return rollout


def _read_item(rollout: _Rollout, item: Mapping[str, Json], said_at: str, offset: int, tally: ReadTally) -> None:
    kind, log, at = item.get("type"), rollout.log, optional_time(said_at)
    if kind == "message":
        text = part_texts(item.get("content"), _TEXTS)
        rollout.items += item.get("role") in ("user", "assistant")
        if item.get("role") == "user":
            log.add_prompt(text, _prompt_id(said_at, text), at=at, offset=offset)
        elif item.get("role") == "assistant":
            log.add_reply(text, at=at, model=rollout.model)
    elif kind in _CALLS:
        action = json_object(item.get("action"))
        arguments = action or arguments_of(item.get("arguments", item.get("input")))
        name = json_text(item.get("name")) or str(kind)
        log.add_call(ToolCall(json_text(item.get("call_id")) or json_text(item.get("id")), name, arguments))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        output = item.get("output")
        text = output if isinstance(output, str) else part_texts(json_object(output).get("content", output), _TEXTS)
        log.add_result(json_text(item.get("call_id")), output=text)
    else:
        tally.note_unknown(_HOST, f"response_item/{kind}", silent=_SILENT_ITEMS)


def _read_event(rollout: _Rollout, event: Mapping[str, Json], said_at: str, offset: int, tally: ReadTally) -> None:
    """Read an event: those that repeat response items count only in files without these."""
    kind, text, at = event.get("type"), json_text(event.get("message")), optional_time(said_at)
    if kind == "thread_rolled_back":
        count = event.get("num_turns")
        count = count if isinstance(count, int) else 1
        rollout.begun_before += max(0, count - len(rollout.log.turns))
        rollout.log.roll_back(count)
    elif not rollout.items and kind in ("user_message", "agent_message"):
        log = rollout.events = rollout.events or SessionLog(tally)
        if kind == "user_message":
            log.add_prompt(text, _prompt_id(said_at, text), at=at, offset=offset)
        else:
            log.add_reply(text, at=at, model=rollout.model)


def _prompt_id(said_at: str, text: str) -> str:
    """Return the id of a prompt, for which the format has none; the line's time tells equal prompts apart."""
    return blake2b(f"{said_at}\n{text}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def _peek(path: Path) -> str | None:
    return json_text(_first_meta(path).get("cwd")) or None


def _first_meta(path: Path) -> Mapping[str, Json]:
    """Return what the first line of a file says about its thread."""
    with open_lines(path) as file:
        first = next(read_objects(file, ReadTally()), None) if file is not None else None
    return json_object(first[1].get("payload")) if first is not None else {}
