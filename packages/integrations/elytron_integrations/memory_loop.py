"""Calls of a memory from frameworks, which have blocking and asyncio functions for the same thing."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeAlias, TypeVar

from elytron.api import MemoryFace, calls
from elytron.runtime import BlockingMemory, RuntimeEntering
from elytron_core.errors import InvalidInput, ScopeMissing, Unsupported
from elytron_core.scope import Scope

ResultT = TypeVar("ResultT")
OpenMemory: TypeAlias = MemoryFace | BlockingMemory[Any]
"""What `async with elytron.open(...)` and `with elytron.open(...)` give, and the same of `elytron.connect`."""


class MemoryLoop:
    """Runs coroutines where a memory lives: on the loop of `async with`, or on the thread of a blocking memory.

    Made on the loop of an asyncio memory, it serves blocking functions on other threads, too.
    """

    def __init__(self, memory: OpenMemory | RuntimeEntering[Any, Any], /) -> None:
        if isinstance(memory, RuntimeEntering):
            raise InvalidInput(field="memory", problem="is not open: use `with elytron.open(...) as memory`")
        self._blocking = memory if isinstance(memory, BlockingMemory) else None
        if isinstance(memory, BlockingMemory):
            self.face: MemoryFace = memory.runtime
            self._loop: asyncio.AbstractEventLoop | None = memory.run(_current_loop())
        else:
            self.face, self._loop = memory, _running_loop()

    def scope_of(self, operation: str, space: str | None, /, *, conversation: str | None = None) -> Scope:
        """Return the memory's scope in `space`, and in a conversation.

        Raises ScopeMissing, naming the operation, if neither has a space, InvalidInput for what is no name.
        """
        if space is None and self.face.scope is None:
            raise ScopeMissing(operation=operation, way_out="pass space=, or open the memory with space=")
        scope = calls.scope_of(self.face.scope, user_id=space, conversation=conversation)
        assert scope is not None
        return scope

    async def run(self, call: Coroutine[Any, Any, ResultT], /) -> ResultT:
        """Return the result of `call`, from any loop."""
        if self._blocking is None or _running_loop() is self._loop:
            return await call
        return await asyncio.to_thread(self._blocking.run, call)

    def wait(self, call: Coroutine[Any, Any, ResultT], /) -> ResultT:
        """Block until `call` returned, and return its result.

        Raises Unsupported on the loop that the memory lives on, which waiting would stop.
        """
        if self._loop is None or _running_loop() is self._loop:
            call.close()
            raise Unsupported(
                "a blocking call would stop the loop of this memory: use the framework's asyncio functions, or a"
                " memory of `with elytron.open(...)`"
            )
        if self._blocking is not None:
            return self._blocking.run(call)
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()


async def _current_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
