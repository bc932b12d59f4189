"""Values made from what was typed."""

from typing import TypeVar

from pydantic import ValidationError

from elytron_core.model import Value, invalid

ValueT = TypeVar("ValueT", bound=Value)


def valid(kind: type[ValueT], /, **fields: object) -> ValueT:
    """Return the value of `fields`. Raises InvalidInput, as requests themselves do."""
    try:
        return kind(**fields)
    except ValidationError as error:
        raise invalid(error, model=kind) from None
