"""A conversation with an agent: lines in, events out, and what a line that begins with a slash does."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from elytron_adapter.failures import failure_of
from elytron_agent.blocks.shelf import BlockDraft, BlockShelf, MemoryBlock
from elytron_agent.loop.agent import Agent
from elytron_agent.runs.events import AgentEvent, RunEnded, StopReason
from elytron_cli.chat.line_input import LineInput
from elytron_cli.chat.screen import ChatScreen, CommandAnswer
from elytron_cli.exit_codes import FAILURE, INTERRUPTED, TERMINATED
from elytron_core.errors import ElytronError, InvalidInput, NotFound

if TYPE_CHECKING:
    from elytron_agent.runs.settings import ApprovalRequest, Approve, HostApproval


HELP: Final = (
    "/memory           what the model was given last, and why\n"
    "/blocks           the core blocks\n"
    "/block NAME TEXT  write a block; without a text, empty it\n"
    "/compact          sum up earlier turns now; /preview says which\n"
    "/undo             bring the turns of the latest summary back\n"
    "/quit             end\n"
    "//TEXT            say TEXT with one slash before it"
)
_QUIT: Final = frozenset({"/quit", "/exit", "/q"})
_CODES: Final = {StopReason.ANSWERED: None, StopReason.DONE: None, StopReason.CANCELLED: INTERRUPTED}


@dataclass(slots=True)
class ChatConversation:
    """Talks with an agent until the input ends."""

    agent: Agent
    blocks: BlockShelf
    screen: ChatScreen
    lines: LineInput
    code: int | None = None
    """Exit code by the last line: that of its error, else that of its run's end."""
    is_ending: bool = False
    """True once the process was asked to end."""
    _work: "asyncio.Task[None] | None" = None

    async def hold(self, place: str) -> int | None:
        """Go on with what was broken off, then answer line after line; return the exit code.

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
        """Do what a line says: a command, or words for the agent. Two slashes begin words with one."""
        self.code = None
        if line.startswith("/") and not line.startswith("//"):
            await self._guarded(self._command(line))
        else:
            await self._guarded(self._run(self.agent.run(line.removeprefix("/"))))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the work of one line; an interrupt ends it alone, and what was said stays."""
        if self.is_ending:
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
        # A process that is asked to end leaves its run open: the next start goes on with it.
        if self.is_ending:
            return
        self.code = INTERRUPTED
        try:
            ended = await self.agent.cancel()
        except ElytronError as error:
            self._refuse(error)
            return
        if ended is not None:
            self.screen.show(ended)

    def _refuse(self, error: ElytronError) -> None:
        self.code = failure_of(error.key).exit
        self.screen.refuse(error)

    async def _run(self, events: AsyncGenerator[AgentEvent]) -> None:
        async with aclosing(events) as run:
            async for event in run:
                self.screen.show(event)
                if isinstance(event, RunEnded):
                    self.code = _CODES.get(event.reason, FAILURE)

    async def _greet(self) -> None:
        """Say first words to a person who is new, and to others what was said last."""
        for text in await self.agent.welcome():
            self.screen.say(text)
        latest = await self.agent.latest_turn() if self.screen.given is None else None
        if latest is not None:
            self.screen.latest(latest)

    async def _command(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "/memory":
                given = self.screen.given
                text = "Nothing was given yet: say something first." if given is None else ""
                answer = CommandAnswer(command=word, given=given, text=text)
            case "/blocks":
                answer = CommandAnswer(command=word, blocks=tuple(await self.blocks.list()))
            case "/block":
                label, _, text = rest.strip().partition(" ")
                answer = CommandAnswer(command=word, blocks=(await self._write(label, text.strip()),))
            case "/preview":
                plan = await self.agent.preview_compaction()
                answer = CommandAnswer(command=word, plan=plan, text="" if plan else "There is nothing to sum up.")
            case "/compact":
                summary = await self.agent.compact()
                text = "There is nothing to sum up." if summary is None else f"Summed up: {summary.text}"
                answer = CommandAnswer(command=word, text=text)
            case "/undo":
                back = await self.agent.undo_compaction()
                answer = CommandAnswer(command=word, text=f"{len(back.covers)} turns are shown again.")
            case "/help":
                answer = CommandAnswer(command=word, text=HELP)
            case _:
                problem = f"{word!r} is no command: /help lists them, and /{word} says a line that begins so"
                raise InvalidInput(field="line", problem=problem)
        self.screen.answer(answer)

    async def _write(self, label: str, text: str) -> MemoryBlock:
        try:
            return await self.blocks.change(label, value=text)
        except NotFound:
            return await self.blocks.create(BlockDraft(label=label, value=text))

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """Have an interrupt end the line that is under way, and at the prompt the conversation; SIGTERM ends both."""
        loop = asyncio.get_running_loop()

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            if self._work is None:
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(self._work.cancel)

        def end(number: int, frame: FrameType | None) -> None:
            self.is_ending = True
            signal.signal(number, signal.SIG_DFL)  # a second one waits for nothing
            interrupt(number, frame)

        before = {
            number: signal.signal(number, act) for number, act in ((signal.SIGINT, interrupt), (signal.SIGTERM, end))
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


QUESTION: Final = "  yes, no, or always in this chat? [y/n/a]"
NONE: Final = "no tool that may change something is approved in this chat"


class ApprovalMode(StrEnum):
    """Way of approving calls of tools that may change something."""

    ASK = "ask"
    """The person at the terminal."""
    ALL = "all"
    NONE = "none"


def call_approver(mode: ApprovalMode | None, lines: "LineInput", screen: "ChatScreen", /) -> "Approve | None":
    """Return what answers whether a call is made; None if all are. Raises InvalidInput for `ask` without a terminal."""
    match mode or (ApprovalMode.ASK if lines.is_terminal else ApprovalMode.NONE):
        case ApprovalMode.ALL:
            return None
        case ApprovalMode.NONE:
            return _refuse_call
        case ApprovalMode.ASK:
            if not lines.is_terminal:
                raise InvalidInput(field="--approve", problem="is `ask`, and there is no terminal: say all or none")
            return _TerminalPerson(lines, screen).approve


async def _refuse_call(_request: "ApprovalRequest", /) -> "HostApproval":
    from elytron_agent.runs.settings import HostApproval

    return HostApproval(is_granted=False, reason=NONE)


class _TerminalPerson:
    """The person at the terminal, and the tools that always may be called in this chat."""

    def __init__(self, lines: "LineInput", screen: "ChatScreen", /) -> None:
        self._lines, self._screen = lines, screen
        self._always: set[str] = set()

    async def approve(self, request: "ApprovalRequest", /) -> bool:
        """Return the person's answer; what is not a clear yes is a no."""
        from elytron_cli.chat.screen import ApprovalAsked

        if request.tool in self._always:
            return True
        self._screen.ask(ApprovalAsked(tool=request.tool, arguments=request.arguments))
        answer = (await self._lines.answer(QUESTION)).strip().lower()
        if answer in {"a", "always"}:
            self._always.add(request.tool)
        return answer in {"y", "yes", "a", "always"}
