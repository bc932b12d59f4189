"""The memory of one user, to which an adapter is confined."""

from typing import cast

from pydantic import ValidationError

from elytron.api import MemoryFace
from elytron.api.calls import ReportT
from elytron.factory import DEFAULT_SPACE
from elytron.runtime import BlockingMemory
from elytron_core.contracts.inspection import MemorySpacesRequest
from elytron_core.errors import InvalidInput, PermissionRefused, ScopeMissing
from elytron_core.model import OperationRequest, invalid_input
from elytron_core.scope import Scope, ScopedRequest


def narrowed_scope(scope: Scope | None, /, **parts: str) -> Scope:
    """Return `scope` with these parts. Raises InvalidInput for one that is no name."""
    try:
        return Scope.model_validate({**dict(scope or ()), **parts})
    except ValidationError as error:
        raise invalid_input(error) from None


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


def user_memory(memory: MemoryFace, space: str | None = None, /, *, operation: str) -> UserMemory:
    """Return the memory of one space: `space`, else that which `memory` was opened with.

    Raises ScopeMissing, naming the operation, if neither names one, InvalidInput for a memory of blocking calls.
    """
    if isinstance(cast("object", memory), BlockingMemory):
        raise InvalidInput(field="memory", problem="has blocking calls: open it with `async with elytron.open(...)`")
    scope = narrowed_scope(memory.scope, space=space) if space is not None else memory.scope
    if scope is None:
        raise ScopeMissing(operation=operation, way_out="pass space=, or open the memory with space=")
    return UserMemory(memory, scope)


def memory_of_caller(memory: MemoryFace, user_id: str, /) -> UserMemory:
    """Return the memory of a user whom a call names, which comes from outside.

    Raises InvalidInput for another user than a memory was opened for; one opened without a name is nobody's.
    """
    if memory.scope is not None and memory.scope.space not in {user_id, DEFAULT_SPACE}:
        raise InvalidInput(field="user_id", problem="is not the user that this memory was opened for")
    return user_memory(memory, user_id, operation="this call")
