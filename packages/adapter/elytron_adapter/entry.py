"""The entry of every transport: from a credential to a principal, and from a call on the wire to an answer."""

import asyncio
from collections.abc import Callable
from functools import lru_cache

from elytron_adapter.admission_control import Shedding, Unshed
from elytron_adapter.dispatch import Dispatcher
from elytron_adapter.envelope import Auth, AuthKind, Envelope, Response, Source, Transport
from elytron_adapter.failures import rejection
from elytron_adapter.identity.key_quotas import KeyQuotas
from elytron_adapter.identity.login_throttle import Attempts
from elytron_adapter.identity.principals import Authenticator, Principal, PrincipalKind
from elytron_core import limits
from elytron_core.errors import ElytronError
from elytron_core.model import Value

_NOBODY = Source()


class Entrance:
    """Lets callers in, each as the principal of its credential, and answers their calls under the limits of the server.

    One is shared by all shells of a process, so that a principal's limits hold over all of them.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        /,
        *,
        authenticator: Authenticator,
        shedding: Shedding | None = None,
        attempts: Attempts | None = None,
    ) -> None:
        self.dispatcher = dispatcher
        self.closing = asyncio.Event()
        """Set when the server begins to end: streams and sockets say goodbye."""
        self.end: Callable[[], None] | None = None
        """Ends the server around this, as a signal does; None if another program serves."""
        self.streams = 0
        """Number of open streams and sockets; a server that ends closes them first."""
        self.attempts = attempts or Attempts(dispatcher.runtime.context.clock)
        """Wrong credentials, for shells to count by the address that they came from."""
        self.authenticator = authenticator
        self.shedding = shedding or Unshed()
        self._quotas = KeyQuotas(dispatcher.runtime.context)

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return whose `Authorization` header value this is. Raises Unauthorized.

        A shell that keeps a connection asks again with the same value: keys are revoked while it is open.
        """
        return await self.authenticator.authenticate(authorization)

    async def call(
        self,
        principal: Principal,
        /,
        *,
        transport: Transport,
        operation: str,
        request_id: str,
        payload: bytes | Value,
        idempotency_key: str | None = None,
        audit_id: str | None = None,
        versions: tuple[str, ...] = (),
        source: Source | None = None,
        kind: AuthKind = AuthKind.BEARER,
        may_disclose: bool = True,
    ) -> Response:
        """Return the answer to one call of `principal`; every failure is returned as Rejected."""
        try:
            envelope = Envelope(
                request_id=request_id,
                transport=transport,
                operation=operation,
                source=source or _NOBODY,
                auth=auth_of(principal, kind=kind),
                idempotency_key=idempotency_key,
                audit_id=audit_id,
                versions=versions,
                may_disclose=may_disclose,
                payload=payload,
            )
            if principal.quota is not None:
                size_bytes = len(payload if isinstance(payload, bytes) else payload.to_bytes())
                await self._quotas.charge(principal, size_bytes)
            async with self.shedding.place(principal):
                return await self.dispatcher.dispatch(envelope)
        except ElytronError as error:
            return rejection(error, request_id=request_id)


@lru_cache(limits.ACCESS_KEYS_CACHED)
def auth_of(principal: Principal, /, *, kind: AuthKind = AuthKind.BEARER) -> Auth:
    """Return what an envelope says of `principal`."""
    return Auth(
        authenticated=True,
        kind=AuthKind.LOCAL if principal.kind is PrincipalKind.DEVELOPER else kind,
        principal=principal.id,
        role=principal.kind,
        space=principal.space,
    )
