"""Names that callers give: spaces, scope parts, speakers, keys."""

from collections.abc import Iterable, Sequence
from typing import Final

from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.text.analyser import is_unspaced

NAME_PATTERN: Final = r"^[^\p{C}\p{Z}]+(?: +[^\p{C}\p{Z}]+)*$"
"""The rule of `require_name` as the expression that pydantic's own engine checks: no controls, inner spaces only."""

_ROLE_NAMES: Final = frozenset(("user", "assistant", "system", "tool", "model", "human", "ai", "agent", "developer"))


def is_role_name(name: str, /) -> bool:
    """Return True if `name` is what transcripts call a role: "user" is no person's name."""
    return name.casefold() in _ROLE_NAMES


def require_name(name: str, /, *, field: str, limit: int) -> None:
    """Raise InvalidInput unless `name` has 1 to `limit` characters, none a control, separator or lone surrogate."""
    if not name:
        raise InvalidInput(field=field, problem="is empty")
    if len(name) > limit:
        raise LimitExceeded(what=f"characters in {field}", limit=limit, found=len(name))
    if not name.isprintable() or name != name.strip():
        raise InvalidInput(field=field, problem="has control characters, lone surrogates or outer white space")


def holds_name(text: str, name: str, /) -> bool:
    """Return True if `text` has `name` as a word of its own, capitals as they are.

    In a script that is written without spaces any character may be beside it, so a single character is no name.
    """
    if len(name) < 2:
        return False
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if _parts(text[at - 1 : at] if at else "", name[0]) and _parts(text[end : end + 1], name[-1]):
            return True
        at = text.find(name, at + 1)
    return False


def other_names(text: str, called: Iterable[Sequence[str]], /) -> tuple[str, ...]:
    """Return the other names of those whom `text` names; `called` has all the names of each."""
    found: dict[str, None] = {}
    for names in called:
        held = {name for name in names if holds_name(text, name)}
        if held:
            found |= dict.fromkeys(name for name in names if name not in held)
    return tuple(found)


def _parts(beside: str, edge: str) -> bool:
    """Return True if a word may begin or end between the two characters."""
    return not beside.isalnum() or is_unspaced(edge) or is_unspaced(beside)
