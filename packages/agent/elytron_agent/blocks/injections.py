"""Rules against injections in languages other than English, from the phrases in the data of texts."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import permutations
from typing import Final

_DATA: Final = "data/injections.toml"
_GAP: Final = ".{0,24}?"
"""Text between the words of one order to ignore instructions."""


@cache
def translated_rules() -> Mapping[str, re.Pattern[str]]:
    """Return the rules by the names of those for English."""
    phrases = tomllib.loads(files("elytron_core.text").joinpath(_DATA).read_text("utf-8"))
    rows: Iterable[Mapping[str, str]] = phrases.values()
    texts = {
        "overrides_instructions": "|".join(order for row in rows for order in _orders(row)),
        "poses_as_system": "|".join(rf"^[ \t]*+(?:{row['system']})\s*+[:：]" for row in rows),
        "changes_role": "|".join(f"(?:{row['role']})" for row in rows),
        "hides_from_user": "|".join(f"(?:{row['hide']})" for row in rows),
    }
    return {name: re.compile(text, re.IGNORECASE | re.MULTILINE | re.DOTALL) for name, text in texts.items()}


def _orders(row: Mapping[str, str]) -> Iterator[str]:
    for order in permutations((row["ignore"], row["earlier"], row["instructions"])):
        yield _GAP.join(f"(?:{part})" for part in order)
