"""Command-line processes that start as copies of one that has loaded it: loading is most of the startup cost.

`copy_processes` makes `subprocess`, and so asyncio, start `python -c RUN ...` and the installed command in this way.
Each copy is a separate process and a child of its caller, with the given arguments, folder, environment, and streams.
Every other command is started as usual. So is everything in the block of `whole_starts`: tests of loading, of the
interpreter's settings, or of set order, which copies share, and one process of each group of commands.
"""

import ctypes
import fcntl
import gc
import importlib
import io
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

RUN = "from elytron_cli.main import run_command_line; run_command_line()"
SCRIPT = str(Path(sys.executable).with_name("elytron"))
"""The installed command, which runs the same."""
LOADED = (
    *("elytron.runtime", "elytron.recall.retrieval", "elytron_cli.app", "elytron_cli.agents.mcp_config"),
    *("elytron_cli.agents.resident", "elytron_cli.commands.agents.hooks"),
    *("elytron_cli.server.optional_surfaces", "elytron_cli.commands.servers.serve", "elytron_cli.commands.servers.mcp"),
    *("elytron_agent.service.companion", "elytron_agent.service.surfaces", "elytron_agent.rag.rag_surfaces"),
    *("elytron_http_shell.server", "elytron_http_shell.telemetry.spans", "elytron_mcp_shell.app", "elytron_proxy.app"),
    *("elytron_gateway.routes.surfaces", "elytron_store.sqlite.store", "elytron_store.sealed", "httpx", "uvicorn"),
)
"""Modules that load most of what commands need."""
_HIGH = 200
"""Descriptors from here on are neither standard ones nor likely to be passed to a process by number."""
_SET_CHILD_SUBREAPER = 36
_SETTINGS = re.compile(r"PYTHON(?!UNBUFFERED)|LC_|LANG|MALLOC")
"""Variables that the interpreter reads at startup, so no copy can apply them."""
_LOOK_S = 2.0
_real_start: Callable[..., int] = getattr(subprocess, "_fork_exec", lambda *_: 0)


class CopiedProcess:
    """Starts processes as copies of one that is started on demand and ends with this one."""

    def __init__(self) -> None:
        self.is_used = False
        self.settings: dict[str, str] = {}
        self._address = ""
        self._process = 0
        self._lock = threading.Lock()

    def can_start(self, command: Sequence[str], environment: Mapping[str, str]) -> bool:
        """Return whether a copy can do everything that a process of this command would."""
        is_ours = command[:2] == [sys.executable, "-c"] and command[2].endswith(RUN)
        return self.is_used and is_ours and settings_of(environment) == self.settings

    def start(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Start a process and return its id; it is a child of this process."""
        with self._lock, socket.socket(socket.AF_UNIX) as connection:
            if not self._address:
                self._address = self._begin()
            # The copy's own parent ends at once; meanwhile, orphans are reparented to this process.
            _set_subreaper(is_on=True)
            try:
                connection.connect(self._address)
                content = json.dumps(request).encode()
                socket.send_fds(connection, [len(content).to_bytes(4, "big")], list(descriptors))
                connection.sendall(content)
                with connection.makefile("r") as answer:
                    text = answer.readline()
            finally:
                _set_subreaper(is_on=False)
        if not text:
            raise RuntimeError("the process that is copied has ended: what it wrote to its error output says why")
        return int(text)

    def _begin(self) -> str:
        """Start the process to copy and return the address of its socket."""
        address = f"{tempfile.mkdtemp(prefix='elytron-processes-')}/socket"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(address)
            listening.listen(64)
            environment = {name: value for name, value in os.environ.items() if not name.startswith("ELYTRON_")}
            # No Popen, which would have to be waited for. It ends soon after this process, however that ends.
            self._process = os.posix_spawn(
                sys.executable,
                [sys.executable, __file__],
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, listening.fileno(), 0)],
                setsid=True,
            )
        return address

    def close(self) -> None:
        """End the process to copy, if it was started."""
        if self._address:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            shutil.rmtree(Path(self._address).parent)
            self._address = ""


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an interpreter reads at startup."""
    return {name: value for name, value in environment.items() if _SETTINGS.match(name)}


def _set_subreaper(*, is_on: bool) -> None:
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(is_on), 0, 0, 0)


COPIED = CopiedProcess()


