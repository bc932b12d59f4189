"""Vectors of memories: the embedders that make them. Names are loaded when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elytron.embedding.endpoint import OpenAIEmbedder
    from elytron.embedding.fastembed import FastembedEmbedder
    from elytron.embedding.local import LocalEmbedder
    from elytron.embedding.shelf import KeptModel, kept_models, model_folder

_HOMES = {
    "elytron.embedding.endpoint": ("OpenAIEmbedder",),
    "elytron.embedding.fastembed": ("FastembedEmbedder",),
    "elytron.embedding.local": ("LocalEmbedder",),
    "elytron.embedding.shelf": ("KeptModel", "kept_models", "model_folder"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["FastembedEmbedder", "KeptModel", "LocalEmbedder", "OpenAIEmbedder", "kept_models", "model_folder"]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names

    def __getattr__(name: str) -> object:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'elytron.embedding' has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value
