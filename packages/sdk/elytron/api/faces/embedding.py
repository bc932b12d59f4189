"""Calls on the embedding of memories: vectors for what has none, and the switch to another model."""

from elytron.api.calls import BlockingCalls, CallFace, blocking_call
from elytron_core.contracts.maintenance import embedding


class EmbeddingFace(CallFace):
    """Keep the vectors of memories complete, and switch the model that made them."""

    async def embed(self, request: embedding.MemoryEmbedRequest | None = None, /) -> embedding.MemoryEmbedReport:
        """Create missing vectors; a runtime with an embedder does so automatically after writes.

        >>> _ = memory.add("The ferry leaves at six.")
        >>> print(memory.embed().outcome)  # opened with an `embedder`: complete
        no_embedder
        """
        return await self.operate(request or embedding.MemoryEmbedRequest())

    async def switch_model(self, request: embedding.ModelSwitchRequest | None = None, /) -> embedding.MemoryEmbedReport:
        """Create vectors with the runtime's embedder; once none is missing, recall compares these. Call until complete.

        >>> _ = memory.add("The ferry leaves at six.")
        >>> print(memory.switch_model().outcome)  # opened with an `embedder`: more, then complete
        no_embedder
        """
        return await self.operate(request or embedding.ModelSwitchRequest())


class BlockingEmbedding(BlockingCalls):
    """The calls about embedding, blocking until their answer."""

    embed = blocking_call(EmbeddingFace.embed)
    switch_model = blocking_call(EmbeddingFace.switch_model)
