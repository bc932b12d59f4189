"""Input of a conversation: lines of a terminal with editing and history, or lines of a pipe."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from elytron_core.errors import InvalidInput
from elytron_core.policy.privacy import scrub_secrets

HISTORY_LINES: Final = 1_000
HISTORY_BYTES: Final = 4 * 1024 * 1024
PROMPT: Final = "> "


def history_path() -> Path:
    """Return the file of what was typed, in the system's place for a user's state."""
    from platformdirs import user_state_path

    return user_state_path("elytron", appauthor=False) / "chat_history"


class LineHistory:
    """File of what was typed at a terminal: a JSON text a line, read by its owner alone, without credentials.

    A history that cannot be read or written is no reason to end a conversation: it is then empty, or not kept.
    """

    def __init__(self, path: Path, /) -> None:
        self._path = path

    def load(self) -> list[str]:
        """Return the latest texts, oldest first, and drop earlier ones from the file once it is twice as long."""
        try:
            with self._path.open("rb") as file:
                lines = file.read(HISTORY_BYTES).splitlines()
        except OSError:
            return []
        if len(lines) > 2 * HISTORY_LINES:
            with suppress(OSError):
                self._write(b"".join(line + b"\n" for line in lines[-HISTORY_LINES:]), os.O_TRUNC)
        texts: list[str] = []
        for line in lines[-HISTORY_LINES:]:
            with suppress(ValueError):
                found = json.loads(line)
                texts += [found] if isinstance(found, str) else []
        return texts

    def add(self, text: str, /) -> None:
        """Append a text."""
        with suppress(OSError):
            self._write(json.dumps(scrub_secrets(text).text).encode() + b"\n", os.O_APPEND)

    def _write(self, content: bytes, flag: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
        try:
            # One that another program made may be open to all.
            if os.name == "posix":
                os.fchmod(handle, 0o600)
            os.write(handle, content)
        finally:
            os.close(handle)


class LineInput:
    """Reads what a person says: at a terminal with editing, where a pasted text is one; else line by line."""

    def __init__(self, *, history: LineHistory | None = None, prompt: str = PROMPT) -> None:
        self.is_terminal = sys.stdin.isatty()
        self._history = history if self.is_terminal else None
        self._prompt = prompt
        if self.is_terminal:
            _start_editing(self._history.load() if self._history is not None else [])

    def read(self) -> str | None:
        """Return the next text, None at the end of the input or an interrupt. Raises InvalidInput if it is not UTF-8.

        Nothing else runs meanwhile: nothing is under way.
        """
        try:
            line = input(self._prompt) if self.is_terminal else _line_of_pipe()
            if line is not None:
                line.encode()
        except (EOFError, KeyboardInterrupt):
            return None
        except UnicodeError:
            raise InvalidInput(field="line", problem="is not UTF-8, and was left out") from None
        text = line.strip() if line is not None else None
        if text and self._history is not None:
            self._history.add(text)
        return text

    async def answer(self, question: str, /) -> str:
        """Return the line that answers a question at the terminal; what was typed before it does not count.

        The loop goes on meanwhile, and a cancelled question is over. It does not become part of the history.
        """
        assert self.is_terminal
        _drop_typed()
        print(question, end=" ", file=sys.stderr, flush=True)
        if os.name != "posix":
            return await asyncio.to_thread(sys.stdin.readline)
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()
        loop.add_reader(sys.stdin.fileno(), _line_reader(line))
        try:
            return await line
        finally:
            loop.remove_reader(sys.stdin.fileno())


def _line_reader(line: "asyncio.Future[str]") -> Callable[[], None]:
    def read() -> None:
        # Not `sys.stdin`, whose buffer would keep from the next prompt what was typed ahead.
        typed = os.read(sys.stdin.fileno(), 4096)
        if not line.done():
            line.set_result(typed.decode("utf-8", "replace"))

    return read


def _line_of_pipe() -> str | None:
    line = sys.stdin.buffer.readline()
    return line.decode("utf-8") if line else None


def _drop_typed() -> None:
    try:
        import termios
    except ImportError:
        return
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _start_editing(history: list[str]) -> None:
    """Have `input` edit lines, where the system has a library for it."""
    try:
        import readline
    except ImportError:
        return
    if "GNU readline" in (readline.__doc__ or ""):
        readline.parse_and_bind("set enable-bracketed-paste on")
        # A tab is part of a pasted text: there are no words to complete.
        readline.parse_and_bind("tab: self-insert")
    readline.clear_history()
    for text in history:
        readline.add_history(text)
