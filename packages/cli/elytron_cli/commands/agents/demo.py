"""The demo: a year of an invented conversation, ten questions, and their cost."""

import asyncio
import os
import shlex
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import SerializeAsAny

from elytron_cli.config import FoundSetting, RunSettings, called_as
from elytron_cli.input.options import PageGroup, as_json, common_options, global_options
from elytron_cli.session import open_session, run_settings
from elytron_cli.tables import hits as tables_hits
from elytron_cli.terminal.output import CommandOutput, ProgressBar, safe_text
from elytron_core.errors import MissingExtra
from elytron_core.model import Value
from elytron_evaluation.recall_demo import DemoReport, demonstrate_recall, telling_sentences
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from rich.console import Console


STORE = "elytron-demo.db"
SHOWN_HITS = 3
CHECK_MARK = "✓"


@click.group("demo", cls=PageGroup, invoke_without_command=True)
@common_options
def demo_group() -> None:
    """Try Elytron on a year of invented conversation; needs no key, service or model.

    Writes ./elytron-demo.db, or the store that --store names, asks ten questions and shows one projection. It can be
    run repeatedly.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        return
    settings = run_settings()
    if "store" not in global_options(context):
        settings = replace(settings, store=FoundSetting(STORE, "demo"))
    # A first look is for people: JSON comes only with --json, also through a pipe.
    output = CommandOutput(as_json(context) or False)
    report = asyncio.run(_run_demo(settings, output))
    # Said again, for a variable may have been set for this command alone; what is secret is not printed.
    overriding_settings = [
        (name, one)
        for name, one in settings.explicit_settings().items()
        if one.origin.startswith(("--", "ELYTRON_", "BM_"))
    ]
    option_values = {
        f"--{name.replace('_', '-')}": one.value
        for name, one in overriding_settings
        if name != "store" and not one.secret
    }
    arguments = ["--store", settings.store.masked_value, *chain.from_iterable(option_values.items())]
    repeated_command = f"{_command_called()} {shlex.join(arguments)}"
    output.report(report, lambda console, _: _show_demo(console, report, repeated_command))


async def _run_demo(settings: RunSettings, output: CommandOutput) -> DemoReport:
    async with open_session(settings, when_missing=WhenMissing.MAKE) as session:
        with ProgressBar(
            "writing a year of conversation", unit="bytes", is_visible=not output.is_json, unasked=True
        ) as bar:
            return await demonstrate_recall(session, store=settings.store.masked_value, progress=bar.at)


def _command_called() -> str:
    return called_as(sys.argv[0], environment=os.environ, folder=Path.cwd())


def _show_demo(out: "Console", report: DemoReport, repeated_command: str) -> None:
    for number, answered in enumerate(report.answered, start=1):
        out.print(f"{number}. {answered.question}", style="bold", soft_wrap=True)
        count = max(SHOWN_HITS, *answered.evidence_at[:1], 0)
        hits = [
            hit.model_copy(update={"text": telling_sentences(hit.text, answered.question)})
            for hit in answered.hits[:count]
        ]
        marks = [CHECK_MARK if hit_number in answered.evidence_at else "" for hit_number in range(1, len(hits) + 1)]
        tables_hits.marked_hits(out, hits, marks)
    out.print("What a model would see for the first question:", style="bold")
    tables_hits.show_projection(out, report.projection)
    out.print(_demo_figures(report), style="bold", soft_wrap=True)
    out.print(f"\nThe memory is stored in {report.store}. Try:", soft_wrap=True)
    for example in (
        'recall "what happened to the cello?" --explain',
        'recall "外婆的泡菜" --speaker Mina',
        'project "plans for the swim" --max-chars 800',
        "inspect --check",
    ):
        out.print(f"  {safe_text(repeated_command)} {example}", soft_wrap=True)


def _demo_figures(report: DemoReport) -> str:
    evidence_count = sum(bool(answered.evidence_at) for answered in report.answered)
    first_place_count = sum(1 in answered.evidence_at for answered in report.answered)
    speed = f"{report.turns_per_s:,.0f} turns/s written" if report.turns_per_s is not None else "nothing new to write"
    return (
        f"{report.imported.messages} turns, {speed}, recall p50 {report.recall_p50_ms:.1f} ms; evidence found "
        f"for {evidence_count} of {len(report.answered)} questions, ranked first for {first_place_count}"
    )


class ProxyDemoReport(Value):
    """The calls of the demonstration, in their order."""

    calls: tuple[SerializeAsAny[Value], ...]


@demo_group.command("proxy")
@common_options
def demo_proxy() -> None:
    """Hold two conversations through the proxy, with a scripted model and no key.

    The model sees only what is in each request. Nothing is written to disk.
    """
    output = CommandOutput(as_json(click.get_current_context()) or False)
    try:
        report = asyncio.run(_proxy_demo())
    except ImportError as error:
        raise MissingExtra(extra="proxy", purpose="the memory proxy") from error
    output.report(report, _show_calls)


async def _proxy_demo() -> ProxyDemoReport:
    import elytron
    from elytron_evaluation.proxy_demo import demonstrate_proxy

    async with elytron.open("memory:", space="default") as memory:
        return ProxyDemoReport(calls=await demonstrate_proxy(memory, "default"))


def _show_calls(console: "Console", report: ProxyDemoReport) -> None:
    for call in report.calls:
        fields = call.model_dump()
        console.print(f"conversation {fields['conversation']}", style="bold")
        console.print(f"  you:    {fields['said']}", markup=False, soft_wrap=True)
        for placed_line in str(fields["placed"]).splitlines():
            console.print(f"  memory: {placed_line}", markup=False, style="dim", soft_wrap=True)
        console.print(f"  model:  {fields['answered']}", markup=False, soft_wrap=True)
    command = f"{_command_called()} proxy --upstream http://127.0.0.1:11434"
    console.print(f"\nTo use it with your own clients and models: {command}", soft_wrap=True)
