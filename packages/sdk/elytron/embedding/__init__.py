"""Vectors of memories: the embedders that make them. Names are loaded when they are first used."""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron.embedding.endpoint import OpenAIEmbedder
    from elytron.embedding.fastembed import FastembedEmbedder
    from elytron.embedding.local import LocalEmbedder
    from elytron.embedding.model2vec import Model2VecEmbedder
    from elytron.embedding.model_files import KeptModel, kept_models, model_folder

_HOMES = {
    "elytron.embedding.endpoint": "OpenAIEmbedder",
    "elytron.embedding.fastembed": "FastembedEmbedder",
    "elytron.embedding.local": "LocalEmbedder",
    "elytron.embedding.model2vec": "Model2VecEmbedder",
    "elytron.embedding.model_files": "KeptModel kept_models model_folder",
}

__all__ = [
    "FastembedEmbedder",
    "KeptModel",
    "LocalEmbedder",
    "Model2VecEmbedder",
    "OpenAIEmbedder",
    "kept_models",
    "model_folder",
]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names
    __getattr__ = _loading(__name__, _HOMES)
