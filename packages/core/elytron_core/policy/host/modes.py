"""Actions of memory that are admitted in each mode of a host."""

from typing import Final

from elytron_core.contracts.modes import ActionAdmission, HostRoom, ModeAction, ModeInput, Pressure

BOOTING: Final = "booting"
SAFE_MODE: Final = "safe_mode"
PAIRING_REQUIRED: Final = "pairing_required"
CONFIG_ACTIVE: Final = "config_active"
MAINTENANCE_ACTIVE: Final = "maintenance_active"
VOICE_EXCLUSIVE: Final = "voice_exclusive"
FOREGROUND: Final = "foreground"
CRITICAL_PRESSURE: Final = "critical_pressure"

ALWAYS: Final = frozenset({ModeAction.INSPECT, ModeAction.CLOSE})
"""Looking and ending are possible in every mode."""
CHANGING: Final = frozenset({ModeAction.MAINTAIN, ModeAction.IMPORT, ModeAction.RECOVER})
PERSONAL: Final = frozenset(
    {ModeAction.WRITE, ModeAction.RECALL, ModeAction.PROJECT, ModeAction.EXPORT, ModeAction.IMPORT, ModeAction.MAINTAIN}
)
"""Actions that read or write a person's words."""
PERCENT_AT_FLOOR: Final = 50
PERCENT_NEAR_FLOOR: Final = 75
_SEVERITY: Final = {Pressure.NORMAL: 0, Pressure.CAUTIOUS: 1, Pressure.CRITICAL: 2}


def admissions(mode: ModeInput, /) -> tuple[ActionAdmission, ...]:
    """Return of every action whether it is admitted in `mode`, and for what is not, the first reason against it."""
    return tuple(_admission(action, mode) for action in ModeAction)


def is_admitted(action: ModeAction, mode: ModeInput, /) -> bool:
    """Return whether `action` is admitted in `mode`."""
    return _refusal(action, mode) is None


def room_percent(room: HostRoom | None, /) -> int:
    """Return what is left of a budget: half at or below the host's floor, three quarters up to twice the floor."""
    if room is None or room.free_bytes > 2 * room.floor_bytes:
        return 100
    return PERCENT_AT_FLOOR if room.free_bytes <= room.floor_bytes else PERCENT_NEAR_FLOOR


def worse(one: Pressure, other: Pressure, /) -> Pressure:
    """Return the harder pressure of two."""
    return max(one, other, key=_SEVERITY.__getitem__)


def _admission(action: ModeAction, mode: ModeInput) -> ActionAdmission:
    reason = _refusal(action, mode)
    return ActionAdmission(action=action, admitted=reason is None, reason=reason or "")


def _refusal(action: ModeAction, mode: ModeInput) -> str | None:
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
        (mode.pressure is Pressure.CRITICAL and is_maintaining, CRITICAL_PRESSURE),
    )
    return next((reason for holds, reason in against if holds), None)
