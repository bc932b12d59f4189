"""Access policies: each reads a decoded call and returns why it is refused, or None. Without a rule it is refused."""

from collections.abc import Callable
from functools import lru_cache
from typing import assert_never

from elytron.registry import AnyOperation, Role
from elytron_adapter.envelope import LOCAL, Auth, Envelope
from elytron_adapter.identity.principals import PrincipalKind
from elytron_core import limits
from elytron_core.contracts.admin.archive import ArchiveWord, ImportMode
from elytron_core.contracts.knowledge.control import MemoryEraseRequest
from elytron_core.contracts.scope_fields import ScopedRequest
from elytron_core.errors import PermissionRefused, Unauthorized
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.policy.admission.source_trust import borrowed_words
from elytron_core.scope import Scope

Policy = Callable[[Envelope, AnyOperation, Value], str | None]
"""Returns the reason of a refusal, or None where the call may go on."""

_FOREIGN = "this credential is for one space: leave the scope out, or name that space"


def by_role(envelope: Envelope, operation: AnyOperation, request: Value, /) -> str | None:
    """Refuse what the caller's kind may not do. Raises Unauthorized for a call from elsewhere without a principal.

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
                return "a device does not erase its user's whole space: use the user's own key"
            return _beyond_members(operation, request)
        case _:
            assert_never(envelope.auth.role)


def word_of(kind: PrincipalKind, mode: ImportMode, /) -> ArchiveWord:
    """Return how far the archive that such a caller sends is believed.

    Raises PermissionRefused for a device, and for a member's full restore, which no admission judges.
    """
    match kind:
        case PrincipalKind.OPERATOR | PrincipalKind.DEVELOPER:
            return ArchiveWord.KEPT
        case PrincipalKind.USER if mode is ImportMode.BOOTSTRAP:
            return ArchiveWord.CLAIMED
        case PrincipalKind.USER:
            raise PermissionRefused("a full restore is an operator's: take mode=bootstrap, which judges what it adds")
        case PrincipalKind.DEVICE:
            raise PermissionRefused("a device does not send an archive: use the user's own key")
        case _:
            assert_never(kind)


def within(auth: Auth, request: Value, /) -> Value:
    """Return `request` in the space that `auth` is bound to, if any.

    Raises PermissionRefused for another space, in the same words whether there is such a space or not.
    """
    if not isinstance(request, ScopedRequest):
        return request
    asked = request.scope
    if asked is not None and is_reserved(asked.space):
        raise PermissionRefused(_FOREIGN if auth.space is not None else "this space is the server's own")
    if auth.space is None or (asked is not None and asked.space == auth.space):
        return request
    if asked is not None:
        raise PermissionRefused(_FOREIGN)
    return request.model_copy(update={"scope": _scope_of(auth.space)})


@lru_cache(limits.ACCESS_KEYS_CACHED)
def _scope_of(space: SpaceId) -> Scope:
    return Scope(space=space)


def _beyond_members(operation: AnyOperation, request: Value) -> str | None:
    if operation.role is Role.OPERATOR:
        return f"{operation.name!r} is an operator's: use an operator's key, or the machine itself"
    asked = operation.beyond_members(request)
    if asked:
        return f"{operation.name!r} with {', '.join(asked)} is an operator's: use an operator's key"
    borrowed = borrowed_words(request) if operation.mutates else ()
    if borrowed:
        told = ", ".join(borrowed)
        return f"{operation.name!r} on the word of {told} is an operator's: leave it out, or use an operator's key"
    return None
