"""Shutdown of a server by its operator on the same machine."""

from elytron.remote.address import Address
from elytron.remote.http import HttpTransport
from elytron_core import limits
from elytron_core.contracts.admin.shutdown import ShutdownReport, ShutdownRequest


async def shut_down(address: Address, /, *, reason: str = "") -> ShutdownReport:
    """End the server at `address` and return which process that is; it finishes what it accepted.

    Raises PermissionRefused for a caller who is no operator on that machine, Unreachable if no server answers.
    """
    transport = HttpTransport(address, timeout_s=limits.REMOTE_ANSWER_S)
    try:
        return await transport.post("/v1/shutdown", ShutdownRequest(reason=reason), ShutdownReport)
    finally:
        await transport.close()
