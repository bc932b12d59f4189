"""Who may do what. A policy looks at a decoded call and says why not, or nothing."""

from collections.abc import Callable

from elytron.registry import AnyOperation, Role
from elytron_adapter.envelope import LOCAL, Envelope
from elytron_core.model import Value

Policy = Callable[[Envelope, AnyOperation, Value], str | None]
"""Returns the reason of a refusal, or None where the call may go on."""


def operators_are_local(envelope: Envelope, operation: AnyOperation, request: Value, /) -> str | None:
    """Refuse what is an operator's business to calls from elsewhere: it touches this machine's files or runtime."""
    if envelope.transport in LOCAL:
        return None
    if operation.role is Role.OPERATOR:
        return f"{operation.name!r} is an operator's: use it on the machine itself"
    asked = sorted(name for name in operation.operator_fields if getattr(request, name))
    if asked:
        return f"{operation.name!r} with {', '.join(asked)} is an operator's: use it on the machine itself"
    return None


def anyone(envelope: Envelope, operation: AnyOperation, request: Value, /) -> None:
    """Refuse nothing: for a shell that has decided already, or a machine of one's own."""
