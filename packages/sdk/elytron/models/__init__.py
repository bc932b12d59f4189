"""Models behind the ports of `elytron_core.ports.models`. Names are loaded when they are first used."""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron.models.openai_compatible import OpenAIModel, Structuring
    from elytron.models.recorded import Cassette, RecordedModel, RecordingModel, call_key
    from elytron.models.scripted import ScriptedModel

_HOMES = {
    "elytron.models.openai_compatible": "OpenAIModel Structuring",
    "elytron.models.recorded": "Cassette RecordedModel RecordingModel call_key",
    "elytron.models.scripted": "ScriptedModel",
}

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
    __getattr__ = _loading(__name__, _HOMES)
