"""Rules against injections in languages other than English, from the phrases in the data of texts."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

_DATA: Final = "data/injections.toml"
_NEAR: Final = 48
"""Characters around the word for instructions in which the other words of an order to ignore them are looked for."""
_FLAGS: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL


class _OrderWords(NamedTuple):
    """The words of an order to ignore instructions in one language, in any order of words."""

    instructions: re.Pattern[str]
    ignore: re.Pattern[str]
    earlier: re.Pattern[str]

    def are_in(self, text: str) -> bool:
        for found in self.instructions.finditer(text):
            near = text[max(0, found.start() - _NEAR) : found.end() + _NEAR]
            if self.ignore.search(near) is not None and self.earlier.search(near) is not None:
                return True
        return False


def broken_translations(text: str, /) -> Iterator[str]:
    """Yield the names of the rules that `text` breaks, which are those for English."""
    orders, rules = _injection_rules()
    if any(order.are_in(text) for order in orders):
        yield "overrides_instructions"
    yield from (name for name, rule in rules.items() if rule.search(text) is not None)


@cache
def _injection_rules() -> tuple[Sequence[_OrderWords], Mapping[str, re.Pattern[str]]]:
    phrases = tomllib.loads(files("elytron_core.text").joinpath(_DATA).read_text("utf-8"))
    rows: list[Mapping[str, str]] = list(phrases.values())
    orders = [
        _OrderWords(*(re.compile(row[part], _FLAGS) for part in ("instructions", "ignore", "earlier"))) for row in rows
    ]
    rules = {
        "poses_as_system": "|".join(rf"^[ \t]*+(?:{row['system']})\s*+[:：]" for row in rows),
        "changes_role": "|".join(f"(?:{row['role']})" for row in rows),
        "hides_from_user": "|".join(f"(?:{row['hide']})" for row in rows),
    }
    return orders, {name: re.compile(rule, _FLAGS) for name, rule in rules.items()}
