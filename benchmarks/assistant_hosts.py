"""Hosts as their hooks see them: the transcript that each one writes, and the events that it sends.

The formats are those of Claude Code 2.1.332, Codex 0.163, Cursor 2026.07, Gemini CLI, OpenCode 1.18, Copilot CLI 1.0
and VS Code 1.110. In addition to the conversation, transcripts contain text that programs write in the user's role:
reminders, environment, summaries. Each of these contains `PROGRAM_WORD`, which no memory may show.
"""

import json
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, cast
from uuid import UUID, uuid5

from benchmarks.assistant_sessions import ScriptedTurn

PROGRAM_WORD: Final = "quoinwright"
EVENTS: Final = ("start", "recall", "keep", "end")
"""The events of a session, named like the commands that handle them."""
_NAMES: Final = UUID("6f1c2a52-6d0e-4f1e-9a35-0d6f6a0c9d11")
_REMINDER: Final = f"<system-reminder>The {PROGRAM_WORD} list is empty.</system-reminder>"

Json = dict[str, Any]


class HostSession(ABC):
    """A session of one host: the transcript that grows with each turn, and the events around the turns."""

    event_names: ClassVar[Mapping[str, str]]
    """The host's name for each event. Events that the host does not have are missing."""

    def __init__(self, home: Path, folder: Path, name: str, at: datetime, /) -> None:
        self.folder = folder
        self.id = str(uuid5(_NAMES, name))
        self.at = at
        self.path = self.transcript_path(home)
        self._count = 0
        self._last: str | None = None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._write(self.head_lines())

    @abstractmethod
    def transcript_path(self, home: Path, /) -> Path:
        """Return where the host stores the session."""

    def head_lines(self) -> Iterator[Json]:
        """Yield the first lines of the file."""
        yield from ()

    @abstractmethod
    def turn_lines(self, turn: ScriptedTurn, /) -> Iterator[Json]:
        """Yield the lines that a turn adds to the file."""

    def event(self, event: str, turn: ScriptedTurn | None = None, /) -> Json:
        """Return what the host writes to a hook's standard input. `turn` is the one of a prompt or an answer."""
        base = {
            "session_id": self.id,
            "transcript_path": str(self.path),
            "cwd": str(self.folder),
            "hook_event_name": self.event_names[event],
        }
        return base | self.event_fields(event, turn)

    def event_fields(self, event: str, turn: ScriptedTurn | None, /) -> Json:
        """Return the fields of an event in the form of Claude Code."""
        match event:
            case "start":
                return {"source": "startup"}
            case "end":
                return {"reason": "other"}
            case "recall":
                return {"prompt": turn.prompt if turn else ""}
            case _:
                return {"stop_hook_active": False, "last_assistant_message": turn.reply if turn else ""}

    def add_turn(self, turn: ScriptedTurn, /) -> None:
        """Append a turn to the transcript."""
        self._write(self.turn_lines(turn))

    def next_id(self) -> str:
        """Return an id for the next entry."""
        self._count += 1
        return str(uuid5(_NAMES, f"{self.id}/{self._count}"))

    def next_time(self) -> str:
        """Return a time for the next entry."""
        self.at += timedelta(seconds=7)
        return self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _write(self, lines: Iterator[Json]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


class ClaudeCodeSession(HostSession):
    """A tree of entries. Every second session is compacted after its second turn."""

    event_names = {"start": "SessionStart", "recall": "UserPromptSubmit", "keep": "Stop", "end": "SessionEnd"}

    def transcript_path(self, home: Path, /) -> Path:
        folder = re.sub(r"[^A-Za-z0-9]", "-", str(self.folder))
        return home / ".claude" / "projects" / folder / f"{self.id}.jsonl"

    def head_lines(self) -> Iterator[Json]:
        self._turns = 0
        yield self._entry("user", isMeta=True, message={"role": "user", "content": _REMINDER})

    def turn_lines(self, turn: ScriptedTurn, /) -> Iterator[Json]:
        yield self._entry("user", message={"role": "user", "content": turn.prompt})
        for command in turn.commands:
            call = self.next_id()
            use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command.line}}
            yield self._entry("assistant", message=self._answer(use))
            failed = command.exit_code != 0
            output = f"Exit code {command.exit_code}\n{command.output}" if failed else command.output
            result = {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": failed}
            yield self._entry("user", message={"role": "user", "content": [result]})
        yield self._entry("assistant", message=self._answer({"type": "text", "text": turn.reply}))
        self._turns += 1
        if self._turns == 2 and int(self.id[0], 16) % 2:
            boundary = self._entry("system", subtype="compact_boundary", logicalParentUuid=self._last)
            yield boundary | {"parentUuid": None}
            summary = f"This session is being continued. I prefer the {PROGRAM_WORD} style."
            yield self._entry("user", isCompactSummary=True, message={"role": "user", "content": summary})

    def _answer(self, block: Json) -> Json:
        return {"id": f"msg_{self._count}", "role": "assistant", "model": "m", "content": [block]}

    def _entry(self, kind: str, **fields: Any) -> Json:
        base = {"type": kind, "uuid": self.next_id(), "parentUuid": self._last, "sessionId": self.id}
        place = {"cwd": str(self.folder), "gitBranch": "main", "version": "2.1.332", "isSidechain": False}
        self._last = base["uuid"]
        return base | {"timestamp": self.next_time()} | place | fields


class CodexSession(HostSession):
    """Response items in the form of `rollout-*.jsonl`. There is no end event."""

    event_names = {"start": "SessionStart", "recall": "UserPromptSubmit", "keep": "Stop"}

    def transcript_path(self, home: Path, /) -> Path:
        day, time = self.at.strftime("%Y/%m/%d"), self.at.strftime("%Y-%m-%dT%H-%M-%S")
        return home / ".codex" / "sessions" / day / f"rollout-{time}-{self.id}.jsonl"

    def head_lines(self) -> Iterator[Json]:
        meta = {"id": self.id, "cwd": str(self.folder), "originator": "codex_cli_rs", "cli_version": "0.163.0"}
        yield self._line("session_meta", meta | {"timestamp": self.next_time(), "git": {"branch": "main"}})
        yield self._message("developer", f"Use the {PROGRAM_WORD} sandbox.")
        environment = f"<environment_context>\n<shell>{PROGRAM_WORD}</shell>\n</environment_context>"
        yield self._message("user", environment)

    def turn_lines(self, turn: ScriptedTurn, /) -> Iterator[Json]:
        yield self._message("user", turn.prompt)
        for command in turn.commands:
            call = {"call_id": self.next_id()}
            arguments = json.dumps({"cmd": command.line})
            call_fields = {"type": "function_call", "name": "exec_command", "arguments": arguments}
            yield self._line("response_item", call | call_fields)
            output = f"Process exited with code {command.exit_code}\nOutput:\n{command.output}"
            yield self._line("response_item", call | {"type": "function_call_output", "output": output})
        yield self._message("assistant", turn.reply)

    def event_fields(self, event: str, turn: ScriptedTurn | None, /) -> Json:
        turn_id = {} if event == "start" else {"turn_id": self.next_id()}
        return {"model": "m", "permission_mode": "default"} | turn_id | super().event_fields(event, turn)

    def _message(self, role: str, text: str) -> Json:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text}]
        return self._line("response_item", {"type": "message", "role": role, "content": content})

    def _line(self, kind: str, payload: Json) -> Json:
        return {"timestamp": self.next_time(), "type": kind, "payload": payload}


