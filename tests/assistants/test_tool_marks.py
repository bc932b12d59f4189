"""What is stored about an assistant's tools: commands, exit codes, paths, and decisions, but never output."""

from elytron_assistants.foreign_json import ForeignObject
from elytron_assistants.tool_marks import MarkKind, SessionMark, ToolRun, command_fixes, read_call, read_result


def command(line: str, exit_code: int) -> ToolRun:
    """Return a finished command."""
    return read_call(f"call {line}", "Bash", ForeignObject({"command": line}), exit_code=exit_code)


def test_a_turn_that_read_the_web_or_another_server_is_marked_as_such() -> None:
    marks = [read_call("c", name, ForeignObject({"url": "x"})).marks for name in ("WebFetch", "mcp__docs__read")]
    names = ("WebFetch", "mcp__docs__read")
    assert marks == [(SessionMark(MarkKind.OUTSIDE, name),) for name in names]


def test_a_failed_command_names_the_command_that_fixed_it() -> None:
    turns = [[command("make", 2)], [command("npm install", 0), command("make", 0)]]
    expected = "`make` failed with exit code 2 and passed after `npm install`."
    assert command_fixes(turns) == {1: {"fix:call make": expected}}


def test_a_command_that_passes_on_retry_names_no_fix() -> None:
    assert command_fixes([[command("make", 2), command("make", 0)]]) == {}


def test_beyond_the_limit_the_oldest_failure_is_dropped() -> None:
    failed = [command(f"test {number}", 1) for number in range(40)]
    fixed = [command("repair", 0), command("test 0", 0), command("test 39", 0)]
    assert [*command_fixes([failed, fixed])[1]] == ["fix:call test 39"]


def test_a_failed_edit_is_not_a_change() -> None:
    call = read_call("c", "Edit", ForeignObject({"file_path": "a.py"}))
    call.finish(read_result("no such text", is_error=True))
    assert (call.changed_paths, call.marks) == ((), ())
