"""Dispatch: decode an envelope, ask the policy, perform the call at most once, and answer. It raises nothing."""

import asyncio
import logging
import time
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from functools import lru_cache, partial
from typing import Final, assert_never

from elytron.registry import AnyOperation, CallerRole, by_name
from elytron.runtime import MemoryRuntime
from elytron_adapter import envelope
from elytron_adapter.access_keys import AccessKeys, Authenticator, Principal
from elytron_adapter.admission_control import LoadShedding, NoShedding
from elytron_adapter.call_figures import CallFigures
from elytron_adapter.envelope import (
    LOCAL,
    NO_HEADERS,
    AuthKind,
    CallAuth,
    CallHeaders,
    CallOrigin,
    Envelope,
    RejectedAnswer,
    Response,
    reject_error,
)
from elytron_adapter.idempotency import RepeatedCalls
from elytron_adapter.key_quotas import KeyQuotas, WrongAttempts, place_of
from elytron_adapter.transport_switches import TransportSwitches
from elytron_core import limits
from elytron_core.contracts.archive import ArchiveWord, ImportMode
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    LimitExceeded,
    PermissionRefused,
    StoreUnavailable,
    Unauthorized,
    Unsupported,
)
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.policy.admission.rules import borrowed_words
from elytron_core.scope import Scope, ScopedRequest, is_scoped
from elytron_store.secret.sessions import PROCESS, SpaceCaller, calling_as, current_caller

READY_WAIT_S: Final = 2.0
"""Time in which a store has to answer for its server to be ready."""


Policy = Callable[[Envelope, AnyOperation, Value], str | None]
"""Returns the reason for rejecting a call, or None if it may continue."""

_FOREIGN = "this key opens a single space: leave the scope out, or name that space"


def by_role(envelope: Envelope, operation: AnyOperation, request: Value, /) -> str | None:
    """Reject what the caller's kind may not do. Raises Unauthorized for a remote call without a principal.

    A call from this machine's own user, in process or by the command, may do everything. A role that no credential
    proved is none.
    """
    match envelope.auth.role if envelope.auth.authenticated else None:
        case None:
            if envelope.transport in LOCAL:
                return None
            raise Unauthorized
        case PrincipalKind.OPERATOR | PrincipalKind.DEVELOPER:
            return None
        case PrincipalKind.USER:
            return _beyond_members(operation, request)
        case PrincipalKind.DEVICE:
            if isinstance(request, MemoryEraseRequest) and request.whole_space is not None:
                return "a device cannot erase its user's whole space: use the user's own key"
            return _beyond_members(operation, request)
        case _:
            assert_never(envelope.auth.role)


def word_of(kind: PrincipalKind, mode: ImportMode, /) -> ArchiveWord:
    """Return how far an archive from such a caller is trusted.

    Raises PermissionRefused for a device, and for a member's full restore, which no admission judges.
    """
    match kind:
        case PrincipalKind.OPERATOR | PrincipalKind.DEVELOPER:
            return ArchiveWord.KEPT
        case PrincipalKind.USER if mode is ImportMode.BOOTSTRAP:
            return ArchiveWord.CLAIMED
        case PrincipalKind.USER:
            raise PermissionRefused("a full restore requires an operator's key: use mode=bootstrap")
        case PrincipalKind.DEVICE:
            raise PermissionRefused("a device cannot send an archive: use the user's own key")
        case _:
            assert_never(kind)


def bind_space(auth: CallAuth, request: Value, /) -> Value:
    """Return `request` in the space that `auth` is bound to, if any.

    Raises PermissionRefused for another space, in the same words whether there is such a space or not.
    """
    if not is_scoped(request):
        return request
    scope = request.scope
    if scope is not None and is_reserved(scope.space):
        raise PermissionRefused(_FOREIGN if auth.space is not None else "this space is reserved for the server")
    if auth.space is None or (scope is not None and scope.space == auth.space):
        return request
    if scope is not None:
        raise PermissionRefused(_FOREIGN)
    return request.model_copy(update={"scope": _scope_of(auth.space)})


@lru_cache(limits.ACCESS_KEYS_CACHED)
def _scope_of(space: SpaceId) -> Scope:
    return Scope(space=space)


def _beyond_members(operation: AnyOperation, request: Value) -> str | None:
    if operation.role is CallerRole.OPERATOR:
        return f"{operation.name!r} requires an operator's key, or access to the machine itself"
    fields = operation.beyond_members(request)
    if fields:
        return f"{operation.name!r} with {', '.join(fields)} requires an operator's key"
    cross_member_words = borrowed_words(request) if operation.mutates else ()
    if cross_member_words:
        authorities = ", ".join(cross_member_words)
        return (
            f"{operation.name!r} with the authority {authorities} requires an operator's key: use one, or leave it out"
        )
    return None


logger = logging.getLogger(__name__)
_audit = logging.getLogger("elytron.memories.audit_trail")

