"""Cursors: where the next page begins, as the report of the page before gave it.

That of recall is "place.sequence.check", the check over query, filters and the ids shown so far.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from elytron_core.contracts.recall import MemoryRecallRequest
from elytron_core.errors import InvalidInput
from elytron_core.strict_json import frame_checksum

_ASKED = {"query", "filters", "diversity", "min_score", "extent"}


class CursorForm(NamedTuple):
    """The cursors of one kind of report: a group of the pattern for each part of them."""

    pattern: re.Pattern[str]
    giver: str

    def parts(self, cursor: str, /) -> tuple[str, ...]:
        """Return the parts of a cursor. Raises InvalidInput if it has another form."""
        found = self.pattern.fullmatch(cursor)
        if found is None:
            raise self.refusal()
        return found.groups()

    def key(self, cursor: str | None, /) -> str:
        """Return a cursor that is a key as a whole, "" for the first page. Raises InvalidInput."""
        if cursor is not None:
            self.parts(cursor)
        return cursor or ""

    def refusal(self) -> InvalidInput:
        """Return the error for a cursor that no report of this kind gave."""
        return InvalidInput(field="cursor", problem=f"is not one that {self.giver} gave")


_RECALL = CursorForm(re.compile(r"([0-9]+)\.([0-9]+)\.([^.]*)"), "a recall report")


def cursor_of(request: MemoryRecallRequest, shown: Sequence[str], sequence: int, /) -> str:
    """Return the cursor that continues behind the memories `shown`, those of earlier pages included."""
    return f"{len(shown)}.{sequence}.{_request_check(request, shown)}"


def place_in(cursor: str | None, /) -> int:
    """Return how many memories came before. Raises InvalidInput for what is no cursor."""
    if cursor is None:
        return 0
    return int(_RECALL.parts(cursor)[0])


def require_same(request: MemoryRecallRequest, shown: Sequence[str], sequence: int, /) -> None:
    """Raise InvalidInput unless the request's cursor was given for this query, with these memories before it.

    A write that leaves their order as it was does no harm.
    """
    if request.cursor is None:
        return
    _, given, check = _RECALL.parts(request.cursor)
    if check != _request_check(request, shown):
        cause = "another query or filters" if int(given) == sequence else "a state of the space that has passed"
        raise InvalidInput(field="cursor", problem=f"belongs to {cause}: ask for the first page again")


def _request_check(request: MemoryRecallRequest, shown: Sequence[str]) -> str:
    asked = request.__pydantic_serializer__.to_json(request, include=_ASKED)
    return frame_checksum(asked, "\n".join(shown).encode()).hex()
