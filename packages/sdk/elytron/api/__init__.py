"""The calls of a memory, by family, shared by a local runtime and a remote one."""

from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from elytron.api.faces.continuity import BlockingContinuity, ContinuityFace
from elytron.api.faces.embedding import BlockingEmbedding, EmbeddingFace
from elytron.api.faces.everyday import EverydayFace
from elytron.api.faces.facts import BlockingFacts, FactsFace
from elytron.api.faces.maintenance import BlockingMaintenance, MaintenanceFace
from elytron.api.faces.mem0 import BlockingMem0, Mem0Face
from elytron.api.faces.platform import BlockingPlatform, PlatformFace
from elytron.api.faces.records import BlockingRecords, RecordsFace
from elytron.api.faces.skills import BlockingSkills, SkillsFace
from elytron.api.faces.tools import BlockingTools, ToolsFace
from elytron.api.faces.transcript import BlockingTranscript, TranscriptFace

if TYPE_CHECKING:
    from elytron.api.model_tools import BlockingModelTools, BlockingOperations, ModelTools


class MemoryFace(
    Mem0Face,
    FactsFace,
    ContinuityFace,
    TranscriptFace,
    PlatformFace,
    SkillsFace,
    ToolsFace,
    RecordsFace,
    MaintenanceFace,
    EmbeddingFace,
):
    """Every call of a memory, wherever it runs. Leaving the `async with` block closes it.

    The examples of the calls are blocking ones, which an asyncio program awaits, and start from this memory:

    >>> memory = elytron.open("memory:", space="ada").sync()
    >>> said = memory.add(["We moved to Lisbon in May.", "The boat key is under the oar."], speaker="Ada")
    >>> move, key = said.ids
    >>> (tea,) = memory.add_fact("tea", "Ada drinks green tea").ids
    """

    def tools(self, framework: str = "openai", /) -> "ModelTools":
        """Return the tools that a model may call, as data in the form of `framework`, with `call` to perform a call.

        `framework` is "openai", "anthropic", "langchain" or "pydantic-ai". Raises InvalidInput.

        >>> tools = memory.tools("anthropic")
        >>> tools[1]["name"], tools.call("memory_search", {"query": "Where is the boat key?"})[-1:]
        ('memory_search', ')')
        """
        from elytron.api.model_tools import ModelTools

        return ModelTools(self, framework)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class BlockingFaces(
    BlockingMem0,
    BlockingFacts,
    BlockingContinuity,
    BlockingTranscript,
    BlockingPlatform,
    BlockingSkills,
    BlockingTools,
    BlockingRecords,
    BlockingMaintenance,
    BlockingEmbedding,
):
    """Every call of a memory, blocking until its answer."""

    def tools(self, framework: str = "openai", /) -> "BlockingModelTools":
        """Return the tools that a model may call, as data in the form of `framework`, with `call` to perform a call.

        `framework` is "openai", "anthropic", "langchain" or "pydantic-ai". Raises InvalidInput.

        >>> tools = memory.tools("anthropic")
        >>> tools[1]["name"], tools.call("memory_search", {"query": "Where is the boat key?"})[-1:]
        ('memory_search', ')')
        """
        from elytron.api.model_tools import BlockingModelTools

        return BlockingModelTools(cast("BlockingOperations", self), framework)


__all__ = [
    "BlockingContinuity",
    "BlockingEmbedding",
    "BlockingFaces",
    "BlockingFacts",
    "BlockingMaintenance",
    "BlockingMem0",
    "BlockingPlatform",
    "BlockingRecords",
    "BlockingSkills",
    "BlockingTools",
    "BlockingTranscript",
    "ContinuityFace",
    "EmbeddingFace",
    "EverydayFace",
    "FactsFace",
    "MaintenanceFace",
    "Mem0Face",
    "MemoryFace",
    "PlatformFace",
    "RecordsFace",
    "SkillsFace",
    "ToolsFace",
    "TranscriptFace",
]
