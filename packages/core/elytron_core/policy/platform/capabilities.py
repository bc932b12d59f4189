"""Capabilities: what each profile allows, what a distribution includes, and what is possible here."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from elytron_core.contracts.inspection import (
    AdapterCapabilities,
    CapabilityPolicy,
    CapabilityState,
    EntryCapabilities,
    IndexRecallCapabilities,
    LifecycleCapabilities,
    MemoryCapabilityCatalog,
    PlatformCapabilitySnapshot,
    ValidationCapabilities,
)
from elytron_core.model import Value
from elytron_core.policy.platform.profiles import profile_of
from elytron_core.profiles import (
    HostProfile,
    ProfileName,
    StoreCapacity,
)

GroupT = TypeVar("GroupT", bound=Value)


class DistributionPart(StrEnum):
    """Parts that a distribution may include, in addition to the memory itself."""

    CLI = "cli"
    HTTP = "http"
    WEBHOOK_SENDER = "webhook_sender"
    WSS = "wss"
    MQTT = "mqtt"
    MCP = "mcp"
    A2A = "a2a"
    LLM_GATEWAY = "llm_gateway"
    REPLAY = "replay"
    EVOLVE = "evolve"


SHIPPED = frozenset(
    {
        DistributionPart.CLI,
        DistributionPart.HTTP,
        DistributionPart.WSS,
        DistributionPart.MCP,
        DistributionPart.A2A,
        DistributionPart.LLM_GATEWAY,
        DistributionPart.REPLAY,
        DistributionPart.EVOLVE,
    }
)
"""Parts that this distribution includes with all its extras; snapshots list these."""


_NEEDED_BY = {
    DistributionPart.CLI: ("cli",),
    DistributionPart.HTTP: ("http", "http_server", "webhook", "webhook_receiver"),
    DistributionPart.WEBHOOK_SENDER: ("webhook_sender",),
    DistributionPart.WSS: ("wss", "wss_client", "wss_server"),
    DistributionPart.MQTT: ("mqtt", "mqtt_client", "mqtt_bridge"),
    DistributionPart.MCP: ("mcp", "mcp_server"),
    DistributionPart.A2A: ("a2a", "a2a_bridge"),
    DistributionPart.LLM_GATEWAY: ("llm_gateway",),
    DistributionPart.REPLAY: ("compact_fixture", "harness", "full_suite", "benchmark_gate"),
    DistributionPart.EVOLVE: ("proposal_preview", "compact_sandbox", "full_sandbox", "submission"),
}


_PART_OF = {name: part for part, names in _NEEDED_BY.items() for name in names}
"""The part that a capability requires; an unlisted one requires only the memory."""


_ADAPTERS = frozenset(AdapterCapabilities.model_fields)


_ENTRIES = frozenset(EntryCapabilities.model_fields)


_VALIDATION = frozenset(ValidationCapabilities.model_fields)


_HARNESS = frozenset(_NEEDED_BY[DistributionPart.REPLAY])


_CARRIES_PRIVATE = frozenset({"webhook_sender", "mqtt_bridge", "a2a_bridge", "llm_gateway", "submission"})
"""Capabilities that transmit memory by themselves: only if private material may leave the host."""


_MAY_TRAVEL = frozenset({ProfileName.SERVER_GATEWAY, ProfileName.SERVER_DEV_FULL})


@dataclass(frozen=True, slots=True)
class _AllowedCapabilities:
    """Capabilities that a profile allows per group; all of an unlisted group."""

    adapters: AbstractSet[str]
    entries: AbstractSet[str]
    validation: AbstractSet[str]
    has_index: bool = True
    has_full_maintenance: bool = True


_DEVICE = frozenset({"cli", "http", "webhook", "wss", "mqtt", "mcp"})


_DESKTOP_CAPABILITIES = _AllowedCapabilities(
    frozenset({"cli", "http", "mcp"}),
    frozenset({"cli", "mcp_server"}),
    frozenset({"compact_fixture", "proposal_preview"}),
)


_ALLOWED = {
    ProfileName.ESP_SDK: _AllowedCapabilities(
        frozenset(), frozenset(), frozenset(), has_index=False, has_full_maintenance=False
    ),
    ProfileName.ESP_STANDALONE: _AllowedCapabilities(
        frozenset({"http", "wss", "mqtt"}),
        frozenset({"http_server", "wss_client", "mqtt_client"}),
        frozenset({"compact_fixture"}),
        has_index=False,
        has_full_maintenance=False,
    ),
    ProfileName.LINUX_DEVICE: _AllowedCapabilities(
        _DEVICE,
        _ENTRIES - _CARRIES_PRIVATE,
        frozenset({"compact_fixture", "harness", "proposal_preview", "compact_sandbox"}),
    ),
    ProfileName.MACOS_SDK: _DESKTOP_CAPABILITIES,
    ProfileName.WINDOWS_SDK: _DESKTOP_CAPABILITIES,
    ProfileName.MACOS_STANDALONE: _AllowedCapabilities(
        _ADAPTERS,
        _ENTRIES - {"mqtt_bridge", "a2a_bridge"},
        _VALIDATION - {"full_suite", "full_sandbox", "submission"},
    ),
    ProfileName.SERVER_GATEWAY: _AllowedCapabilities(_ADAPTERS, _ENTRIES, _VALIDATION - _HARNESS),
    ProfileName.SERVER_DEV_FULL: _AllowedCapabilities(_ADAPTERS, _ENTRIES, _VALIDATION),
}


@dataclass(frozen=True, slots=True)
class CatalogSources:
    """Inputs of a catalog. `entries` are the configured ones; `has_model` says that maintenance has a model.

    `capacity` is the store's bound, of a profile or its own.
    """

    profile: HostProfile
    compiled: AbstractSet[DistributionPart]
    entries: AbstractSet[str]
    has_model: bool
    policy: CapabilityPolicy = CapabilityPolicy.OPEN
    capacity: StoreCapacity | None = None


def capability_catalog(sources: CatalogSources, /) -> MemoryCapabilityCatalog:
    """Return which capabilities are available under these conditions, and for others which of the five factors is
    missing."""
    profile_allowance = _ALLOWED[sources.profile.name]
    plain_capability = _make_capability(sources, "")
    full_maintenance = _make_capability(
        sources, "", allows=profile_allowance.has_full_maintenance, configured=sources.has_model
    )
    index_capability = _make_capability(sources, "", allows=profile_allowance.has_index)
    may_communicate = sources.policy is CapabilityPolicy.OPEN
    adapter_group = _make_group(
        AdapterCapabilities,
        lambda name: _make_capability(
            sources, name, allows=name in profile_allowance.adapters, permitted=may_communicate
        ),
    )
    return MemoryCapabilityCatalog(
        profile=sources.profile.name,
        policy=sources.policy,
        budget=sources.profile.budget,
        capacity=sources.capacity,
        write=plain_capability,
        recall=plain_capability,
        projection=plain_capability,
        maintenance=plain_capability,
        inspection=plain_capability,
        replay=plain_capability,
        export=plain_capability,
        import_=plain_capability,
        communication_adapter=_closest_adapter(adapter_group),
        adapter=adapter_group,
        entry=_make_group(
            EntryCapabilities,
            lambda name: _make_capability(
                sources,
                name,
                allows=name in profile_allowance.entries,
                configured=name in sources.entries,
                permitted=may_communicate,
            ),
        ),
        sqlite_index_recall=_make_group(IndexRecallCapabilities, lambda _: index_capability),
        lifecycle=_make_group(
            LifecycleCapabilities, lambda name: full_maintenance if name == "maintain_full" else plain_capability
        ),
        validation=_make_group(
            ValidationCapabilities,
            lambda name: _make_capability(sources, name, allows=name in profile_allowance.validation),
        ),
    )


def profile_snapshot(name: ProfileName, /) -> PlatformCapabilitySnapshot:
    """Return the capabilities of a profile as this distribution ships it, with everything that it allows configured."""
    profile = profile_of(name)
    profile_allowance = _ALLOWED[name]
    return PlatformCapabilitySnapshot(
        catalog=capability_catalog(
            CatalogSources(
                profile=profile,
                compiled=SHIPPED,
                entries=profile_allowance.entries,
                has_model=profile_allowance.has_full_maintenance,
                capacity=profile.capacity,
            )
        )
    )


def _make_capability(
    sources: CatalogSources, name: str, *, allows: bool = True, configured: bool = True, permitted: bool = True
) -> CapabilityState:
    needed_part = _PART_OF.get(name)
    is_compiled = needed_part is None or needed_part in sources.compiled
    is_privacy_safe = name not in _CARRIES_PRIVATE or sources.profile.name in _MAY_TRAVEL
    return CapabilityState(
        visible=allows and is_compiled and configured and permitted and is_privacy_safe,
        profile_allows=allows,
        compiled=is_compiled,
        configured=configured,
        permitted=permitted,
        privacy_permits=is_privacy_safe,
    )


def _make_group(kind: type[GroupT], make: Callable[[str], CapabilityState]) -> GroupT:
    return kind(**{name: make(name) for name in kind.model_fields})


def _closest_adapter(adapters: AdapterCapabilities) -> CapabilityState:
    """Return the adapter that is closest to available: if one is visible, so is communication."""
    adapter_states: list[CapabilityState] = [getattr(adapters, name) for name in sorted(_ADAPTERS)]
    return max(adapter_states, key=lambda state: sum(state.model_dump().values()))