class CursorSession(HostSession):
    """Messages without times and ids."""

    event_names = {"start": "sessionStart", "recall": "beforeSubmitPrompt", "keep": "stop", "end": "sessionEnd"}

    def transcript_path(self, home: Path, /) -> Path:
        folder = re.sub(r"[^A-Za-z0-9]", "-", str(self.folder).lstrip("/"))
        return home / ".cursor" / "projects" / folder / "agent-transcripts" / self.id / f"{self.id}.jsonl"

    def turn_lines(self, turn: ScriptedTurn, /) -> Iterator[Json]:
        query = f"{_REMINDER}\n<user_query>\n{turn.prompt}\n</user_query>"
        yield self._message("user", {"type": "text", "text": query})
        for command in turn.commands:
            yield self._message("assistant", {"type": "tool_use", "name": "Shell", "input": {"command": command.line}})
        yield self._message("assistant", {"type": "text", "text": turn.reply})

    def event(self, event: str, turn: ScriptedTurn | None = None, /) -> Json:
        base = {
            "conversation_id": self.id,
            "generation_id": self.next_id(),
            "model": "m",
            "hook_event_name": self.event_names[event],
            "cursor_version": "2026.07.17",
            "workspace_roots": [str(self.folder)],
            "user_email": "mara@example.com",
            "transcript_path": str(self.path),
        }
        match event:
            case "start":
                return base | {"session_id": self.id, "is_background_agent": False}
            case "recall":
                return base | {"prompt": turn.prompt if turn else "", "attachments": []}
            case "keep":
                return base | {"status": "completed", "loop_count": 0}
            case _:
                return base | {"session_id": self.id, "reason": "completed", "duration_ms": 1, "final_status": "ok"}

    def _message(self, role: str, block: Json) -> Json:
        return {"role": role, "message": {"content": [block]}}


