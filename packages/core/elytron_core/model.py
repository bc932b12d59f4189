"""The base of all values: frozen, strict about unknown fields, and silent about the content of invalid input."""

import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, ErrorDetails
from typing_extensions import TypeVar as TypeVarWithDefault

from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.errors.foreign_names import field_instead
from elytron_core.ids import NAME_PATTERN

JsonSchema = dict[str, Any]
Place = Sequence[str | int]
_LIKE = 0.7
"""Similarity of two names, from 0 to 1, from which one is considered a typo of the other."""


@cache
def every_name(model: type[BaseModel], /) -> frozenset[str]:
    """Return every field name in `model` and its nested types: our own words, which may be repeated in messages."""
    described = model_schema(model)
    parts: list[JsonSchema] = [described, *described.get("$defs", {}).values()]
    return frozenset(name for part in parts for name in part.get("properties", {}))


def names_at(model: type[BaseModel], place: Place, /) -> tuple[str, ...]:
    """Return the field names at `place`, a path from a validation error; none for an unknown place."""
    described = model_schema(model)
    parts = [described]
    for step in place:
        parts = [
            inner
            for part in parts
            for form in _schema_forms(described, part)
            for inner in _schema_step(described, form, step)
        ]
    forms = (form for part in parts for form in _schema_forms(described, part))
    return tuple(dict.fromkeys(name for form in forms for name in form.get("properties", {})))


def nearest_name(name: str, names: Iterable[str], /) -> str | None:
    """Return the one of `names` closest to `name`, ignoring case and underscores; None if none is close."""
    if len(name) > limits.NAME_CHARS:
        return None
    plain = {_plain_name(one): one for one in names}
    matches = get_close_matches(_plain_name(name), plain, n=1, cutoff=_LIKE)
    return plain[matches[0]] if matches else None


