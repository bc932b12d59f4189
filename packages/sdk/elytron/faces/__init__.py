"""The calls of a memory, by family: what a runtime in this process and one elsewhere have in common."""

from types import TracebackType
from typing import Self

from elytron.faces.everyday import EverydayFace


class MemoryFace(EverydayFace):
    """Every call of a memory, wherever it runs. Leaving the block closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


__all__ = ["EverydayFace", "MemoryFace"]
