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
    schema = model_schema(model)
    schema_parts: list[JsonSchema] = [schema, *schema.get("$defs", {}).values()]
    return frozenset(name for schema_part in schema_parts for name in schema_part.get("properties", {}))


def names_at(model: type[BaseModel], field_path: Place, /) -> tuple[str, ...]:
    """Return the field names at `field_path`, a path from a validation error; none for an unknown place."""
    schema = model_schema(model)
    schema_parts = [schema]
    for step in field_path:
        schema_parts = [
            inner_part
            for schema_part in schema_parts
            for schema_form in _schema_forms(schema, schema_part)
            for inner_part in _schema_step(schema, schema_form, step)
        ]
    forms = (schema_form for schema_part in schema_parts for schema_form in _schema_forms(schema, schema_part))
    return tuple(dict.fromkeys(name for schema_form in forms for name in schema_form.get("properties", {})))


def nearest_name(name: str, names: Iterable[str], /) -> str | None:
    """Return the one of `names` closest to `name`, ignoring case and underscores; None if none is close."""
    if len(name) > limits.NAME_CHARS:
        return None
    names_by_plain_form = {_plain_name(candidate): candidate for candidate in names}
    matches = get_close_matches(_plain_name(name), names_by_plain_form, n=1, cutoff=_LIKE)
    return names_by_plain_form[matches[0]] if matches else None


