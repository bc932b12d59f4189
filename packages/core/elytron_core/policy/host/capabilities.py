"""Availability of a capability: the profile allows it, it is built in, set up, permitted, and keeps privacy."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from elytron_core.contracts.admin.platform import (
    AdapterCapabilities,
    Capability,
    CapabilityPolicy,
    EntryCapabilities,
    IndexRecallCapabilities,
    LifecycleCapabilities,
    MemoryCapabilityCatalog,
    PlatformCapabilitySnapshot,
    ValidationCapabilities,
)
from elytron_core.model import Value
from elytron_core.planes.knowledge.profiles import Profile, ProfileName, StoreCapacity
from elytron_core.policy.host.profiles import profile_of

GroupT = TypeVar("GroupT", bound=Value)


class Part(StrEnum):
    """Parts that a distribution may have built in, beside the memory itself."""

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


SHIPPED = frozenset({Part.CLI, Part.HTTP, Part.WSS, Part.MCP, Part.A2A, Part.LLM_GATEWAY, Part.REPLAY, Part.EVOLVE})
"""Parts that this distribution has built in, with all its extras; snapshots are of these."""

_NEEDED_BY = {
    Part.CLI: ("cli",),
    Part.HTTP: ("http", "http_server", "webhook", "webhook_receiver"),
    Part.WEBHOOK_SENDER: ("webhook_sender",),
    Part.WSS: ("wss", "wss_client", "wss_server"),
    Part.MQTT: ("mqtt", "mqtt_client", "mqtt_bridge"),
    Part.MCP: ("mcp", "mcp_server"),
    Part.A2A: ("a2a", "a2a_bridge"),
    Part.LLM_GATEWAY: ("llm_gateway",),
    Part.REPLAY: ("compact_fixture", "harness", "full_suite", "benchmark_gate"),
    Part.EVOLVE: ("proposal_preview", "compact_sandbox", "full_sandbox", "submission"),
}
_PART_OF = {name: part for part, names in _NEEDED_BY.items() for name in names}
"""The part that a capability needs; one that is not listed needs the memory alone."""

_ADAPTERS = frozenset(AdapterCapabilities.model_fields)
_ENTRIES = frozenset(EntryCapabilities.model_fields)
_VALIDATION = frozenset(ValidationCapabilities.model_fields)
_HARNESS = frozenset(_NEEDED_BY[Part.REPLAY])
_CARRIES_PRIVATE = frozenset({"webhook_sender", "mqtt_bridge", "a2a_bridge", "llm_gateway", "submission"})
"""Capabilities that pass memory on by themselves: only if private material may travel."""
_MAY_TRAVEL = frozenset({ProfileName.SERVER_GATEWAY, ProfileName.SERVER_DEV_FULL})


@dataclass(frozen=True, slots=True)
class _Allowed:
    """Capabilities that a profile allows of each group; of a group that is not listed, all."""

    adapters: AbstractSet[str]
    entries: AbstractSet[str]
    validation: AbstractSet[str]
    has_index: bool = True
    has_full_maintenance: bool = True


_DEVICE = frozenset({"cli", "http", "webhook", "wss", "mqtt", "mcp"})
_DESKTOP_SDK = _Allowed(
    frozenset({"cli", "http", "mcp"}),
    frozenset({"cli", "mcp_server"}),
    frozenset({"compact_fixture", "proposal_preview"}),
)
_ALLOWED = {
    ProfileName.ESP_SDK: _Allowed(frozenset(), frozenset(), frozenset(), has_index=False, has_full_maintenance=False),
    ProfileName.ESP_STANDALONE: _Allowed(
        frozenset({"http", "wss", "mqtt"}),
        frozenset({"http_server", "wss_client", "mqtt_client"}),
        frozenset({"compact_fixture"}),
        has_index=False,
        has_full_maintenance=False,
    ),
    ProfileName.LINUX_DEVICE: _Allowed(
        _DEVICE,
        _ENTRIES - _CARRIES_PRIVATE,
        frozenset({"compact_fixture", "harness", "proposal_preview", "compact_sandbox"}),
    ),
    ProfileName.MACOS_SDK: _DESKTOP_SDK,
    ProfileName.WINDOWS_SDK: _DESKTOP_SDK,
    ProfileName.MACOS_STANDALONE: _Allowed(
        _ADAPTERS,
        _ENTRIES - {"mqtt_bridge", "a2a_bridge"},
        _VALIDATION - {"full_suite", "full_sandbox", "submission"},
    ),
    ProfileName.SERVER_GATEWAY: _Allowed(_ADAPTERS, _ENTRIES, _VALIDATION - _HARNESS),
    ProfileName.SERVER_DEV_FULL: _Allowed(_ADAPTERS, _ENTRIES, _VALIDATION),
}


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Sources of a catalog. `entries` are those set up; `has_model` says that maintenance has one to ask.

    `capacity` is the store's bound, of a profile or its own.
    """

    profile: Profile
    compiled: AbstractSet[Part]
    entries: AbstractSet[str]
    has_model: bool
    policy: CapabilityPolicy = CapabilityPolicy.OPEN
    capacity: StoreCapacity | None = None


