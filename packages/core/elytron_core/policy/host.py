"""Hosts: available capabilities, actions in each mode, and the eight profiles."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple, TypeVar

from elytron_core import limits
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
from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_core.profiles import (
    ActionAdmission,
    HostProfile,
    HostRoom,
    MemoryPressure,
    ModeAction,
    ModeInput,
    ProfileBudget,
    ProfileName,
    StoreCapacity,
    TranscriptGovernanceBudget,
)

REDACTION_ITEMS: Final = 5_000
"""Redactions that one report names; its audit counts all."""
DERIVED_REFS_SHOWN: Final = 1_000


KIB = 1024
MIB = 1024 * KIB
ESP_ENGINES = ("memory", "embedded", "given")

EMBEDDED_SDK = StoreCapacity(records=512, events=256, blob_bytes=MIB, snapshot_bytes=256 * KIB)
EMBEDDED_STANDALONE = StoreCapacity(records=4_096, events=2_048, blob_bytes=4 * MIB, snapshot_bytes=MIB)


class _ProfileRow(NamedTuple):
    """A profile's limits; the transcript's budget grows with `scale`."""

    records: int
    events: int
    blob_mib: int
    snapshot_kib: int
    body_kib: int
    source: int
    render: int
    maintenance: int
    runtimes: int
    subscriptions: int
    hops: int
    scale: int


_DESKTOP_SDK = _ProfileRow(4_096, 2_048, 8, 2_048, 32, 2_048, 4_096, 2_048, 16, 8, 1, 2)
_ROWS = {
    ProfileName.ESP_SDK: _ProfileRow(512, 256, 1, 256, 8, 1_024, 2_048, 1_024, 8, 4, 1, 1),
    ProfileName.ESP_STANDALONE: _ProfileRow(4_096, 2_048, 4, 1_024, 16, 2_048, 4_096, 2_048, 16, 8, 1, 1),
    ProfileName.LINUX_DEVICE: _ProfileRow(12_000, 4_096, 16, 4_096, 64, 4_096, 8_192, 4_096, 32, 16, 1, 4),
    ProfileName.MACOS_SDK: _DESKTOP_SDK,
    ProfileName.WINDOWS_SDK: _DESKTOP_SDK,
    ProfileName.MACOS_STANDALONE: _ProfileRow(20_000, 8_192, 32, 8_192, 96, 8_192, 12_288, 8_192, 64, 32, 1, 8),
    ProfileName.SERVER_GATEWAY: _ProfileRow(40_000, 16_384, 64, 16_384, 128, 8_192, 16_384, 8_192, 128, 64, 2, 8),
    ProfileName.SERVER_DEV_FULL: _ProfileRow(80_000, 32_768, 128, 32_768, 256, 16_384, 32_768, 16_384, 256, 128, 2, 16),
}


def profile_of(name: ProfileName, /) -> HostProfile:
    """Return the profile of this name, with its hard limits."""
    row = _ROWS[name]
    is_esp = name in {ProfileName.ESP_SDK, ProfileName.ESP_STANDALONE}
    return HostProfile(
        name=name,
        capacity=StoreCapacity(
            records=row.records,
            events=row.events,
            blob_bytes=row.blob_mib * MIB,
            snapshot_bytes=row.snapshot_kib * KIB,
        ),
        engines=ESP_ENGINES if is_esp else (),
        budget=ProfileBudget(
            http_body_bytes=row.body_kib * KIB,
            source_chars=row.source,
            render_chars=row.render,
            maintenance_chars=row.maintenance,
            runtimes=row.runtimes,
            subscriptions=row.subscriptions,
            hops=row.hops,
            transcript=_transcript_budget(row.scale),
        ),
    )


@cache
def default_profile() -> HostProfile:
    """Return the default profile: a full server's, bounded by the product's own limits alone."""
    full = profile_of(ProfileName.SERVER_DEV_FULL)
    budget = full.budget.model_copy(
        update={
            "http_body_bytes": limits.HTTP_BODY_BYTES,
            "source_chars": limits.MESSAGE_CHARS,
            "render_chars": limits.PROJECTION_CHARS_MAX,
            "maintenance_chars": limits.SUMMARY_INPUT_CHARS,
            "runtimes": limits.INDEX_CACHE_SPACES,
            "subscriptions": limits.SUBSCRIPTIONS,
            "transcript": TranscriptGovernanceBudget(
                page_turns=limits.PAGE_MAX,
                host_refs_per_turn=limits.HOST_REFS,
                attributes_per_turn=limits.ATTRIBUTES,
                attribute_value_bytes=limits.ATTRIBUTE_CHARS * 4,
                redaction_items=REDACTION_ITEMS,
                derived_refs=DERIVED_REFS_SHOWN,
                repair_issues=limits.PROBLEMS_MAX,
            ),
        }
    )
    return full.model_copy(update={"budget": budget, "capacity": None})


def named_profile(name: str | None, /) -> HostProfile:
    """Return the profile called `name`; without one, the default. Raises InvalidInput."""
    if name is None:
        return default_profile()
    try:
        return profile_of(ProfileName(name))
    except ValueError:
        names = ", ".join(member.value for member in ProfileName)
        raise InvalidInput(field="profile", problem=f"must be one of {names}") from None


def _transcript_budget(scale: int) -> TranscriptGovernanceBudget:
    return TranscriptGovernanceBudget(
        page_turns=min(16 * scale, 200),
        host_refs_per_turn=min(2 + 2 * scale, limits.HOST_REFS),
        attributes_per_turn=min(4 * scale, limits.ATTRIBUTES),
        attribute_value_bytes=min(256 * scale, limits.ATTRIBUTE_CHARS),
        redaction_items=32 * scale,
        derived_refs=16 * scale,
        repair_issues=16 * scale,
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


def capability_catalog(of: CatalogSources, /) -> MemoryCapabilityCatalog:
    """Return which capabilities are available under these conditions, and for others which of the five factors is
    missing."""
    allowed = _ALLOWED[of.profile.name]
    plain = _make_capability(of, "")
    full = _make_capability(of, "", allows=allowed.has_full_maintenance, configured=of.has_model)
    indexed = _make_capability(of, "", allows=allowed.has_index)
    talks = of.policy is CapabilityPolicy.OPEN
    adapter = _make_group(
        AdapterCapabilities, lambda name: _make_capability(of, name, allows=name in allowed.adapters, permitted=talks)
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
        communication_adapter=_closest_adapter(adapter),
        adapter=adapter,
        entry=_make_group(
            EntryCapabilities,
            lambda name: _make_capability(
                of, name, allows=name in allowed.entries, configured=name in of.entries, permitted=talks
            ),
        ),
        sqlite_index_recall=_make_group(IndexRecallCapabilities, lambda _: indexed),
        lifecycle=_make_group(LifecycleCapabilities, lambda name: full if name == "maintain_full" else plain),
        validation=_make_group(
            ValidationCapabilities, lambda name: _make_capability(of, name, allows=name in allowed.validation)
        ),
    )


def profile_snapshot(name: ProfileName, /) -> PlatformCapabilitySnapshot:
    """Return the capabilities of a profile as this distribution ships it, with everything that it allows configured."""
    profile = profile_of(name)
    allowed = _ALLOWED[name]
    return PlatformCapabilitySnapshot(
        catalog=capability_catalog(
            CatalogSources(
                profile=profile,
                compiled=SHIPPED,
                entries=allowed.entries,
                has_model=allowed.has_full_maintenance,
                capacity=profile.capacity,
            )
        )
    )


def _make_capability(
    of: CatalogSources, name: str, *, allows: bool = True, configured: bool = True, permitted: bool = True
) -> CapabilityState:
    part = _PART_OF.get(name)
    compiled = part is None or part in of.compiled
    privacy = name not in _CARRIES_PRIVATE or of.profile.name in _MAY_TRAVEL
    return CapabilityState(
        visible=allows and compiled and configured and permitted and privacy,
        profile_allows=allows,
        compiled=compiled,
        configured=configured,
        permitted=permitted,
        privacy_permits=privacy,
    )


def _make_group(kind: type[GroupT], make: Callable[[str], CapabilityState]) -> GroupT:
    return kind(**{name: make(name) for name in kind.model_fields})


def _closest_adapter(adapters: AdapterCapabilities) -> CapabilityState:
    """Return the adapter that is closest to available: if one is visible, so is communication."""
    every: list[CapabilityState] = [getattr(adapters, name) for name in sorted(_ADAPTERS)]
    return max(every, key=lambda state: sum(state.model_dump().values()))


BOOTING: Final = "booting"
SAFE_MODE: Final = "safe_mode"
PAIRING_REQUIRED: Final = "pairing_required"
CONFIG_ACTIVE: Final = "config_active"
MAINTENANCE_ACTIVE: Final = "maintenance_active"
VOICE_EXCLUSIVE: Final = "voice_exclusive"
FOREGROUND: Final = "foreground"
CRITICAL_PRESSURE: Final = "critical_pressure"

ALWAYS: Final = frozenset({ModeAction.INSPECT, ModeAction.CLOSE})
"""Reading and closing are possible in every mode."""
CHANGING: Final = frozenset({ModeAction.MAINTAIN, ModeAction.IMPORT, ModeAction.RECOVER})
PERSONAL: Final = frozenset(
    {ModeAction.WRITE, ModeAction.RECALL, ModeAction.PROJECT, ModeAction.EXPORT, ModeAction.IMPORT, ModeAction.MAINTAIN}
)
"""Actions that read or write a person's words."""
PERCENT_AT_FLOOR: Final = 50
PERCENT_NEAR_FLOOR: Final = 75
_SEVERITY: Final = {MemoryPressure.NORMAL: 0, MemoryPressure.CAUTIOUS: 1, MemoryPressure.CRITICAL: 2}


