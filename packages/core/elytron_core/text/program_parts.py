"""Parts of a person's message that programs write: reminders, notifications, the output of hooks and commands."""

import re
from typing import Final

_NAME: Final = r"[a-z]+(?:[-_][a-z0-9]+)+"
_ELEMENT: Final = re.compile(
    rf"^[ \t]*<({_NAME})(?:[ \t][^>\n]{{0,400}})?>.*?</\1>[ \t]*$\n?", re.DOTALL | re.MULTILINE
)
"""An element on lines of its own with a name of several words, such as `<system-reminder>`: only programs write so."""


def split_program_parts(text: str, /) -> tuple[str, str]:
    """Return the person's part of a message, and what programs put into it.

    An element that is not closed stays, since its end is unknown.
    """
    if "</" not in text:
        return text, ""
    parts = [found[0].strip() for found in _ELEMENT.finditer(text)]
    return (_ELEMENT.sub("", text).strip(), "\n".join(parts)) if parts else (text, "")
