"""Lenient access to other programs' JSON: a field is read as its expected type and ignored if it has another."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from elytron_core import strict_json
from elytron_core.clock import Instant, instant
from elytron_core.errors import InvalidInput
from elytron_core.strict_json import Json

_SECONDS_BELOW: Final = 100_000_000_000
"""Numbers below this are seconds since 1970; larger ones are milliseconds."""


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """A JSON object written by another program."""

    fields: Mapping[str, Json]

    def get(self, name: str, /) -> Json:
        """Return a field's value unchanged, or None if the field is missing."""
        return self.fields.get(name)

    def only(self, *names: str) -> "ForeignObject":
        """Return a copy with only the named fields."""
        return ForeignObject({name: self.fields[name] for name in names if name in self.fields})

    def text(self, *names: str) -> str:
        """Return the first of these fields that is a non-empty string, or an empty string."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str) and value:
                return value
        return ""

    def texts(self, name: str, /) -> list[str]:
        """Return the strings in a field, which may be one string or a list."""
        value = self.fields.get(name)
        values = value if isinstance(value, list) else [value]
        return [text for text in values if isinstance(text, str)]

    def part(self, name: str, /) -> "ForeignObject":
        """Return a field's object, or an empty object."""
        return _object_of(self.fields.get(name))

    def parts(self, name: str, /) -> list["ForeignObject"]:
        """Return the objects in a field's list; items of other types become empty objects."""
        value = self.fields.get(name)
        return [_object_of(part) for part in value] if isinstance(value, list) else []

    def time(self, name: str, /) -> Instant | None:
        """Return the time in a field, or None if it holds no valid time."""
        return time_of(self.fields.get(name))

    def words(self, name: str, /, *, kinds: tuple[str, ...] = ("text",)) -> str:
        """Return a message's text: a string, or the text parts of the given `kinds` joined by newlines."""
        value = self.fields.get(name)
        if isinstance(value, str):
            return value
        parts = (part for part in self.parts(name) if (part.text("type") or kinds[0]) in kinds)
        return "\n".join(words for part in parts if (words := part.text("text")))

    def arguments(self, *names: str) -> "ForeignObject":
        """Return a call's arguments, given as an object or as its JSON text. Any other text becomes `input`."""
        value = next((self.fields[name] for name in names if name in self.fields), None)
        if not isinstance(value, str):
            return _object_of(value)
        return parse_object(value) or ForeignObject({"input": value})


def parse_object(data: bytes | str, /) -> ForeignObject | None:
    """Parse a JSON object. Return None if the data is invalid JSON or not an object."""
    data = data.encode("utf-8", "replace") if isinstance(data, str) else data
    try:
        value = json.loads(strict_json.mend_surrogates(data.removeprefix(b"\xef\xbb\xbf")))
    except (ValueError, RecursionError):
        return None
    return ForeignObject(cast("Mapping[str, Json]", value)) if isinstance(value, dict) else None


def time_of(value: object, /) -> Instant | None:
    """Parse ISO 8601 text, or seconds or milliseconds since 1970. Return None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return instant(value if isinstance(value, str) or abs(value) >= _SECONDS_BELOW else value * 1000)
    except InvalidInput:
        return None


def _object_of(value: Json) -> ForeignObject:
    return ForeignObject(value if isinstance(value, dict) else {})
