"""Ask the resident hook process for its answer. Prompts load this first, so it imports few modules."""

import hashlib
import io
import json
import os
import re
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

RESIDENT = "--resident"
EVENTS = ("start", "recall", "compact", "keep", "end")
WAIT_S = 2.0
"""A host is answered within this time, with nothing if there is no answer yet."""
READ_BYTES = 32 * 1024 * 1024
ADDRESS_BYTES = 103
"""Maximum path of a local socket on every system: 108 bytes on Linux, 104 on macOS, including the terminator."""
_AWAITED = ("start", "recall")
"""Events whose answer is for the model."""
_STARTUP_S, _LEAST_WAIT_S = 0.25, 0.1
"""What this process took before it waits, about, and for how long it waits for an answer at least."""
OWN_PROGRAM = (
    sys.executable,
    # Without it, Python would load modules of the folder that the process starts in: a repository's own code.
    "-P",
    "-c",
    "from elytron_cli.main import run_command_line; run_command_line()",
)
"""The start of a command line that runs this program."""
_ANSWERED = b"\x06"
"""First byte of an answer; without it, the command works by itself."""
_OWN_OPTIONS = ("--host", "--max-chars", "--max-len")
"""Options of one event; all others identify the memory."""
_PASSED = re.compile(r"[A-Z_]+_(?:PROJECT_DIR|CONFIG_DIR|HOME|DB)\Z")
"""Variables in which hosts name the folders of a session and of their files."""
_DECIDING = re.compile(r"(?:ELYTRON_\w+|HOME|USERPROFILE|(?:LOCAL)?APPDATA|XDG_(?:DATA|STATE|CONFIG|CACHE)_HOME)\Z")
"""Variables that decide which store, records and personal folders a process opens."""
_ABSOLUTE = re.compile(r"(?:[a-z+]+:)?(?:/|[A-Za-z]:[/\\])")


def print_resident_answer(arguments: Sequence[str], /, *, wait_s: float = WAIT_S) -> int | None:
    """Print the answer of the resident process for these arguments; return the exit code.

    Without an answer, None: the command has to work by itself, and the bytes read from standard input are put back.
    """
    address = resident_address(arguments)
    if address is None or not address.exists():
        return None
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(wait_s)
        try:
            caller.connect(str(address))
        except OSError:
            return None
        event = sys.stdin.buffer.read(READ_BYTES)
        is_end_event = event_words(arguments)["event"] == "end"
        answer = _answer_to(caller, _call_header(arguments) + event, is_awaited=not is_end_event)
    if not answer.startswith(_ANSWERED):
        sys.stdin = io.TextIOWrapper(io.BytesIO(event), encoding="utf-8")
        return None
    text, error, code = json.loads(answer[len(_ANSWERED) :])
    sys.stdout.buffer.write(f"{text}\n".encode() if text else b"")
    sys.stdout.flush()
    if error:
        print(error, file=sys.stderr)
    return int(code)


