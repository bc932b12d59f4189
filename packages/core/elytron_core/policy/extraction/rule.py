"""The sentences from which a lasting fact can be read without a model: patterns, and what each says.

They are few and narrow on purpose: a fact that is missed can be said again, a false one is believed. Each pattern takes
a whole sentence, in the first person and the present, as `gleaning` hands it over.
"""

from collections.abc import Callable
from typing import NamedTuple

from elytron_core.planes.long_term import FactOperation, Kind
from elytron_core.text.lazy_regex import Pattern


class Rule(NamedTuple):
    """A form of sentence: what kind of fact it states, under which topic, and in which words.

    `topic` and `content` are filled with the pattern's groups; `{who}` is whoever spoke. `holds` looks at the groups.
    """

    kind: Kind
    pattern: Pattern
    topic: str
    content: str
    holds: Callable[[dict[str, str]], bool] = bool
    operation: FactOperation = FactOperation.UPSERT


def rule(
    kind: Kind,
    sentence: str,
    topic: str,
    content: str,
    /,
    *,
    holds: Callable[[dict[str, str]], bool] = bool,
    operation: FactOperation = FactOperation.UPSERT,
) -> Rule:
    """Return the rule whose pattern is `sentence`."""
    return Rule(kind, Pattern(sentence), topic, content, holds, operation)


def is_age(found: dict[str, str]) -> bool:
    """Tell whether somebody who talks may be so old."""
    return 3 <= int(found["x"]) <= 115
