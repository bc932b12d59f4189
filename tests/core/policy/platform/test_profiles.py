"""The eight profiles have the limits of their table, and larger devices have larger ones."""

import pytest

from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.policy.platform.profiles import default_profile, named_profile, profile_of
from elytron_core.profiles import ProfileName

KIB, MIB = 1024, 1024 * 1024

TABLE = [
    (ProfileName.ESP_SDK, (512, 256, MIB, 256 * KIB), (8 * KIB, 1_024, 2_048, 1_024, 8, 4, 1)),
    (ProfileName.ESP_STANDALONE, (4_096, 2_048, 4 * MIB, MIB), (16 * KIB, 2_048, 4_096, 2_048, 16, 8, 1)),
    (ProfileName.LINUX_DEVICE, (12_000, 4_096, 16 * MIB, 4 * MIB), (64 * KIB, 4_096, 8_192, 4_096, 32, 16, 1)),
    (ProfileName.MACOS_SDK, (4_096, 2_048, 8 * MIB, 2 * MIB), (32 * KIB, 2_048, 4_096, 2_048, 16, 8, 1)),
    (ProfileName.WINDOWS_SDK, (4_096, 2_048, 8 * MIB, 2 * MIB), (32 * KIB, 2_048, 4_096, 2_048, 16, 8, 1)),
    (ProfileName.MACOS_STANDALONE, (20_000, 8_192, 32 * MIB, 8 * MIB), (96 * KIB, 8_192, 12_288, 8_192, 64, 32, 1)),
    (ProfileName.SERVER_GATEWAY, (40_000, 16_384, 64 * MIB, 16 * MIB), (128 * KIB, 8_192, 16_384, 8_192, 128, 64, 2)),
    (ProfileName.SERVER_DEV_FULL, (80_000, 32_768, 128 * MIB, 32 * MIB),
     (256 * KIB, 16_384, 32_768, 16_384, 256, 128, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "capacity", "budget"), TABLE)
def test_a_profile_has_the_limits_of_its_row(
    name: ProfileName, capacity: tuple[int, ...], budget: tuple[int, ...]
) -> None:
    profile = profile_of(name)
    assert profile.capacity is not None
    assert tuple(profile.capacity.model_dump().values()) == capacity
    assert tuple(profile.budget.model_dump(exclude={"transcript"}).values()) == budget
    assert named_profile(name.value) == profile


def test_every_profile_has_a_row() -> None:
    assert {name for name, _, _ in TABLE} == set(ProfileName)


def test_small_devices_have_no_files() -> None:
    esp = {name for name in ProfileName if profile_of(name).is_esp}
    assert esp == {ProfileName.ESP_SDK, ProfileName.ESP_STANDALONE}
    assert {name for name in ProfileName if profile_of(name).engines} == esp
    assert all({"file", "sqlite"}.isdisjoint(profile_of(name).engines) for name in esp)


def test_without_a_profile_the_default_limits_apply() -> None:
    profile = named_profile(None)
    assert profile == default_profile()
    assert (profile.name, profile.capacity) == (ProfileName.SERVER_DEV_FULL, None)
    assert profile.budget.render_chars == limits.PROJECTION_CHARS_MAX


def test_an_unknown_profile_error_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="esp-embedded-sdk") as wrong:
        named_profile("s3cret")
    assert "s3cret" not in wrong.value.message
