"""Names that users of other memories try first, each with the name here."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "session_id": ("conversation", "run_id"),
    "thread_id": ("conversation", "run_id"),
    "threshold": ("min_score",),
}
"""Keywords of calls. The first name that a call has is meant."""


def way_out(name: str, known: Collection[str], /) -> str:
    """Return what to say of an unknown keyword `name`: which of the `known` ones is meant, or which there are."""
    meant = [word for word in KEYWORDS.get(name, ()) if word in known] or get_close_matches(name, sorted(known), 1)
    if meant:
        return f": say {meant[0]}="
    return f": there are {', '.join(sorted(known))}" if known else ""
