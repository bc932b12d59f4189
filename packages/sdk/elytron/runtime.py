"""The facade over one store in this process."""

from elytron.api import MemoryFace
from elytron.api.base import ReportT
from elytron.context import OperationContext
from elytron.journal.follower import WRITER, inner_store
from elytron.registry import by_request
from elytron.secrets.space_secrets import SpaceSecrets
from elytron_core.model import OperationRequest
from elytron_core.ports.store import Store
from elytron_core.scope import Scope


class MemoryRuntime(MemoryFace):
    """Governed memory over one store. Every call is a typed operation of one memory space and returns its report.

    Calls take the typed request; the everyday ones also take plain values, and the ids that mem0's users know:
    `user_id` names the space, `agent_id` the agent, `run_id` the conversation. Many calls may run at once.
    `async with elytron.open(...) as memory` opens and closes it. `elytron.ops` has what each operation does.
    """

    def __init__(self, context: OperationContext, /) -> None:
        self._context = context

    def __repr__(self) -> str:
        space = f"space {self.scope.space!r}" if self.scope is not None else "no space of its own"
        return f"<MemoryRuntime on {self._context.engine}, {space}{', closed' if self._context.closing else ''}>"

    @property
    def context(self) -> OperationContext:
        """Return what the operations work with: the store, clock, ids and index of this runtime."""
        return self._context

    @property
    def store(self) -> Store:
        """Return the store that this runtime was opened on, as it is: a sealed one rotates its keys."""
        return inner_store(self._context.store)

    @property
    def secrets(self) -> SpaceSecrets:
        """Return what puts spaces under their users' own words or passphrases, opens and closes them."""
        return self._context.secrets

    @property
    def scope(self) -> Scope | None:
        """Return the scope of calls that name none."""
        return self._context.default_scope

    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform the operation that takes `request` and return what it reports. Raises Unsupported.

        >>> report = memory.operate(elytron.MemoryRecallRequest(query="boat key"))
        >>> report.hits[0].text
        'The boat key is under the oar.'
        """
        operation = by_request(request)
        writer = WRITER.set(self._context.caller)
        try:
            done = await operation.perform(self._context, await self._context.reached(request))
        finally:
            WRITER.reset(writer)
        assert isinstance(done, operation.report)
        return done