_PRIVATE = "this server does not show private memories to models: its operator can allow it with --mcp-private"
_LOCAL = (
    "a runtime can only be closed in its own process; to stop a server, run `elytron server stop` on its "
    "machine as an operator, or POST /v1/shutdown"
)


class OperationDispatcher:
    """Answers envelopes from one runtime, which its opener closes. Many calls may run concurrently."""

    def __init__(
        self, runtime: MemoryRuntime, /, *, policy: Policy = by_role, repeat_wait_s: float = limits.IDEMPOTENCY_WAIT_S
    ) -> None:
        self._runtime = runtime
        self._policy = policy
        self._repeats = RepeatedCalls(runtime, wait_s=repeat_wait_s)

    @property
    def runtime(self) -> MemoryRuntime:
        """Return the runtime that answers."""
        return self._runtime

    async def dispatch(self, envelope: Envelope, /) -> Response:
        """Perform `envelope` and return the outcome; errors are returned as Rejected."""
        try:
            return await self._answer(envelope)
        except ElytronError as error:
            return reject_error(error, request_id=envelope.request_id)
        except Exception as error:  # noqa: BLE001 - the border: what no one foresaw becomes one typed answer
            _log_error(error, envelope)
            return reject_error(error, request_id=envelope.request_id)

    async def unready(self, request_id: str, /) -> RejectedAnswer | None:
        """Return why nothing can be answered now, or None if the store answers in time and accepts commits."""
        try:
            async with asyncio.timeout(READY_WAIT_S):
                await self._runtime.context.store.probe()
        except TimeoutError:
            return reject_error(StoreUnavailable("the store did not answer in time"), request_id=request_id)
        except ElytronError as error:
            return reject_error(error, request_id=request_id)
        return None

    async def _answer(self, envelope: Envelope) -> Response:
        operation = by_name(envelope.operation)
        own_space = envelope.auth.space or (self._runtime.scope.space if self._runtime.scope is not None else None)
        request = bind_space(envelope.auth, await _payload_request(operation, envelope.payload, own_space))
        if not envelope.may_disclose and operation.asks_private(request):
            raise PermissionRefused(_PRIVATE)
        refusal = self._policy(envelope, operation, request)
        if refusal is not None:
            raise PermissionRefused(refusal)
        if operation.is_local and envelope.transport not in LOCAL:
            raise Unsupported(_LOCAL)
        answer = await self._repeats.answer(operation, await self._runtime.context.reached(request), envelope)
        _note_call(envelope)
        return answer


async def _payload_request(operation: AnyOperation, payload: bytes | Value, space: SpaceId | None) -> Value:
    match payload:
        case bytes():
            return await envelope.read_aside(
                len(payload), partial(envelope.decode_request, operation, payload, space=space)
            )
        case Value():
            if not isinstance(payload, operation.request):
                raise InvalidInput(field="payload", problem=f"is not a request for {operation.name!r}")
            return payload
        case _:
            assert_never(payload)


def _note_call(envelope: Envelope) -> None:
    """Log a call whose caller gave an audit id or a source: reads leave no other trace."""
    source = envelope.source.label
    if (envelope.audit_id is None and source is None) or not _audit.isEnabledFor(logging.INFO):
        return
    fields = {
        "request_id": envelope.request_id,
        "operation": envelope.operation,
        "principal": envelope.auth.principal,
        "audit_id": envelope.audit_id,
        "source": source,
    }
    _audit.info("call", extra={name: value for name, value in fields.items() if value is not None})


def _log_error(error: Exception, envelope: Envelope) -> None:
    # Without the message, which may repeat what a caller gave. Type and locations suffice to find the fault.
    stack_text = "".join(traceback.format_tb(error.__traceback__))
    logger.error(
        "request %s: %s raised %s\n%s", envelope.request_id, envelope.operation, type(error).__name__, stack_text
    )


