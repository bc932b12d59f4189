"""Models with scripted or recorded answers. Clients of model servers are in `elytron_models`.

Names are loaded when they are first used.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron.models.scripted": "ModelCassette RecordedModel RecordingModel ScriptedModel call_key",
    },
)
