"""Cursors of recall: a place in an order, the journal sequence it belongs to, and what was asked.

"place.sequence.check", the check over query, filters and the ids shown so far.
"""

from collections.abc import Sequence

from elytron_core.canonical import checksum
from elytron_core.contracts.recall import MemoryRecallRequest
from elytron_core.errors import InvalidInput

_ASKED = {"query", "filters", "diversity", "min_score"}


def cursor_of(request: MemoryRecallRequest, shown: Sequence[str], sequence: int, /) -> str:
    """Return the cursor that continues behind the memories `shown`, those of earlier pages included."""
    return f"{len(shown)}.{sequence}.{_check(request, shown)}"


def place_in(cursor: str | None, /) -> int:
    """Return how many memories came before. Raises InvalidInput for what is no cursor."""
    if cursor is None:
        return 0
    parts = cursor.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
        raise InvalidInput(field="cursor", problem="is not one that a recall report gave")
    return int(parts[0])


def require_same(request: MemoryRecallRequest, shown: Sequence[str], sequence: int, /) -> None:
    """Raise InvalidInput unless the request's cursor was given for this query, with these memories before it.

    A write that leaves their order as it was does no harm.
    """
    if request.cursor is None:
        return
    _, given, check = request.cursor.split(".")
    if check != _check(request, shown):
        cause = "another query or filters" if int(given) == sequence else "a state of the space that has passed"
        raise InvalidInput(field="cursor", problem=f"belongs to {cause}: ask for the first page again")


def _check(request: MemoryRecallRequest, shown: Sequence[str]) -> str:
    asked = request.__pydantic_serializer__.to_json(request, include=_ASKED)
    return checksum(asked, "\n".join(shown).encode()).hex()
