"""Modes of a host: which actions each admits, and how little memory the host has left."""

from typing import Final

from elytron_core.profiles import (
    ActionAdmission,
    HostRoom,
    MemoryPressure,
    ModeAction,
    ModeInput,
)

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


def worse_pressure(pressure: MemoryPressure, other_pressure: MemoryPressure, /) -> MemoryPressure:
    """Return the higher of two pressures."""
    return max(pressure, other_pressure, key=_SEVERITY.__getitem__)


def _action_admission(action: ModeAction, mode: ModeInput) -> ActionAdmission:
    reason = _action_refusal(action, mode)
    return ActionAdmission(action=action, admitted=reason is None, reason=reason or "")


def _action_refusal(action: ModeAction, mode: ModeInput) -> str | None:
    if action in ALWAYS:
        return None
    is_changing, is_maintaining = action in CHANGING, action is ModeAction.MAINTAIN
    refusals = (
        (mode.safe_mode and action in {ModeAction.MAINTAIN, ModeAction.IMPORT}, SAFE_MODE),
        (mode.booting and action is not ModeAction.RECOVER, BOOTING),
        (mode.pairing_required and not mode.pairing_known and action in PERSONAL, PAIRING_REQUIRED),
        (mode.config_active and is_changing, CONFIG_ACTIVE),
        (mode.maintenance_active and is_changing, MAINTENANCE_ACTIVE),
        (mode.voice_exclusive and is_maintaining, VOICE_EXCLUSIVE),
        (mode.foreground_overlay and not mode.post_reply_deferral_elapsed and is_maintaining, FOREGROUND),
        (mode.pressure is MemoryPressure.CRITICAL and is_maintaining, CRITICAL_PRESSURE),
    )
    return next((reason for applies, reason in refusals if applies), None)
