"""What the command shows of itself in the console: its storage, its smoke checks, and its model settings."""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from elytron.runtime import MemoryRuntime
from elytron_assistants.hosts import HostName
from elytron_cli.agents.prompt_client import OWN_PROGRAM
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
from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    PermissionRefused,
    StoreUnavailable,
)
from elytron_store import parse_url
from elytron_store.backup import latest_backup, size_on_disk

_TARGET: Final = "claude-code"


def console_host(settings: RunSettings, runtime: MemoryRuntime, /) -> ConsoleHost:
    """Return what a server with these settings lets its console show."""
    return ConsoleHost(
        store=settings.store.masked_value,
        storage=lambda: _storage_report(settings.store.value),
        models=FileModelSettings(settings, runtime, Path.cwd() / FILE),
        command=OWN_PROGRAM,
        checks=_smoke_checks(settings),
        rule_commands=(
            f"elytron rules export --target {_TARGET}",
            f"elytron mcp config --host {HostName.CLAUDE_CODE.value}",
        ),
    )


def _smoke_checks(settings: RunSettings) -> tuple[SmokeCheck, ...]:
    store = ("--store", settings.store.value)
    key_options = ("--key-file", settings.key_file.value) if settings.key_file is not None else ()
    # The check is another process, which cannot open an in-memory store of this one.
    is_file_store = parse_url(settings.store.value).path is not None
    doctor_checks = (
        SmokeCheck("store", "The store can be opened and is intact", ("doctor", *store, *key_options, "--no-json")),
    )
    return (
        SmokeCheck("version", "The command line starts", ("version",)),
        *(doctor_checks if is_file_store else ()),
        SmokeCheck("model-api", "A conversation passes through the model APIs and is remembered", ("demo", "proxy")),
        SmokeCheck("rules", "Rules for agents can be exported", ("rules", "export", "--target", _TARGET)),
        SmokeCheck("capabilities", "The capabilities can be listed", ("platform", "capability-snapshot", "--no-json")),
    )


def _storage_report(url: str) -> StorageReport:
    path = parse_url(url).path
    if path is None:
        return StorageReport()
    try:
        disk_usage = shutil.disk_usage(path if path.exists() else path.parent)
    except OSError:
        return StorageReport(store_bytes=size_on_disk(path), backed_up_at=latest_backup(path))
    return StorageReport(
        store_bytes=size_on_disk(path),
        free_bytes=disk_usage.free,
        device_bytes=disk_usage.total,
        backed_up_at=latest_backup(path),
    )


class FileModelSettings:
    """The model settings in `elytron.toml`. A change applies at the next start; options and variables take
    precedence."""

    def __init__(self, settings: RunSettings, runtime: MemoryRuntime, file: Path, /) -> None:
        self._settings = settings
        self._runtime = runtime
        self._file = file

    def read(self) -> ModelConfig:
        """Return the models in use, and the settings of the next start."""
        models = models_in_use(self._runtime.context.models)
        file_values = file_settings(self._file)
        return ModelConfig(
            embedder=_model_setting("embedder", models.embedder.in_use, self._settings.embedder, file_values),
            language_model=_model_setting(
                "language_model", models.language_model.in_use, self._settings.language_model, file_values
            ),
            file=FILE,
            note=(
                "Changes are written to the file in the server's folder and take effect at its next start. Run "
                "elytron model switch to compute the vectors of a new embedder; until then, recall uses the previous "
                "ones."
            ),
        )

    def change(self, change: ModelConfigChange, /) -> None:
        """Write the settings to the file.

        Raises InvalidInput for an unknown model, PermissionRefused for a setting that an option or a variable
        gives, StoreUnavailable if the file cannot be written.
        """
        new_settings = {name: text.strip() for name, text in change if text is not None}
        for name, text in new_settings.items():
            setting: FoundSetting | None = getattr(self._settings, name)
            if setting is not None and setting.origin != FILE:
                raise PermissionRefused(f"{name} is set by {setting.origin}, which overrides {FILE}: change it there")
            if text:
                _require_model(name, text)
        if new_settings:
            _write_settings(self._file, new_settings)


def _model_setting(
    name: str, model_in_use: str | None, setting: FoundSetting | None, file_values: dict[str, str]
) -> ModelSetting:
    if setting is not None and setting.origin != FILE:
        return ModelSetting(in_use=model_in_use, setting=setting.masked_value, origin=setting.origin)
    text = file_values.get(name)
    return ModelSetting(
        in_use=model_in_use,
        setting=FoundSetting(text, FILE).masked_value if text is not None else None,
        origin=FILE if text is not None else f"not set ({ways_to_set(name)})",
        is_changeable=True,
    )


def _require_model(name: str, text: str) -> None:
    """Raise InvalidInput unless `text` names a model. It is not loaded, and no server is called."""
    # They would need escapes in TOML.
    if re.search(r"[\x00-\x1f\x7f\"\\]", text):
        raise InvalidInput(field=name, problem="contains a quote, a backslash or a control character")
    if name == "language_model":
        from elytron_models import address_of

        address_of(text, field=name)
        return
    from elytron.embedding.embedders import embedder_of

    try:
        embedder_of(text)
    except ElytronError as error:
        raise InvalidInput(field=name, problem=f"does not name an available embedder: {error.message}") from None


def _write_settings(file: Path, settings: dict[str, str]) -> None:
    """Write the settings to the file atomically; its other lines stay. An empty text removes a setting."""
    try:
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        for name, text in settings.items():
            lines = [line for line in lines if not re.match(rf"\s*{name}\s*=", line)]
            if text:
                lines.append(f'{name} = "{text}"')
        # In the same folder, since a rename works only within one device.
        with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as temporary_file:
            temporary_file.write("".join(f"{line}\n" for line in lines))
        # A temporary file is created for its owner only.
        if file.exists():
            shutil.copymode(file, temporary_file.name)
        os.replace(temporary_file.name, file)  # noqa: PTH105 - both are names
    except OSError as error:
        raise StoreUnavailable(f"{FILE} cannot be written: {error.strerror}") from error
