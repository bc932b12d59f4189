"""What a person sees of a run, and how a server and its store are found."""

import sys
from pathlib import Path

import pytest

from elytron_adapter.surface import SurfaceFigure
from elytron_agent.runs.events import (
    AnswerDropped,
    RunEnded,
    RunStarted,
    StopReason,
    TextSaid,
    ThreadAwaited,
    TurnsCompacted,
)
from elytron_cli.chat.screen import ChatScreen
from elytron_cli.commands.servers.serve import store_figures
from elytron_cli.input.server_options import address_kept, address_kept_for


def test_each_event_of_a_run_is_printed_on_its_own_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = ChatScreen(is_json=False)
    for event in (
        ThreadAwaited(thread="t", wait_s=25),
        RunStarted(run="r", thread="t"),
        RunStarted(run="r", thread="t", is_resumed=True, input="What was it?"),
        TextSaid(text="It is"),
        AnswerDropped(step=1, reason="cut"),
        TurnsCompacted(summary=1, turns=4, tokens_before=9, tokens_after=3),
        RunEnded(run="r", reason=StopReason.FAILED),
        RunEnded(run="r", reason=StopReason.FAILED, problem="no\nmodel"),
        RunEnded(run="r", reason=StopReason.ANSWERED),
    ):
        screen.show(event)
    shown = capsys.readouterr().out
    for words in (
        "up to 25 s",
        "resuming the interrupted turn: What was it?",
        "It is\n",
        "the answer was interrupted",
        "4 earlier turns",
    ):
        assert words in shown
    assert "the model did not answer" in shown
    assert "no\nmodel" not in shown


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, *, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def test_at_a_terminal_an_indicator_is_shown_until_the_model_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_a_terminal(monkeypatch, columns=80)
    screen = ChatScreen(is_json=False)
    screen.show(RunStarted(run="r", thread="t"))
    screen.show(RunStarted(run="r", thread="t"))
    assert capsys.readouterr().out == "  …"
    screen.show(TextSaid(text="It is "))
    screen.show(TextSaid(text="tea."))
    screen.show(RunEnded(run="r", reason=StopReason.ANSWERED))
    assert capsys.readouterr().out == "\r   \rIt is tea.\n"


def test_without_a_terminal_no_indicator_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    screen = ChatScreen(is_json=False)
    screen.show(RunStarted(run="r", thread="t"))
    assert capsys.readouterr().out == ""


def test_at_a_terminal_lines_break_between_words_however_the_answer_comes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_a_terminal(monkeypatch, columns=20)
    text = "What was acknowledged is kept.\n  - indented\n/a/path/that/is/longer/than/the/line\n"
    pieces = (text[place : place + 3] for place in range(0, len(text), 3))
    screen = ChatScreen(is_json=False)
    for piece in pieces:
        screen.show(TextSaid(text=piece))
    screen.show(RunEnded(run="r", reason=StopReason.ANSWERED))
    screen.say("What was acknowledged is kept.")
    streamed, said = capsys.readouterr().out.rsplit("line\n", 1)
    lines = [line.rstrip() for line in streamed.splitlines()]
    assert lines == ["What was", "acknowledged is", "kept.", "  - indented", "/a/path/that/is/longer/than/the/"]
    assert said == "What was\nacknowledged is\nkept.\n"


@pytest.mark.parametrize("store", ["m.db", "m/"])
def test_a_running_servers_address_is_next_to_its_store(store: str, tmp_path: Path) -> None:
    url = str(tmp_path / store) + ("/" if store.endswith("/") else "")
    assert address_kept_for(url) is None
    with address_kept(url, "http://127.0.0.1:1"):
        assert address_kept_for(url) == "http://127.0.0.1:1"
        with address_kept(url, "http://127.0.0.1:2"):
            assert address_kept_for(url) == "http://127.0.0.1:2"
        assert address_kept_for(url) is None
    assert list(tmp_path.iterdir()) == []


def test_a_remote_or_read_only_store_has_no_server_file(tmp_path: Path) -> None:
    for url in ("memory:", str(tmp_path / "nowhere" / "m.db")):
        with address_kept(url, "http://127.0.0.1:1"):
            assert address_kept_for(url) is None


def test_store_figures_include_its_size_and_latest_backup(tmp_path: Path) -> None:
    assert list(store_figures("memory:")) == []
    store = tmp_path / "m.db"
    store.write_bytes(b"x" * 10)
    (tmp_path / "m.db-wal").write_bytes(b"x" * 5)
    (size,) = store_figures(str(store))
    assert size == SurfaceFigure("elytron_store_bytes", size.text, 15)
    (tmp_path / "m.db.backup-time").write_text("2000")
    assert [figure.value for figure in store_figures(str(store))] == [15, 2]
    (tmp_path / "m.db.backup-time").write_text("no time")
    assert [figure.value for figure in store_figures(str(store))] == [15]
