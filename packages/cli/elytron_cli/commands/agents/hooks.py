"""Commands for coding-agent hooks and rules: recall at a prompt, store at a stop, write the rules files."""

import asyncio
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from elytron_assistants.hooks.activity import ActivityFolder
from elytron_assistants.hooks.blocks import CONTEXT_CHARS
from elytron_assistants.hooks.events import HOSTS, HookKind
from elytron_assistants.hooks.runner import ALONE_S, HookCall
from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import KEY
from elytron_assistants.wiring.wiring_files import slash_command_text
from elytron_cli.agents.hook_space import HookPlace
from elytron_cli.agents.prompt_client import RESIDENT, resident_address
from elytron_cli.agents.resident import HookServer, run_alone, start_detached, start_resident
from elytron_cli.agents.rules import RulesReport, RulesTarget, rules_of
from elytron_cli.agents.status_line import print_status_line
from elytron_cli.app import FAILURE
from elytron_cli.commands.agents.install import claude_code, wiring_choice
from elytron_cli.config import state_folder
from elytron_cli.input.options import OneOf, PageGroup, common_options, size_option
from elytron_cli.session import open_session, person_space, run_output, stated_settings
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, StoreUnavailable
from elytron_store import WhenMissing

_RESIDENT = click.option(
    "--resident",
    is_flag=True,
    help="Keep a process with the open memory running between events, to answer in about 0.1 s.",
)
_HOST = click.option("--host", type=OneOf(HOSTS), default=HostName.CLAUDE_CODE, help="Assistant that calls the hook.")
_FOLDER = click.argument("folder", type=click.Path(path_type=Path), default=".")
_URL = click.option("--url", metavar="URL", help=f"Address of a memory server; its key is read from {KEY}.")


@click.group("hooks", cls=PageGroup)
@common_options
def hooks_group() -> None:
    """Recall and store automatically through a coding agent's hooks."""


hooks_group.add_command(claude_code)


def _event_command(kind: HookKind, text: str) -> None:
    """Add the command of an event, with the help `text`."""

    @hooks_group.command(kind.value, help=text)
    @_HOST
    @size_option(CONTEXT_CHARS, "Size of the block at a prompt, in characters.")
    @_RESIDENT
    @_URL
    @common_options
    def event_command(*, host: HostName, max_chars: int, resident: bool, url: str | None) -> int:
        try:
            return _answer_event(kind, host, max_chars=max_chars, resident=resident, url=url)
        except ElytronError as error:
            # Code 2 would stop the prompt.
            print(f"elytron: {error.message}", file=sys.stderr)
            return FAILURE


for _kind, _text in {
    HookKind.START: "Print how things stand in the repository, for a session that starts.",
    HookKind.RECALL: "Read a prompt event from standard input and print the relevant memories.",
    HookKind.COMPACT: "Store what a session has said before its context is compacted.",
    HookKind.KEEP: "Store the finished turns of the session that an event names; repeats store nothing.",
    HookKind.END: "Store the rest of a session that ends, in a process of its own.",
}.items():
    _event_command(_kind, _text)


def _answer_event(kind: HookKind, host: HostName, *, max_chars: int, resident: bool, url: str | None) -> int:
    """Handle the event, print the answer, and return the exit code."""
    _require_local(url, resident=resident)
    hook_place = _hook_place(url)
    data = sys.stdin.buffer.read(limits.JSON_BYTES + 1)
    if kind is HookKind.END:
        # Hosts end this process soon.
        event_arguments = [HookKind.KEEP.value if word == HookKind.END.value else word for word in sys.argv[1:]]
        start_detached([word for word in event_arguments if word != RESIDENT], data=data)
        return 0
    call = HookCall(kind, host, data, os.environ, cpu_s=time.process_time, max_chars=max_chars, wait_s=ALONE_S)
    output = asyncio.run(run_alone(call, hook_place, _activity_folder()))
    if output.text:
        print(output.text, flush=True)
    if output.error:
        print(output.error, file=sys.stderr)
    if resident and hook_place.has_store:
        # Not earlier, because both would load the search at once.
        start_resident(sys.argv[1:])
    return output.code


