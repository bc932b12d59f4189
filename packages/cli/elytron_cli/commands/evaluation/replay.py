"""A conversation's turns, and fixtures replayed on several stores."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elytron_cli.exit_codes import FAILURE
from elytron_cli.input.options import Command, command, common, limited
from elytron_cli.runner import answer, output, scope_of, settings
from elytron_cli.session import keys_of, model_of, text_model_of
from elytron_cli.tables import common as tables_common
from elytron_cli.terminal.output import safe
from elytron_core import limits
from elytron_core.contracts.admin.inspection import MemoryReplayRequest
from elytron_core.ports.keys import KeyProvider

if TYPE_CHECKING:
    from elytron_replay.engines import Engine

STORES = "memory,file,sqlite,embedded"
WALL = Path("fixtures/wall")


@command("gate")
@click.argument("fixtures", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--operation", "demanded", multiple=True, metavar="NAME", help="Demand it too; may be repeated.")
@click.option("--all", "is_all", is_flag=True, help="Demand every operation.")
@common
def gate(*, fixtures: tuple[Path, ...], demanded: tuple[str, ...], is_all: bool) -> int | None:
    """Say which operations FIXTURES exercise: write, recall, project and inspect are demanded of every set.

    Exits with 1 if a demanded one appears in none of them. Nothing is run.
    """
    import elytron_replay
    from elytron_replay import operations

    report = elytron_replay.gate(_files(fixtures), demanded=operations.names() if is_all else demanded)
    output().report(report, lambda console, _: console.print(safe(elytron_replay.render_gate(report)), soft_wrap=True))
    return None if report.ok else FAILURE


class _WithGate(Command):
    """The command `replay`, of which `replay gate` is one of its own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command that is called."""
        if args[:1] == [gate.name]:
            return gate.make_context(f"{info_name} {gate.name}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("replay", cls=_WithGate)
@click.argument("fixtures", nargs=-1, type=click.Path(path_type=Path))
@click.option("--stores", default=STORES, show_default=True, metavar="NAMES", help="Stores to tell the fixtures to.")
@click.option("--record", is_flag=True, help="Write the fingerprints that all stores agree on into the fixtures.")
@click.option("--wall", is_flag=True, help="FIXTURES are cases of the benchmark wall: measure them on each store.")
@click.option("--conversation", metavar="NAME", help="Without fixtures: whose turns to show.")
@limited("Turns on a page: the last ones.", usual=limits.LEDGER_TURNS)
@click.option("--cursor", metavar="CURSOR", help="The turns before an earlier page.")
@common
def replay(
    *,
    fixtures: tuple[Path, ...],
    stores: str,
    record: bool,
    wall: bool,
    conversation: str | None,
    limit: int,
    cursor: str | None,
) -> int | None:
    """Replay FIXTURES (files, or folders of them) on several stores and compare step by step.

    Exits with 1 if stores differ, and with --wall if a case is below the bar on one of them. Without FIXTURES,
    show the last turns of a conversation in their order. `replay gate FIXTURES` says which operations they exercise.
    """
    if wall:
        return _measure(_files(fixtures or (WALL,)), tuple(stores.split(",")))
    if fixtures:
        return _tell(_files(fixtures), tuple(stores.split(",")), record=record)
    return answer(MemoryReplayRequest(scope=scope_of(conversation), limit=limit, cursor=cursor), tables_common.replayed)


def _tell(files: tuple[Path, ...], stores: tuple[str, ...], *, record: bool) -> int | None:
    import elytron_replay

    out, keys, model = output(), keys_of(settings()), model_of(settings())

    async def tell() -> elytron_replay.MatrixReport:
        told_to = _told_to(stores, keys)
        if not record:
            return await elytron_replay.run_matrix(files, told_to, keys=keys)
        try:
            return await elytron_replay.record(files, told_to, keys=keys, model=text_model_of(model))
        finally:
            if model is not None:
                await model.close()

    report = asyncio.run(tell())
    out.report(report, lambda console, _: console.print(safe(elytron_replay.render(report)), soft_wrap=True))
    return None if report.ok else FAILURE


def _measure(files: tuple[Path, ...], stores: tuple[str, ...]) -> int | None:
    import elytron_replay

    keys = keys_of(settings())
    report = asyncio.run(elytron_replay.run_wall(files, _told_to(stores, keys), keys=keys))
    output().report(report, lambda console, _: console.print(safe(elytron_replay.render_wall(report)), soft_wrap=True))
    return None if report.ok else FAILURE


def _told_to(stores: tuple[str, ...], keys: KeyProvider | None) -> "list[str | Engine]":
    """Return the stores by their names, and servers' shared ones as engines."""
    from elytron_cli.server.shared_store import is_shared, shared_engine

    return [shared_engine(name, keys=keys) if is_shared(name) else name for name in stores]


def _files(given: tuple[Path, ...]) -> tuple[Path, ...]:
    # Asked of `os`, which has a no also for what is no name of a file.
    found = [file for path in given for file in (sorted(path.glob("*.json")) if os.path.isdir(path) else (path,))]  # noqa: PTH112
    if not found:
        raise click.UsageError("there are no fixtures in that folder")
    return tuple(found)
