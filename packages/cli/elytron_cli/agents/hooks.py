"""Hooks of coding agents: Claude Code's events and their answers, its settings, and a resident process."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elytron_assistants.registry import project_memory
from elytron_assistants.repository import repository_of, session_folder
from elytron_assistants.sessions.claude_code import read_end
from elytron_assistants.sessions.session_files import open_regular
from elytron_assistants.sessions.session_log import AssistantHost, AssistantSession
from elytron_assistants.sessions.session_turns import session_drafts
from elytron_assistants.tiers import TieredMemory
from elytron_cli.agents.prompt_client import RESIDENT, WAIT_S, answer_bytes, resident_address
from elytron_cli.session import CommandSession
from elytron_cli.terminal.output import OperationRefused
from elytron_core import limits, strict_json
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import ElytronError, InvalidInput, InvalidJson
from elytron_core.model import Value
from elytron_core.scope import Scope
from elytron_core.text.program_parts import typed_text
from elytron_store import parse_url
from elytron_turn.memory import OperateCall, TurnBudget, TurnMemory, TurnMessages

CHANNEL = AssistantHost.CLAUDE_CODE.value
CONTEXT_CHARS = 4_000
"""Default size of the block at a prompt, in characters; Claude Code passes up to 10,000 to its model unchanged."""
_PROMPT, _STOP = "UserPromptSubmit", "Stop"
_OURS = re.compile(r'"command": ?"((?:[^"\\]|\\.)* hooks (?:recall|keep)\b(?:[^"\\]|\\.)*)"')
_PLACE = re.compile(r" --(?:space|per-repository)\b")
_WAITS_S = {_PROMPT: 15, _STOP: 60}

Json = dict[str, Any]


class HookEvent(BaseModel):
    """The fields used here of the event that Claude Code writes to a hook's standard input."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    session_id: str = Field(min_length=1, max_length=limits.NAME_CHARS)
    cwd: str = ""
    workspace_roots: tuple[str, ...] | None = None
    transcript_path: str = ""
    prompt: str = ""
    last_assistant_message: str | None = None

    @property
    def folder(self) -> Path | None:
        """Return the folder that the session started in."""
        return session_folder(self.cwd, roots=self.workspace_roots or (), environment=os.environ)


class HookInstallReport(Value):
    """The file that configures the hooks, and the commands that they run."""

    file: str
    recall: str
    keep: str
    space: str | None = None
    """The space of the memory; None if each repository has its own."""
    changed: bool
    was_shared: bool = False
    """True if hooks that are replaced here had one space for all repositories; what they stored stays there."""


def read_event(data: bytes, /) -> HookEvent:
    """Return the event in what a hook was given. Raises InvalidJson, InvalidInput."""
    try:
        return HookEvent.model_validate(strict_json.parse_json(data, limit=limits.JSON_BYTES))
    except ValidationError:
        raise InvalidInput(field="standard input", problem="is not an event of a Claude Code hook") from None


class HookPlace(NamedTuple):
    """Where a session's memory is: in `space`, or with `per_repository` in that of its repository and the person's."""

    space: str
    per_repository: bool = False

    def server_space(self, event: HookEvent) -> str:
        """Return the space on a server, which the registry of projects is not read from."""
        repository = repository_of(event.folder) if self.per_repository and event.folder is not None else None
        return repository.space if repository is not None else self.space

    async def operate_of(self, session: CommandSession, event: HookEvent) -> OperateCall:
        """Return what performs operations on the memory of an event's folder."""
        if not self.per_repository:
            return session.call
        cwd = Path(event.cwd) if event.cwd else None
        place = await project_memory(session.runtime, event.folder, person=self.space, cwd=cwd)
        return TieredMemory(session.runtime, session.call, place).operate


def scope_of(event: HookEvent, space: str, /) -> Scope:
    """Return where a session's turns are stored: its own conversation, in the project that it works on."""
    folder = event.folder
    project = folder.name[: limits.NAME_CHARS].strip() if folder is not None else None
    return Scope(space=space, channel=CHANNEL, conversation=event.session_id, project=project or None)


