"""From an envelope to a response: decode, ask the policy, act at most once, answer. Nothing is raised past here."""

import logging
import traceback
from functools import partial
from typing import assert_never

from elytron.registry import AnyOperation, by_name
from elytron.runtime import MemoryRuntime
from elytron_adapter import codec
from elytron_adapter.envelope import LOCAL, Envelope, Rejected, Response
from elytron_adapter.failures import rejection
from elytron_adapter.idempotency import Repeats
from elytron_adapter.policy import Policy, by_role, within
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, PermissionRefused, Unsupported
from elytron_core.model import Value

logger = logging.getLogger(__name__)
_audit = logging.getLogger("elytron.memories.audit_trail")

_PRIVATE = "private memories are not shown to models here: the server's operator allows it with --mcp-private"
_LOCAL = (
    "a runtime is ended in its own process alone: an operator on the machine ends a server with `elytron server stop`,"
    " or POST /v1/shutdown"
)


class Dispatcher:
    """Answers envelopes from one runtime, which its opener closes. Many calls may run at once."""

    def __init__(
        self, runtime: MemoryRuntime, /, *, policy: Policy = by_role, repeat_wait_s: float = limits.IDEMPOTENCY_WAIT_S
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._repeats = Repeats(runtime, wait_s=repeat_wait_s)

    @property
    def runtime(self) -> MemoryRuntime:
        """Return the runtime that answers."""
        return self._runtime

    async def dispatch(self, envelope: Envelope, /) -> Response:
        """Do what `envelope` asks for and say what became of it; errors come back as Rejected."""
        try:
            return await self._answer(envelope)
        except ElytronError as error:
            return rejection(error, request_id=envelope.request_id)
        except Exception as error:  # noqa: BLE001 - the border: what no one foresaw becomes one typed answer
            _log(error, envelope)
            return rejection(error, request_id=envelope.request_id)

    async def unready(self, request_id: str, /) -> Rejected | None:
        """Return why nothing can be answered now, or None where the store answers."""
        try:
            await self._runtime.context.store.spaces(limit=1)
        except ElytronError as error:
            return rejection(error, request_id=request_id)
        return None

    async def _answer(self, envelope: Envelope) -> Response:
        operation = by_name(envelope.operation)
        request = within(envelope.auth, await _request(operation, envelope.payload))
        if not envelope.may_disclose and operation.asks_private(request):
            raise PermissionRefused(_PRIVATE)
        refusal = self._policy(envelope, operation, request)
        if refusal is not None:
            raise PermissionRefused(refusal)
        if operation.is_local and envelope.transport not in LOCAL:
            raise Unsupported(_LOCAL)
        answer = await self._repeats.answer(operation, request, envelope)
        _note(envelope)
        return answer


async def _request(operation: AnyOperation, payload: bytes | Value) -> Value:
    match payload:
        case bytes():
            return await codec.aside(len(payload), partial(codec.decode, operation, payload))
        case Value():
            if not isinstance(payload, operation.request):
                raise InvalidInput(field="payload", problem=f"is not the request of {operation.name!r}")
            return payload
        case _:
            assert_never(payload)


def _note(envelope: Envelope) -> None:
    """Log a call whose caller gave an id of records or said what it is: reads leave no other trace."""
    source = envelope.source.label
    if (envelope.audit_id is None and source is None) or not _audit.isEnabledFor(logging.INFO):
        return
    told = {
        "request_id": envelope.request_id,
        "operation": envelope.operation,
        "principal": envelope.auth.principal,
        "audit_id": envelope.audit_id,
        "source": source,
    }
    _audit.info("call", extra={name: value for name, value in told.items() if value is not None})


def _log(error: Exception, envelope: Envelope) -> None:
    # Not the message: it may repeat what a caller gave. Type and places are enough to find the fault.
    places = "".join(traceback.format_tb(error.__traceback__))
    logger.error("request %s: %s raised %s\n%s", envelope.request_id, envelope.operation, type(error).__name__, places)
