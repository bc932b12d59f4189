"""The limits of the eight profiles."""

from functools import cache
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.profiles import (
    HostProfile,
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
    profile_row = _ROWS[name]
    is_esp = name in {ProfileName.ESP_SDK, ProfileName.ESP_STANDALONE}
    return HostProfile(
        name=name,
        capacity=StoreCapacity(
            records=profile_row.records,
            events=profile_row.events,
            blob_bytes=profile_row.blob_mib * MIB,
            snapshot_bytes=profile_row.snapshot_kib * KIB,
        ),
        engines=ESP_ENGINES if is_esp else (),
        budget=ProfileBudget(
            http_body_bytes=profile_row.body_kib * KIB,
            source_chars=profile_row.source,
            render_chars=profile_row.render,
            maintenance_chars=profile_row.maintenance,
            runtimes=profile_row.runtimes,
            subscriptions=profile_row.subscriptions,
            hops=profile_row.hops,
            transcript=_transcript_budget(profile_row.scale),
        ),
    )


@cache
def default_profile() -> HostProfile:
    """Return the default profile: a full server's, bounded by the product's own limits alone."""
    full_profile = profile_of(ProfileName.SERVER_DEV_FULL)
    budget = full_profile.budget.model_copy(
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
    return full_profile.model_copy(update={"budget": budget, "capacity": None})


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
