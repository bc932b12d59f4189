"""The events each assistant sends to a hook and the answers it expects: one row per host, one reader, one writer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from elytron.importers.message_shape import optional_title
from elytron_assistants.foreign_json import parse_object
from elytron_assistants.hooks.activity import digest_of
from elytron_assistants.hosts import HostName
from elytron_assistants.project_identity import session_folder
from elytron_assistants.sessions.session_log import AssistantHost
from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.text.program_parts import typed_text


class HookKind(StrEnum):
    """Session events: start, prompt (`recall`), compaction, end of a reply (`keep`), and session end."""

    START = "start"
    RECALL = "recall"
    COMPACT = "compact"
    KEEP = "keep"
    END = "end"


class AnswerShape(StrEnum):
    """Where an answer holds the context for the model."""

    NESTED = "nested"
    """`hookSpecificOutput.additionalContext`, with the event's name."""
    SNAKE = "snake"
    """`additional_context`, plus `continue` at a prompt."""
    CAMEL = "camel"
    """`additionalContext`, or the whole prompt if the event contained it in the form sent to the model."""


class EventFields(NamedTuple):
    """Field names of an event. Where several are given, the first with a non-empty string counts."""

    session: tuple[str, ...] = ("session_id",)
    cwd: tuple[str, ...] = ("cwd",)
    roots: str = "workspace_roots"
    prompt: tuple[str, ...] = ("prompt",)
    transcript: tuple[str, ...] = ("transcript_path",)
    reply: tuple[str, ...] = ("last_assistant_message",)
    source: tuple[str, ...] = ("source", "trigger", "reason")
    parent: tuple[str, ...] = ("agent_id",)
    """Set in a subagent's events."""


_USUAL_FIELDS: Final = EventFields()


@dataclass(frozen=True, slots=True)
class HostContract:
    """A host's events and answers. `names` maps supported events to the host's names for them."""

    sessions: AssistantHost
    """The assistant whose session reader understands the transcripts."""
    names: Mapping[HookKind, str]
    max_chars: int
    """Maximum number of characters that reach the model unchanged."""
    shape: AnswerShape = AnswerShape.NESTED
    has_messages: bool = True
    """True if the host shows an answer's `systemMessage` to the person."""
    fields: EventFields = _USUAL_FIELDS


_CLAUDE_NAMES: Final = {
    HookKind.START: "SessionStart",
    HookKind.RECALL: "UserPromptSubmit",
    HookKind.COMPACT: "PreCompact",
    HookKind.KEEP: "Stop",
}
_CAMEL_FIELDS: Final = EventFields(
    session=("sessionId", "session_id"),
    transcript=("transcript_path", "transcriptPath"),
    reply=("last_assistant_message", "finalMessage"),
    parent=("agent_id", "agentId"),
)
HOSTS: Final[Mapping[HostName, HostContract]] = {
    HostName.CLAUDE_CODE: HostContract(
        AssistantHost.CLAUDE_CODE, {**_CLAUDE_NAMES, HookKind.END: "SessionEnd"}, max_chars=9_500
    ),
    HostName.CODEX: HostContract(AssistantHost.CODEX, _CLAUDE_NAMES, max_chars=9_500),
    HostName.CURSOR: HostContract(
        AssistantHost.CURSOR,
        {
            HookKind.START: "sessionStart",
            HookKind.RECALL: "beforeSubmitPrompt",
            HookKind.COMPACT: "preCompact",
            HookKind.KEEP: "stop",
            HookKind.END: "sessionEnd",
        },
        max_chars=4_000,
        shape=AnswerShape.SNAKE,
        has_messages=False,
        fields=EventFields(session=("conversation_id", "session_id")),
    ),
    HostName.GEMINI: HostContract(
        AssistantHost.GEMINI,
        {
            HookKind.START: "SessionStart",
            HookKind.RECALL: "BeforeAgent",
            HookKind.COMPACT: "PreCompress",
            HookKind.KEEP: "AfterAgent",
            HookKind.END: "SessionEnd",
        },
        max_chars=4_000,
        fields=EventFields(reply=("prompt_response",)),
    ),
    HostName.OPENCODE: HostContract(
        AssistantHost.OPENCODE,
        {
            HookKind.START: "experimental.chat.system.transform",
            HookKind.RECALL: "experimental.chat.messages.transform",
            HookKind.COMPACT: "experimental.session.compacting",
            HookKind.KEEP: "session.idle",
            HookKind.END: "session.deleted",
        },
        max_chars=4_000,
        shape=AnswerShape.CAMEL,
        has_messages=False,
        fields=EventFields(
            session=("session_id", "sessionID"),
            cwd=("cwd", "worktree", "directory"),
            parent=("parent_id", "parentID"),
        ),
    ),
    HostName.COPILOT: HostContract(
        AssistantHost.COPILOT,
        {
            HookKind.START: "sessionStart",
            HookKind.RECALL: "userPromptTransformed",
            HookKind.KEEP: "agentStop",
            HookKind.END: "sessionEnd",
        },
        max_chars=4_000,
        shape=AnswerShape.CAMEL,
        has_messages=False,
        fields=_CAMEL_FIELDS,
    ),
    HostName.VSCODE: HostContract(AssistantHost.COPILOT, _CLAUDE_NAMES, max_chars=4_000, fields=_CAMEL_FIELDS),
}
"""Contract by host, as of Claude Code 2.1, Codex 0.163, Cursor 2026.07, Gemini CLI 0.x, OpenCode 1.18, Copilot CLI 1.0
and VS Code 1.110."""
_PROGRAM_SOURCES: Final = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
"""Prompt sources that are programs, not people."""
_NEW_CONTEXTS: Final = frozenset({"clear", "compact"})


