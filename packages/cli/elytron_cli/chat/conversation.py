"""The chat loop: line input with editing and history, event output, and slash commands."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from elytron_adapter.envelope import failure_of
from elytron_agent.blocks.block_repository import BlockDraft, BlockRepository, MemoryBlock
from elytron_agent.loop.agent import Agent
from elytron_agent.runs.events import AgentEvent, RunEnded, StopReason
from elytron_cli.app import FAILURE, INTERRUPTED, TERMINATED
from elytron_cli.chat.screen import ChatScreen, CommandAnswer
from elytron_core.errors import ElytronError, InvalidInput, NotFound
from elytron_core.policy.redaction import scrub_secrets

if TYPE_CHECKING:
    from elytron_agent.runs.settings import ApprovalRequest, Approve, HostApproval


HISTORY_LINES: Final = 1_000
HISTORY_BYTES: Final = 4 * 1024 * 1024
PROMPT: Final = "> "


def history_path() -> Path:
    """Return the path of the input history, in the system's place for a user's state."""
    from platformdirs import user_state_path

    return user_state_path("elytron", appauthor=False) / "chat_history"


class LineHistory:
    """History of input at a terminal: one JSON text per line, readable only by its owner, without credentials.

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
        # Rarely, so that not every start writes the file.
        if len(lines) > 2 * HISTORY_LINES:
            with suppress(OSError):
                self._write(b"".join(line + b"\n" for line in lines[-HISTORY_LINES:]), os.O_TRUNC)
        texts: list[str] = []
        for line in lines[-HISTORY_LINES:]:
            # An incompletely written line is skipped.
            with suppress(ValueError):
                text = json.loads(line)
                texts += [text] if isinstance(text, str) else []
        return texts

    def add(self, text: str, /) -> None:
        """Append a text."""
        with suppress(OSError):
            self._write(json.dumps(scrub_secrets(text).text).encode() + b"\n", os.O_APPEND)

    def _write(self, content: bytes, flag: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
        try:
            # Another program may have created it readable for all.
            if os.name == "posix":
                os.fchmod(handle, 0o600)
            os.write(handle, content)
        finally:
            os.close(handle)


class LineInput:
    """Reads a person's input: at a terminal with editing, where a pasted text is one input; otherwise line by line."""

    def __init__(self, *, history: LineHistory | None = None, prompt: str = PROMPT) -> None:
        self.is_terminal = sys.stdin.isatty()
        self._history = history if self.is_terminal else None
        self._prompt = prompt
        if self.is_terminal:
            _start_editing(self._history.load() if self._history is not None else [])

    def read(self) -> str | None:
        """Return the next text, None at the end of the input or on an interrupt. Raises InvalidInput if it is not
        UTF-8.

        Blocks, because nothing else is running.
        """
        try:
            line = input(self._prompt) if self.is_terminal else _line_of_pipe()
            if line is not None:
                # Bytes that are not UTF-8 may come as surrogates, which cannot be encoded.
                line.encode()
        except (EOFError, KeyboardInterrupt):
            return None
        except UnicodeError:
            raise InvalidInput(field="line", problem="is not UTF-8 and was skipped") from None
        text = line.strip() if line is not None else None
        if text and self._history is not None:
            self._history.add(text)
        return text

    async def answer(self, question: str, /) -> str:
        """Return the line that answers a question at the terminal; earlier input does not count.

        The loop keeps running meanwhile, and a cancelled question ends. The answer is not added to the history.
        """
        assert self.is_terminal
        _drop_typed()
        print(question, end=" ", file=sys.stderr, flush=True)
        if os.name != "posix":
            return await asyncio.to_thread(sys.stdin.readline)
        event_loop = asyncio.get_running_loop()
        line_future: asyncio.Future[str] = event_loop.create_future()
        event_loop.add_reader(sys.stdin.fileno(), _line_reader(line_future))
        try:
            return await line_future
        finally:
            event_loop.remove_reader(sys.stdin.fileno())


def _line_reader(line: "asyncio.Future[str]") -> Callable[[], None]:
    def read() -> None:
        # Not `sys.stdin`, whose buffer would withhold from the next prompt what was typed ahead.
        typed_bytes = os.read(sys.stdin.fileno(), 4096)
        if not line.done():
            line.set_result(typed_bytes.decode("utf-8", "replace"))

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
    """Enable line editing in `input`, if the system has a library for it."""
    try:
        import readline
    except ImportError:
        return
    if "GNU readline" in (readline.__doc__ or ""):
        readline.parse_and_bind("set enable-bracketed-paste on")
        # A tab is part of a pasted text: there is no completion.
        readline.parse_and_bind("tab: self-insert")
    readline.clear_history()
    for text in history:
        readline.add_history(text)


HELP: Final = (
    "/memory           show what the model was last given, and why\n/blocks           list the core blocks\n"
    "/block NAME TEXT  write a block; without TEXT, empty it\n/compact          summarise earlier turns "
    "now; /preview shows which\n/undo             restore the turns of the latest summary\n/quit             "
    "end the conversation\n//TEXT            send TEXT with one leading slash"
)
_QUIT: Final = frozenset({"/quit", "/exit", "/q"})
_CODES: Final = {StopReason.ANSWERED: None, StopReason.DONE: None, StopReason.CANCELLED: INTERRUPTED}


@dataclass(slots=True)
class ChatConversation:
    """Talks with an agent until the input ends."""

    agent: Agent
    blocks: BlockRepository
    screen: ChatScreen
    lines: LineInput
    code: int | None = None
    """Exit code of the last line: that of its error, else that of its run's end."""
    is_ending: bool = False
    """True once the process was asked to end."""
    _work: "asyncio.Task[None] | None" = None

    async def hold(self, place: str) -> int | None:
        """Resume an interrupted run, then answer line after line; return the exit code.

        `place` says with whom the person talks, and where what is said is stored.
        """
        with self._interruptible():
            self.screen.place(place)
            await self._guarded(self._run(self.agent.resume()))
            if not self.screen.is_json:
                await self._guarded(self._greet())
            while not self.is_ending:
                try:
                    line = self.lines.read()
                except InvalidInput as error:
                    self._refuse(error)
                    continue
                if line is None or line in _QUIT:
                    break
                if line:
                    await self._answer(line)
        return TERMINATED if self.is_ending else self.code

    async def _answer(self, line: str) -> None:
        """Handle a line: a command, or words for the agent. Two slashes begin words with one."""
        self.code = None
        if line.startswith("/") and not line.startswith("//"):
            await self._guarded(self._command(line))
        else:
            await self._guarded(self._run(self.agent.run(line.removeprefix("/"))))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of one line; an interrupt ends only that line, and what was said stays."""
        if self.is_ending:
            # Python warns of a coroutine that is never awaited.
            work.close()
            return
        self._work = asyncio.ensure_future(work)
        try:
            await self._work
        except asyncio.CancelledError:
            await self._cancel()
        except ElytronError as error:
            self._refuse(error)
        finally:
            self._work = None

    async def _cancel(self) -> None:
        # A process that is asked to end leaves its run open: the next start resumes it.
        if self.is_ending:
            return
        self.code = INTERRUPTED
        try:
            cancelled_turn = await self.agent.cancel()
        except ElytronError as error:
            self._refuse(error)
            return
        if cancelled_turn is not None:
            self.screen.show(cancelled_turn)

    def _refuse(self, error: ElytronError) -> None:
        self.code = failure_of(error.key).exit
        self.screen.refuse(error)

    async def _run(self, events: AsyncGenerator[AgentEvent]) -> None:
        async with aclosing(events) as open_events:
            async for event in open_events:
                self.screen.show(event)
                if isinstance(event, RunEnded):
                    self.code = _CODES.get(event.reason, FAILURE)

    async def _greet(self) -> None:
        """Show the welcome message to a new person, and to others the last messages."""
        for text in await self.agent.welcome():
            self.screen.say(text)
        last_turn = await self.agent.latest_turn() if self.screen.latest_context is None else None
        if last_turn is not None:
            self.screen.latest(last_turn)

    async def _command(self, line: str) -> None:
        command, _, command_argument = line.partition(" ")
        match command:
            case "/memory":
                context = self.screen.latest_context
                text = "Nothing has been sent to the model yet: send a message first." if context is None else ""
                answer = CommandAnswer(command=command, given=context, text=text)
            case "/blocks":
                answer = CommandAnswer(command=command, blocks=tuple(await self.blocks.list()))
            case "/block":
                label, _, text = command_argument.strip().partition(" ")
                answer = CommandAnswer(command=command, blocks=(await self._write(label, text.strip()),))
            case "/preview":
                plan = await self.agent.preview_compaction()
                answer = CommandAnswer(
                    command=command, plan=plan, text="" if plan else "There is nothing to summarise."
                )
            case "/compact":
                summary = await self.agent.compact()
                text = "There is nothing to summarise." if summary is None else f"Summarised: {summary.text}"
                answer = CommandAnswer(command=command, text=text)
            case "/undo":
                undo_report = await self.agent.undo_compaction()
                answer = CommandAnswer(command=command, text=f"Restored {len(undo_report.covers)} turns.")
            case "/help":
                answer = CommandAnswer(command=command, text=HELP)
            case _:
                problem = (
                    f"{command!r} is not a command: /help lists the commands, and /{command} sends the line as text"
                )
                raise InvalidInput(field="line", problem=problem)
        self.screen.answer(answer)

    async def _write(self, label: str, text: str) -> MemoryBlock:
        try:
            return await self.blocks.change(label, value=text)
        except NotFound:
            return await self.blocks.create(BlockDraft(label=label, value=text))

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """Make an interrupt end the running line, and at the prompt the conversation; SIGTERM ends both."""
        event_loop = asyncio.get_running_loop()

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            if self._work is None:
                raise KeyboardInterrupt
            # A handler runs between any two steps, and the loop may be asleep.
            event_loop.call_soon_threadsafe(self._work.cancel)

        def end(number: int, frame: FrameType | None) -> None:
            self.is_ending = True
            signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
            interrupt(number, frame)

        # Not by the loop, which runs no handler while `input` waits.
        previous_handlers = {
            number: signal.signal(number, signal_action)
            for number, signal_action in ((signal.SIGINT, interrupt), (signal.SIGTERM, end))
        }
        try:
            yield
        finally:
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)


QUESTION: Final = "  Allow: yes, no, or always in this chat? [y/n/a]"
NONE: Final = "no tool that may change something is approved in this chat"


class ApprovalMode(StrEnum):
    """How calls of tools that may change something are approved."""

    ASK = "ask"
    """The person at the terminal."""
    ALL = "all"
    NONE = "none"


def call_approver(mode: ApprovalMode | None, lines: "LineInput", screen: "ChatScreen", /) -> "Approve | None":
    """Return the function that approves a call; None if all are approved. Raises InvalidInput for `ask` without a
    terminal."""
    match mode or (ApprovalMode.ASK if lines.is_terminal else ApprovalMode.NONE):
        case ApprovalMode.ALL:
            return None
        case ApprovalMode.NONE:
            return _refuse_call
        case ApprovalMode.ASK:
            if not lines.is_terminal:
                raise InvalidInput(field="--approve", problem="is `ask`, but there is no terminal: use all or none")
            return _TerminalPerson(lines, screen).approve


async def _refuse_call(_request: "ApprovalRequest", /) -> "HostApproval":
    from elytron_agent.runs.settings import HostApproval

    return HostApproval(is_granted=False, reason=NONE)


class _TerminalPerson:
    """The person at the terminal, and the tools that are always allowed in this chat."""

    def __init__(self, lines: "LineInput", screen: "ChatScreen", /) -> None:
        self._lines, self._screen = lines, screen
        self._always: set[str] = set()

    async def approve(self, request: "ApprovalRequest", /) -> bool:
        """Return the person's answer; anything but a clear yes is a no."""
        from elytron_cli.chat.screen import ApprovalAsked

        if request.tool in self._always:
            return True
        self._screen.ask(ApprovalAsked(tool=request.tool, arguments=request.arguments))
        answer = (await self._lines.answer(QUESTION)).strip().lower()
        if answer in {"a", "always"}:
            self._always.add(request.tool)
        return answer in {"y", "yes", "a", "always"}