class CallerAdmission:
    """Admits callers, each as the principal of its credential, and answers their calls within the server's limits.

    One instance is shared by all shells of a process, with the only instance of each registry that caches stored data
    (keys, quotas, transports). So a principal's limits, and a change through any surface, apply to all of them.
    """

    def __init__(
        self,
        dispatcher: OperationDispatcher,
        /,
        *,
        authenticator: Authenticator,
        keys: AccessKeys | None = None,
        shedding: LoadShedding | None = None,
        attempts: WrongAttempts | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.closing = asyncio.Event()
        """Set when the server starts to shut down, so that streams and sockets close properly."""
        self.end: Callable[[], None] | None = None
        """Shuts down the surrounding server, as a signal does; None if another program serves."""
        self.streams = 0
        """Number of open streams and sockets; a server that shuts down closes them first."""
        self.attempts = attempts or WrongAttempts(dispatcher.runtime.context.clock)
        """Wrong credentials, counted by shells per source address."""
        self.authenticator = authenticator
        access_keys = authenticator if isinstance(authenticator, AccessKeys) else None
        self.keys = keys or access_keys or AccessKeys(dispatcher.runtime.context)
        """The access keys that `authenticator` reads: a change through them takes effect immediately on every
        surface."""
        self.shedding = shedding or NoShedding()
        self.transports = TransportSwitches(dispatcher.runtime.context)
        self.figures = CallFigures(dispatcher.runtime.context.clock)
        self.quotas = KeyQuotas(dispatcher.runtime.context)

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return the principal of this `Authorization` header value. Raises Unauthorized.

        A shell that keeps a connection asks again with the same value: keys are revoked while it is open.
        """
        return await self.authenticator.authenticate(authorization)

    def space_of(self, principal: Principal, scope: Scope | None, /) -> SpaceId:
        """Return the space of `scope`, else that of `principal`. Raises PermissionRefused, ScopeMissing."""
        bound_request = bind_space(auth_of(principal), ScopedRequest(scope=scope))
        assert is_scoped(bound_request)
        return self.dispatcher.runtime.context.scope_of(bound_request).space

    @asynccontextmanager
    async def admitted(
        self, principal: Principal, /, *, body: bytes = b"", space: SpaceId | None = None
    ) -> AsyncGenerator[None]:
        """Hold the slot of one call that is no operation, charged to its key's quota.

        `body` is the call's body, which was already read, so that no slot waits for a slow sender. `space` is the space
        that the call uses, even through a cache. Raises RateLimited, Overloaded, SpaceLocked.
        """
        # Charged before it waits, so that a caller beyond its quota fills no queue.
        if principal.quota is not None:
            await self.quotas.charge(principal, len(body))
        async with self.shedding.place(principal):
            if space is not None:
                await self.dispatcher.runtime.secrets.require_open(space)
            yield

    async def call(
        self,
        principal: Principal,
        /,
        *,
        origin: CallOrigin,
        operation: str,
        request_id: str,
        payload: bytes | Value,
        headers: CallHeaders = NO_HEADERS,
    ) -> Response:
        """Return the answer to one call of `principal`; every failure is returned as Rejected."""
        started_s = time.perf_counter()
        try:
            self.transports.require_on(origin.transport)
            envelope = Envelope(
                request_id=request_id,
                transport=origin.transport,
                operation=operation,
                source=origin.source,
                auth=auth_of(principal, kind=origin.kind),
                idempotency_key=headers.idempotency_key,
                audit_id=headers.audit_id,
                versions=headers.versions,
                may_disclose=origin.may_disclose,
                payload=payload,
            )
            # Charged before it waits, so that a caller beyond its quota fills no queue.
            if principal.quota is not None:
                size_bytes = len(payload if isinstance(payload, bytes) else payload.to_bytes())
                await self.quotas.charge(principal, size_bytes)
            async with self.shedding.place(principal):
                with acting_as(principal, is_local=origin.kind is AuthKind.LOCAL):
                    answer = await self.dispatcher.dispatch(envelope)
        except ElytronError as error:
            answer = reject_error(error, request_id=request_id)
        self.figures.count_call(
            origin.transport,
            operation,
            refused=isinstance(answer, RejectedAnswer),
            seconds=time.perf_counter() - started_s,
        )
        return answer


def acting_as(
    principal: Principal, /, *, address: str | None = None, is_local: bool = False
) -> AbstractContextManager[None]:
    """Run a block for `principal`: it reads the locked spaces that this principal unlocked, and no others.

    A developer, and a caller over stdio, is the process itself.
    """
    if is_local or principal.kind is PrincipalKind.DEVELOPER:
        return calling_as(PROCESS)
    if address is None and current_caller().principal == principal.id:
        return calling_as(current_caller())
    is_operator = principal.kind is PrincipalKind.OPERATOR
    return calling_as(SpaceCaller(principal.id, place_of(address), names_spaces=is_operator))


@lru_cache(limits.ACCESS_KEYS_CACHED)
def auth_of(principal: Principal, /, *, kind: AuthKind = AuthKind.BEARER) -> CallAuth:
    """Return the envelope's authentication for `principal`."""
    return CallAuth(
        authenticated=True,
        kind=AuthKind.LOCAL if principal.kind is PrincipalKind.DEVELOPER else kind,
        principal=principal.id,
        role=principal.kind,
        space=principal.space,
    )


class OpenStreams:
    """Counts the streams of each caller, which may have `each` open at once."""

    def __init__(self, admission: CallerAdmission, /, *, each: int) -> None:
        self.admission = admission
        self._each = each
        self._open: Counter[str] = Counter()

    @contextmanager
    def place(self, principal: Principal, /) -> Generator[None]:
        """Count a stream of `principal` while it is open. Raises LimitExceeded."""
        if self._open[principal.id] >= self._each:
            raise LimitExceeded(what="open streams per caller", limit=self._each)
        self._open[principal.id] += 1
        self.admission.streams += 1
        try:
            yield
        finally:
            self.admission.streams -= 1
            self._open[principal.id] -= 1
            # Drops the callers that have none open.
            self._open += Counter()
