"""Durability of an acknowledged write."""

from enum import StrEnum


class Durability(StrEnum):
    """State of a write when its call returns.

    FULL: it is on the device and survives a power cut. NORMAL: it survives the end of the process, but a power cut
    may take the last acknowledged writes with it; what remains is whole and in order.
    """

    FULL = "full"
    NORMAL = "normal"
