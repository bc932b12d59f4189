"""Heads of journals: kept elsewhere by a host, so that a store that was put back or altered is detected.

A head has the length of a space's journal and two sums of its entries: of their order and places, which nothing
ever changes, and with the digests of their documents, which an erasure removes. Both are keyed by the space's
secret, so that a head reveals nothing of the space, and cannot be made without the secret.
"""

from typing import Final, NamedTuple, Self

from elytron_core.contracts.admin.inspection import HEAD, HeadStanding
from elytron_core.errors import InvalidInput

DIGEST_BYTES: Final = 16


class Head(NamedTuple):
    """The head of a journal. Its text is `sequence.order.content`."""

    sequence: int
    order: str
    content: str

    @classmethod
    def parse(cls, text: str, /) -> Self:
        """Return the head that `text` is. Raises InvalidInput."""
        found = HEAD.fullmatch(text)
        if found is None:
            raise InvalidInput(field="head", problem="is not one that an inspection gave")
        return cls(int(found[1]), found[2], found[3])

    def __str__(self) -> str:
        return f"{self.sequence}.{self.order}.{self.content}"


def standing_of(kept: Head, now: Head | None, then: Head | None, /, *, is_compacted: bool = False) -> HeadStanding:
    """Return the relation of a space to its head that was `kept`.

    `now` is its head, None if there is no such space; `then` its head at the entry at which `kept` ends, None if it
    has none: it is shorter, or the entry is in a compacted run, which `is_compacted` proves.
    """
    if now is None:
        return HeadStanding.ABSENT
    if is_compacted:
        return HeadStanding.COMPACTED
    if then is None:
        return HeadStanding.BEHIND if now.sequence < kept.sequence else HeadStanding.FORKED
    if then.order != kept.order:
        return HeadStanding.FORKED
    if then.content != kept.content:
        # Digests go only with an erasure, and that leaves an entry: without a later one, another program changed them.
        return HeadStanding.SCRUBBED if now.sequence > kept.sequence else HeadStanding.FORKED
    return HeadStanding.CURRENT if now.sequence == kept.sequence else HeadStanding.CONTAINED
