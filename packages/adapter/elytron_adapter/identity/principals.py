"""Who calls, as a credential proves it, and what his kind may do."""

from dataclasses import dataclass
from typing import Protocol

from elytron_core.errors import Unauthorized
from elytron_core.ids import SpaceId
from elytron_core.planes.admin.access import PrincipalKind


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller. `id` names him in audits and keys his receipts; `space` is the one that he may use, None: any."""

    id: str
    kind: PrincipalKind
    space: SpaceId | None = None


class Authenticator(Protocol):
    """Tells who holds a credential. Shells hand in what came over the wire and never look inside."""

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return whose `Authorization` header value this is. Raises Unauthorized, one and the same for every reason."""
        ...


DEVELOPER = Principal(id="developer", kind=PrincipalKind.DEVELOPER)


class Development:
    """Takes everybody for the developer whose machine it is. For loopback alone, and only where it was asked for."""

    async def authenticate(self, authorization: str | None, /) -> Principal:  # noqa: ARG002 - whatever was sent
        """Return the developer."""
        return DEVELOPER


class AnyOf:
    """Lets in whoever one of several authenticators knows."""

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
