"""Bounds of tools that answer in lines."""

from typing import Final

LISTED_RECENT: Final = 10
LINE_CHARS: Final = 1_000
"""Characters of a memory in a line of a tool's answer; a longer one ends with an ellipsis."""
SPEAKERS_NAMED: Final = 12
TOOLS_LISTED_CHARS: Final = 6_000
"""Characters of the whole list of tools that a host is shown without asking for more."""
