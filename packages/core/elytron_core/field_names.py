"""Names of a model's fields at each of its places, and the one that a caller probably meant."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

from pydantic import BaseModel

from elytron_core import limits

JsonSchema = dict[str, Any]
Place = Sequence[str | int]
_LIKE = 0.7
"""Likeness of two names, from 0 to 1, from which one is taken for a slip of the other."""


@cache
def every_name(model: type[BaseModel], /) -> frozenset[str]:
    """Return every field name in `model` and what it is made of: words that are ours and may be repeated."""
    described = _schema(model)
    parts: list[JsonSchema] = [described, *described.get("$defs", {}).values()]
    return frozenset(name for part in parts for name in part.get("properties", {}))


def names_at(model: type[BaseModel], place: Place, /) -> tuple[str, ...]:
    """Return the names of the fields at `place`, a path as validation errors give it; none for an unknown place."""
    described = _schema(model)
    parts = [described]
    for step in place:
        parts = [found for part in parts for form in _forms(described, part) for found in _at(described, form, step)]
    forms = (form for part in parts for form in _forms(described, part))
    return tuple(dict.fromkeys(name for form in forms for name in form.get("properties", {})))


def nearest(name: str, known: Iterable[str], /) -> str | None:
    """Return the one of `known` that is nearly `name`, in any case and with any underscores; None if there is none."""
    if len(name) > limits.NAME_CHARS:
        return None
    plain = {_plain(one): one for one in known}
    found = get_close_matches(_plain(name), plain, n=1, cutoff=_LIKE)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


@cache
def _schema(model: type[BaseModel]) -> JsonSchema:
    return model.model_json_schema(mode="validation")


def _forms(described: JsonSchema, part: JsonSchema) -> Iterator[JsonSchema]:
    """Yield `part`, and each form that a value there may have."""
    yield part
    for form in part.get("oneOf", part.get("anyOf", ())):
        yield from _forms(described, _resolved(described, form))


def _at(described: JsonSchema, part: JsonSchema, step: str | int) -> list[JsonSchema]:
    """Return what `part` has at `step`: an item, a field, or the one of its forms with that name."""
    if isinstance(step, int):
        found = [part.get("items")]
    else:
        kinds = part.get("discriminator", {}).get("mapping", {})
        found = [part.get("properties", {}).get(step), {"$ref": kinds[step]} if step in kinds else None]
        found += [form for form in part.get("anyOf", ()) if _label(form) == step]
    return [_resolved(described, one) for one in found if one]


def _label(form: JsonSchema) -> str:
    return str(form.get("$ref", "")).rpartition("/")[2]


def _resolved(described: JsonSchema, part: JsonSchema) -> JsonSchema:
    """Return `part`, or what it refers to."""
    while "$ref" in part:
        part = described["$defs"][_label(part)]
    return part