class GeminiSession(HostSession):
    """A log of states, in which the prompt contains what hooks added around it."""

    event_names = {"start": "SessionStart", "recall": "BeforeAgent", "keep": "AfterAgent", "end": "SessionEnd"}

    def transcript_path(self, home: Path, /) -> Path:
        project, time = self.folder.name, self.at.strftime("%Y-%m-%dT%H-%M")
        return home / ".gemini" / "tmp" / project / "chats" / f"session-{time}-{self.id[:8]}.jsonl"

    def head_lines(self) -> Iterator[Json]:
        projects = self.path.parents[3] / "projects.json"
        known: Json = json.loads(projects.read_text("utf-8")) if projects.exists() else {"projects": {}}
        known["projects"][str(self.folder)] = self.folder.name
        projects.write_text(json.dumps(known), "utf-8")
        times = {"startTime": self.next_time(), "lastUpdated": self.next_time()}
        yield {"sessionId": self.id, "projectHash": self.folder.name, **times, "kind": "main"}

    def turn_lines(self, turn: ScriptedTurn, /) -> Iterator[Json]:
        context = f"<hook_context>The {PROGRAM_WORD} hook has run.</hook_context>"
        yield self._message("user", f"{turn.prompt}\n\n{context}", displayContent=turn.prompt)
        calls = [
            {
                "id": self.next_id(),
                "name": "run_shell_command",
                "args": {"command": command.line},
                "result": [{"functionResponse": {"response": {"output": command.output}}}],
                "status": "error" if command.exit_code else "success",
                "timestamp": self.next_time(),
            }
            for command in turn.commands
        ]
        yield self._message("gemini", turn.reply, toolCalls=calls, model="m")

    def event_fields(self, event: str, turn: ScriptedTurn | None, /) -> Json:
        time = {"timestamp": self.next_time()}
        if event == "keep" and turn is not None:
            return time | {"prompt": turn.prompt, "prompt_response": turn.reply, "stop_hook_active": False}
        return time | super().event_fields(event, turn)

    def _message(self, kind: str, text: str, **fields: Any) -> Json:
        return {"id": self.next_id(), "timestamp": self.next_time(), "type": kind, "content": text, **fields}


class CopilotSession(HostSession):
    """Events of the session. Hooks receive camel case, and the prompt as it is sent to the model."""

    event_names = {"start": "sessionStart", "recall": "userPromptTransformed", "keep": "agentStop", "end": "sessionEnd"}

    def transcript_path(self, home: Path, /) -> Path:
        return home / ".copilot" / "session-state" / self.id / "events.jsonl"

    def head_lines(self) -> Iterator[Json]:
        context = {"cwd": str(self.folder), "gitRoot": str(self.folder), "branch": "main"}
        start = {"sessionId": self.id, "version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.14"}
        yield self._line("session.start", start | {"startTime": self.next_time(), "context": context})

    def turn_lines(self, turn: ScriptedTurn, /) -> Iterator[Json]:
        message = {"content": turn.prompt, "transformedContent": _transformed(turn)}
        yield self._line("user.message", message)
        for command in turn.commands:
            call = {"toolCallId": self.next_id()}
            arguments = {"command": command.line}
            yield self._line("tool.execution_start", call | {"toolName": "bash", "arguments": arguments})
            ending = {"success": not command.exit_code, "result": {"content": command.output}}
            yield self._line("tool.execution_complete", call | ending)
        yield self._line("assistant.message", {"messageId": self.next_id(), "content": turn.reply})

    def event(self, event: str, turn: ScriptedTurn | None = None, /) -> Json:
        self.next_time()
        base = {"sessionId": self.id, "timestamp": int(self.at.timestamp() * 1000), "cwd": str(self.folder)}
        match event:
            case "start":
                return base | {"source": "new"}
            case "recall" if turn is not None:
                return base | {"prompt": turn.prompt, "transformedPrompt": _transformed(turn)}
            case "keep":
                stop = {"stopReason": "end_turn", "stopHookActive": False}
                return base | stop | {"transcriptPath": str(self.path)}
            case _:
                return base | {"reason": "complete", "finalMessage": ""}

    def _line(self, kind: str, data: Json) -> Json:
        parent, self._last = self._last, self.next_id()
        return {"id": self._last, "parentId": parent, "timestamp": self.next_time(), "type": kind, "data": data}


