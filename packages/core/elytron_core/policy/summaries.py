"""When a conversation's summary is due, and how far one is trusted."""

from typing import Final

FIRST_AFTER: Final = 40
"""Messages that make a first summary worth having."""
AGAIN_AFTER: Final = 20
"""Messages since the last one that make the next worth having."""


def is_due(*, messages: int, covered: int | None) -> bool:
    """Tell whether a conversation of `messages` messages is due a summary; `covered` by the last one, None without."""
    if covered is None:
        return messages >= FIRST_AFTER
    return messages >= FIRST_AFTER and messages - covered >= AGAIN_AFTER