async def prompt_context(memory: TurnMemory, event: HookEvent, /, *, max_chars: int) -> str | None:
    """Return the JSON that gives the agent what may help with the prompt; None if nothing does.

    Raises ElytronError if the memory fails or is late.
    """
    messages = TurnMessages(current=typed_text(event.prompt))
    if not messages.current:
        return None
    context = await memory.before(messages, TurnBudget(max_chars, wait_s=WAIT_S))
    if context.failure is not None:
        raise context.failure
    output = {"hookEventName": _PROMPT, "additionalContext": context.block}
    return json.dumps({"hookSpecificOutput": output}, ensure_ascii=False) if context.block else None


def last_turns(event: HookEvent, /) -> tuple[TurnDraft, ...]:
    """Return the session's last prompt and reply at the transcript's own times; those without words are left out.

    They are those that an import of the session has. Raises InvalidInput if the transcript cannot be read and the event
    has no reply.
    """
    try:
        session = read_end(Path(event.transcript_path), event.session_id)
    except (OSError, ValueError):
        if not event.last_assistant_message:
            raise _transcript_error("names a file that cannot be read") from None
        session = AssistantSession(event.session_id, AssistantHost.CLAUDE_CODE, None, ())
    session = replace(session.with_reply(event.last_assistant_message or ""), folder=event.cwd or None)
    # A turn each: a prompt that is stored already stays when its reply comes.
    return tuple(session_drafts(session))


def require_transcript(event: HookEvent, /) -> None:
    """Raise InvalidInput if the event names a transcript that cannot be read, so that its prompt was not stored."""
    if event.transcript_path:
        try:
            with open_regular(Path(event.transcript_path)):
                pass
        except (OSError, ValueError):
            problem = "names a file that cannot be read; the reply was stored without its prompt"
            raise _transcript_error(problem) from None


def _transcript_error(problem: str) -> InvalidInput:
    return InvalidInput(field="transcript_path", problem=problem)


