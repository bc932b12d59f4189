"""Evaluation: rates that say how well memory does its work, measured on what ships."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elytron_cli.exit_codes import FAILURE
from elytron_cli.input.options import Group, common
from elytron_cli.runner import output
from elytron_cli.tables import common as tables_common

if TYPE_CHECKING:
    from rich.console import Console

    from elytron_agent.hooks.evaluation.rates import HookRates


@click.group("evaluate", cls=Group)
@common
def evaluate() -> None:
    """Measure how well memory does its work: rates beside their bars."""


@evaluate.command("hooks")
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
@common
def hooks(*, file: Path | None) -> int | None:
    """Tell turns to turn hooks, in a memory of their own, and print the rates.

    The turns are those that ship, or those of FILE: lines of JSON, of the kinds turn, question, wait and setup. Exits
    with 1 if a rate misses its bar.
    """
    from elytron_agent.hooks.evaluation.scripted_turns import evaluate as rated
    from elytron_agent.hooks.evaluation.turn_file import read_script
    from elytron_agent.hooks.evaluation.turn_rates import evaluate_turns

    rates = asyncio.run(rated() if file is None else evaluate_turns(read_script(file)))
    output().report(rates, _shown)
    return None if rates.hold else FAILURE


def _shown(console: "Console", found: "HookRates") -> None:
    rows = (
        (
            rate.name.replace("_", " "),
            f"{rate.value:.2f}",
            f"{'at most' if rate.is_ceiling else 'at least'} {rate.bar:.2f}",
            "" if rate.holds else "missed",
        )
        for rate in found.rates
    )
    tables_common.table(console, ("rate", "value", "bar", ""), rows, numbers=("value", "bar"))
    if found.unmeasured:
        names = ", ".join(name.replace("_", " ") for name in found.unmeasured)
        console.print(f"nothing in the turns to measure: {names}", soft_wrap=True)
