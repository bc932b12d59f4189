"""Modes of a host, and the actions that each admits."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core.model import Value


class Pressure(StrEnum):
    """Memory pressure of the host; budgets shrink to 100, 60 and 35 per cent."""

    NORMAL = "normal"
    CAUTIOUS = "cautious"
    CRITICAL = "critical"


class ModeInput(Value):
    """Mode of the host's device; it decides which actions of memory are admitted now."""

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
    """Free memory of the host, and its reserve."""

    free_bytes: Annotated[int, Field(ge=0)]
    floor_bytes: Annotated[int, Field(ge=0)]


class ModeAction(StrEnum):
    """Action of a memory."""

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
    """Admission of an action in a mode, and the reason of a refusal."""

    action: ModeAction
    admitted: bool
    reason: str = ""