def configure_hooks(file: Path, /, *, recall: str, keep: str, space: str | None) -> HookInstallReport:
    """Set both commands in Claude Code's settings `file`; other hooks stay, and an equal file is not written.

    Raises InvalidInput if the file holds no settings.
    """
    before = _read_settings(file)
    hooks = before.get("hooks", {})
    if not isinstance(hooks, dict):
        raise InvalidInput(field=file.name, problem="has `hooks` that are not an object: fix the file first")
    hook_lists, was_shared = cast("Json", hooks), _is_shared(file)
    after = before | {
        "hooks": hook_lists
        | {_PROMPT: _with_command(hook_lists, _PROMPT, recall), _STOP: _with_command(hook_lists, _STOP, keep)}
    }
    if after != before:
        file.parent.mkdir(parents=True, exist_ok=True)
        # As a whole, for the program may read it at any time.
        fresh = file.with_name(f"{file.name}.new")
        fresh.write_text(json.dumps(after, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        fresh.replace(file)
    return HookInstallReport(
        file=str(file), recall=recall, keep=keep, space=space, changed=after != before, was_shared=was_shared
    )


def settings_file(folder: Path, /, *, is_project: bool) -> Path:
    """Return the file with the hooks of a project's folder, or of the user's."""
    return folder / ".claude" / ("settings.local.json" if is_project else "settings.json")


def shared_settings() -> tuple[str, ...]:
    """Return the settings files of the user and of this folder whose hooks use one space for all repositories."""
    files = (settings_file(Path.home(), is_project=False), settings_file(Path.cwd(), is_project=True))
    return tuple(os.fspath(file) for file in files if _is_shared(file))


def _is_shared(file: Path) -> bool:
    """Return whether a hook of ours names no space, as those that were installed earlier."""
    try:
        commands = _OURS.findall(file.read_text("utf-8", "replace"))
    except OSError:
        return False
    return any(_PLACE.search(command) is None for command in commands)


def _read_settings(file: Path) -> Json:
    if not file.exists():
        return {}
    try:
        settings = strict_json.parse_json(file.read_bytes(), limit=limits.JSON_BYTES)
    except InvalidJson:
        settings = None
    if not isinstance(settings, dict):
        raise InvalidInput(field=file.name, problem="is not a JSON object: fix the file first")
    return cast("Json", settings)


def _with_command(hooks: Json, event: str, command: str) -> list[Any]:
    """Return the hooks of `event` with `command` in the place of an earlier one of ours."""
    verb = {_PROMPT: " hooks recall", _STOP: " hooks keep"}[event]
    groups: list[Any] = hooks.get(event, [])
    # Ours by the verb, since path and options may have changed.
    others = [group for group in groups if verb not in json.dumps(group)]
    return [*others, {"hooks": [{"type": "command", "command": command, "timeout": _WAITS_S[event]}]}]


IDLE_S = 30 * 60
"""A resident process ends this long after the last prompt."""
_RUN = "from elytron_cli.main import run_command_line; run_command_line()"
CHECK_S = 1
"""Seconds between two looks whether it is still wanted, and whether the store is still the one that it opened."""


class PromptServer:
    """Answers prompts on one socket with one open session."""

    def __init__(
        self, session: CommandSession, space: str, store: str, /, *, max_chars: int, per_repository: bool = False
    ) -> None:
        self._session = session
        self._place = HookPlace(space, per_repository)
        self._store = store
        self._max_chars = max_chars
        self._opened = store_identity(store)
        self._asked_at = 0.0

    async def serve(self, address: Path, /, *, ready: Callable[[], None]) -> None:
        """Answer at `address` until no prompt comes for `IDLE_S`, or the store's file is another one.

        `ready` is called as soon as prompts are answered. Nothing is done if another process answers there.
        """
        if await _is_answered(address):
            return
        # Left over by a process that crashed, for none answers.
        _remove_socket(address, file_identity(address))
        self._asked_at = asyncio.get_running_loop().time()
        server = await asyncio.start_unix_server(self._answer, address)
        own = file_identity(address)
        ready()
        try:
            while self._is_wanted():
                await _next_check()
        finally:
            server.close()
            # Another process may have taken the address since.
            _remove_socket(address, own)

    def _is_wanted(self) -> bool:
        idle = asyncio.get_running_loop().time() - self._asked_at
        return idle < IDLE_S and store_identity(self._store) == self._opened

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send the answer; nothing if there is an error, so that the command meets it, and says so, by itself."""
        try:
            self._asked_at = asyncio.get_running_loop().time()
            event = await reader.read(-1)
            if event and store_identity(self._store) == self._opened:
                writer.write(answer_bytes(await self.answer(event)))
                await writer.drain()
        except (ElytronError, OperationRefused, OSError):
            pass
        finally:
            writer.close()

    async def answer(self, event: bytes, /) -> str | None:
        """Return what the hook prints for an event. Raises InvalidJson, InvalidInput, OperationRefused."""
        if len(event) > limits.JSON_BYTES:
            raise InvalidInput(field="standard input", problem="is too long")
        prompt = read_event(event)
        operate = await self._place.operate_of(self._session, prompt)
        memory = TurnMemory(operate, scope_of(prompt, self._place.space))
        return await prompt_context(memory, prompt, max_chars=self._max_chars)


async def _is_answered(address: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(address)
    except OSError:
        return False
    writer.close()
    return True


def store_identity(store: str, /) -> tuple[int, int] | None:
    """Return the identity of a store's file or folder, which another one there does not have; None without one."""
    path = parse_url(store).path
    return file_identity(path) if path is not None else None


def file_identity(path: Path, /) -> tuple[int, int] | None:
    """Return the identity of a file, which another one at its path does not have; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _remove_socket(address: Path, own: tuple[int, int] | None) -> None:
    """Remove the socket's file, if it is still the one that is meant."""
    if own is not None and file_identity(address) == own:
        address.unlink(missing_ok=True)


async def _next_check() -> None:
    await asyncio.sleep(CHECK_S)


def start_resident(arguments: Sequence[str], /) -> None:
    """Start a process that answers the next prompts of a command with these arguments, if none is there.

    It outlives this one, says nothing, and ends by itself.
    """
    address = resident_address(arguments)
    if address is None or _is_held(address):
        return
    verbs = ["resident" if item == "recall" else item for item in arguments if item != RESIDENT]
    subprocess.Popen(  # noqa: S603 - this very command, with its own arguments
        [sys.executable, "-c", _RUN, *verbs],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=dict(os.environ),
    )


def _is_held(address: Path) -> bool:
    """Return whether a process answers at `address`; the file that a killed one left behind is no process."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(str(address))
        except OSError:
            return False
    return True