def print_started_answer(arguments: Sequence[str], /) -> int | None:
    """Start a resident process, and print its answer if it comes while the host waits; return the exit code.

    One that is late goes on and answers the next event, so nothing is loaded twice. None if the command has to work by
    itself: at events that store, for a store that is not there, and to report why the process failed.
    """
    began_s, address = time.monotonic(), resident_address(arguments)
    if address is None or event_words(arguments)["event"] not in _AWAITED or not _has_store(arguments):
        return None
    import select
    import subprocess

    words = ["hooks", "resident", *memory_arguments(arguments)]
    process = subprocess.Popen(  # noqa: S603 - this very program
        [*OWN_PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as pipe:
        # It says when it answers; without a word it has ended, with 0 if another one answers.
        if not select.select([pipe], [], [], max(WAIT_S - _STARTUP_S, 0))[0]:
            sys.stdin.buffer.read(READ_BYTES)
            return 0
        if not pipe.readline() and process.wait() != 0:
            return None
    return print_resident_answer(arguments, wait_s=max(WAIT_S - (time.monotonic() - began_s), _LEAST_WAIT_S))


def _has_store(arguments: Sequence[str]) -> bool:
    """Return whether the arguments name a store on this machine that exists."""
    argument_words = [part for word in arguments for part in word.split("=", 1)]
    store = dict(pairwise(argument_words)).get("--store", "")
    return bool(store) and Path(store.partition("://")[2] or store).exists()


def _answer_to(caller: socket.socket, call: bytes, *, is_awaited: bool) -> bytes:
    """Return the answer to a call: an empty one if it is late or not awaited, since the process continues with it."""
    try:
        caller.sendall(call)
        caller.shutdown(socket.SHUT_WR)
        received_parts = iter(lambda: caller.recv(65_536), b"")
        return b"".join(received_parts) if is_awaited else answer_bytes("", "", 0)
    except TimeoutError:
        return answer_bytes("", "", 0)
    except OSError:
        return b""


def answer_bytes(text: str, error: str, code: int, /) -> bytes:
    """Return the message in which the resident process sends a hook's output."""
    return _ANSWERED + json.dumps([text, error, code]).encode()


def _call_header(arguments: Sequence[str]) -> bytes:
    environment = {name: value for name, value in os.environ.items() if _PASSED.match(name)}
    return json.dumps([event_words(arguments), environment, time.process_time()]).encode() + b"\n"


def read_call(data: bytes, /) -> tuple[dict[str, str], dict[str, str], float, bytes]:
    """Return the words of an event, its caller's variables and CPU time, and its data. Raises ValueError."""
    header, _, event = data.partition(b"\n")
    event_arguments, environment, cpu_s = json.loads(header)
    return event_arguments, environment, float(cpu_s), event


def event_words(arguments: Sequence[str], /) -> dict[str, str]:
    """Return the event and its own options, with the names `event`, `host` and `max_chars`."""
    words_by_name = {name: value for name, value in _split_arguments(arguments) if name is not None}
    return {"event": "", "host": "", "max_chars": ""} | words_by_name


def memory_arguments(arguments: Sequence[str], /) -> list[str]:
    """Return the words of a command line that identify the memory."""
    return [argument for name, argument in _split_arguments(arguments) if name is None]


def _split_arguments(arguments: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """Yield each word with its name in an event, None for those that identify the memory."""
    is_event_named = False
    words = iter(arguments)
    for word in words:
        option, sign, value = word.partition("=")
        if option in _OWN_OPTIONS:
            yield "host" if option == "--host" else "max_chars", value if sign else next(words, "")
        elif not is_event_named and word in (*EVENTS, "resident"):
            is_event_named = True
            yield "event", word
        elif word not in {"hooks", RESIDENT}:
            yield None, word


def resident_address(arguments: Sequence[str], /) -> Path | None:
    """Return the socket's path for the memory of these arguments and settings, and for this build.

    None if this system has no such sockets, or no folder for them that is this user's own and has a short path.
    """
    if not hasattr(socket, "AF_UNIX"):
        return None
    settings = {name: value for name, value in os.environ.items() if _DECIDING.match(name)}
    store_arguments = memory_arguments(arguments)
    identity_parts = (
        *store_arguments,
        "",
        *(f"{name}={settings[name]}" for name in sorted(settings)),
        "",
        str(Path.cwd()) if _has_relative_path(store_arguments, settings) else "",
        str(Path(__file__).stat().st_mtime_ns),
    )
    digest = hashlib.blake2b("\0".join(identity_parts).encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    runtime, own_name = os.environ.get("XDG_RUNTIME_DIR"), f"elytron-{os.getuid()}"
    folders = (Path(runtime, "elytron") if runtime else Path(tempfile.gettempdir(), own_name), Path("/tmp", own_name))  # noqa: S108
    # No socket can be bound at a long path, so the next folder is only tried if the path is too long.
    short_folders = (folder for folder in folders if len(os.fsencode(folder / digest)) <= ADDRESS_BYTES)
    folder = next(short_folders, None)
    return folder / digest if folder is not None and _is_own_folder(folder) else None


def _has_relative_path(words: Sequence[str], settings: dict[str, Any]) -> bool:
    """Return whether the working folder of a hook decides which store or key it opens."""
    argument_words = " ".join(words).replace("=", " ").split()
    store_paths = [value for option, value in pairwise(argument_words) if option in {"--store", "--key-file"}]
    store_paths += [settings[name] for name in ("ELYTRON_STORE", "ELYTRON_KEY_FILE") if name in settings]
    return any(_ABSOLUTE.match(value.replace("://", ":")) is None for value in store_paths)


def _is_own_folder(folder: Path) -> bool:
    """Return whether only this user may enter `folder`, which is created if missing."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
