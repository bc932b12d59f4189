"""Text of a question for an encoder, which knows no person by name."""

import re
from collections.abc import Iterable

from elytron_core.names import is_role_name


def encoder_query(query: str, speakers: Iterable[str], /) -> str:
    """Return `query` with the speakers' names read as the first person.

    An encoder takes a name for a person who is addressed, and so finds what was said to that person; the person's own
    messages say "I" and "my". Names are known by their capitals: a `Will` is a speaker, a `will` is not.
    """
    for name in sorted(speakers, key=len, reverse=True):
        if name in query and not is_role_name(name):
            word = rf"(?<!\w){re.escape(name)}"
            query = re.sub(rf"{word}['\u2019]s(?!\w)", "my", query)
            query = re.sub(rf"{word}(?!\w)", "I", query)
    return query
