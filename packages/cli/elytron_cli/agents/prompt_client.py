"""Ask the resident hook process for its answer. Prompts load this first, so it imports few modules."""

import hashlib
import io
import os
import socket
import stat
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

RESIDENT = "--resident"
_VERBS = frozenset(("recall", "resident", RESIDENT))
WAIT_S = 10.0
"""Claude Code gives a hook at a prompt 15 seconds."""
READ_BYTES = 32 * 1024 * 1024
ADDRESS_BYTES = 103
"""Longest path of a local socket that every system takes: 108 bytes on Linux, 104 on macOS, with their end."""
_ANSWERED = b"\x06"
"""First byte of an answer; without it, the command works by itself."""


def print_resident_answer(arguments: Sequence[str], /) -> bool:
    """Print what the resident process of these arguments answers; return whether it did.

    If not, the command has to answer by itself: what was read of standard input is put back.
    """
    address = resident_address(arguments)
    if address is None or not address.exists():
        return False
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(WAIT_S)
        try:
            caller.connect(str(address))
        except OSError:
            return False
        event = sys.stdin.buffer.read(READ_BYTES)
        answer = _answer_to(caller, event)
    if not answer.startswith(_ANSWERED):
        sys.stdin = io.TextIOWrapper(io.BytesIO(event), encoding="utf-8")
        return False
    sys.stdout.buffer.write(answer[len(_ANSWERED) :])
    sys.stdout.flush()
    return True


def _answer_to(caller: socket.socket, event: bytes) -> bytes:
    try:
        caller.sendall(event)
        caller.shutdown(socket.SHUT_WR)
        parts = iter(lambda: caller.recv(65_536), b"")
        return b"".join(parts)
    except OSError:
        return b""


def answer_bytes(text: str | None, /) -> bytes:
    """Return what the resident process sends for a block, or for none."""
    return _ANSWERED + (f"{text}\n".encode() if text is not None else b"")


def resident_address(arguments: Sequence[str], /) -> Path | None:
    """Return the socket's file for a command with these arguments, in this folder, under these settings and this build.

    None if this system has no such sockets, or no folder for them that is this user's own and has a short path.
    """
    if not hasattr(socket, "AF_UNIX"):
        return None
    # The second are of a session's start folder, which decides about the space.
    variables = (name for name in os.environ if name.startswith("ELYTRON_") or name.endswith("_PROJECT_DIR"))
    settings = sorted(f"{name}={os.environ[name]}" for name in variables)
    parts = (
        *(item for item in arguments if item not in _VERBS),
        "",
        *settings,
        "",
        str(Path.cwd()),
        str(Path(__file__).stat().st_mtime_ns),
    )
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    runtime, own = os.environ.get("XDG_RUNTIME_DIR"), f"elytron-{os.getuid()}"
    folders = (Path(runtime, "elytron") if runtime else Path(tempfile.gettempdir(), own), Path("/tmp", own))  # noqa: S108
    # No socket can be bound at a long path, so the first folder gives way only if its path is too long.
    short = (folder for folder in folders if len(os.fsencode(folder / digest)) <= ADDRESS_BYTES)
    folder = next(short, None)
    return folder / digest if folder is not None and _is_own_folder(folder) else None


def _is_own_folder(folder: Path) -> bool:
    """Return whether only this user may enter `folder`, which is made if it is not there."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
