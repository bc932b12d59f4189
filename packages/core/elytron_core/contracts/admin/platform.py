"""Capabilities of a memory on its platform: the catalog, and the snapshot of a profile."""

from enum import StrEnum
from typing import Literal

from pydantic import ConfigDict, Field

from elytron_core.contracts.scope_fields import ScopedRequest
from elytron_core.model import Value
from elytron_core.planes.knowledge.profiles import ProfileBudget, ProfileName, StoreCapacity

CAPABILITY_SCHEMA = "beetle-memory.platform.capability.v1"


class CapabilityPolicy(StrEnum):
    """Parts of a runtime that can be inspected."""

    OPEN = "open"
    STRICT = "strict"
    """No adapter and no entry: the host alone speaks to the memory."""


class Capability(Value):
    """One capability's availability, and its five conditions."""

    visible: bool
    profile_allows: bool
    compiled: bool
    configured: bool
    permitted: bool
    privacy_permits: bool


class AdapterCapabilities(Value):
    """The protocols that speak to a memory."""

    cli: Capability
    http: Capability
    webhook: Capability
    wss: Capability
    mqtt: Capability
    mcp: Capability
    a2a: Capability


class EntryCapabilities(Value):
    """The processes that listen or call for a memory."""

    cli: Capability
    http_server: Capability
    webhook_receiver: Capability
    webhook_sender: Capability
    wss_client: Capability
    wss_server: Capability
    mqtt_client: Capability
    mqtt_bridge: Capability
    mcp_server: Capability
    a2a_bridge: Capability
    llm_gateway: Capability


class IndexRecallCapabilities(Value):
    """Capabilities of recall through an index."""

    archive: Capability
    capsule: Capability
    skill: Capability
    task_learning: Capability


class LifecycleCapabilities(Value):
    """Capabilities of maintenance."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    recover: Capability
    maintain_full: Capability
    maintain_light: Capability
    diagnosis: Capability
    export: Capability
    import_: Capability = Field(validation_alias="import", serialization_alias="import")
    replay_inspection: Capability


class ValidationCapabilities(Value):
    """Capabilities that prove a memory, and that propose changes to it."""

    compact_fixture: Capability
    harness: Capability
    full_suite: Capability
    benchmark_gate: Capability
    proposal_preview: Capability
    compact_sandbox: Capability
    full_sandbox: Capability
    submission: Capability


class MemoryCapabilityCatalog(Value):
    """Everything a memory might do, and whether it can here."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    profile: ProfileName
    policy: CapabilityPolicy
    budget: ProfileBudget
    capacity: StoreCapacity | None = None
    write: Capability
    recall: Capability
    projection: Capability
    maintenance: Capability
    inspection: Capability
    replay: Capability
    export: Capability
    import_: Capability = Field(validation_alias="import", serialization_alias="import")
    communication_adapter: Capability
    adapter: AdapterCapabilities
    entry: EntryCapabilities
    sqlite_index_recall: IndexRecallCapabilities
    lifecycle: LifecycleCapabilities
    validation: ValidationCapabilities


class MemoryCapabilitiesRequest(ScopedRequest):
    """Say what this memory can do; of the scope nothing is read."""


class PlatformCapabilitySnapshot(Value):
    """The capabilities of a profile as this distribution ships them: the same bytes on every machine."""

    schema_id: Literal["beetle-memory.platform.capability.v1"] = CAPABILITY_SCHEMA
    catalog: MemoryCapabilityCatalog
