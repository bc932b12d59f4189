"""Models behind the ports of `elytron_core.ports.models`. Names are loaded when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elytron.models.openai_compatible import OpenAIModel, Structuring
    from elytron.models.recorded import Cassette, RecordedModel, RecordingModel, call_key
    from elytron.models.scripted import ScriptedModel

_HOMES = {
    "elytron.models.openai_compatible": ("OpenAIModel", "Structuring"),
    "elytron.models.recorded": ("Cassette", "RecordedModel", "RecordingModel", "call_key"),
    "elytron.models.scripted": ("ScriptedModel",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Cassette",
    "OpenAIModel",
    "RecordedModel",
    "RecordingModel",
    "ScriptedModel",
    "Structuring",
    "call_key",
]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'elytron.models' has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value
