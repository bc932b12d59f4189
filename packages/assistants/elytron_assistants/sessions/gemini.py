"""Gemini CLI sessions: a log of messages and edits to them, or a single JSON document in old versions."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

from elytron_assistants.foreign_json import ForeignObject
from elytron_assistants.sessions import session_files
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession, ReadTally, SessionLog, SkipCause
from elytron_assistants.tool_marks import read_call, read_result, shortened_output
from elytron_core.strict_json import Json

_HOST: Final = AssistantHost.GEMINI
_CHATS: Final = "chats"
_SILENT: Final = frozenset({"info", "error", "warning"})

Messages = list[ForeignObject]


def find_sessions(place: Path, tally: ReadTally, stack: ExitStack, /) -> Iterator[session_files.SessionSource]:  # noqa: ARG001 - needed for databases
    """Yield the chat files below the projects folder. If a chat exists in both formats, only the newer one is yielded.

    A subagent's chat is in a folder named after its parent session.
    """
    folders = _project_folders(place.parent / "projects.json")
    read_whole = partial(_read_as_whole, folders)
    folder_of = partial(_chat_folder, folders)
    sources = list(session_files.file_sources(_HOST, place, tally, read_whole, folder_of, suffixes=(".jsonl", ".json")))
    rewritten_paths = {source.path.with_suffix(".json") for source in sources if source.path.suffix == ".jsonl"}
    for source in sources:
        if source.path in rewritten_paths:
            tally.skipped[SkipCause.REPLACED] += 1
        elif _CHATS in source.path.parts:
            yield source


def read_session(path: Path, folder: str | None, tally: ReadTally, /) -> AssistantSession | None:
    """Read a whole chat, because a later line may change any earlier message."""
    chat_fields, messages, taken_back = _read_state(path, tally)
    log, dead_log = SessionLog(tally), SessionLog(tally)
    for target, items in ((log, messages), (dead_log, taken_back)):
        for message in items:
            _read_message(target, message, tally)
    log.taken_back += dead_log.turns
    is_subagent = chat_fields.text("kind") == "subagent" or path.parent.name != _CHATS
    session = log.session(
        chat_fields.text("sessionId") or path.stem, _HOST, folder, title=chat_fields.text("summary") or None
    )
    return replace(session, parent=path.parent.name) if is_subagent else session


def read_transcript(
    path: Path, _: session_files.SessionPosition | None, tally: ReadTally, /
) -> AssistantSession | None:
    """Read the chat file that a hook names. The hook also names the folder."""
    return read_session(path, None, tally)


def _read_as_whole(
    folders: Mapping[str, str], path: Path, _: session_files.SessionPosition | None, tally: ReadTally
) -> AssistantSession | None:
    return read_session(path, _chat_folder(folders, path), tally)


def _chat_folder(folders: Mapping[str, str], path: Path) -> str | None:
    return folders.get(path.parts[path.parts.index(_CHATS) - 1])


def _project_folders(file: Path) -> Mapping[str, str]:
    """Return folders by project id. Old project ids are digests of the folder."""
    document = (session_files.read_document(file, ReadTally()) if file.is_file() else None) or ForeignObject({})
    projects = document.part("projects").fields or document.fields
    folders = {project: folder for folder, project in projects.items() if isinstance(project, str)}
    return folders | {sha256(folder.encode("utf-8", "replace")).hexdigest(): folder for folder in projects}


def _read_state(path: Path, tally: ReadTally) -> tuple[ForeignObject, Messages, Messages]:
    """Return a chat's metadata, its messages in their final state, and the messages that were taken back."""
    if path.suffix == ".json":
        document = session_files.read_document(path, tally) or ForeignObject({})
        return document, [_slim_message(item) for item in document.parts("messages")], []
    chat_fields: dict[str, Json] = {}
    messages: dict[str, ForeignObject] = {}
    taken_back: Messages = []
    with session_files.open_regular(path) as file:
        for _, line in session_files.read_objects(file, tally):
            if "$set" in line.fields:
                changes = line.part("$set")
                if "messages" in changes.fields:
                    items = enumerate(changes.parts("messages"))
                    messages = {item.text("id") or f"#{item_index}": _slim_message(item) for item_index, item in items}
                chat_fields |= changes.fields
            elif "$rewindTo" in line.fields:
                ids, target = list(messages), line.text("$rewindTo")
                item_index = ids.index(target) if target in messages else len(ids)
                taken_back += [messages.pop(each) for each in ids[item_index:]]
            elif "type" in line.fields:
                messages[line.text("id") or f"#{len(messages)}"] = _slim_message(line)
            else:
                chat_fields |= line.fields
    return ForeignObject(chat_fields), list(messages.values()), taken_back


def _slim_message(message: ForeignObject) -> ForeignObject:
    """Reduce a message to what is read. Of tool output, only the parts that can contain the exit code remain."""
    calls: list[Json] = []
    for call in message.parts("toolCalls"):
        responses = (part.part("functionResponse").part("response") for part in call.parts("result"))
        output = "\n".join(response.text("output", "error") for response in responses)
        calls.append({**call.only("id", "name", "args", "status").fields, "output": shortened_output(output)})
    fields = message.only("id", "type", "timestamp", "content", "model").fields
    return ForeignObject({**fields, "toolCalls": calls})


def _read_message(log: SessionLog, message: ForeignObject, tally: ReadTally) -> None:
    message_time = message.time("timestamp")
    match message.text("type"):
        case "user":
            log.add_prompt(message.words("content"), message.text("id"), at=message_time)
        case "gemini":
            log.add_reply(message.words("content"), at=message_time, model=message.text("model"))
            for call in message.parts("toolCalls"):
                log.add_call(read_call(call.text("id"), call.text("name"), call.arguments("args")))
                if status := call.text("status"):
                    result = read_result(call.text("output"), is_error=status in {"error", "cancelled"})
                    log.add_result(call.text("id"), result)
        case kind:
            tally.note_unknown(_HOST, kind, silent=_SILENT)
