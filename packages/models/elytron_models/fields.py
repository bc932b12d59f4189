"""Fields of JSON that servers send: of the type asked for, else empty. Servers differ in what they fill in."""

import json
from collections.abc import Mapping
from typing import cast

Fields = Mapping[str, object]


def fields_of(data: bytes | str, /) -> Fields | None:
    """Return the object that `data` is as JSON, or None."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("Fields", found) if isinstance(found, dict) else None


def fields(value: object, /) -> Fields:
    """Return `value` if it is an object, else an empty one."""
    return cast("Fields", value) if isinstance(value, dict) else {}


def inner(of: Fields, name: str, /) -> Fields:
    """Return the object at `name`, else an empty one."""
    return fields(of.get(name))


def objects(of: Fields, name: str, /) -> list[Fields]:
    """Return the objects in the list at `name`."""
    found = of.get(name)
    return [fields(one) for one in cast("list[object]", found)] if isinstance(found, list) else []


def text(of: Fields, name: str, /) -> str:
    """Return the text at `name`; half of a surrogate pair becomes a replacement character."""
    found = of.get(name)
    if not isinstance(found, str):
        return ""
    if found.isascii():
        return found
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count(of: Fields, name: str, /) -> int:
    """Return the number at `name` if it counts something, else 0."""
    found = of.get(name)
    return found if isinstance(found, int) and found > 0 else 0


def json_text(value: object, /) -> str:
    """Return the JSON text of `value`, short."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
