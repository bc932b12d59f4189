"""Principals: callers as a credential proves them, and what their kind may do."""

from dataclasses import dataclass
from typing import Protocol

from elytron_core.errors import Unauthorized
from elytron_core.ids import SpaceId
from elytron_core.planes.admin.access import KeyQuota, PrincipalKind


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller. `id` names it in audits and keys its receipts; `space` is the only one that it may use, None: any.

    `quota` bounds its calls beside what the server allows everyone.
    """

    id: str
    kind: PrincipalKind
    space: SpaceId | None = None
    quota: KeyQuota | None = None


OPERATORS = frozenset({PrincipalKind.OPERATOR, PrincipalKind.DEVELOPER})
"""The kinds that may do what is an operator's."""


class Authenticator(Protocol):
    """Tells who holds a credential. Shells hand in what came over the wire and never look inside."""

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return whose `Authorization` header value this is. Raises Unauthorized, one and the same for every reason."""
        ...


DEVELOPER = Principal(id="developer", kind=PrincipalKind.DEVELOPER)


class Development:
    """Takes every caller for the developer of this machine. For loopback alone, and only if asked for."""

    async def authenticate(self, authorization: str | None, /) -> Principal:  # noqa: ARG002 - it is not read
        """Return the developer."""
        return DEVELOPER


class AnyOf:
    """Lets in a caller that one of several authenticators knows."""

    def __init__(self, *authenticators: Authenticator) -> None:
        self._authenticators = authenticators

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return who the first that knows the credential says it is. Raises Unauthorized."""
        for authenticator in self._authenticators:
            try:
                return await authenticator.authenticate(authorization)
            except Unauthorized:
                continue
        raise Unauthorized
