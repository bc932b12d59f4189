"""Models that say what they were given, or what was recorded; those on servers are in `elytron_models`.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron.models.recorded import Cassette, RecordedModel, RecordingModel, call_key
    from elytron.models.scripted import ScriptedModel

_HOMES = {
    "elytron.models.recorded": "Cassette RecordedModel RecordingModel call_key",
    "elytron.models.scripted": "ScriptedModel",
}

__all__ = [
    "Cassette",
    "RecordedModel",
    "RecordingModel",
    "ScriptedModel",
    "call_key",
]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names
    __getattr__ = _loading(__name__, _HOMES)
