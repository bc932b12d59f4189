"""The calls that make vectors."""

from elytron.api.base import Face
from elytron_core.contracts import embedding


class EmbeddingFace(Face):
    """Keep the vectors of a space complete, or make them anew by another model."""

    async def embed(self, request: embedding.MemoryEmbedRequest | None = None, /) -> embedding.MemoryEmbedReport:
        """Make vectors of what has none; a runtime with an embedder does so by itself after writes."""
        return await self.operate(request or embedding.MemoryEmbedRequest(), embedding.MemoryEmbedReport)

    async def switch_model(self, request: embedding.ModelSwitchRequest | None = None, /) -> embedding.MemoryEmbedReport:
        """Make vectors by the runtime's embedder; when none is missing, recall compares these. Call until complete."""
        return await self.operate(request or embedding.ModelSwitchRequest(), embedding.MemoryEmbedReport)
