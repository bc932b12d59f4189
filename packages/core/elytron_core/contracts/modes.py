"""What a host is doing just now, and what memory may do meanwhile."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core.model import Value


class Pressure(StrEnum):
    """How short the host is of room; budgets shrink to 100, 60 and 35 per cent."""

    NORMAL = "normal"
    CAUTIOUS = "cautious"
    CRITICAL = "critical"


class ModeInput(Value):
    """What the host's device is doing; it decides which actions of memory are admitted now."""

    booting: bool = False
    pairing_required: bool = False
    pairing_known: bool = True
    foreground_overlay: bool = False
    voice_exclusive: bool = False
    config_active: bool = False
    maintenance_active: bool = False
    safe_mode: bool = False
    post_reply_deferral_elapsed: bool = True
    pressure: Pressure = Pressure.NORMAL


class HostRoom(Value):
    """How much memory the host has free, and how much it wants to keep free."""

    free_bytes: Annotated[int, Field(ge=0)]
    floor_bytes: Annotated[int, Field(ge=0)]


class ModeAction(StrEnum):
    """What memory may be asked to do."""

    WRITE = "write"
    RECALL = "recall"
    PROJECT = "project"
    MAINTAIN = "maintain"
    INSPECT = "inspect"
    EXPORT = "export"
    IMPORT = "import"
    RECOVER = "recover"
    CLOSE = "close"


class ActionAdmission(Value):
    """Whether an action is admitted in a mode, and why not."""

    action: ModeAction
    admitted: bool
    reason: str = ""
