"""Output cannot control a terminal, and errors exit with their own code."""

import asyncio
import io
import itertools
import json
import signal
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest
from tests.cli.conftest import CommandLine

from elytron_adapter.envelope import EXIT_INTERRUPTED, FAILURES, RejectedAnswer
from elytron_cli.app import exit_code
from elytron_cli.terminal.output import (
    CommandOutput,
    OperationRefused,
    ProgressBar,
    Unit,
    json_text,
    safe_line,
    safe_text,
)
from elytron_core.clock import Instant
from elytron_core.contracts.memories import HistoryEvent, HistoryItem
from elytron_core.errors import NotFound

HOSTILE = "a\x1b[31mred\x07\x00\x9b\u202eevil\u2028\r\tend\ud800"
HARMLESS = "Zoë 外婆　👩\u200d💻\nnext"


def test_control_characters_are_written_as_escapes() -> None:
    assert safe_text(HOSTILE) == "a\\x1b[31mred\\x07\\x00\\x9b\\u202eevil\\u2028\\r\\tend\\ud800"


def test_ordinary_text_is_unchanged() -> None:
    assert safe_text(HARMLESS) == HARMLESS
    assert safe_line(HARMLESS) == "Zoë 外婆 👩\u200d💻 next"


def test_json_is_safe_to_print_and_means_the_same() -> None:
    item = HistoryItem(id="x", event=HistoryEvent.ADDED, at=Instant(0), text=HOSTILE.replace("\ud800", "") + HARMLESS)
    text = json_text(item)
    assert json.loads(text)["text"] == item.text
    assert all(char.isprintable() or char in "\n\u3000\u200d" for char in text)


def raising(error: BaseException) -> Callable[[], object]:
    def run() -> object:
        raise error

    return run


ENDINGS: dict[str, tuple[BaseException, int, str]] = {
    "a refusal": (OperationRefused(RejectedAnswer(request_id="r", error_key="conflict", reason="no")), 4, "no"),
    "an error of ours": (NotFound(what="memory", name="x"), 3, "no memory of this name in this scope"),
    "a usage error": (click.UsageError("no such option"), 2, "no such option"),
    "anything else": (
        ValueError("s3cret"),
        1,
        "internal error (ValueError); set ELYTRON_DEBUG=1 to see the traceback",
    ),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_an_error_is_one_line_with_its_own_exit_code(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    error, code, reason = ENDINGS[case]
    assert exit_code(raising(error), as_json=False) == code
    assert capsys.readouterr() == ("", f"elytron: {reason}\n")
    assert exit_code(raising(error), as_json=True) == code
    assert json.loads(capsys.readouterr().err)["error"]["reason"] == reason


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.exceptions.Abort()])
def test_an_interrupted_run_exits_with_130_and_reports_what_is_stored(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "stopped before completion; everything acknowledged is stored"
    assert exit_code(raising(error), as_json=False) == EXIT_INTERRUPTED == 130
    assert capsys.readouterr() == ("", f"elytron: {told}\n")
    assert exit_code(raising(error), as_json=True) == EXIT_INTERRUPTED
    out, err = capsys.readouterr()
    assert (out, json.loads(err)["error"]) == (
        "",
        {"key": "interrupted", "reason": told, "retryable": False, "details": {}},
    )


def at_work() -> object:
    """Get SIGTERM in the middle of a command, which cleans up."""

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            sys.stdout.write("closed")

    return asyncio.run(work())


def not_at_work_yet() -> object:
    signal.raise_signal(signal.SIGTERM)
    return 0


@pytest.mark.parametrize("interrupt", [signal.default_int_handler, signal.SIG_IGN])
@pytest.mark.parametrize(("run", "out"), [(at_work, "closed"), (not_at_work_yet, "")])
def test_sigterm_exits_with_143_after_cleanup_and_says_so(
    run: Callable[[], object], out: str, interrupt: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        assert exit_code(run, as_json=False) == 143
    finally:
        signal.signal(signal.SIGINT, before)
    told = "stopped by SIGTERM before completion; everything acknowledged is stored"
    assert capsys.readouterr() == (out, f"elytron: {told}\n")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_an_existing_sigterm_handler_is_preserved(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        assert exit_code(not_at_work_yet, as_json=False) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr() == ("", "")


def test_debug_mode_shows_the_original_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELYTRON_DEBUG", "1")
    with pytest.raises(ValueError, match="s3cret"):
        exit_code(raising(ValueError("s3cret")), as_json=None)


def test_a_run_returns_its_code_or_zero() -> None:
    assert (exit_code(lambda: 13, as_json=None), exit_code(lambda: None, as_json=None)) == (13, 0)


def test_exit_codes_of_different_kinds_are_distinct() -> None:
    kinds = ("internal", "invalid_input", "not_found", "conflict", "permission_refused", "unreadable_file",
             "limit_exceeded", "unsupported", "store_unavailable", "store_full", "store_failed", "store_foreign",
             "store_corrupt", "key_missing")  # fmt: skip
    codes = [FAILURES[kind].exit for kind in kinds]
    assert codes == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("unit", "pace"), [("bytes", "kB/s"), ("texts", "9000/10000")])
def test_at_a_terminal_a_bar_shows_progress_pace_and_time_left(
    monkeypatch: pytest.MonkeyPatch, unit: Unit, pace: str
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    ticks = itertools.count()
    monkeypatch.setattr("rich.console.monotonic", lambda: float(next(ticks)))
    with ProgressBar("importing", unit=unit, is_visible=True, first="judging") as bar:
        for done in range(1_000, 10_000, 1_000):
            bar.at(done, 10_000)
    shown = terminal.getvalue()
    assert 0 <= shown.find("judging") < shown.find("importing")
    assert pace in shown
    assert "0:00:0" in shown


@pytest.mark.parametrize("shown", [True, False])
def test_without_a_terminal_there_is_no_progress_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, shown: bool
) -> None:
    if not shown:
        monkeypatch.setattr(sys, "stderr", Terminal())
    with ProgressBar("importing", unit="bytes", is_visible=shown) as bar:
        bar.at(1, 2)
    assert capsys.readouterr().err == ""


def test_an_automatic_progress_bar_appears_with_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar("indexing", unit="entries", is_visible=True, unasked=True) as bar:
        assert terminal.getvalue() == ""
        for done in range(0, 3_001, 1_000):
            bar.at(done, 3_000)
        bar.at(1, 2)
    assert all(shown in terminal.getvalue() for shown in ("indexing", "3000/3000", "1/2"))


def test_at_a_terminal_errors_and_reports_are_human_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert exit_code(raising(NotFound(what="memory", name="x\x1b")), as_json=None) == 3
    assert terminal.getvalue().startswith("elytron: no memory ")
    assert "\x1b" not in terminal.getvalue()
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert not CommandOutput().is_json
    assert CommandOutput(as_json=True).is_json


def test_times_are_printed_in_iso_8601_next_to_milliseconds(elytron: CommandLine) -> None:
    elytron("add", "tea", "--at", "2025-05-01T10:00:00Z")
    (item,) = elytron.json("list")["items"]
    assert (item["at"], item["at_iso"]) == (1_746_093_600_000, "2025-05-01T10:00:00Z")
