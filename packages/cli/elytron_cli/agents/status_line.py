"""The status line of a session: what hooks recalled and stored, from the one small file that they write.

An assistant asks for it again and again, so this loads few modules and opens no store.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

READ_BYTES = 1024 * 1024
_WAIT_S = 5


def print_status_line(arguments: Sequence[str], /) -> None:
    """Print the status line of the session named on standard input, after the output of the `--wrap` command."""
    data = sys.stdin.buffer.read(READ_BYTES)
    option_words = [part for word in arguments for part in word.split("=", 1)]
    options = dict(pairwise(option_words))
    if "--wrap" in options:
        _print_wrapped(options["--wrap"], data)
    session = _read_object(data).get("session_id")
    if isinstance(session, str):
        print(status_text(session_record(session, host=options.get("--host", "claude-code")), now_s=time.time()))


def session_record(session: str, /, *, host: str) -> dict[str, Any]:
    """Return what hooks recorded of a session, as `elytron_assistants.hooks.activity` writes it."""
    name = hashlib.blake2b(f"{host}\n{session}".encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    try:
        return _read_object((_state_folder() / "assistants" / f"{name}.json").read_bytes())
    except OSError:
        return {}


def status_text(record: dict[str, Any], /, *, now_s: float) -> str:
    """Return a one-line summary of the hooks' work in a session."""
    if record.get("notice"):
        is_paused = record["notice"] == "paused"
        return "elytron: paused here" if is_paused else "elytron: memory failed; the session goes on without it"
    if not record:
        return "elytron: ready"
    counts = record.get("counts", {})
    parts = (
        f"{counts.get('recalled', 0)} of {counts.get('prompts', 0)} prompts with memories",
        f"{counts.get('stored_turns', 0)} turns stored",
        f"{_passed_time(now_s - record.get('changed_at', 0) / 1000)} ago",
        # A label comes from a repository, and a terminal interprets control characters.
        "".join(filter(str.isprintable, record.get("label", ""))),
    )
    return f"elytron: {', '.join(filter(None, parts))}"


def _print_wrapped(command: str, data: bytes) -> None:
    """Print the output of the person's own status line command, run as their assistant would run it."""
    try:
        outcome = subprocess.run(command, shell=True, input=data, capture_output=True, timeout=_WAIT_S, check=False)  # noqa: S602
    except subprocess.TimeoutExpired:
        return
    print(outcome.stdout.decode("utf-8", "replace").rstrip("\n"))


def _read_object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _state_folder() -> Path:
    from platformdirs import user_state_path

    folder = os.environ.get("ELYTRON_STATE_DIR")
    return Path(folder).expanduser() if folder else user_state_path("elytron", appauthor=False)


def _passed_time(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds // 60:.0f} min" if seconds < 3600 else f"{seconds // 3600:.0f} h"
