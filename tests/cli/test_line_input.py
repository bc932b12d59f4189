"""The input of a conversation in this process, over a terminal that a test types on."""

import asyncio
import io
import os
import pty
from collections.abc import Awaitable, Generator
from pathlib import Path

import pytest

from elytron_agent.runs.settings import ApprovalRequest
from elytron_cli.chat.conversation import NONE, ApprovalMode, LineHistory, LineInput, call_approver
from elytron_cli.chat.screen import ChatScreen
from elytron_core.errors import InvalidInput

pytestmark = pytest.mark.anyio

WRITE = ApprovalRequest(run="r", step=1, tool="notes_write", arguments='{"text": "a\\nb"}', description="Write a note.")


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Generator[int]:
    """Have a terminal as standard input, and return the handle that types on it."""
    master, slave = pty.openpty()
    with os.fdopen(slave, encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        yield master
    os.close(master)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a pipe as standard input: a line, one that is not UTF-8, an empty one, and a last one."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b" one \n\xff\n\nlast")))


async def typed(keyboard: int, text: bytes, answer: Awaitable[object]) -> object:
    """Return the result of `answer` when `text` is typed after its question."""
    asked = asyncio.ensure_future(answer)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    os.write(keyboard, text)
    return await asked


def test_terminal_lines_are_stored_in_the_history_until_end_of_input(keyboard: int, tmp_path: Path) -> None:
    history = LineHistory(tmp_path / "state" / "chat_history")
    history.add("earlier")
    lines = LineInput(history=history)
    os.write(keyboard, b"  hello \n\n\x04")
    assert [lines.read(), lines.read(), lines.read()] == ["hello", "", None]
    assert history.load() == ["earlier", "hello"]


@pytest.mark.usefixtures("pipe")
def test_a_pipe_has_no_history_and_only_a_non_text_line_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "chat_history"
    lines = LineInput(history=LineHistory(path))
    assert lines.read() == "one"
    with pytest.raises(InvalidInput, match="not UTF-8"):
        lines.read()
    assert [lines.read(), lines.read(), lines.read()] == ["", "last", None]
    assert not path.exists()


async def test_a_person_approves_each_call_until_always_is_chosen(keyboard: int) -> None:
    ask = call_approver(None, LineInput(), ChatScreen(is_json=False))
    assert ask is not None
    for answer, is_granted in ((b"n\n", False), (b"\n", False), (b"Yes\n", True), (b"a\n", True)):
        assert await typed(keyboard, answer, ask(WRITE)) is is_granted
    assert await ask(WRITE) is True
    other = WRITE.model_copy(update={"tool": "notes_drop"})
    assert await typed(keyboard, b"no\n", ask(other)) is False


async def test_input_typed_before_a_question_does_not_answer_it(keyboard: int) -> None:
    ask = call_approver(ApprovalMode.ASK, LineInput(), ChatScreen(is_json=True))
    assert ask is not None
    os.write(keyboard, b"yes\n")
    assert await typed(keyboard, b"no\n", ask(WRITE)) is False


@pytest.mark.usefixtures("pipe")
async def test_without_a_terminal_a_rule_answers() -> None:
    lines, screen = LineInput(), ChatScreen(is_json=True)
    refuse = call_approver(None, lines, screen)
    assert refuse is not None
    refusal = await refuse(WRITE)
    assert refusal == await approver_of_none(lines, screen)
    assert call_approver(ApprovalMode.ALL, lines, screen) is None
    with pytest.raises(InvalidInput, match="no terminal"):
        call_approver(ApprovalMode.ASK, lines, screen)


async def approver_of_none(lines: LineInput, screen: ChatScreen) -> object:
    """Return the answer of the rule `none`."""
    refuse = call_approver(ApprovalMode.NONE, lines, screen)
    assert refuse is not None
    answer = await refuse(WRITE)
    assert not isinstance(answer, bool)
    assert (answer.is_granted, answer.reason) == (False, NONE)
    return answer
