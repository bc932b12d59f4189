"""A conversation with an agent: lines in, events out, and what a line that begins with a slash does."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

from elytron_agent.blocks.block import BlockDraft
from elytron_agent.blocks.shelf import BlockShelf
from elytron_agent.loop.agent import Agent
from elytron_agent.runs.events import AgentEvent, RunEnded, StopReason
from elytron_cli.chat.screen import Screen
from elytron_cli.exit_codes import FAILURE
from elytron_core.errors import ElytronError, NotFound

HELP: Final = (
    "/memory           what the model was given last, and why\n"
    "/blocks           the core blocks\n"
    "/block NAME TEXT  write a block; without a text, empty it\n"
    "/compact          sum up earlier turns now; /preview says which\n"
    "/undo             bring the turns of the latest summary back\n"
    "/quit             end"
)
_QUIT: Final = frozenset({"/quit", "/exit", "/q"})


@dataclass(slots=True)
class Conversation:
    """Talks with an agent until the input ends."""

    agent: Agent
    blocks: BlockShelf
    screen: Screen
    has_failed: bool = False
    _running: "asyncio.Task[None] | None" = None

    async def hold(self) -> int | None:
        """Go on with what was broken off, then answer line after line; return the exit code."""
        with self._interruptible():
            await self._guarded(self.agent.resume())
            if not self.screen.is_json:
                for text in await self.agent.welcome():
                    self.screen.say(text)
            while (line := _read()) is not None and line.strip() not in _QUIT:
                if line.startswith("/"):
                    await self._told(line.strip())
                elif line.strip():
                    await self._guarded(self.agent.run(line.strip()))
        return FAILURE if self.has_failed else None

    async def _guarded(self, events: AsyncGenerator[AgentEvent]) -> None:
        """Show a run; an interrupt ends this run alone, and what was said stays."""
        self._running = asyncio.ensure_future(self._shown(events))
        try:
            await self._running
        except asyncio.CancelledError:
            ended = await self.agent.cancel()
            if ended is not None:
                self.screen.show(ended)
        except ElytronError as error:
            self.has_failed = True
            self.screen.note(error.message)
        finally:
            self._running = None

    async def _shown(self, events: AsyncGenerator[AgentEvent]) -> None:
        async with aclosing(events) as run:
            async for event in run:
                self.screen.show(event)
                if isinstance(event, RunEnded):
                    self.has_failed = event.reason is StopReason.FAILED

    async def _told(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        try:
            match word:
                case "/memory":
                    self.screen.memory()
                case "/blocks":
                    self.screen.blocks(await self.blocks.list())
                case "/block":
                    label, _, text = rest.strip().partition(" ")
                    await self._write(label, text.strip())
                case "/preview":
                    self.screen.plan(await self.agent.preview_compaction())
                case "/compact":
                    summary = await self.agent.compact()
                    told = "There is nothing to sum up." if summary is None else f"Summed up: {summary.text}"
                    self.screen.say(told)
                case "/undo":
                    back = await self.agent.undo_compaction()
                    self.screen.say(f"{len(back.covers)} turns are shown again.")
                case _:
                    self.screen.say(HELP)
        except ElytronError as error:
            self.screen.note(error.message)

    async def _write(self, label: str, text: str) -> None:
        try:
            block = await self.blocks.change(label, value=text)
        except NotFound:
            block = await self.blocks.create(BlockDraft(label=label, value=text))
        self.screen.blocks([block])

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """Have an interrupt end the run that is under way, and at the prompt the conversation."""
        loop = asyncio.get_running_loop()

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            if self._running is None:
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(self._running.cancel)

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _read() -> str | None:
    """Return the next line, None at the end of the input. Nothing else runs meanwhile: nothing is under way."""
    try:
        if sys.stdin.isatty():
            return input("> ")
        line = sys.stdin.readline()
    except (EOFError, KeyboardInterrupt):
        return None
    return line.rstrip("\n") if line else None
