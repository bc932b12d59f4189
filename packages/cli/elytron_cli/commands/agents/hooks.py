"""Commands for coding-agent hooks and rules: recall at a prompt, store at a stop, write the rules files."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

import elytron
from elytron_assistants.repository import repository_of
from elytron_cli.agents.hooks import (
    CONTEXT_CHARS,
    HookEvent,
    HookPlace,
    PromptServer,
    configure_hooks,
    last_turns,
    prompt_context,
    read_event,
    require_transcript,
    scope_of,
    settings_file,
    start_resident,
    typed_text,
)
from elytron_cli.agents.hosts import KEY, RulesReport, RulesTarget, rules_of, setting_options
from elytron_cli.agents.prompt_client import RESIDENT, resident_address
from elytron_cli.app import FAILURE
from elytron_cli.config import RunSettings, program_path
from elytron_cli.input.options import OneOf, PageGroup, common_options, size_option
from elytron_cli.session import open_session, person_space, run_output, stated_settings
from elytron_cli.terminal.help_page import PER_REPOSITORY
from elytron_cli.terminal.output import OperationRefused
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, StoreUnavailable
from elytron_core.planes.transcript import TurnOrigin
from elytron_store import WhenMissing
from elytron_turn.memory import TurnMemory

ResultT = TypeVar("ResultT")

_RESIDENT = click.option(
    "--resident",
    is_flag=True,
    help="Keep a process with the open memory running between prompts, to answer in about 0.1 s.",
)
_WAS_SHARED = (
    "\nThe previous hooks shared one space between all repositories. Its memories remain there;"
    " `elytron repo migrate` moves them."
)
_URL = click.option("--url", metavar="URL", help=f"Address of a memory server; its key is read from {KEY}.")


@click.group("hooks", cls=PageGroup)
@common_options
def hooks_group() -> None:
    """Recall and store automatically through a coding agent's hooks."""


@hooks_group.group("claude-code", cls=PageGroup)
@common_options
def claude_code() -> None:
    """Configure the hooks of Claude Code."""


@claude_code.command("install")
@click.option("--project", is_flag=True, help="Configure this folder only, in .claude/settings.local.json.")
@_RESIDENT
@_URL
@common_options
def install_command(*, project: bool, resident: bool, url: str | None) -> None:
    """Configure Claude Code to recall at each prompt and store each turn; other hooks are preserved.

    Without --space, each repository has a memory of its own and one of the person beside it: `elytron repo` shows them.
    With --url, name the space that the key opens.
    """
    _require_local(url, resident=resident)
    folder = Path.cwd() if project else Path.home()
    file = settings_file(folder, is_project=project)
    options, space = _memory_options(url, Path.cwd() if project else None)
    program = program_path(sys.argv[0])
    recall = [program, "hooks", "recall", *([RESIDENT] if resident else []), *options]
    keep = [program, "hooks", "keep", *options]
    report = configure_hooks(file, recall=shlex.join(recall), keep=shlex.join(keep), space=space)
    outcome = "written to" if report.changed else "unchanged in"
    whose = f"the space {space}" if space is not None else "a space for each repository"
    line = f"{outcome} {report.file}: {whose}{_WAS_SHARED if report.was_shared else ''}"
    run_output().report(report, lambda console, _: console.print(line, soft_wrap=True))


def _memory_options(url: str | None, project: Path | None) -> tuple[list[str], str | None]:
    """Return the options that name the memory, and its space; None if that is the one of each session's repository.

    Repositories share a space only if it was named. Raises InvalidInput for a server without a space.
    """
    settings = stated_settings()
    is_named = settings.space.origin != "default"
    if url is not None:
        if not is_named:
            raise InvalidInput(field="--space", problem="is missing: with --url, name the space that the key opens")
        return ["--url", url, "--space", settings.space.value], settings.space.value
    options = setting_options(settings)
    if settings.is_per_repository:
        return options, None
    if is_named:
        return options, settings.space.value
    if project is not None and repository_of(project) is None:
        raise InvalidInput(field="--space", problem="is missing: several projects share this folder, so name a space")
    return [*options, PER_REPOSITORY], None


