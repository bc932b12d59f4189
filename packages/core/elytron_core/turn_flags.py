"""Metadata that decides who sees a turn: given as anything but true or false, it would decide nothing."""

from typing import Final, TypeVar

ValueT = TypeVar("ValueT")
PRIVATE: Final = "private"
"""True in a private conversation."""
STORE: Final = "store"
"""False if its request asked that the turn is not stored for memory."""
FLAGS: Final = (PRIVATE, STORE)


def require_flags(metadata: dict[str, ValueT], /) -> dict[str, ValueT]:
    """Return `metadata`. Raises ValueError for a flag that is not true or false, or whose name is spelt otherwise."""
    for name, value in metadata.items():
        flag = name.strip().casefold()
        if flag in FLAGS and not (name == flag and (value is None or isinstance(value, bool))):
            raise ValueError(f"has {flag!r} in a form that has no effect: write {flag!r}: true or false")
    return metadata
