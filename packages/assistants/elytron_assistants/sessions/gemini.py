"""Sessions of Gemini CLI: a log of messages and changes to them, or in old versions one JSON document."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from elytron_assistants.sessions.session_files import (
    SessionSource,
    as_a_whole,
    open_regular,
    read_document,
    read_objects,
    walk_files,
)
from elytron_assistants.sessions.session_records import (
    AssistantHost,
    AssistantSession,
    ReadTally,
    SessionLog,
    SkipReason,
    json_list,
    json_object,
    json_text,
    optional_time,
    part_texts,
)
from elytron_assistants.sessions.tool_marks import ToolCall, arguments_of
from elytron_core.strict_json import Json

_HOST: Final = AssistantHost.GEMINI
_CHATS: Final = "chats"
_NOTICES: Final = frozenset({"info", "error", "warning"})
_FAILED: Final = frozenset({"error", "cancelled"})


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[SessionSource]:  # noqa: ARG001 - one form for all
    """Yield the files of chats below the folder of projects; of one in both forms, the newer form.

    A subagent's chat is in a folder that has the name of its parent.
    """
    folders = _project_folders(place.parent / "projects.json")
    entries = [
        entry
        for entry in walk_files(place, tally, suffixes=(".jsonl", ".json"))
        if f"/{_CHATS}/" in Path(entry.path).as_posix()
    ]
    rewritten = {entry.path.removesuffix("l") for entry in entries if entry.name.endswith(".jsonl")}
    for entry in entries:
        path, status = Path(entry.path), entry.stat(follow_symlinks=False)
        if entry.path in rewritten:
            tally.skipped[SkipReason.REPLACED] += 1
            continue
        project = next(parent.parent.name for parent in path.parents if parent.name == _CHATS)
        folder = folders.get(project)
        read = as_a_whole(partial(read_session, path, folder))
        yield SessionSource(_HOST, path, status.st_size, status.st_mtime_ns, read, peek=partial(_known_folder, folder))


def read_session(
    path: Path,
    folder: str | None,
    tally: ReadTally,
    /,
) -> AssistantSession | None:
    """Return a chat, as a whole: a later line may change any earlier message."""
    head, messages, taken_back = _read_state(path, tally)
    log, dead = SessionLog(tally), SessionLog(tally)
    for target, items in ((log, messages), (dead, taken_back)):
        for message in items:
            _read_message(target, message, tally)
    log.taken_back += dead.turns
    session = json_text(head.get("sessionId")) or path.stem
    is_subagent = head.get("kind") == "subagent" or path.parent.name != _CHATS
    return log.session(
        session,
        _HOST,
        folder,
        parent=path.parent.name if is_subagent else None,
        title=json_text(head.get("summary")) or None,
        first_id=log.turns[0].prompt.id if log.turns and log.turns[0].prompt is not None else "",
    )


def _project_folders(file: Path) -> Mapping[str, str]:
    """Return the folder of each project id; old ids are digests of the folder."""
    if not file.is_file():
        return {}
    document = read_document(file, ReadTally()) or {}
    projects = json_object(document.get("projects", document))
    folders = {project: folder for folder, project in projects.items() if isinstance(project, str)}
    return folders | {sha256(folder.encode("utf-8", "replace")).hexdigest(): folder for folder in projects}


def _known_folder(folder: str | None) -> str | None:
    return folder


Messages = list[Mapping[str, Json]]


def _read_state(path: Path, tally: ReadTally) -> tuple[Mapping[str, Json], Messages, Messages]:
    """Return the head of a chat, its messages in their last state, and those that were taken back."""
    if path.suffix == ".json":
        document = read_document(path, tally) or {}
        return document, [json_object(item) for item in json_list(document.get("messages"))], []
    head: dict[str, Json] = {}
    messages: dict[str, Mapping[str, Json]] = {}
    taken_back: Messages = []
    with open_regular(path) as file:
        for _, line in read_objects(file, tally):
            if "$set" in line:
                fields = dict(json_object(line["$set"]))
                if "messages" in fields:
                    items = [json_object(item) for item in json_list(fields.pop("messages"))]
                    messages = {json_text(item.get("id")) or f"#{place}": item for place, item in enumerate(items)}
                head |= fields
            elif "$rewindTo" in line:
                ids = list(messages)
                target = json_text(line["$rewindTo"])
                place = ids.index(target) if target in messages else len(ids)
                taken_back += [messages.pop(each) for each in ids[place:]]
            elif "type" in line:
                messages[json_text(line.get("id")) or f"#{len(messages)}"] = line
            else:
                head |= line
    return head, list(messages.values()), taken_back


def _read_message(log: SessionLog, message: Mapping[str, Json], tally: ReadTally) -> None:
    at, content = optional_time(message.get("timestamp")), message.get("content")
    match message.get("type"):
        case "user":
            log.add_prompt(part_texts(content), json_text(message.get("id")), at=at)
        case "gemini":
            log.add_reply(part_texts(content), at=at, model=json_text(message.get("model")) or None)
            for call in map(json_object, json_list(message.get("toolCalls"))):
                name, call_id = json_text(call.get("name")), json_text(call.get("id"))
                log.add_call(ToolCall(call_id, name, arguments_of(call.get("args"))))
                if "status" in call:
                    log.add_result(call_id, output=_result_text(call), is_error=json_text(call["status"]) in _FAILED)
        case kind:
            tally.note_unknown(_HOST, kind, silent=_NOTICES)


def _result_text(call: Mapping[str, Json]) -> str:
    """Return what a tool returned, in which its exit code stands."""
    texts: list[str] = []
    for part in map(json_object, json_list(call.get("result"))):
        response = json_object(json_object(part.get("functionResponse")).get("response"))
        texts.append(json_text(response.get("output")) or json_text(response.get("error")))
    return "\n".join(texts)
