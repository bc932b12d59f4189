"""Settings of mem0's classes: the store that a config names, and the address and access key of a server."""

import inspect
import os
import warnings
from collections.abc import Awaitable, Mapping
from typing import Any, Final, cast

from elytron.api import MemoryFace
from elytron.factory import open as open_memory
from elytron.remote import connect
from elytron_core.errors import InvalidInput
from elytron_core.errors.foreign_names import way_out

SERVER: Final = "http://127.0.0.1:8010"
KEY_HINT: Final = (
    "pass an access key of the server as api_key=; MemoryClient also reads ELYTRON_API_KEY, but not MEM0_API_KEY"
)
_STORE: Final = "memory.db"
_KEY_VARIABLE: Final = "ELYTRON_API_KEY"
_STORE_SETTING: Final = "vector_store"
_VERSION: Final = "version"
_WITHOUT_EFFECT: Final = frozenset(
    {"llm", "embedder", "history_db_path", "graph_store", "reranker", "custom_instructions"}
    | {"custom_fact_extraction_prompt", "custom_update_memory_prompt"}
)
"""Top-level settings of mem0 1.0.11 and 2.2.1 that have no counterpart here."""


def plain_settings(settings: object, /, *, what: str) -> dict[str, Any]:
    """Return the settings of a mapping or of one of mem0's models. Raises InvalidInput for other values."""
    dump = getattr(settings, "model_dump", None)
    fields: object = dump() if callable(dump) else settings or {}
    if not isinstance(fields, Mapping):
        raise InvalidInput(field=what, problem="must be a mapping or one of mem0's models")
    return {name: value for name, value in cast("Mapping[str, Any]", fields).items() if value is not None}


def store_opening(config: object, /) -> Awaitable[MemoryFace]:
    """Return an awaitable that opens the store of mem0's config. Warns about settings that have no effect.

    Raises InvalidInput for a setting that mem0 does not have.
    """
    settings = plain_settings(config, what="config")
    names = _WITHOUT_EFFECT | {_STORE_SETTING, _VERSION}
    if unknown := sorted(settings.keys() - names):
        raise InvalidInput(field="config", problem=f"has the unknown key {unknown[0]!r}{way_out(unknown[0], names)}")
    store = plain_settings(settings.get(_STORE_SETTING), what=_STORE_SETTING)
    options: dict[str, Any] = {"space": None}
    if store.get("provider") == "elytron":
        del settings[_STORE_SETTING]
        options |= plain_settings(store.get("config"), what=f"{_STORE_SETTING}.config")
    if without_effect := sorted(settings.keys() - {_VERSION}):
        text = f"these mem0 settings have no effect: {', '.join(without_effect)}"
        packages = enumerate((entry.frame.f_globals.get("__package__") for entry in inspect.stack(0)), start=1)
        warnings.warn(text, stacklevel=next(level for level, package in packages if package != __package__))
    return open_memory(options.pop("path", _STORE), **options)


def server_opening(api_key: str | None, host: str | None, /) -> Awaitable[MemoryFace]:
    """Return an awaitable that connects to a server with `api_key`, or else with the key in the environment."""
    return connect(host or SERVER, api_key=api_key or os.environ.get(_KEY_VARIABLE) or None)
