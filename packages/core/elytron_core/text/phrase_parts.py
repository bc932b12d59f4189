"""What ways of saying something are written down as."""

from typing import Final, NamedTuple


class Way(NamedTuple):
    """A way of saying something, by the words or phrases that it is known by."""

    signs: str
    """Apart by spaces; the words of a phrase are joined by `_`."""
    follows: str
    """The pattern of what goes on from a sign, or, where signs may stand anywhere, of all of it: `{}` is the sign."""


PAST: Final = (
    r"(?:[a-z]+(?:ed|[mlp]t)|sent|bent|meant|learnt|leant|burnt|left|went|had|was|were|got|said|thought|knew|came"
    r"|took|made|did|found|saw|gave|told|felt|wrote|ran|heard|met|been|seen|sent|ate|drank|bought|paid|won|lost|sold"
    r"|spent|kept|began|broke|brought|built|caught|chose|drove|fell|flew|forgot|grew|held|hung|lent|rang|rode|sang"
    r"|sat|slept|spoke|stood|swam|taught|threw|woke|wore|put|set|let|cut|quit|split|read)\b"
)
"""Who tells what was tells nothing that holds."""
