"""The four ways into a memory: `async with` and `await`, `with` and `.sync()`."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

from elytron.api import MemoryFace
from elytron.sync_runtime import BlockingMemory
from elytron_core.errors import Unsupported

FaceT = TypeVar("FaceT", bound=MemoryFace)
BlockingT = TypeVar("BlockingT", bound=BlockingMemory[Any])


class Entering(ABC, Generic[FaceT, BlockingT]):
    """A memory about to be opened; nothing is opened before. Leaving the block closes it."""

    def __init__(self) -> None:
        self._async: FaceT | None = None
        self._sync: BlockingT | None = None

    @abstractmethod
    def _open(self) -> Coroutine[Any, Any, FaceT]:
        """Open the memory."""

    @abstractmethod
    def sync(self) -> BlockingT:
        """Open the memory behind blocking calls; the caller closes it."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{name!r} is of an open memory: `with ... as memory` or .sync() opens this one, or `async with` or await",
            name=name,
            obj=self,
        )

    def __await__(self) -> Generator[Any, None, FaceT]:
        _require_asyncio()
        return self._open().__await__()

    async def __aenter__(self) -> FaceT:
        self._async = await self
        return self._async

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._async is not None
        await self._async.close()

    def __enter__(self) -> BlockingT:
        self._sync = self.sync()
        return self._sync

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._sync is not None
        self._sync.close()


def _require_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        way_out = "`with elytron.open(...)` gives blocking calls, which work anywhere"
        raise Unsupported(f"a memory is awaited in an asyncio event loop, and none runs here: {way_out}") from None
