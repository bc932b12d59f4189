"""Names that callers give: spaces, scope parts, speakers, keys."""

from elytron_core.errors import InvalidInput, LimitExceeded


def require_name(name: str, /, *, field: str, limit: int) -> None:
    """Raise InvalidInput unless `name` has 1 to `limit` characters, none a control, separator or lone surrogate."""
    if not name:
        raise InvalidInput(field=field, problem="is empty")
    if len(name) > limit:
        raise LimitExceeded(what=f"characters in {field}", limit=limit, found=len(name))
    if not name.isprintable() or name != name.strip():
        raise InvalidInput(field=field, problem="has control characters, lone surrogates or outer white space")