@dataclass(frozen=True, slots=True)
class HookEvent:
    """A session event, independent of its host."""

    host: HostName
    session: str
    cwd: str = ""
    roots: tuple[str, ...] = ()
    transcript: Path | None = None
    prompt: str | None = None
    sent_prompt: str = ""
    """The prompt in the form sent to the model, if the host provides it."""
    reply: str = ""
    source: str = ""
    is_subagent: bool = False

    @property
    def contract(self) -> HostContract:
        """Return the host's contract."""
        return HOSTS[self.host]

    @property
    def query(self) -> str:
        """Return what the person typed, or an empty string if a program wrote the whole prompt."""
        return typed_text(self.prompt or "") if self.source not in _PROGRAM_SOURCES else ""

    @property
    def begins_context(self) -> bool:
        """Return whether the model no longer has anything it was shown before."""
        return self.source in _NEW_CONTEXTS

    def folder(self, environment: Mapping[str, str], /) -> Path | None:
        """Return the session's start folder."""
        return session_folder(self.cwd or next(iter(self.roots), ""), roots=self.roots, environment=environment)


def hook_host(word: str, /) -> HostName:
    """Return the assistant with this name. Raises ValueError if none of that name calls hooks."""
    host = HostName(word)
    if host not in HOSTS:
        raise ValueError(f"{word!r} calls no hooks")
    return host


def read_event(host: HostName, kind: HookKind, data: bytes, /) -> HookEvent:
    """Parse a host's event. Unknown fields are ignored. Raises InvalidInput if a required field is missing."""
    if len(data) > limits.JSON_BYTES:
        raise InvalidInput(field="standard input", problem=f"is larger than {limits.JSON_BYTES:,} bytes")
    value = parse_object(data)
    if value is None:
        raise InvalidInput(field="standard input", problem="is not a JSON object")
    if value.text("cursor_version"):
        host = HostName.CURSOR  # Cursor also runs Claude Code's hooks
    fields = HOSTS[host].fields
    session = value.text(*fields.session)
    if not session:
        raise InvalidInput(field=fields.session[0], problem="is missing")
    if kind is HookKind.RECALL and not any(isinstance(value.get(name), str) for name in fields.prompt):
        raise InvalidInput(field=fields.prompt[0], problem="is missing")
    return HookEvent(
        host=host,
        session=session if optional_title(session) == session else digest_of(session),
        cwd=value.text(*fields.cwd),
        roots=tuple(value.texts(fields.roots)),
        transcript=_path_of(value.text(*fields.transcript)),
        prompt=value.text(*fields.prompt),
        sent_prompt=value.text("transformedPrompt"),
        reply=value.text(*fields.reply),
        source=value.text(*fields.source),
        is_subagent=bool(value.text(*fields.parent)),
    )


def event_answer(event: HookEvent, kind: HookKind, text: str | None, /, *, message: str = "") -> str:
    """Return a hook's output: `text` for the model, and `message` for the person if the host can show it.

    The output is empty if there is nothing to report.
    """
    contract = event.contract
    answer_fields: dict[str, object] = {"continue": True} if _needs_continue(contract, kind) else {}
    if text:
        match contract.shape:
            case AnswerShape.NESTED:
                answer_fields["hookSpecificOutput"] = {"hookEventName": contract.names[kind], "additionalContext": text}
            case AnswerShape.SNAKE:
                answer_fields["additional_context"] = text
            case AnswerShape.CAMEL if event.sent_prompt:
                answer_fields["modifiedTransformedPrompt"] = f"{event.sent_prompt}\n\n{text}"
            case AnswerShape.CAMEL:
                answer_fields["additionalContext"] = text
    if message and contract.has_messages:
        answer_fields["systemMessage"] = message
    return json.dumps(answer_fields, ensure_ascii=False) if answer_fields else ""


def _needs_continue(contract: HostContract, kind: HookKind) -> bool:
    return contract.shape is AnswerShape.SNAKE and kind is HookKind.RECALL


def _path_of(text: str) -> Path | None:
    return Path(text) if text and "\0" not in text else None