def _plain_name(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


@cache
def model_schema(model: type[BaseModel], /) -> JsonSchema:
    """Return the JSON Schema of the input to `model`. It is shared, so do not change it."""
    return model.model_json_schema(mode="validation")


def _schema_forms(described: JsonSchema, part: JsonSchema) -> Iterator[JsonSchema]:
    """Yield `part`, and each alternative of it."""
    yield part
    for form in part.get("oneOf", part.get("anyOf", ())):
        yield from _schema_forms(described, _resolve_reference(described, form))


def _schema_step(described: JsonSchema, part: JsonSchema, step: str | int) -> list[JsonSchema]:
    """Return the part at `step`: an item, a field, or the alternative with that name."""
    if isinstance(step, int):
        parts = [part.get("items")]
    else:
        kinds = part.get("discriminator", {}).get("mapping", {})
        parts = [part.get("properties", {}).get(step), {"$ref": kinds[step]} if step in kinds else None]
        parts += [form for form in part.get("anyOf", ()) if _form_label(form) == step]
    return [_resolve_reference(described, one) for one in parts if one]


def _form_label(form: JsonSchema) -> str:
    return str(form.get("$ref", "")).rpartition("/")[2]


def _resolve_reference(described: JsonSchema, part: JsonSchema) -> JsonSchema:
    """Return `part`, or the definition that it references."""
    while "$ref" in part:
        part = described["$defs"][_form_label(part)]
    return part


_NAME_SHOWN = 64
_PLAIN = ("int", "float", "bool")
_LISTS = ("list", "tuple", "set", "frozenset")
_NO_SCHEMA = frozenset({"metadata", "serialization"})
_blank = object.__new__
_set_attribute = object.__setattr__


class Value(BaseModel):
    """A frozen value. Unknown fields are errors; validation errors name fields and never echo the input."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """Reject coercion of numbers and flags: text is not a number, and True is not 1.

        A list is read up to its first wrong item, so that a long one cannot fill memory with problems.
        """
        schema = handler(source)
        _make_strict(schema)
        return schema

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the fields in `update`, equal to pydantic's own but faster."""
        # Private attributes need copies of their own, which pydantic makes.
        if deep or not update or self.__pydantic_private__ is not None:
            return super().model_copy(update=update, deep=deep)
        copy = _blank(type(self))
        _set_attribute(copy, "__dict__", self.__dict__ | update)
        _set_attribute(copy, "__pydantic_fields_set__", self.__pydantic_fields_set__ | update.keys())
        _set_attribute(copy, "__pydantic_extra__", None)
        _set_attribute(copy, "__pydantic_private__", None)
        return copy

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                # Python and pydantic look up such names on many values, so the answer must be quick.
                if name.startswith("_"):
                    raise
            instead = _named_instead(type(self), name)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{instead}", name=name, obj=self)

        def __getitem__(self, name: object, /) -> NoReturn:
            raise no_item(self, name)

    def _repr_html_(self) -> str:
        """Return the value as tables, as notebooks show it."""
        from elytron_core.text.report_html import report_html

        return report_html(self)

    def to_bytes(self) -> bytes:
        """Return the bytes to store: JSON in field order, defaults left out; equal values give equal bytes."""
        return self.__pydantic_serializer__.to_json(self, exclude_defaults=True)

    @classmethod
    def from_bytes(cls, data: bytes, /) -> Self:
        """Return the value in `data`. Raises InvalidInput if it contains none."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise invalid_input(error) from None


def no_item(value: Value, name: object, /) -> TypeError:
    """Return the error for `value[name]`: fields are attributes."""
    names = _readable_names(type(value))
    instead = f": use .{name}" if name in names else field_instead(name, names) if isinstance(name, str) else ""
    return TypeError(f"the fields of {type(value).__name__} are attributes{instead}")


def _readable_names(kind: type[Value]) -> frozenset[str]:
    """Return the names of a class's fields and properties."""
    members = (vars(base).items() for base in kind.__mro__ if issubclass(base, Value))
    properties = (name for each in members for name, member in each if isinstance(member, property))
    return frozenset({*kind.model_fields, *properties})


@lru_cache(maxsize=256)
def _named_instead(kind: type[Value], name: str) -> str:
    """Return the intended field for a message; cached, because `getattr` with a default calls it each time."""
    return field_instead(name, _readable_names(kind))


def _make_strict(part: Any) -> None:
    """Make numbers and flags in a part of a schema strict, and make each list stop at its first problem, in place."""
    if isinstance(part, dict):
        schema = cast("dict[str, Any]", part)
        kind = schema.get("type")
        if kind in _PLAIN:
            schema["strict"] = True
        if kind in _LISTS:
            schema["fail_fast"] = True
        # A part without a kind maps names, of fields for instance, and a field may have any name.
        is_schema = isinstance(kind, str)
        for name, inner in schema.items():
            if not is_schema or name not in _NO_SCHEMA:
                _make_strict(inner)
    elif isinstance(part, list | tuple):
        for inner in cast("Sequence[Any]", part):
            _make_strict(inner)


ValueT = TypeVar("ValueT", bound=Value)
ReportT_co = TypeVarWithDefault("ReportT_co", bound=Value, covariant=True, default=Value)

_SHARED = (str, int, float, tuple, Value, type(None))
"""Defaults of these types are immutable, so values may share them."""


def _make_unchecked(kind: type[ValueT], values: dict[str, Any], fields_set: set[str]) -> ValueT:
    """Return a value with these fields, without validation."""
    value = _blank(kind)
    _set_attribute(value, "__dict__", values)
    _set_attribute(value, "__pydantic_fields_set__", fields_set)
    _set_attribute(value, "__pydantic_extra__", None)
    _set_attribute(value, "__pydantic_private__", None)
    return value


class VouchedMaker(Generic[ValueT]):
    """Builds values of `kind` from parts of other values, without validation.

    The value equals what the class would make of them. The caller vouches for the types, and that no dict among them is
    shared. Fields that are not named have their defaults.
    """

    def __init__(self, kind: type[ValueT], /, *names: str) -> None:
        self._kind = kind
        self._given_names = frozenset(names)
        self._set = set(names)
        defaults = {name: field.default for name, field in kind.model_fields.items() if name not in self._given_names}
        self._dicts = tuple(name for name, default in defaults.items() if default == {})
        # In the order of the class, which is the order of its JSON.
        self._blank = {name: defaults.get(name) for name in kind.model_fields}
        assert self._given_names <= self._blank.keys()
        assert all(isinstance(default, _SHARED) or name in self._dicts for name, default in defaults.items())

    def make(self, **fields: Any) -> ValueT:
        """Return a value with these fields, which must be all that were declared."""
        assert fields.keys() == self._given_names
        # One shared set: a copy of a value gets its own, and nothing else changes it.
        return _make_unchecked(
            self._kind, self._blank | {name: dict[str, Any]() for name in self._dicts} | fields, self._set
        )

    def again(self, value: ValueT, /, **fields: Any) -> ValueT:
        """Return a copy of a value from `make` with these fields replaced; any other dict is shared."""
        assert fields.keys() <= self._given_names
        fresh = {name: dict[str, Any]() for name in self._dicts} if self._dicts else {}
        values = {**value.__dict__, **fresh, **fields}
        return _make_unchecked(self._kind, values, self._set)


class Request(Value):
    """A request of an operation. Its validation errors are InvalidInput, wherever it is built."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise invalid_input(error, model=type(self)) from None


if TYPE_CHECKING:

    class OperationRequest(Request, Generic[ReportT_co]):
        """A request of one operation: `OperationRequest[Report]` is the base of one that returns a `Report`."""

else:

    class OperationRequest(Request):
        def __class_getitem__(cls, report: type[Value] | str, /) -> GenericAlias:
            # A generic pydantic model would add a class for each request, with a name in schemas.
            return GenericAlias(cls, report)


def report_type(request: type[OperationRequest[ReportT_co]], /) -> type[ReportT_co]:
    """Return the report type that a request declares; a name is resolved in the request's module."""
    report: Any = get_args(vars(request)["__orig_bases__"][0])[0]
    return getattr(sys.modules[request.__module__], report) if isinstance(report, str) else report


def invalid_input(
    error: ValidationError, /, *, model: type[BaseModel] | None = None, names: Container[str] | None = None
) -> InvalidInput:
    """Return the InvalidInput for the first problem in `error`: its field path and what is wrong, no value.

    If a field is missing and another is not known, it is of the unknown one, which explains both. With `names`, the
    path keeps only those names: what a stranger called a field is a value too. With the `model`, an unknown field is
    answered by those that there are, and the one that was probably meant.
    """
    problems = error.errors(include_url=False, include_input=False)
    first = _first_problem(problems)
    # A stranger's field is named by its parent, because elsewhere there may be a field of that name.
    place = first["loc"][:-1] if names is not None and first["type"] == "extra_forbidden" else first["loc"]
    path = [_shown_step(part) for part in place if names is None or isinstance(part, int) or part in names]
    lacking = _missing_beside(problems, first) if first["type"] == "extra_forbidden" else ()
    more = error.error_count() - 1 - len(lacking)
    tail = f", and {', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing" if lacking else ""
    tail += f" (and {more} more)" if more else ""
    match first["type"]:
        case "string_pattern_mismatch":
            pattern = first.get("ctx", {}).get("pattern")
            flaw = "has control characters or surrounding white space"
            problem = flaw if pattern == NAME_PATTERN else f"does not match {pattern}"
        case "union_tag_invalid":
            kinds = first.get("ctx", {}).get("expected_tags", "")
            problem = f"has an unknown kind: choose from {kinds}".replace("'", "")
        case "extra_forbidden":
            problem = "has an unknown field" if names is not None else "is not a field"
            tail += _intended_field(model, first["loc"]) if model is not None else ""
        case _:
            problem = f"is not valid: {_lower_first(first['msg'].removeprefix('Value error, '))}"
    return InvalidInput(field=".".join(path) or "request", problem=problem + tail)


def _first_problem(problems: list[ErrorDetails]) -> ErrorDetails:
    first = problems[0]
    if first["type"] != "missing":
        return first
    beside = first["loc"][:-1]
    unknown = (one for one in problems if one["type"] == "extra_forbidden" and one["loc"][:-1] == beside)
    return next(unknown, first)


def _missing_beside(problems: list[ErrorDetails], first: ErrorDetails) -> tuple[str, ...]:
    """Return the missing fields at the level of `first`; their names are our own."""
    place = first["loc"][:-1]
    return tuple(str(one["loc"][-1]) for one in problems if one["type"] == "missing" and one["loc"][:-1] == place)


def _intended_field(model: type[BaseModel], place: Place) -> str:
    """Return a hint for the unknown field at `place`, using only our own names."""
    *within, name = place
    names = names_at(model, within)
    if not names:
        return ""
    near = nearest_name(str(name), names)
    advice = f"did you mean {near}? Choose from" if near is not None else "choose from"
    return f": {advice} {', '.join(names)}"


def _shown_step(part: int | str) -> str:
    """Return a step of a path as a message may show it, even if a stranger chose the name."""
    return "".join(char if char.isprintable() else "?" for char in str(part)[:_NAME_SHOWN])


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]
