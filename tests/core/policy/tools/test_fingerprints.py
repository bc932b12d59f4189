"""Fingerprints that hosts in any language compute the same."""

import pytest

from elytron_core.contracts.tools import AgentToolRegistryUpsertRequest
from elytron_core.errors import InvalidInput
from elytron_core.planes.tools import AgentToolDescriptor, AgentToolRegistrySnapshot, RegistryScope
from elytron_core.policy.tools import (
    descriptor_fingerprint,
    fnv1a_64,
    registry_fingerprint,
    with_fingerprints,
)

READ = AgentToolDescriptor(tool_id="read", schema_fingerprint="s1", permission_tags=("files", "a"), risk_tags=("low",))
SEND = AgentToolDescriptor(tool_id="send", schema_fingerprint="s2", version="2", tool_groups=("mail",))


def registry(*tools: AgentToolDescriptor, **fields: object) -> AgentToolRegistrySnapshot:
    named = {"registry_id": "host", "namespace": "desk", "tools": tools}
    return AgentToolRegistrySnapshot.model_validate({**named, **fields})


@pytest.mark.parametrize(
    ("data", "value"), [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)]
)
def test_the_hash_is_fnv1a_64(data: bytes, value: int) -> None:
    assert fnv1a_64(data) == value


def test_fields_are_prefixed_by_their_length() -> None:
    framed = b"4:read|0:|0:|2:s1|1:a|5:files|3:low|7:enabled|"
    assert descriptor_fingerprint(READ) == f"{fnv1a_64(framed):016x}"
    whole = b"4:host|4:desk|12:host-runtime|6:global|4:read|2:s1|16:" + descriptor_fingerprint(READ).encode() + b"|"
    assert registry_fingerprint(registry(READ)) == f"{fnv1a_64(whole):016x}"


def test_length_counts_bytes() -> None:
    named = AgentToolDescriptor(tool_id="茶", schema_fingerprint="s")
    assert descriptor_fingerprint(named) == f"{fnv1a_64('3:茶|0:|0:|1:s|7:enabled|'.encode()):016x}"


def test_the_order_of_tools_and_tags_does_not_matter() -> None:
    turned = READ.model_copy(update={"permission_tags": ("a", "files")})
    assert registry_fingerprint(registry(READ, SEND)) == registry_fingerprint(registry(SEND, turned))


@pytest.mark.parametrize(
    "changed",
    [
        registry(READ, SEND, registry_id="other"),
        registry(READ, SEND, namespace="other"),
        registry(READ, SEND, owner="agent_tools"),
        registry(READ, SEND, scope="project", scope_id="p"),
        registry(READ),
        registry(READ.model_copy(update={"schema_fingerprint": "s9"}), SEND),
        registry(READ.model_copy(update={"version": "9"}), SEND),
        registry(READ.model_copy(update={"display_name": "Read"}), SEND),
        registry(READ.model_copy(update={"permission_tags": ()}), SEND),
        registry(READ.model_copy(update={"risk_tags": ("high",)}), SEND),
        registry(READ.model_copy(update={"tool_groups": ("g",)}), SEND),
        registry(READ.model_copy(update={"disabled": True}), SEND),
    ],
)
def test_every_field_counts(changed: AgentToolRegistrySnapshot) -> None:
    assert registry_fingerprint(changed) != registry_fingerprint(registry(READ, SEND))


def test_fingerprints_can_be_added_to_a_snapshot() -> None:
    made = with_fingerprints(registry(READ, SEND))
    assert made.fingerprint == registry_fingerprint(registry(READ, SEND))
    assert [tool.descriptor_fingerprint for tool in made.tools] == list(map(descriptor_fingerprint, (READ, SEND)))
    assert with_fingerprints(made) == made
    assert made.ref.fingerprint == made.fingerprint


@pytest.mark.parametrize("scope", list(RegistryScope))
def test_a_scope_with_instances_requires_a_scope_id(scope: RegistryScope) -> None:
    is_named = scope in {RegistryScope.PROJECT, RegistryScope.WORKSPACE, RegistryScope.CONVERSATION}
    fields = {"registry_id": "r", "namespace": "n", "fingerprint": "f", "tools": (), "scope": scope}
    wrong, right = ({}, {"scope_id": "x"}) if is_named else ({"scope_id": "x"}, {})
    AgentToolRegistryUpsertRequest(snapshot=AgentToolRegistrySnapshot.model_validate({**fields, **right}))
    with pytest.raises(InvalidInput, match="scope_id"):
        AgentToolRegistryUpsertRequest(snapshot={**fields, **wrong})  # pyright: ignore[reportArgumentType]