def action_admissions(mode: ModeInput, /) -> tuple[ActionAdmission, ...]:
    """Return for every action whether `mode` admits it, and otherwise the first reason against it."""
    return tuple(_action_admission(action, mode) for action in ModeAction)


def is_admitted(action: ModeAction, mode: ModeInput, /) -> bool:
    """Return whether `action` is admitted in `mode`."""
    return _action_refusal(action, mode) is None


def room_percent(room: HostRoom | None, /) -> int:
    """Return the percentage of a budget that remains: 50 at or below the host's floor, 75 up to twice the floor."""
    if room is None or room.free_bytes > 2 * room.floor_bytes:
        return 100
    return PERCENT_AT_FLOOR if room.free_bytes <= room.floor_bytes else PERCENT_NEAR_FLOOR


def worse_pressure(one: MemoryPressure, other: MemoryPressure, /) -> MemoryPressure:
    """Return the higher of two pressures."""
    return max(one, other, key=_SEVERITY.__getitem__)


def _action_admission(action: ModeAction, mode: ModeInput) -> ActionAdmission:
    reason = _action_refusal(action, mode)
    return ActionAdmission(action=action, admitted=reason is None, reason=reason or "")


def _action_refusal(action: ModeAction, mode: ModeInput) -> str | None:
    if action in ALWAYS:
        return None
    is_changing, is_maintaining = action in CHANGING, action is ModeAction.MAINTAIN
    against = (
        (mode.safe_mode and action in {ModeAction.MAINTAIN, ModeAction.IMPORT}, SAFE_MODE),
        (mode.booting and action is not ModeAction.RECOVER, BOOTING),
        (mode.pairing_required and not mode.pairing_known and action in PERSONAL, PAIRING_REQUIRED),
        (mode.config_active and is_changing, CONFIG_ACTIVE),
        (mode.maintenance_active and is_changing, MAINTENANCE_ACTIVE),
        (mode.voice_exclusive and is_maintaining, VOICE_EXCLUSIVE),
        (mode.foreground_overlay and not mode.post_reply_deferral_elapsed and is_maintaining, FOREGROUND),
        (mode.pressure is MemoryPressure.CRITICAL and is_maintaining, CRITICAL_PRESSURE),
    )
    return next((reason for holds, reason in against if holds), None)