@hooks_group.command("resident")
@common_options
def resident_command() -> int:
    """Hold the memory open and answer the events of hooks with `--resident` and the same options.

    Such a hook starts it automatically. It ends half an hour after the last event, or when the store is replaced.
    """
    address = resident_address(sys.argv[1:])
    if address is None:
        raise InvalidInput(field="hooks resident", problem="needs local sockets, which are not available here")
    hook_place = _hook_place(None)

    def announce() -> None:
        with suppress(BrokenPipeError):  # the hook that started it waits no longer
            print(f"listening on {address}", flush=True)

    async def stay() -> None:
        async with open_session(hook_place.settings, when_missing=WhenMissing.REFUSE) as session:
            hook_server = HookServer(session.runtime, hook_place, _activity_folder())
            await hook_server.serve(address, ready=announce)

    asyncio.run(stay())
    return 0


@hooks_group.command("pause")
@_FOLDER
@common_options
def pause_command(*, folder: Path) -> None:
    """Pause the hooks in the repository of a folder [this one]: they recall and store nothing there."""
    print(f"hooks are paused in {_activity_folder().pause(folder, is_paused=True)}")


@hooks_group.command("resume")
@_FOLDER
@common_options
def resume_command(*, folder: Path) -> None:
    """Resume the hooks in the repository of a folder [this one]."""
    print(f"hooks are active in {_activity_folder().pause(folder, is_paused=False)}")


@hooks_group.command("status")
@_HOST
@click.option("--wrap", metavar="COMMAND", help="Status line command whose output comes first.")
@common_options
def status_command(*, host: HostName, wrap: str | None) -> None:
    """Print a status line for the session that standard input names: what was recalled and stored."""
    print_status_line([f"--host={host}", *([f"--wrap={wrap}"] if wrap is not None else [])])


@hooks_group.command("command")
@_URL
@common_options
def slash_command(*, url: str | None) -> None:
    """Print the file of the command `/elytron` for Claude Code, which shows, corrects, forgets and pauses."""
    choice, _ = wiring_choice(url, is_project=False, resident=None)
    print(slash_command_text(choice), end="")


def _activity_folder() -> ActivityFolder:
    return ActivityFolder(state_folder(os.environ) / "assistants")


def _require_local(url: str | None, *, resident: bool) -> None:
    if url is not None and resident:
        raise InvalidInput(field=RESIDENT, problem="cannot be used with --url: it is for a store on this machine")


def _hook_place(url: str | None) -> HookPlace:
    """Return where a hook's memory is. A file in the repository decides nothing."""
    settings = stated_settings(with_file=False)
    is_per_repository = settings.is_per_repository
    space = person_space(settings) if is_per_repository else settings.space.value
    return HookPlace(settings, space, per_repository=is_per_repository, url=url, key=os.environ.get(KEY))


@click.group("rules", cls=PageGroup)
@common_options
def rules_group() -> None:
    """Export rules that tell coding agents how to use this memory."""


@rules_group.command("export")
@click.option("--target", required=True, type=OneOf(RulesTarget), help="Coding agent or program to write rules for.")
@click.option("--url", metavar="URL", help="Address of a memory server.")
@click.option("--output", "place", type=click.Path(path_type=Path), help="File to write, or an existing folder.")
@common_options
def export_command(*, target: RulesTarget, url: str | None, place: Path | None) -> None:
    """Print rules for an agent, or write them to a new file; for a folder, to the file that the agent reads.

    The rules contain no memories and no keys. An existing file is not changed.
    """
    rules = rules_of(target, url=url)
    if place is not None:
        path = place / rules.file if place.is_dir() else place
        _write_rules(path, rules.text)
        rules = rules.model_copy(update={"written": os.fspath(path)})
    _tell_rules(rules)


def _write_rules(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(field="--output", problem="already exists: add the rules to it by hand") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot write {path.name!r}: {error.strerror}") from error


def _tell_rules(rules: RulesReport) -> None:
    output = run_output()
    if output.as_json or rules.written is not None:
        output.report(
            rules, lambda console, _: console.print(f"written to {rules.written}\n{rules.note}", soft_wrap=True)
        )
        return
    # Only the text goes to stdout, so that it can be redirected to a file.
    print(f"{rules.file}: {rules.note}", file=sys.stderr)
    print(rules.text, end="")
