"""Requests of every operation with a text in each of their fields, generated from the field types."""

import json
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from elytron.intake import OPAQUE
from elytron_core.model import Value

Given = Mapping[str, object]
AT = 1_700_000_000_000
WORDS = "harbour"
ID = "x1"


def variants(kind: type[Value], text: str, given: Given) -> Iterator[Value]:
    """Yield `kind` with `text` wherever it is allowed, once for each member of its unions.

    `given` names further field values; ids are short.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    of_fields = {
        name: [given[name]]
        if name in given and _fits(hints[name], given[name], strict=False)
        else list(_values(hints[name], ID if name in OPAQUE else text, given))
        for name in kind.model_fields
    }
    for turn in range(max(map(len, of_fields.values()), default=1)):
        chosen = {name: values[min(turn, len(values) - 1)] for name, values in of_fields.items() if values}
        yield kind(**chosen)


def _values(of: Any, text: str, given: Given) -> Iterator[object]:
    """Yield values of a type: one, or one for each member of a union of models."""
    inner = _bare(of)
    origin = typing.get_origin(inner)
    if origin in {typing.Union, UnionType}:
        members = [member for member in typing.get_args(inner) if member is not NoneType]
        models = [member for member in members if _is_model(member)]
        for member in models or [next((one for one in members if _bare(one) is str), members[0])]:
            yield from _values(member, text, given)
    elif origin is tuple:
        (member, *_) = typing.get_args(inner)
        yield from ((value,) for value in _values(member, text, given))
    elif origin is dict:
        _, member = typing.get_args(inner)
        yield from ({_fitting(str, WORDS, text): value} for value in _values(member, text, given))
    elif origin is typing.Literal:
        yield typing.get_args(inner)[0]
    elif _is_model(inner):
        yield from variants(typing.cast("type[Value]", inner), text, given)
    elif isinstance(inner, type) and issubclass(inner, Enum):
        yield next(iter(inner))
    elif inner is str:
        yield _fitting(of, text, json.dumps(text), WORDS)
    else:
        yield from [value for value in (False, AT, 1, 1.0) if _fits(of, value)][:1]


def _bare(of: Any) -> Any:
    while True:
        if typing.get_origin(of) is typing.Annotated:
            of = typing.get_args(of)[0]
        elif hasattr(of, "__supertype__"):
            of = of.__supertype__
        else:
            return of


def _is_model(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, Value)


def _fitting(of: Any, *texts: str) -> str:
    return next(text for text in texts if _fits(of, text))


def _fits(of: Any, value: object, *, strict: bool = True) -> bool:
    try:
        TypeAdapter(of).validate_python(value, strict=strict)
    except ValidationError:
        return False
    return True