def catalog(of: Circumstances, /) -> MemoryCapabilityCatalog:
    """Return what can be done under these circumstances, and which of the five factors says otherwise."""
    allowed = _ALLOWED[of.profile.name]
    plain = _capability(of, "")
    full = _capability(of, "", allows=allowed.has_full_maintenance, configured=of.has_model)
    indexed = _capability(of, "", allows=allowed.has_index)
    talks = of.policy is CapabilityPolicy.OPEN
    adapter = _group(
        AdapterCapabilities, lambda name: _capability(of, name, allows=name in allowed.adapters, permitted=talks)
    )
    return MemoryCapabilityCatalog(
        profile=of.profile.name,
        policy=of.policy,
        budget=of.profile.budget,
        capacity=of.capacity,
        write=plain,
        recall=plain,
        projection=plain,
        maintenance=plain,
        inspection=plain,
        replay=plain,
        export=plain,
        import_=plain,
        communication_adapter=_any(adapter),
        adapter=adapter,
        entry=_group(
            EntryCapabilities,
            lambda name: _capability(
                of, name, allows=name in allowed.entries, configured=name in of.entries, permitted=talks
            ),
        ),
        sqlite_index_recall=_group(IndexRecallCapabilities, lambda _: indexed),
        lifecycle=_group(LifecycleCapabilities, lambda name: full if name == "maintain_full" else plain),
        validation=_group(
            ValidationCapabilities, lambda name: _capability(of, name, allows=name in allowed.validation)
        ),
    )


def snapshot(name: ProfileName, /) -> PlatformCapabilitySnapshot:
    """Return what a profile can do as this distribution ships it, with everything set up that it allows."""
    profile = profile_of(name)
    allowed = _ALLOWED[name]
    return PlatformCapabilitySnapshot(
        catalog=catalog(
            Circumstances(
                profile=profile,
                compiled=SHIPPED,
                entries=allowed.entries,
                has_model=allowed.has_full_maintenance,
                capacity=profile.capacity,
            )
        )
    )


def _capability(
    of: Circumstances, name: str, *, allows: bool = True, configured: bool = True, permitted: bool = True
) -> Capability:
    part = _PART_OF.get(name)
    compiled = part is None or part in of.compiled
    privacy = name not in _CARRIES_PRIVATE or of.profile.name in _MAY_TRAVEL
    return Capability(
        visible=allows and compiled and configured and permitted and privacy,
        profile_allows=allows,
        compiled=compiled,
        configured=configured,
        permitted=permitted,
        privacy_permits=privacy,
    )


def _group(kind: type[GroupT], make: Callable[[str], Capability]) -> GroupT:
    return kind(**{name: make(name) for name in kind.model_fields})


def _any(adapters: AdapterCapabilities) -> Capability:
    """Return the adapter that is closest to available: if one is visible, so is communication."""
    every: list[Capability] = [getattr(adapters, name) for name in sorted(_ADAPTERS)]
    return max(every, key=lambda found: sum(found.model_dump().values()))
