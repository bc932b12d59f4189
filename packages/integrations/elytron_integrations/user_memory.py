"""The memory of one user, to which an adapter is confined, and its calls from blocking and asyncio functions."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import ValidationError

from elytron.api import MemoryFace
from elytron.api.calls import ReportT
from elytron.factory import DEFAULT_SPACE
from elytron.runtime import BlockingMemory, RuntimeEntering
from elytron_core.contracts.inspection import MemorySpacesRequest
from elytron_core.errors import InvalidInput, PermissionRefused, ScopeMissing, Unsupported
from elytron_core.model import OperationRequest, invalid_input
from elytron_core.scope import Scope, ScopedRequest

ResultT = TypeVar("ResultT")
OpenMemory: TypeAlias = MemoryFace | BlockingMemory[Any]
"""What `async with elytron.open(...)` and `with elytron.open(...)` give, and the same of `elytron.connect`."""


def narrowed_scope(scope: Scope | None, /, **parts: str) -> Scope:
    """Return `scope` with these parts. Raises InvalidInput for one that is no name."""
    try:
        return Scope.model_validate({**dict(scope or ()), **parts})
    except ValidationError as error:
        raise invalid_input(error) from None


def space_scope(
    own_scope: Scope | None, space: str | None, /, *, operation: str, conversation: str | None = None
) -> Scope:
    """Return a memory's own scope in `space`, and in a conversation.

    Raises ScopeMissing, naming the operation, if neither has a space, InvalidInput for what is no name.
    """
    if own_scope is None and space is None:
        raise ScopeMissing(operation=operation, way_out="pass space=, or open the memory with space=")
    parts = {"space": space, "conversation": conversation}
    return narrowed_scope(own_scope, **{name: part for name, part in parts.items() if part is not None})


class UserMemory(MemoryFace):
    """A memory whose calls are all about one user, whatever else it is opened for."""

    def __init__(self, memory: MemoryFace, scope: Scope, /) -> None:
        self._memory = memory
        self._scope = scope

    @property
    def scope(self) -> Scope:
        """Return the user's scope."""
        return self._scope

    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform the operation in the user's space. Raises PermissionRefused for one about another, or about all."""
        if not isinstance(request, ScopedRequest) or isinstance(request, MemorySpacesRequest):
            raise PermissionRefused("this operation is not about one space: use the memory itself")
        if request.scope is None:
            request = request.model_copy(update={"scope": self._scope})
        elif request.scope.space != self._scope.space:
            raise PermissionRefused("the scope is not of the user that this adapter was opened for")
        return await self._memory.operate(request)


def require_open_memory(memory: object, /) -> None:
    """Raise InvalidInput for what is not an open memory, such as the path of one."""
    if isinstance(memory, RuntimeEntering):
        raise InvalidInput(field="memory", problem="is not open: use `with elytron.open(...) as memory`")
    if not isinstance(memory, MemoryFace | BlockingMemory):
        way_out = "pass the open memory of `with elytron.open(...) as memory`"
        raise InvalidInput(field="memory", problem=f"has the type {type(memory).__name__!r}: {way_out}")


def user_memory(memory: MemoryFace, space: str | None = None, /, *, operation: str) -> UserMemory:
    """Return the memory of one space: `space`, else that which `memory` was opened with.

    Raises ScopeMissing, naming the operation, if neither names one, InvalidInput for a memory of blocking calls or one
    that is not open.
    """
    require_open_memory(memory)
    if isinstance(cast("object", memory), BlockingMemory):
        raise InvalidInput(field="memory", problem="has blocking calls: open it with `async with elytron.open(...)`")
    return UserMemory(memory, space_scope(memory.scope, space, operation=operation))


def memory_of_caller(memory: MemoryFace, user_id: str, /) -> UserMemory:
    """Return the memory of a user whom a call names, which comes from outside.

    Raises InvalidInput for another user than a memory was opened for; one opened without a name is nobody's.
    """
    if memory.scope is not None and memory.scope.space not in {user_id, DEFAULT_SPACE}:
        raise InvalidInput(field="user_id", problem="is not the user that this memory was opened for")
    return user_memory(memory, user_id, operation="this call")


class MemoryLoop:
    """Runs coroutines where a memory lives: on the loop of `async with`, or on the thread of a blocking memory.

    Made on the loop of an asyncio memory, it serves blocking functions on other threads, too.
    """

    def __init__(self, memory: OpenMemory, /) -> None:
        require_open_memory(memory)
        self._blocking = memory if isinstance(memory, BlockingMemory) else None
        if isinstance(memory, BlockingMemory):
            self.face: MemoryFace = memory.runtime
            self._loop: asyncio.AbstractEventLoop | None = memory.run(_current_loop())
        else:
            self.face, self._loop = memory, _running_loop()

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
