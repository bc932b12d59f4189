"""The command line as the host of a console: its store, its settings of models, and the commands that are checks."""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from elytron.runtime import MemoryRuntime
from elytron_cli.agents.hosts import McpHost
from elytron_cli.config import FILE, FoundSetting, RunSettings, file_settings, ways_to_set
from elytron_console import (
    ConsoleHost,
    ModelConfig,
    ModelConfigChange,
    ModelSetting,
    SmokeCheck,
    StorageReport,
    models_in_use,
)
from elytron_core.errors import ElytronError, InvalidInput, PermissionRefused, StoreUnavailable
from elytron_store import parse_url
from elytron_store.backup import latest_backup, size_on_disk

_START: Final = "from elytron_cli.main import run_command_line; run_command_line()"
_TARGET: Final = "claude-code"


def console_host(settings: RunSettings, runtime: MemoryRuntime, /) -> ConsoleHost:
    """Return what a server with these settings lets its console show."""
    return ConsoleHost(
        store=settings.store.shown,
        storage=lambda: _storage_report(settings.store.value),
        models=FileModelSettings(settings, runtime, Path.cwd() / FILE),
        command=(sys.executable, "-c", _START),
        checks=_smoke_checks(settings),
        rule_commands=(
            f"elytron rules export --target {_TARGET}",
            f"elytron mcp config --host {McpHost.CLAUDE_CODE.value}",
        ),
    )


def _smoke_checks(settings: RunSettings) -> tuple[SmokeCheck, ...]:
    store = ("--store", settings.store.value)
    sealed = ("--key-file", settings.key_file.value) if settings.key_file is not None else ()
    is_shared = parse_url(settings.store.value).path is not None
    doctor = (SmokeCheck("store", "The store opens and is sound", ("doctor", *store, *sealed, "--no-json")),)
    return (
        SmokeCheck("version", "The command line starts", ("version",)),
        *(doctor if is_shared else ()),
        SmokeCheck("model-api", "A conversation goes through the model APIs and is remembered", ("demo", "proxy")),
        SmokeCheck("rules", "Rules for agents are exported", ("rules", "export", "--target", _TARGET)),
        SmokeCheck(
            "capabilities", "This version says what it can do", ("platform", "capability-snapshot", "--no-json")
        ),
    )


def _storage_report(url: str) -> StorageReport:
    path = parse_url(url).path
    if path is None:
        return StorageReport()
    try:
        device = shutil.disk_usage(path if path.exists() else path.parent)
    except OSError:
        return StorageReport(store_bytes=size_on_disk(path), backed_up_at=latest_backup(path))
    return StorageReport(
        store_bytes=size_on_disk(path),
        free_bytes=device.free,
        device_bytes=device.total,
        backed_up_at=latest_backup(path),
    )


class FileModelSettings:
    """The settings of models in `elytron.toml`. A change counts at the next start; options and variables win."""

    def __init__(self, settings: RunSettings, runtime: MemoryRuntime, file: Path, /) -> None:
        self._settings = settings
        self._runtime = runtime
        self._file = file

    def read(self) -> ModelConfig:
        """Return the models in use, and the settings of the next start."""
        found = models_in_use(self._runtime.context.models)
        written = file_settings(self._file)
        return ModelConfig(
            embedder=_model_setting("embedder", found.embedder.in_use, self._settings.embedder, written),
            language_model=_model_setting(
                "language_model", found.language_model.in_use, self._settings.language_model, written
            ),
            file=FILE,
            note=(
                "A change is written to the file in the server's folder and counts at its next start. Vectors of"
                " another embedder are made then by elytron model switch; until they are complete, recall"
                " compares the former ones."
            ),
        )

    def change(self, change: ModelConfigChange, /) -> None:
        """Write the settings to the file.

        Raises InvalidInput for a model that is none, PermissionRefused for a setting that an option or a variable
        gives, StoreUnavailable if the file cannot be written.
        """
        wanted = {name: text.strip() for name, text in change if text is not None}
        for name, text in wanted.items():
            found: FoundSetting | None = getattr(self._settings, name)
            if found is not None and found.origin != FILE:
                raise PermissionRefused(f"{name} is set by {found.origin}, which outweighs {FILE}: change it there")
            if text:
                _require_model(name, text)
        if wanted:
            _write_settings(self._file, wanted)


def _model_setting(name: str, in_use: str | None, found: FoundSetting | None, written: dict[str, str]) -> ModelSetting:
    if found is not None and found.origin != FILE:
        return ModelSetting(in_use=in_use, setting=found.shown, origin=found.origin)
    text = written.get(name)
    return ModelSetting(
        in_use=in_use,
        setting=FoundSetting(text, FILE).shown if text is not None else None,
        origin=FILE if text is not None else f"not set ({ways_to_set(name)})",
        is_changeable=True,
    )


def _require_model(name: str, text: str) -> None:
    """Raise InvalidInput unless `text` names a model. It is not loaded, and no server is asked."""
    if re.search(r"[\x00-\x1f\x7f\"\\]", text):
        raise InvalidInput(field=name, problem="has a quote, a backslash or a control character")
    if name == "language_model":
        from elytron_models import address_of

        address_of(text, field=name)
        return
    from elytron.embedding.embedders import embedder_of

    try:
        embedder_of(text)
    except ElytronError as error:
        raise InvalidInput(field=name, problem=f"names no embedder that can be had here: {error.message}") from None


def _write_settings(file: Path, wanted: dict[str, str]) -> None:
    """Put the settings into the file, whole or not at all; its other lines stay. An empty text takes one out."""
    try:
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        for name, text in wanted.items():
            lines = [line for line in lines if not re.match(rf"\s*{name}\s*=", line)]
            if text:
                lines.append(f'{name} = "{text}"')
        with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as beside:
            beside.write("".join(f"{line}\n" for line in lines))
        if file.exists():
            shutil.copymode(file, beside.name)
        os.replace(beside.name, file)  # noqa: PTH105 - both are names
    except OSError as error:
        raise StoreUnavailable(f"{FILE} cannot be written: {error.strerror}") from error