def copy_processes() -> None:
    """Let later processes be copies, on systems that support it."""
    if sys.platform == "linux" and hasattr(subprocess, "_fork_exec"):
        COPIED.is_used, COPIED.settings = True, settings_of(os.environ)
        subprocess._fork_exec = _start  # type: ignore[attr-defined]


@contextmanager
def whole_starts() -> Generator[None]:
    """Start every process of the block as users do."""
    before, COPIED.is_used = COPIED.is_used, False
    try:
        yield
    finally:
        COPIED.is_used = before


def _start(*given: Any) -> int:
    """Replaces `subprocess._fork_exec`, whose arguments have this order since Python 3.11."""
    args, _, _, kept, cwd, env, stdin, _, _, stdout, _, stderr, _, error_pipe, _, new_session, group, *ids = given[:22]
    # A copy loads nothing more, neither from its working directory nor from elsewhere.
    command = [part for part in map(os.fsdecode, args) if part != "-P"]
    if command[0] == SCRIPT:
        command = [sys.executable, "-c", f"import sys; sys.argv[0] = {SCRIPT!r}; {RUN}", *command[1:]]
    environment = dict(os.environ if env is None else (os.fsdecode(one).split("=", 1) for one in env))
    folder = os.fsdecode(cwd or Path.cwd())
    # Another user or umask, or a function to run first: a copy supports none of these.
    is_plain = ids == [None, None, None, -1, None] and Path(folder).is_dir()
    if not is_plain or not COPIED.can_start(command, environment):
        return _real_start(*given)
    numbers = [number for number in map(int, kept) if number != error_pipe]
    standard = [own if own != -1 else number for number, own in enumerate((stdin, stdout, stderr))]
    request = {
        "code": command[2],
        "arguments": command[3:],
        "environment": environment,
        "folder": folder,
        "numbers": numbers,
        "umask": _umask(),
        "new_session": bool(new_session),
        "group": group,
    }
    return COPIED.start(request, [*standard, *numbers])


def _umask() -> int:
    """Return the umask of this process, read without changing it for other threads."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:")]
    return int(line.split()[1], 8)


def serve_copies() -> tuple[str, list[str]]:
    """Load the command line and make copies until the process that wants them has ended.

    Return in each copy, with the code to run and its arguments.
    """
    owner = os.getppid()
    listening = socket.socket(fileno=os.dup(0))
    for name in LOADED:
        with suppress(ImportError):  # an extra's
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while os.getppid() == owner:
        if not select.select([listening], [], [], _LOOK_S)[0]:
            continue
        connection, _ = listening.accept()
        with connection, warnings.catch_warnings(action="ignore"):
            size, descriptors, _, _ = socket.recv_fds(connection, 4, 64)
            with connection.makefile("rb") as reader:
                request = json.loads(reader.read(int.from_bytes(size, "big")))
            between = os.fork()
            if between == 0:
                copy = os.fork()
                if copy == 0:
                    connection.close()
                    listening.close()
                    return _become(request, descriptors)
                connection.sendall(f"{copy}".encode())
                os._exit(0)
            for descriptor in descriptors:
                os.close(descriptor)
            os.waitpid(between, 0)
            connection.sendall(b"\n")
    sys.exit()


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> tuple[str, list[str]]:
    """Have this process be as the request says; return its code and arguments."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(high, (0, 1, 2, *request["numbers"]), strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["new_session"]:
        os.setsid()
    if request["group"] >= 0:
        os.setpgid(0, request["group"])
    os.umask(request["umask"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    is_unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    reader = io.BufferedReader(io.FileIO(0, closefd=False))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(reader, encoding="utf-8", newline="\n")
    sys.stdout, sys.stderr = (_stream(number, is_unbuffered=is_unbuffered) for number in (1, 2))
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    return request["code"], request["arguments"]


def _stream(number: int, *, is_unbuffered: bool) -> io.TextIOWrapper:
    """Return the standard output or error as the interpreter opens it."""
    raw = io.FileIO(number, "wb", closefd=False)
    return io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding="utf-8",
        errors="strict" if number == 1 else "backslashreplace",
        newline="\n",
        line_buffering=number == 2 or raw.isatty(),
        write_through=is_unbuffered,
    )


if __name__ == "__main__":
    sys.path[0] = ""
    code, arguments = serve_copies()
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__", "__builtins__": __builtins__})
