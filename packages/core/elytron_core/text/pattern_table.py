"""Tables of patterns as data: phrases of languages that no model reads yet, in TOML files beside the code.

A table is frozen: it is no place for further phrases. What is taste in it waits for a model that is at least as good.
A file has `[parts]`, texts that patterns name as `{part}`, and patterns, each with its alternatives. It is read when a
pattern of it is first used.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Final, cast

_PART: Final = re.compile(r"\{([a-z_]+)\}")


class PatternTable:
    """The patterns of one file, by name."""

    def __init__(self, name: str, /) -> None:
        self._name = name
        self._compiled: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str, /) -> re.Pattern[str]:
        """Return a pattern, which is compiled at its first use."""
        found = self._compiled.get(name)
        if found is None:
            found = self._compiled[name] = self._compile(self._tables["patterns"][name])
        return found

    @property
    def names(self) -> Sequence[str]:
        """The names of all patterns."""
        return tuple(self._tables["patterns"])

    def words(self, name: str, /) -> frozenset[str]:
        """Return a set of words."""
        return frozenset(self._tables["words"][name].split())

    @cached_property
    def _tables(self) -> Mapping[str, Mapping[str, Any]]:
        import tomllib  # not before a question is asked: most calls of the command ask none

        text = files("elytron_core.text").joinpath("data", f"{self._name}.toml").read_text("utf-8")
        return tomllib.loads(text)

    def _compile(self, told: Mapping[str, Any]) -> re.Pattern[str]:
        alternatives = "|".join(cast("Sequence[str]", told["any"]))
        flags = re.IGNORECASE if told.get("ignores_case") else re.NOFLAG
        return re.compile(self._filled(alternatives), flags)

    def _filled(self, text: str) -> str:
        parts = cast("Mapping[str, str | Sequence[str]]", self._tables.get("parts", {}))

        def part(met: re.Match[str]) -> str:
            given = parts[met[1]]
            return self._filled(given if isinstance(given, str) else f"(?:{'|'.join(given)})")

        return _PART.sub(part, text)


@cache
def table(name: str, /) -> PatternTable:
    """Return the table of a file that ships, by its name."""
    return PatternTable(name)