def _harmless_errors(body: Callable[..., None]) -> Callable[..., int | None]:
    """Have what goes wrong end with code 1, which an agent shows and goes on; its code 2 would stop the prompt."""

    @wraps(body)
    def guarded(**arguments: Any) -> int | None:
        try:
            body(**arguments)
        except OperationRefused as error:
            run_output().error(error.rejected)
        except ElytronError as error:
            print(f"elytron: {error.message}", file=sys.stderr)
        else:
            return None
        return FAILURE

    return guarded


@hooks_group.command("recall")
@size_option(CONTEXT_CHARS, "Size of the block, in characters.")
@_RESIDENT
@_URL
@common_options
@_harmless_errors
def recall_command(*, max_chars: int, resident: bool, url: str | None) -> None:
    """Read a prompt event from standard input and print the relevant memories."""
    _require_local(url, resident=resident)
    event = _hook_event()
    if resident:
        start_resident(sys.argv[1:])
    if not typed_text(event.prompt):
        return

    async def recall(memory: TurnMemory) -> str | None:
        return await prompt_context(memory, event, max_chars=max_chars)

    context = _with_memory(recall, event, url=url, when_missing=WhenMissing.PRETEND)
    if context is not None:
        print(context)


@hooks_group.command("resident")
@size_option(CONTEXT_CHARS, "Size of the block, in characters.")
@common_options
@_harmless_errors
def resident_command(*, max_chars: int) -> None:
    """Keep the memory open and answer the prompts of `hooks recall --resident` with the same options.

    That command starts it automatically. It ends half an hour after the last prompt, or when the store is replaced.
    """
    address = resident_address(sys.argv[1:])
    if address is None:
        raise InvalidInput(field="hooks resident", problem="needs local sockets, which are not available here")
    settings, place = _hook_place()

    async def stay() -> None:
        async with open_session(settings, when_missing=WhenMissing.REFUSE) as session:
            server = PromptServer(
                session, place.space, settings.store.value, max_chars=max_chars, per_repository=place.per_repository
            )
            await server.serve(address, ready=lambda: print(f"listening on {address}", flush=True))

    asyncio.run(stay())


def _require_local(url: str | None, *, resident: bool) -> None:
    if url is not None and resident:
        raise InvalidInput(field=RESIDENT, problem="cannot be used with --url: it is for a store on this machine")


@hooks_group.command("keep")
@_URL
@common_options
@_harmless_errors
def keep_command(*, url: str | None) -> None:
    """Store the finished turn that a stop event on standard input names; repeats store nothing.

    Only the user's own text and the reply are stored, not what the program adds to messages.
    """
    event = _hook_event()
    if turns := last_turns(event):

        async def store(memory: TurnMemory) -> None:
            # As an import of the session: a turn that comes again is no conflict, and an erased one stays gone.
            await memory.after(turns, origin=TurnOrigin.IMPORTED)

        _with_memory(store, event, url=url, when_missing=WhenMissing.MAKE)
    require_transcript(event)


def _hook_event() -> HookEvent:
    return read_event(sys.stdin.buffer.read(limits.JSON_BYTES + 1))


def _hook_place() -> tuple[RunSettings, HookPlace]:
    """Return the settings of a hook and where its memory is. A file that the repository carries decides nothing."""
    settings = stated_settings(with_file=False)
    if settings.is_per_repository:
        return settings, HookPlace(person_space(settings), per_repository=True)
    return settings, HookPlace(settings.space.value)


def _with_memory(
    work: Callable[[TurnMemory], Coroutine[Any, Any, ResultT]],
    event: HookEvent,
    /,
    *,
    url: str | None,
    when_missing: WhenMissing,
) -> ResultT:
    """Return what `work` returns with the memory of an event's folder, on this machine or at `url`."""
    settings, place = _hook_place()

    async def performed() -> ResultT:
        if url is not None:
            async with elytron.connect(url, api_key=os.environ.get(KEY)) as memory:
                return await work(TurnMemory(memory.operate, scope_of(event, place.server_space(event))))
        async with open_session(settings, when_missing=when_missing) as session:
            operate = await place.operate_of(session, event)
            return await work(TurnMemory(operate, scope_of(event, place.space)))

    return asyncio.run(performed())


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
    out = run_output()
    if out.as_json or rules.written is not None:
        out.report(rules, lambda console, _: console.print(f"written to {rules.written}\n{rules.note}", soft_wrap=True))
        return
    # The text alone goes to stdout, so that it can be sent to a file.
    print(f"{rules.file}: {rules.note}", file=sys.stderr)
    print(rules.text, end="")
