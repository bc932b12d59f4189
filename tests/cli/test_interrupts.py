"""A signal during a conversation with an agent ends the current line or the conversation."""

import asyncio
import io
import json
import signal
from collections.abc import AsyncGenerator

import pytest

import elytron
from elytron_agent import Agent
from elytron_agent.blocks.block_repository import BlockRepository
from elytron_cli.app import INTERRUPTED, TERMINATED
from elytron_cli.chat.conversation import ChatConversation, LineInput
from elytron_cli.chat.screen import ChatScreen
from elytron_core.ports.chat import FinishReason, ModelEvent, ModelInfo, ModelRequest, ReplyFinished, TextDelta

pytestmark = pytest.mark.anyio


class SignallingModel:
    """A model that sends this process signals before its first answer, and then waits until it is cancelled."""

    info = ModelInfo(name="signalling")

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = list(numbers)

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        """Yield an answer once no signal is left."""
        if self._numbers:
            signal.raise_signal(self._numbers.pop(0))
            await asyncio.Event().wait()
        yield TextDelta(text="Good morning.")
        yield ReplyFinished(reason=FinishReason.STOP)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put two lines on standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Hello.\nAnd now?\n")))


async def held(model: SignallingModel) -> int | None:
    """Return the exit code of a conversation with `model` in a new memory."""
    async with elytron.open("memory:", space="ada") as memory, Agent(memory, model) as agent:
        screen = ChatScreen(is_json=True)
        return await ChatConversation(agent, BlockRepository(memory), screen, LineInput(history=None)).hold("here")


def kinds(printed: str) -> list[str]:
    """Return the kinds of the printed events."""
    return [json.loads(line)["kind"] for line in printed.splitlines()]


@pytest.mark.usefixtures("lines")
async def test_an_interrupt_ends_only_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert await held(SignallingModel(signal.SIGINT)) is None
    shown = capsys.readouterr().out
    assert '"cancelled"' in shown
    assert "Good morning." in shown
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("lines")
async def test_an_interrupted_last_line_determines_the_exit_code() -> None:
    assert await held(SignallingModel(signal.SIGINT, signal.SIGINT)) == INTERRUPTED


@pytest.mark.usefixtures("lines")
async def test_sigterm_ends_the_conversation_and_leaves_its_run_open(capsys: pytest.CaptureFixture[str]) -> None:
    assert await held(SignallingModel(signal.SIGTERM)) == TERMINATED
    assert '"cancelled"' not in capsys.readouterr().out
