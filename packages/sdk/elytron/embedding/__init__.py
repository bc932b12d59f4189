"""Vectors of memories: the embedders that make them. Names are loaded when they are first used."""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron.embedding.embedders": "FastembedEmbedder LocalEmbedder OpenAIEmbedder UseEmbedder",
        "elytron.embedding.model2vec": "Model2VecEmbedder",
        "elytron.embedding.model_files": "InstalledModel kept_models model_folder",
    },
)
