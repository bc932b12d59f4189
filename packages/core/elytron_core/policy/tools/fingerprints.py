"""Fingerprints of tool registries: hosts in any language compute the same.

A fingerprint is the FNV-1a hash, 64 bits, 16 hex digits, of fields written one after the other as
`<bytes of UTF-8>:<value>|`. Tags are sorted, and so are tools, by id, schema fingerprint and descriptor fingerprint.
It distinguishes states of one registry; it is no proof against forgery.
"""

from collections.abc import Iterable
from typing import Final

from elytron_core.planes.tools import (
    NAMED_SCOPES,
    AgentToolDescriptor,
    AgentToolRegistrySnapshot,
    RegistryOwner,
    RegistryScope,
)

_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = 0xFFFFFFFFFFFFFFFF


def fnv1a_64(data: bytes, /) -> int:
    """Return the FNV-1a hash of `data`, 64 bits."""
    value = _OFFSET
    for byte in data:
        value = (value ^ byte) * _PRIME & _MASK
    return value


def descriptor_fingerprint(tool: AgentToolDescriptor, /) -> str:
    """Return the fingerprint of a tool's description, independent of the one that it states."""
    return _digest(
        (
            tool.tool_id,
            tool.display_name,
            tool.version or "",
            tool.schema_fingerprint,
            *sorted(tool.permission_tags),
            *sorted(tool.risk_tags),
            *sorted(tool.tool_groups),
            "disabled" if tool.disabled else "enabled",
        )
    )


def registry_fingerprint(snapshot: AgentToolRegistrySnapshot, /) -> str:
    """Return the fingerprint of a registry, independent of the one in the snapshot and of the tools' order."""
    tools = sorted((tool.tool_id, tool.schema_fingerprint, descriptor_fingerprint(tool)) for tool in snapshot.tools)
    scope = _scope(snapshot.scope, snapshot.scope_id)
    head = (snapshot.registry_id, snapshot.namespace, _owner(snapshot.owner), scope)
    return _digest((*head, *(field for tool in tools for field in tool)))


def with_fingerprints(snapshot: AgentToolRegistrySnapshot, /) -> AgentToolRegistrySnapshot:
    """Return `snapshot` with the fingerprints that it and its tools have.

    >>> read = elytron.AgentToolDescriptor(tool_id="read_file", schema_fingerprint="schema-1")
    >>> snapshot = elytron.AgentToolRegistrySnapshot(registry_id="host-tools", namespace="desk", tools=(read,))
    >>> elytron.with_fingerprints(snapshot).fingerprint
    'e121e488462cf6b5'
    """
    tools = tuple(
        tool.model_copy(update={"descriptor_fingerprint": descriptor_fingerprint(tool)}) for tool in snapshot.tools
    )
    return snapshot.model_copy(update={"tools": tools, "fingerprint": registry_fingerprint(snapshot)})


def _digest(fields: Iterable[str]) -> str:
    return f"{fnv1a_64(b''.join(map(_framed, fields))):016x}"


def _framed(field: str) -> bytes:
    data = field.encode("utf-8")
    return b"%d:%b|" % (len(data), data)


def _owner(owner: RegistryOwner) -> str:
    return owner.value.replace("_", "-")


def _scope(scope: RegistryScope, scope_id: str | None) -> str:
    return f"{scope.value}:{scope_id}" if scope in NAMED_SCOPES else scope.value
