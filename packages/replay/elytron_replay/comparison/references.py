"""References in requests and expectations: `${name}`, `${tmp}` and `${time ...}`."""

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from elytron_core.clock import instant
from elytron_core.errors import InvalidInput

NAME_PATTERN = r"^[a-z][a-z0-9_]{0,39}$"
TMP = "tmp"
"""The reference to the story's own folder, for archives."""

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_TIME = "time "


def used(value: JsonValue, /) -> set[str]:
    """Return the names that `value` refers to; `tmp` and times are always there and are not among them."""
    return {name for text in _texts(value) for name in _REFERENCE.findall(text) if not _is_given(name)}


def resolve(value: JsonValue, values: Mapping[str, JsonValue], /) -> JsonValue:
    """Return `value` with every reference replaced by its value.

    A text that is one reference and nothing else becomes the value itself, of any type; inside a longer text,
    texts and whole numbers are written in. Raises InvalidInput for an unknown name, a bad time, or any other type.
    """
    match value:
        case dict():
            return {key: resolve(part, values) for key, part in value.items()}
        case list():
            return [resolve(part, values) for part in value]
        case str():
            whole = _REFERENCE.fullmatch(value)
            if whole is not None:
                return _value(whole[1], values)
            return _REFERENCE.sub(lambda found: _written(found[1], values), value)
        case _:
            return value


def pick(report: JsonValue, path: str, /) -> JsonValue:
    """Return the value at the dotted `path` of `report`. Raises KeyError if there is none."""
    found = report
    for part in path.split("."):
        match found:
            case dict() if part in found:
                found = found[part]
            case list() if part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            case _:
                raise KeyError(path)
    return found


def _is_given(name: str) -> bool:
    return name == TMP or name.startswith(_TIME)


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case dict():
            for part in value.values():
                yield from _texts(part)
        case list():
            for part in value:
                yield from _texts(part)
        case str():
            yield value
        case _:
            return


def _value(name: str, values: Mapping[str, JsonValue]) -> JsonValue:
    if name.startswith(_TIME):
        return instant(name.removeprefix(_TIME), field=f"${{{name}}}")
    if name not in values:
        raise InvalidInput(field=f"${{{name}}}", problem="is saved by no earlier step")
    return values[name]


def _written(name: str, values: Mapping[str, JsonValue]) -> str:
    value = _value(name, values)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidInput(field=f"${{{name}}}", problem="is no text or whole number and cannot stand inside a text")
    return str(value)
