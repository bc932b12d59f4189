"""An embedder by the library fastembed, for programs that use it already."""

import asyncio
from collections.abc import Sequence
from typing import Any

from elytron_core.errors import MissingExtra
from elytron_core.ports.models import EmbedderInfo


class FastembedEmbedder:
    """Turns texts into vectors by a model that fastembed loads. Needs the package fastembed.

    `model` is a fastembed `TextEmbedding`, made by the caller, which decides about downloads and their folder;
    `name` is stored with every vector.
    """

    def __init__(self, model: Any, /, *, name: str, dimensions: int) -> None:
        if not callable(getattr(model, "passage_embed", None)):
            raise MissingExtra(extra="local", purpose="an embedder by fastembed, made as TextEmbedding(...),")
        self._model = model
        self._info = EmbedderInfo(name, dimensions)

    @property
    def info(self) -> EmbedderInfo:
        return self._info

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        """Return one vector per text, in order."""
        return await asyncio.to_thread(lambda: [vector.tolist() for vector in self._model.passage_embed(list(texts))])

    async def embed_query(self, text: str, /) -> Sequence[float]:
        """Return the vector of a query."""
        (found,) = await asyncio.to_thread(lambda: [vector.tolist() for vector in self._model.query_embed(text)])
        return found
