"""The end of a server, asked for by its operator on the same machine."""

from elytron_core.contracts.scope_fields import Reason
from elytron_core.model import Request, Value


class ShutdownRequest(Request):
    """End the server: it finishes what it accepted and takes nothing more."""

    reason: Reason = ""


class ShutdownReport(Value):
    """The server that ends: its process, and the reason that was given."""

    pid: int
    reason: str = ""
