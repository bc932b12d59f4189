"""Protocols of a server: which of them are installed, and which the profile of a memory allows."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from elytron.capabilities import catalog_of
from elytron_core.contracts.admin.platform import Capability
from elytron_core.errors import Unsupported

if TYPE_CHECKING:
    from elytron.context import OperationContext


def allows(context: "OperationContext", entry: str, /) -> bool:
    """True if the profile of a memory allows `entry`, by the catalog's name, and lets private material through."""
    found: Capability = getattr(catalog_of(context).entry, entry)
    return found.profile_allows and found.privacy_permits


def require_entry(context: "OperationContext", entry: str, /) -> None:
    """Raise Unsupported unless the profile of a memory allows `entry`."""
    if not allows(context, entry):
        name = context.profile.name.value
        raise Unsupported(f"the profile {name} has no {entry}: take another profile, or open the memory in process")


def speaks_mcp() -> bool:
    """True if the extra "mcp" is installed."""
    return find_spec("mcp") is not None


def speaks_a2a() -> bool:
    """True if the extra "a2a" is installed."""
    return find_spec("a2a") is not None