class VsCodeSession(CopilotSession):
    """A transcript in the form of Copilot CLI. Hooks receive Claude Code's events with camel case fields."""

    event_names = {"start": "SessionStart", "recall": "UserPromptSubmit", "keep": "Stop"}

    def transcript_path(self, home: Path, /) -> Path:
        storage = home / ".config" / "Code" / "User" / "workspaceStorage" / self.folder.name
        return storage / "GitHub.copilot-chat" / "transcripts" / f"{self.id}.jsonl"

    def event(self, event: str, turn: ScriptedTurn | None = None, /) -> Json:
        base = {
            "timestamp": self.next_time(),
            "cwd": str(self.folder),
            "sessionId": self.id,
            "hookEventName": self.event_names[event],
            "transcript_path": str(self.path),
        }
        return base | self.event_fields(event, turn)


class OpenCodeSession(HostSession):
    """Rows of one database for all sessions. The plugin sends what the commands read."""

    event_names = {
        "start": "experimental.chat.system.transform",
        "recall": "experimental.chat.messages.transform",
        "keep": "session.idle",
    }

    def transcript_path(self, home: Path, /) -> Path:
        return home / ".local" / "share" / "opencode" / "opencode.db"

    def head_lines(self) -> Iterator[Json]:
        times = {"time_created": self._milliseconds(), "time_updated": self._milliseconds()}
        head = {"id": self.id, "project_id": self.folder.name, "parent_id": None, "directory": str(self.folder)}
        yield {"table": "session", **head, "title": "New session", "version": "1.18.33", **times}

    def turn_lines(self, turn: ScriptedTurn, /) -> Iterator[Json]:
        reminder = {"type": "text", "text": _REMINDER, "synthetic": True}
        yield from self._message("user", reminder, {"type": "text", "text": turn.prompt})
        calls = [
            {
                "type": "tool",
                "tool": "bash",
                "callID": self.next_id(),
                "state": {
                    "status": "completed",
                    "input": {"command": command.line},
                    "output": command.output,
                    "metadata": {"exit": command.exit_code},
                },
            }
            for command in turn.commands
        ]
        yield from self._message("assistant", *calls, {"type": "text", "text": turn.reply})

    def event(self, event: str, turn: ScriptedTurn | None = None, /) -> Json:
        base = {"session_id": self.id, "cwd": str(self.folder), "hook_event_name": self.event_names[event]}
        return base | {"prompt": turn.prompt} if event == "recall" and turn is not None else base

    def _message(self, role: str, *parts: Json) -> Iterator[Json]:
        message = {"id": self.next_id(), "session_id": self.id}
        yield {"table": "message", **message, "time_created": self._milliseconds(), "data": {"role": role}}
        for part in parts:
            place = {"id": self.next_id(), "message_id": message["id"], "session_id": self.id}
            yield {"table": "part", **place, "time_created": self._milliseconds(), "data": part}

    def _milliseconds(self) -> int:
        self.next_time()
        return int(self.at.timestamp() * 1000)

    def _write(self, lines: Iterator[Json]) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute("PRAGMA journal_mode = WAL")
            for table, columns in _OPENCODE_TABLES.items():
                database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
            for line in lines:
                row = {name: json.dumps(value) if name == "data" else value for name, value in line.items()}
                table = row.pop("table")
                marks = ", ".join("?" * len(row))
                database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", (*row.values(),))


_OPENCODE_TABLES: Final = {
    "session": "id, project_id, parent_id, directory, title, version, time_created, time_updated",
    "message": "id, session_id, time_created, data",
    "part": "id, message_id, session_id, time_created, data",
}
HOSTS: Final[Mapping[str, type[HostSession]]] = {
    "claude-code": ClaudeCodeSession,
    "codex": CodexSession,
    "cursor": CursorSession,
    "gemini": GeminiSession,
    "opencode": OpenCodeSession,
    "copilot": CopilotSession,
    "vscode": VsCodeSession,
}
"""The replayed hosts, by their names in the commands."""


def _transformed(turn: ScriptedTurn) -> str:
    return f"{turn.prompt}\n\n{_REMINDER}"


def context_of(output: str, event: Json, /) -> str:
    """Return what a hook's output adds to the model's input for an event, or "" if nothing."""
    if not output.strip():
        return ""
    try:
        answer: object = json.loads(output)
    except ValueError:
        return output
    sent = str(event.get("transformedPrompt", ""))
    return "\n".join(text.removeprefix(sent) for text in _context_texts(answer))


def _context_texts(answer: object) -> Iterator[str]:
    if isinstance(answer, dict):
        for name, value in cast("Json", answer).items():
            if isinstance(value, str) and name in _CONTEXT_FIELDS:
                yield value
            else:
                yield from _context_texts(value)


_CONTEXT_FIELDS: Final = frozenset({"additionalContext", "additional_context", "modifiedTransformedPrompt"})
