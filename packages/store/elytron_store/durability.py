"""How far an acknowledged write has got."""

from enum import StrEnum


class Durability(StrEnum):
    """What has happened to a write when its call returns.

    FULL: it is on the device and survives a power cut. NORMAL: it survives the end of the process, but a power cut
    may take the last acknowledged writes with it; what remains is whole and in order.
    """

    FULL = "full"
    NORMAL = "normal"
