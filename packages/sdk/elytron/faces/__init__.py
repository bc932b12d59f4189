"""The calls of a memory, by family: what a runtime in this process and one elsewhere have in common."""

from types import TracebackType
from typing import Self

from elytron.faces.embedding import EmbeddingFace
from elytron.faces.everyday import EverydayFace
from elytron.faces.governing import GoverningFace
from elytron.faces.maintaining import MaintainingFace
from elytron.faces.mem0 import Mem0Face
from elytron.faces.platform import PlatformFace
from elytron.faces.records import RecordsFace
from elytron.faces.skills import SkillsFace
from elytron.faces.tools import ToolsFace
from elytron.faces.transcript import TranscriptFace


class MemoryFace(
    Mem0Face,
    GoverningFace,
    EmbeddingFace,
    TranscriptFace,
    PlatformFace,
    SkillsFace,
    ToolsFace,
    RecordsFace,
    MaintainingFace,
):
    """Every call of a memory, wherever it runs. Leaving the block closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


__all__ = [
    "EmbeddingFace",
    "EverydayFace",
    "GoverningFace",
    "MaintainingFace",
    "Mem0Face",
    "MemoryFace",
    "PlatformFace",
    "RecordsFace",
    "SkillsFace",
    "ToolsFace",
    "TranscriptFace",
]
