"""Rules for agents, as the programs that run them read such."""

import os
import sys
from pathlib import Path

import click

from elytron_cli.agents.hosts import RulesReport, RulesTarget, rules_of
from elytron_cli.input.options import OneOf, PageGroup, common_options
from elytron_cli.runner import run_output
from elytron_core.errors import InvalidInput, StoreUnavailable


@click.group("rules", cls=PageGroup)
@common_options
def rules_group() -> None:
    """Tell agents how to use this memory."""


@rules_group.command("export")
@click.option("--target", required=True, type=OneOf(RulesTarget), help="Which program.")
@click.option("--url", metavar="URL", help="A server's address, where the memory is on one.")
@click.option("--output", "place", type=click.Path(path_type=Path), help="A new file to write, or an existing folder.")
@common_options
def export_command(*, target: RulesTarget, url: str | None, place: Path | None) -> None:
    """Print rules for an agent, or write them to a new file; in a folder, to the file that the program reads.

    They hold no memory and no key. A file that is there is left alone.
    """
    made = rules_of(target, url=url)
    if place is not None:
        path = place / made.file if place.is_dir() else place
        _write_rules(path, made.text)
        made = made.model_copy(update={"written": os.fspath(path)})
    _tell_rules(made)


def _write_rules(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(field="--output", problem="is there already: add the rules to it by hand") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot write {path.name!r}: {error.strerror}") from error


def _tell_rules(made: RulesReport) -> None:
    out = run_output()
    if out.as_json or made.written is not None:
        out.report(made, lambda console, _: console.print(f"written to {made.written}\n{made.note}", soft_wrap=True))
        return
    # The text alone goes to stdout, so that it can be sent to a file.
    print(f"{made.file}: {made.note}", file=sys.stderr)
    print(made.text, end="")
