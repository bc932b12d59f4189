"""A host's mode determines what memory may do."""

import pytest

from elytron_core.policy.platform import modes
from elytron_core.profiles import HostRoom, MemoryPressure, ModeAction, ModeInput

REFUSED: dict[str, tuple[ModeInput, dict[str, str]]] = {
    "nothing": (ModeInput(), {}),
    "safe_mode": (ModeInput(safe_mode=True), dict.fromkeys(("maintain", "import"), "safe_mode")),
    "booting": (
        ModeInput(booting=True),
        dict.fromkeys(("write", "recall", "project", "maintain", "export", "import"), "booting"),
    ),
    "pairing": (
        ModeInput(pairing_required=True, pairing_known=False),
        dict.fromkeys(("write", "recall", "project", "maintain", "export", "import"), "pairing_required"),
    ),
    "paired": (ModeInput(pairing_required=True), {}),
    "config": (ModeInput(config_active=True), dict.fromkeys(("maintain", "import", "recover"), "config_active")),
    "maintenance": (
        ModeInput(maintenance_active=True),
        dict.fromkeys(("maintain", "import", "recover"), "maintenance_active"),
    ),
    "voice": (ModeInput(voice_exclusive=True), {"maintain": "voice_exclusive"}),
    "foreground": (ModeInput(foreground_overlay=True, post_reply_deferral_elapsed=False), {"maintain": "foreground"}),
    "waited": (ModeInput(foreground_overlay=True), {}),
    "critical": (ModeInput(pressure=MemoryPressure.CRITICAL), {"maintain": "critical_pressure"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_each_mode_refuses_what_it_must_with_a_reason(name: str) -> None:
    mode, refused = REFUSED[name]
    said = modes.action_admissions(mode)
    assert [one.action for one in said] == list(ModeAction)
    assert {one.action.value: one.reason for one in said if not one.admitted} == refused
    assert all(modes.is_admitted(one.action, mode) is one.admitted for one in said)


def test_a_host_near_its_floor_leaves_less_of_the_budget() -> None:
    shares = [modes.room_percent(HostRoom(free_bytes=free, floor_bytes=10)) for free in (0, 10, 11, 20, 21)]
    assert (shares, modes.room_percent(None)) == ([50, 50, 75, 75, 100], 100)


def test_the_stronger_pressure_counts() -> None:
    assert modes.worse_pressure(MemoryPressure.CAUTIOUS, MemoryPressure.NORMAL) is MemoryPressure.CAUTIOUS
    assert modes.worse_pressure(MemoryPressure.CAUTIOUS, MemoryPressure.CRITICAL) is MemoryPressure.CRITICAL
