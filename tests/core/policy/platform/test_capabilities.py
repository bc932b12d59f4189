"""A capability is visible if all five factors allow it; the eight snapshots are the same everywhere."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from elytron_core.contracts.inspection import CapabilityPolicy, MemoryCapabilityCatalog, PlatformCapabilitySnapshot
from elytron_core.policy.platform.capabilities import (
    SHIPPED,
    CatalogSources,
    DistributionPart,
    capability_catalog,
    profile_snapshot,
)
from elytron_core.policy.platform.profiles import default_profile, profile_of
from elytron_core.profiles import ProfileName

RECORDED = Path(__file__).parent / "capabilities"


def made(
    name: ProfileName = ProfileName.SERVER_DEV_FULL,
    *,
    compiled: frozenset[DistributionPart] = frozenset(DistributionPart),
    entries: frozenset[str] = frozenset({"http_server", "llm_gateway"}),
    has_model: bool = True,
    policy: CapabilityPolicy = CapabilityPolicy.OPEN,
) -> MemoryCapabilityCatalog:
    profile = profile_of(name)
    return capability_catalog(
        CatalogSources(
            profile=profile,
            compiled=compiled,
            entries=entries,
            has_model=has_model,
            policy=policy,
            capacity=profile.capacity,
        )
    )


@pytest.mark.parametrize("name", ProfileName)
def test_a_snapshot_matches_its_recording(name: ProfileName) -> None:
    """Recorded by `elytron platform capability-snapshot --profile NAME --json`."""
    recorded = PlatformCapabilitySnapshot.from_bytes((RECORDED / f"{name.value}.json").read_bytes())
    assert profile_snapshot(name) == recorded
    assert recorded.schema_id == "beetle-memory.platform.capability.v1"


def test_capabilities_listed_as_built_in_are_built_in() -> None:
    packages = {
        DistributionPart.CLI: "elytron_cli",
        DistributionPart.HTTP: "elytron_http_shell",
        DistributionPart.WSS: "elytron_http_shell",
        DistributionPart.MCP: "elytron_mcp_shell",
        DistributionPart.A2A: "elytron_a2a_shell",
        DistributionPart.LLM_GATEWAY: "elytron_proxy",
        DistributionPart.REPLAY: "elytron_replay",
        DistributionPart.EVOLVE: "elytron_replay.evolve",
    }
    assert {part for part in SHIPPED if find_spec(packages[part]) is None} == set()


def test_the_profile_must_allow_a_capability() -> None:
    found = made(ProfileName.ESP_SDK)
    assert found.write.visible
    assert (found.adapter.http.visible, found.adapter.http.profile_allows) == (False, False)
    assert (found.lifecycle.maintain_full.visible, found.lifecycle.maintain_light.visible) == (False, True)
    assert not found.sqlite_index_recall.archive.visible
    assert not found.communication_adapter.visible


def test_a_capability_must_be_built_in() -> None:
    found = made(compiled=frozenset(DistributionPart) - {DistributionPart.MQTT})
    assert (found.adapter.mqtt.visible, found.adapter.mqtt.compiled) == (False, False)
    assert found.adapter.mcp.visible


def test_a_capability_must_be_configured() -> None:
    found = made(has_model=False)
    assert (found.lifecycle.maintain_full.visible, found.lifecycle.maintain_full.configured) == (False, False)
    assert (found.entry.http_server.visible, found.entry.mcp_server.configured) == (True, False)


def test_the_policy_must_permit_a_capability() -> None:
    found = made(policy=CapabilityPolicy.STRICT)
    assert not any(capability.visible for _, capability in found.adapter)
    assert not any(capability.visible for _, capability in found.entry)
    assert (found.adapter.cli.permitted, found.recall.visible) == (False, True)


def test_privacy_must_permit_a_capability() -> None:
    everywhere = frozenset({"llm_gateway"})
    device = made(ProfileName.MACOS_STANDALONE, entries=everywhere).entry.llm_gateway
    server = made(ProfileName.SERVER_GATEWAY, entries=everywhere).entry.llm_gateway
    assert (device.profile_allows, device.privacy_permits, device.visible) == (True, False, False)
    assert server.visible


def test_a_gateway_has_proposals_and_no_harness() -> None:
    found = made(ProfileName.SERVER_GATEWAY).validation
    assert not any((found.compact_fixture.visible, found.harness.visible, found.benchmark_gate.visible))
    assert all((found.proposal_preview.visible, found.full_sandbox.visible, found.submission.visible))


def test_a_catalog_round_trips_through_bytes() -> None:
    found = made()
    assert MemoryCapabilityCatalog.from_bytes(found.to_bytes()) == found
    assert "import" in found.model_dump()
    assert found.capacity == profile_of(ProfileName.SERVER_DEV_FULL).capacity
    assert default_profile().capacity is None
