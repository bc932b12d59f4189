"""Check what `elytron install` wrote: files, hooks, MCP servers and addresses. Nothing is stored."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal
from urllib.parse import urlsplit

from elytron_assistants.hooks.events import HookKind
from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import SERVER_NAME
from elytron_assistants.wiring.jsonc_text import read_text
from elytron_assistants.wiring.settings_text import own_commands, own_words, read_table
from elytron_assistants.wiring.wiring_files import FileRecord, WiringRecord, is_unchanged, read_settings
from elytron_core.errors import ElytronError
from elytron_core.model import Value
from elytron_core.strict_json import Json

_WAIT_S: Final = 90
_CONNECT_S: Final = 5
_COMMANDS: Final = "const COMMANDS = "
_PROMPT: Final = {"session_id": "elytron-doctor", "prompt": "Does the memory answer?"}
"""A prompt event without a folder."""
_FAILURE: Final = "elytron: "
"""Prefix of a hook's failure message. A failing exit code would stop the session in some hosts."""
_INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "elytron-doctor", "version": "1"},
    },
}

_OTHER_PROGRAM: Final = "is not this installation's program and was not run: run `elytron install` again"


class WiringCheck(Value):
    """One part of a host's wiring and its problem, or an empty string if there is none."""

    host: HostName
    file: str
    part: Literal["file", "hook", "tools"]
    problem: str = ""


def check_wiring(record: WiringRecord, environment: Mapping[str, str], /, *, program: str) -> Iterator[WiringCheck]:
    """Yield the state of every recorded file and of the commands in it. Each distinct command runs once.

    Only `program` is ever run, because somebody may have changed a repository's file in the meantime.
    """
    problems: dict[tuple[str, ...], str] = {}

    def problem_of(words: tuple[str, ...], check: Callable[[tuple[str, ...]], str]) -> str:
        if words not in problems:
            is_own_program = len(words) == 1 or Path(words[0]).resolve() == Path(program).resolve()
            problems[words] = check(words) if is_own_program else f"{words[0]} {_OTHER_PROGRAM}"
        return problems[words]

    for path, entry in record.files.items():
        try:
            text = read_settings(Path(path))
            settings = _settings_of(text, Path(path)) if text is not None else None
        except ElytronError as error:
            yield WiringCheck(host=entry.host, file=path, part="file", problem=error.message)
            continue
        yield WiringCheck(host=entry.host, file=path, part="file", problem=_file_problem(text, entry))
        if (words := _recall_words(settings)) is not None:
            problem = problem_of(words, partial(_hook_problem, environment))
            yield WiringCheck(host=entry.host, file=path, part="hook", problem=problem)
        if (words := _server_words(settings)) is not None:
            yield WiringCheck(host=entry.host, file=path, part="tools", problem=problem_of(words, _server_problem))


def _file_problem(text: str | None, entry: FileRecord) -> str:
    if text is None:
        return "no longer exists: run `elytron install` again"
    return "" if is_unchanged(text, entry) else "was changed since `elytron install`"


def _settings_of(text: str, path: Path) -> Json:
    """Return a file's settings: for a JavaScript module its commands, for a skill nothing."""
    match path.suffix:
        case ".toml":
            return read_table(text, path.name)
        case ".js":
            _, _, commands_text = text.partition(_COMMANDS)
            commands: Json = json.JSONDecoder().raw_decode(commands_text)[0] if commands_text else None
            return commands
        case ".md":
            return None
        case _:
            return read_text(text, path.name).value


def _recall_words(settings: Json) -> tuple[str, ...] | None:
    """Return the command that hooks run at a prompt."""
    words = settings.get(HookKind.RECALL) if isinstance(settings, dict) else None
    if isinstance(words, list):
        return tuple(map(str, words))
    lines = (own_words(line) for line in own_commands(settings))
    return next((tuple(words) for words in lines if words[2] == HookKind.RECALL), None)


def _server_words(settings: Json) -> tuple[str, ...] | None:
    """Return the command of our MCP server, or its address as the only word."""
    if not isinstance(settings, dict):
        return None
    entry = settings.get(SERVER_NAME)
    if isinstance(entry, dict):
        command, arguments = entry.get("command"), entry.get("args")
        if isinstance(command, list):
            return tuple(map(str, command))
        if isinstance(command, str):
            return (command, *map(str, arguments if isinstance(arguments, list) else ()))
        url = entry.get("url", entry.get("httpUrl"))
        return (url,) if isinstance(url, str) else None
    candidate_words = (_server_words(settings.get(name)) for name in ("mcpServers", "mcp_servers", "servers", "mcp"))
    return next((words for words in candidate_words if words is not None), None)


def _hook_problem(environment: Mapping[str, str], words: tuple[str, ...]) -> str:
    """Return what fails at a prompt. The check leaves no resident process and no session record behind."""
    with TemporaryDirectory() as folder:
        one_time_words = tuple(word for word in words if word != "--resident")
        return _run_problem(one_time_words, json.dumps(_PROMPT).encode(), {**environment, "ELYTRON_STATE_DIR": folder})[
            0
        ]


def _server_problem(words: tuple[str, ...]) -> str:
    if len(words) == 1:
        return _address_problem(words[0])
    # An in-memory store avoids creating a store on disk.
    problem, output = _run_problem((*words, "--store", "memory:"), json.dumps(_INITIALIZE).encode() + b"\n")
    has_server_info = any(b'"serverInfo"' in line for line in output.splitlines())
    return problem or ("" if has_server_info else "the server did not answer `initialize`")


def _run_problem(
    words: tuple[str, ...], data: bytes, environment: Mapping[str, str] | None = None
) -> tuple[str, bytes]:
    if not Path(words[0]).exists():
        return f"{words[0]} does not exist: run `elytron install` again", b""
    try:
        completed_process = subprocess.run(  # noqa: S603 - our own program
            words, input=data, capture_output=True, timeout=_WAIT_S, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the command did not finish: {type(error).__name__}", b""
    last_line = completed_process.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    if last_line.startswith(_FAILURE):
        return last_line.removeprefix(_FAILURE), completed_process.stdout
    return (
        f"the command exited with code {completed_process.returncode}: {last_line}"
        if completed_process.returncode
        else "",
        completed_process.stdout,
    )


def _address_problem(address: str) -> str:
    url_parts = urlsplit(address)
    host_and_port = (url_parts.hostname or "", url_parts.port or (443 if url_parts.scheme == "https" else 80))
    try:
        socket.create_connection(host_and_port, timeout=_CONNECT_S).close()
    except OSError as error:
        return f"the server at {url_parts.netloc} cannot be reached: {type(error).__name__}"
    return ""
