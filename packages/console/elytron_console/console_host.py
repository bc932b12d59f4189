"""The host of a console: the program that serves it, and what it allows to be shown and changed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from elytron.context import RuntimeModels
from elytron_adapter.surface import Family
from elytron_core.clock import Instant
from elytron_core.model import Request, Value
from elytron_core.scope import Name


class StorageReport(Value):
    """Size of the store on this machine, and the room on its device. Unknown values are omitted."""

    store_bytes: int | None = None
    free_bytes: int | None = None
    device_bytes: int | None = None
    backed_up_at: Instant | None = None


class ModelSetting(Value):
    """A model by its setting: in use now, and from the next start on."""

    in_use: str | None = None
    """The name that the model gives itself; None if the server runs without one."""
    setting: str | None = None
    """The setting that the next start reads; passwords are masked."""
    origin: str | None = None
    """Source of the setting: an option, a variable of the environment, or the file."""
    is_changeable: bool = False
    """True if the file decides, so that changing it takes effect at the next start."""


class ModelConfig(Value):
    """The models of a server."""

    embedder: ModelSetting
    language_model: ModelSetting
    file: str | None = None
    """The file that a change is written to."""
    note: str = ""


def models_in_use(models: RuntimeModels, /) -> ModelConfig:
    """Return the models of a runtime, without any setting."""
    embedder = models.embedder.info.model if models.embedder is not None else None
    language_model = models.language.name if models.language is not None else None
    return ModelConfig(embedder=ModelSetting(in_use=embedder), language_model=ModelSetting(in_use=language_model))


class ModelConfigChange(Request):
    """Update the model settings in the server's file. An empty text removes a setting; None leaves it."""

    embedder: str | None = None
    language_model: str | None = None


class ModelSettings(Protocol):
    """The model settings of the serving program."""

    def read(self) -> ModelConfig:
        """Return the settings that the next start will read."""
        ...

    def change(self, change: ModelConfigChange, /) -> None:
        """Write the settings. Raises InvalidInput for an invalid model, PermissionRefused if they cannot be set."""
        ...


@dataclass(frozen=True, slots=True)
class SmokeCheck:
    """A fixed command of the command line that shows whether a part works. Nothing of a request gets into it."""

    id: Name
    title: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsoleHost:
    """Parts of the serving program that its console may show. If one is missing, the console says so."""

    store: str = ""
    """The store in readable form, without passwords."""
    protocols: tuple[str, ...] = ()
    storage: Callable[[], StorageReport] | None = None
    models: ModelSettings | None = None
    command: tuple[str, ...] = ()
    """Command that starts this program; without it there are no smoke checks."""
    checks: tuple[SmokeCheck, ...] = ()
    rule_commands: tuple[str, ...] = ()
    """Commands that export rules for agents, for people to copy."""
    agents: Family | None = None
    """The routes of agents, if the program serves them; every call returns the same surfaces."""