def _plain_name(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


@cache
def model_schema(model: type[BaseModel], /) -> JsonSchema:
    """Return the JSON Schema of the input to `model`. It is shared, so do not change it."""
    return model.model_json_schema(mode="validation")


def _schema_forms(schema: JsonSchema, part: JsonSchema) -> Iterator[JsonSchema]:
    """Yield `part`, and each alternative of it."""
    yield part
    for alternative in part.get("oneOf", part.get("anyOf", ())):
        yield from _schema_forms(schema, _resolve_reference(schema, alternative))


def _schema_step(schema: JsonSchema, part: JsonSchema, step: str | int) -> list[JsonSchema]:
    """Return the part at `step`: an item, a field, or the alternative with that name."""
    if isinstance(step, int):
        candidates = [part.get("items")]
    else:
        references_by_tag = part.get("discriminator", {}).get("mapping", {})
        candidates = [
            part.get("properties", {}).get(step),
            {"$ref": references_by_tag[step]} if step in references_by_tag else None,
        ]
        candidates += [form for form in part.get("anyOf", ()) if _form_label(form) == step]
    return [_resolve_reference(schema, step_part) for step_part in candidates if step_part]


def _form_label(reference: JsonSchema) -> str:
    return str(reference.get("$ref", "")).rpartition("/")[2]


def _resolve_reference(schema: JsonSchema, part: JsonSchema) -> JsonSchema:
    """Return `part`, or the definition that it references."""
    while "$ref" in part:
        part = schema["$defs"][_form_label(part)]
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
        value_copy = _blank(type(self))
        _set_attribute(value_copy, "__dict__", self.__dict__ | update)
        _set_attribute(value_copy, "__pydantic_fields_set__", self.__pydantic_fields_set__ | update.keys())
        _set_attribute(value_copy, "__pydantic_extra__", None)
        _set_attribute(value_copy, "__pydantic_private__", None)
        return value_copy

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                # Python and pydantic look up such names on many values, so the answer must be quick.
                if name.startswith("_"):
                    raise
            hint = _named_instead(type(self), name)
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

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
    hint = f": use .{name}" if name in names else field_instead(name, names) if isinstance(name, str) else ""
    return TypeError(f"the fields of {type(value).__name__} are attributes{hint}")


def _readable_names(value_type: type[Value]) -> frozenset[str]:
    """Return the names of a class's fields and properties."""
    members_by_base = (vars(base).items() for base in value_type.__mro__ if issubclass(base, Value))
    properties = (
        name for base_members in members_by_base for name, member in base_members if isinstance(member, property)
    )
    return frozenset({*value_type.model_fields, *properties})


@lru_cache(maxsize=256)
def _named_instead(value_type: type[Value], name: str) -> str:
    """Return the intended field for a message; cached, because `getattr` with a default calls it each time."""
    return field_instead(name, _readable_names(value_type))


def _make_strict(schema_part: Any) -> None:
    """Make numbers and flags in a part of a schema strict, and make each list stop at its first problem, in place."""
    if isinstance(schema_part, dict):
        schema = cast("dict[str, Any]", schema_part)
        json_type = schema.get("type")
        if json_type in _PLAIN:
            schema["strict"] = True
        if json_type in _LISTS:
            schema["fail_fast"] = True
        # A part without a kind maps names, of fields for instance, and a field may have any name.
        is_schema = isinstance(json_type, str)
        for name, inner_part in schema.items():
            if not is_schema or name not in _NO_SCHEMA:
                _make_strict(inner_part)
    elif isinstance(schema_part, list | tuple):
        for inner_part in cast("Sequence[Any]", schema_part):
            _make_strict(inner_part)


ValueT = TypeVar("ValueT", bound=Value)
ReportT_co = TypeVarWithDefault("ReportT_co", bound=Value, covariant=True, default=Value)

_SHARED = (str, int, float, tuple, Value, type(None))
"""Defaults of these types are immutable, so values may share them."""


def _make_unchecked(value_type: type[ValueT], values: dict[str, Any], fields_set: set[str]) -> ValueT:
    """Return a value with these fields, without validation."""
    value = _blank(value_type)
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

    def __init__(self, value_type: type[ValueT], /, *names: str) -> None:
        self._kind = value_type
        self._given_names = frozenset(names)
        self._set = set(names)
        defaults = {
            name: field.default for name, field in value_type.model_fields.items() if name not in self._given_names
        }
        self._dicts = tuple(name for name, default in defaults.items() if default == {})
        # In the order of the class, which is the order of its JSON.
        self._blank = {name: defaults.get(name) for name in value_type.model_fields}
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
        fresh_dicts = {name: dict[str, Any]() for name in self._dicts} if self._dicts else {}
        values = {**value.__dict__, **fresh_dicts, **fields}
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
    first_problem = _first_problem(problems)
    # A stranger's field is named by its parent, because elsewhere there may be a field of that name.
    shown_place = (
        first_problem["loc"][:-1]
        if names is not None and first_problem["type"] == "extra_forbidden"
        else first_problem["loc"]
    )
    shown_steps = [_shown_step(step) for step in shown_place if names is None or isinstance(step, int) or step in names]
    missing_fields = _missing_beside(problems, first_problem) if first_problem["type"] == "extra_forbidden" else ()
    further_problems = error.error_count() - 1 - len(missing_fields)
    missing_text = (
        f", and {', '.join(missing_fields)} {'is' if len(missing_fields) == 1 else 'are'} missing"
        if missing_fields
        else ""
    )
    missing_text += f" (and {further_problems} more)" if further_problems else ""
    match first_problem["type"]:
        case "string_pattern_mismatch":
            pattern = first_problem.get("ctx", {}).get("pattern")
            name_problem = "has control characters or surrounding white space"
            problem = name_problem if pattern == NAME_PATTERN else f"does not match {pattern}"
        case "union_tag_invalid":
            expected_tags = first_problem.get("ctx", {}).get("expected_tags", "")
            problem = f"has an unknown kind: choose from {expected_tags}".replace("'", "")
        case "extra_forbidden":
            problem = "has an unknown field" if names is not None else "is not a field"
            missing_text += _intended_field(model, first_problem["loc"]) if model is not None else ""
        case _:
            problem = f"is not valid: {_lower_first(first_problem['msg'].removeprefix('Value error, '))}"
    return InvalidInput(field=".".join(shown_steps) or "request", problem=problem + missing_text)


def _first_problem(problems: list[ErrorDetails]) -> ErrorDetails:
    first_problem = problems[0]
    if first_problem["type"] != "missing":
        return first_problem
    parent_place = first_problem["loc"][:-1]
    unknown_fields = (
        problem for problem in problems if problem["type"] == "extra_forbidden" and problem["loc"][:-1] == parent_place
    )
    return next(unknown_fields, first_problem)


def _missing_beside(problems: list[ErrorDetails], unknown_field: ErrorDetails) -> tuple[str, ...]:
    """Return the missing fields at the level of `unknown_field`; their names are our own."""
    parent_place = unknown_field["loc"][:-1]
    return tuple(
        str(problem["loc"][-1])
        for problem in problems
        if problem["type"] == "missing" and problem["loc"][:-1] == parent_place
    )


def _intended_field(model: type[BaseModel], field_path: Place) -> str:
    """Return a hint for the unknown field at `field_path`, using only our own names."""
    *parent_place, name = field_path
    names = names_at(model, parent_place)
    if not names:
        return ""
    similar_name = nearest_name(str(name), names)
    advice = f"did you mean {similar_name}? Choose from" if similar_name is not None else "choose from"
    return f": {advice} {', '.join(names)}"


def _shown_step(step: int | str) -> str:
    """Return a step of a path as a message may show it, even if a stranger chose the name."""
    return "".join(char if char.isprintable() else "?" for char in str(step)[:_NAME_SHOWN])


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]
