"""Evaluation commands: measure memory quality, try proposals on a copy, and replay fixtures on several stores."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import elytron
from elytron import MemoryRuntime
from elytron_cli.app import FAILURE
from elytron_cli.commands.agents.recall_evaluation import recall_command
from elytron_cli.input.options import (
    PageCommand,
    PageGroup,
    common_but_profile,
    common_options,
    limit_option,
    page_command,
)
from elytron_cli.input.values import profile_option
from elytron_cli.session import (
    CommandSession,
    answer_request,
    keys_of,
    model_of,
    run_output,
    run_settings,
    run_work,
    scope_of,
    text_model_of,
)
from elytron_cli.tables import layout as tables_layout
from elytron_cli.tables import transcript as tables_transcript
from elytron_cli.terminal.output import CommandOutput, safe_line, safe_text
from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.contracts.inspection import MemoryReplayRequest
from elytron_core.errors import MissingExtra
from elytron_core.ids import IdSource
from elytron_core.ports.models import LanguageModel
from elytron_core.ports.store import KeyProvider
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from rich.console import Console

    from elytron_evaluation.hook_rates import HookRates
    from elytron_replay.evolve import SandboxReport
    from elytron_replay.runner import ReplayEngine


@click.group("evaluate", cls=PageGroup)
@common_options
def evaluate_group() -> None:
    """Measure the quality of memory against required rates."""


evaluate_group.add_command(recall_command)


@evaluate_group.command("hooks")
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
@common_options
def hooks_command(*, file: Path | None) -> int | None:
    """Replay turns through turn hooks in a temporary memory, and print the rates.

    By default, the built-in turns are used. FILE contains JSON lines of the kinds turn, question, wait and setup. Exits
    with 1 if a rate misses its target.
    """
    from elytron_evaluation.hook_rates import evaluate_hooks as rated
    from elytron_evaluation.hook_rates import evaluate_turns, read_script

    rates = asyncio.run(rated() if file is None else evaluate_turns(read_script(file)))
    run_output().report(rates, _show_rates)
    return None if rates.hold else FAILURE


def _show_rates(console: "Console", report: "HookRates") -> None:
    rows = (
        (
            rate.name.replace("_", " "),
            f"{rate.value:.2f}",
            f"{'at most' if rate.is_ceiling else 'at least'} {rate.bar:.2f}",
            "" if rate.holds else "missed",
        )
        for rate in report.rates
    )
    tables_layout.show_table(console, ("rate", "value", "bar", ""), rows, numbers=("value", "bar"))
    if report.unmeasured:
        names = ", ".join(name.replace("_", " ") for name in report.unmeasured)
        console.print(f"not measurable with these turns: {names}", soft_wrap=True)


_FILE = click.argument("proposal", type=click.Path(path_type=Path))
_PROFILE = profile_option("Host profile, which decides how thoroughly a proposal is tested.")


@click.group("evolve", cls=PageGroup)
@common_options
def evolve_group() -> None:
    """Try proposed changes on a copy of memory, and submit those that pass."""


@evolve_group.command("try")
@_FILE
@_PROFILE
@common_but_profile
def try_out(*, proposal: Path, profile: ProfileName) -> int | None:
    """Try the proposal in the JSON file PROPOSAL without writing it. Exits with 1 if it fails."""
    return _run_proposal(proposal, profile, submitting=False)


@evolve_group.command("submit")
@_FILE
@_PROFILE
@common_but_profile
def submit_command(*, proposal: Path, profile: ProfileName) -> int | None:
    """Try the proposal in the JSON file PROPOSAL again and, if it passes, write it."""
    return _run_proposal(proposal, profile, submitting=True)


def _run_proposal(path: Path, profile: ProfileName, *, submitting: bool) -> int | None:
    from elytron_replay import evolve as evolving

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        proposal = evolving.load_proposal(path)
        if submitting:
            report, submission = await evolving.submit_proposal(session.runtime, proposal, profile=profile)
        else:
            report, submission = await evolving.try_out(session.runtime, proposal, profile=profile), None
        out.report(report, _show_proposal)
        if submission is not None:
            out.report(
                submission, lambda console, _: console.print(f"submitted: {safe_line(', '.join(submission.ids))}")
            )
        return None if report.ok else FAILURE

    return run_work(work, when_missing=WhenMissing.MAKE if submitting else WhenMissing.REFUSE)


def _show_proposal(console: "Console", report: "SandboxReport") -> None:
    tier = report.review.tier.value if report.review.tier is not None else "no"
    console.print(f"{safe_line(report.review.proposal)}: {tier} trial, {'passed' if report.ok else 'failed'}")
    for rejection in report.review.rejections:
        console.print(f"  rejected: {rejection.value}")
    for decision in report.decisions:
        console.print(
            f"  {decision.verdict.value} {safe_line(decision.id or decision.plane)} {decision.reason}", soft_wrap=True
        )
    if report.asked:
        console.print(f"  {report.asked} memories queried, {len(report.displaced)} displaced")


STORES = "memory,file,sqlite,embedded"
WALL = Path("fixtures/wall")


@page_command("gate")
@click.argument("fixtures", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--operation", "demanded", multiple=True, metavar="NAME", help="Another operation to require.")
@click.option("--all", "is_all", is_flag=True, help="Require every operation.")
@common_options
def gate_command(*, fixtures: tuple[Path, ...], demanded: tuple[str, ...], is_all: bool) -> int | None:
    """Show which operations FIXTURES exercise; write, recall, project and inspect are always required.

    Exits with 1 if no fixture exercises a required operation. Nothing is run.
    """
    import elytron_replay
    from elytron_replay import runner

    report = elytron_replay.operation_gate(
        _fixture_files(fixtures), demanded=runner.operation_names() if is_all else demanded
    )
    run_output().report(
        report, lambda console, _: console.print(safe_text(elytron_replay.render_gate(report)), soft_wrap=True)
    )
    return None if report.ok else FAILURE


class _WithGate(PageCommand):
    """The command `replay`, of which `replay gate` is one of its own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command that is called."""
        if args[:1] == [gate_command.name]:
            return gate_command.make_context(f"{info_name} {gate_command.name}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("replay", cls=_WithGate)
@click.argument("fixtures", nargs=-1, type=click.Path(path_type=Path))
@click.option("--stores", default=STORES, show_default=True, metavar="NAMES", help="Stores to replay the fixtures on.")
@click.option("--record", is_flag=True, help="Record the fingerprints that all stores agree on in the fixtures.")
@click.option("--wall", is_flag=True, help="Measure FIXTURES as cases of the benchmark wall on each store.")
@click.option("--conversation", metavar="NAME", help="Name of the conversation to show if there are no FIXTURES.")
@limit_option("Number of turns on a page, from the end.", usual=limits.LEDGER_TURNS)
@click.option("--cursor", metavar="CURSOR", help="Cursor of an earlier page, from the previous page.")
@common_options
def replay_command(
    *,
    fixtures: tuple[Path, ...],
    stores: str,
    record: bool,
    wall: bool,
    conversation: str | None,
    limit: int,
    cursor: str | None,
) -> int | None:
    """Replay FIXTURES (files or folders) on several stores and compare the results step by step.

    Exits with 1 if stores differ or, with --wall, if a case misses its target on any store. Without FIXTURES,
    shows the last turns of a conversation. `replay gate FIXTURES` shows which operations they exercise.
    """
    if wall:
        return _measure_wall(_fixture_files(fixtures or (WALL,)), tuple(stores.split(",")))
    if fixtures:
        return _tell_fixtures(_fixture_files(fixtures), tuple(stores.split(",")), record=record)
    return answer_request(
        MemoryReplayRequest(scope=scope_of(conversation), limit=limit, cursor=cursor), tables_transcript.show_turns
    )


def _tell_fixtures(files: tuple[Path, ...], stores: tuple[str, ...], *, record: bool) -> int | None:
    import elytron_replay

    output, keys, model = run_output(), keys_of(run_settings()), model_of(run_settings())

    async def tell() -> elytron_replay.MatrixReport:
        told_to = _told_to(stores, keys)
        if not record:
            return await elytron_replay.run_matrix(files, told_to, keys=keys)
        try:
            return await elytron_replay.record_fingerprints(files, told_to, keys=keys, model=text_model_of(model))
        finally:
            if model is not None:
                await model.close()

    report = asyncio.run(tell())
    output.report(
        report, lambda console, _: console.print(safe_text(elytron_replay.render_matrix(report)), soft_wrap=True)
    )
    return None if report.ok else FAILURE


def _measure_wall(files: tuple[Path, ...], stores: tuple[str, ...]) -> int | None:
    import elytron_replay

    keys = keys_of(run_settings())
    report = asyncio.run(elytron_replay.run_wall(files, _told_to(stores, keys), keys=keys))
    run_output().report(
        report, lambda console, _: console.print(safe_text(elytron_replay.render_wall(report)), soft_wrap=True)
    )
    return None if report.ok else FAILURE


def _told_to(stores: tuple[str, ...], keys: KeyProvider | None) -> "list[str | ReplayEngine]":
    """Return the stores by name, and those behind servers as engines."""
    return [_shared_engine(name, keys=keys) if _is_shared(name) else name for name in stores]


def _fixture_files(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    # Checked with `os`, which also returns False for an invalid file name.
    files = [file for path in paths for file in (sorted(path.glob("*.json")) if os.path.isdir(path) else (path,))]  # noqa: PTH112
    if not files:
        raise click.UsageError("the folder contains no fixtures")
    return tuple(files)


_LOOPBACK = "127.0.0.1"
_SHARED = "gateway"
"""A store behind a server, which the command starts; also `+sealed`, so that the server sees no content."""


def _is_shared(name: str) -> bool:
    """True if `name` is a store behind a server."""
    from elytron_replay.runner import SEALED

    return name.removesuffix(SEALED) == _SHARED


def _shared_engine(name: str, *, keys: KeyProvider | None) -> "ReplayEngine":
    """Return the engine called `name`: a runtime here whose store is an SQLite file behind a server that shares it.

    A sealed one is sealed here with `keys`, else with a random key that is thrown away.
    """
    from elytron_replay.runner import SEALED, ReplayEngine, passing_key

    sealing_keys = (keys or passing_key()) if name.endswith(SEALED) else None
    return ReplayEngine(name, partial(_open_shared, keys=sealing_keys), kind=_SHARED)


@asynccontextmanager
async def _open_shared(
    folder: Path,
    /,
    *,
    keys: KeyProvider | None,
    scope: Scope | None,
    clock: Clock,
    ids: IdSource,
    language_model: LanguageModel | None = None,
    profile: ProfileName | None = None,
) -> AsyncGenerator[MemoryRuntime]:
    async with (
        elytron.open(f"sqlite:///{folder}/store.db", space=None, clock=clock) as shared_runtime,
        _serve_shared(shared_runtime) as port,
        elytron.open(
            f"gateway+http://{_LOOPBACK}:{port}",
            space=None,
            scope=scope,
            keys=keys,
            clock=clock,
            ids=ids,
            language_model=language_model,
            profile=profile,
        ) as memory,
    ):
        yield memory


@asynccontextmanager
async def _serve_shared(memory: MemoryRuntime) -> AsyncGenerator[int]:
    """Share the store of `memory` on a separate port, and yield the port."""
    try:
        import uvicorn

        from elytron_adapter.access_keys import DevelopmentCallers
        from elytron_adapter.http.store import store_surfaces
        from elytron_http_shell import create_app
    except ImportError as error:
        raise MissingExtra(extra="server", purpose="replaying on a store behind a server") from error

    app = create_app(memory, authenticator=DevelopmentCallers(), further=(store_surfaces,))
    # Declared as TCP: asyncio disables Nagle's algorithm only on such sockets.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening_socket:
        listening_socket.bind((_LOOPBACK, 0))
        listening_socket.listen()
        server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, timeout_keep_alive=limits.HTTP_IDLE_S)
        )
        serve_task = asyncio.create_task(server.serve(sockets=[listening_socket]))
        try:
            # Connections are queued from here on, and answered when the server has started.
            yield listening_socket.getsockname()[1]
        finally:
            server.should_exit = True
            await serve_task
