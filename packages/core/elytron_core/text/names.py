"""Names that callers give: spaces, scope parts, speakers, keys."""

from typing import Final

from elytron_core.errors import InvalidInput, LimitExceeded

NAME_PATTERN: Final = r"^[^\p{C}\p{Z}]+(?: +[^\p{C}\p{Z}]+)*$"
"""The rule of `require_name` as the expression that pydantic's own engine checks: no controls, inner spaces only."""

_ROLE_NAMES: Final = frozenset(("user", "assistant", "system", "tool", "model", "human", "ai", "agent", "developer"))


def is_role_name(name: str, /) -> bool:
    """Tell whether `name` is what transcripts call a role: whoever says "user" names nobody."""
    return name.casefold() in _ROLE_NAMES


def require_name(name: str, /, *, field: str, limit: int) -> None:
    """Raise InvalidInput unless `name` has 1 to `limit` characters, none a control, separator or lone surrogate."""
    if not name:
        raise InvalidInput(field=field, problem="is empty")
    if len(name) > limit:
        raise LimitExceeded(what=f"characters in {field}", limit=limit, found=len(name))
    if not name.isprintable() or name != name.strip():
        raise InvalidInput(field=field, problem="has control characters, lone surrogates or outer white space")
