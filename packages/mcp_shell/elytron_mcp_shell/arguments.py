"""Tool arguments as MCP clients write them, converted to the form of a tool's schema.

Clients send `null` for unset fields, numbers and lists as text, and fields of their own. A value with one meaning under
the schema is converted. Everything else is left to the strict decoder, whose error names the field.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import AliasChoices

from elytron_core.model import Value, model_schema

_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]{1,30}(?:\.0{1,30})?\s*")
_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?\s*")
_BOOLEANS: Final = {"true": True, "false": False}
_DEPTH: Final = 32
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PreparedArguments:
    """Arguments for the strict decoder. `ignored` counts dropped unknown fields, `known_fields` are the tool's own."""

    arguments: dict[str, Any]
    ignored: int = 0
    known_fields: tuple[str, ...] = ()

    @property
    def notice(self) -> str | None:
        """Return a notice about the omitted fields, without repeating their names."""
        if not self.ignored:
            return None
        accepted_fields = ", ".join(self.known_fields) or "no arguments"
        return (
            f"Ignored {self.ignored} unknown argument{'s' * (self.ignored > 1)}: this tool accepts {accepted_fields}."
        )


def prepare_arguments(
    raw_arguments: Mapping[str, Any], model: type[Value], /, *, more: Collection[str] = (), ignores_unknown: bool
) -> PreparedArguments:
    """Return the arguments of a tool that takes `model` and the fields `more`.

    Unknown fields are left out only with `ignores_unknown`: a call that removes something must not be made without a
    condition that its client thought it had set.
    """
    model_description: Schema = model_schema(model)
    definitions = cast("Schema", model_description.get("$defs", {}))
    schema = _resolve_reference(model_description, definitions)
    properties = cast("Schema", schema.get("properties", {}))
    names = {*properties, *model.model_fields, *_earlier_names(model), *more}
    arguments = {name: value for name, value in raw_arguments.items() if name in names or not ignores_unknown}
    coerced_arguments = cast("dict[str, Any]", _coerce_object(arguments, schema, definitions, 0))
    return PreparedArguments(coerced_arguments, len(raw_arguments) - len(arguments), tuple(properties))


def _earlier_names(model: type[Value], /) -> Collection[str]:
    """Return the other names that fields of `model` accept."""
    aliases = (field.validation_alias for field in model.model_fields.values())
    return {
        name for alias in aliases if isinstance(alias, AliasChoices) for name in alias.choices if isinstance(name, str)
    }


def _coerce_value(value: Any, schema: Schema, definitions: Schema, depth: int) -> Any:
    schema = _resolve_reference(schema, definitions)
    alternatives: list[Schema] = [
        _resolve_reference(alternative, definitions) for alternative in schema.get("anyOf") or schema.get("oneOf") or ()
    ]
    if depth > _DEPTH:
        return value
    if not alternatives:
        return _coerce_form(value, schema, definitions, depth)
    discriminator = schema.get("discriminator", {})
    if isinstance(value, dict) and discriminator:
        reference = discriminator["mapping"].get(cast("Schema", value).get(discriminator["propertyName"]))
        alternatives = [_resolve_reference({"$ref": reference}, definitions)] if isinstance(reference, str) else []
    for alternative in alternatives:
        if _fits_schema(value, alternative):
            return _coerce_form(value, alternative, definitions, depth)
    for alternative in alternatives:
        coerced_value = _coerce_form(value, alternative, definitions, depth)
        if _fits_schema(coerced_value, alternative):
            return coerced_value
    return cast("Any", value)


def _coerce_form(value: Any, schema: Schema, definitions: Schema, depth: int) -> Any:
    """Return `value` converted to the single form of `schema`, or unchanged."""
    match schema.get("type"), value:
        case "integer", str() if _INTEGER.fullmatch(value):
            return int(value.partition(".")[0])
        case "integer", float() if value.is_integer():
            return int(value)
        case "number", str() if _NUMBER.fullmatch(value):
            return float(value)
        case "boolean", str():
            return _BOOLEANS.get(value.strip().lower(), value)
        case "string", int() | float() if not isinstance(value, bool):
            return json.dumps(value)
        case "array", _:
            return _coerce_list(value, schema, definitions, depth)
        case "object", str():
            parsed = _parse_json(value)
            return (
                _coerce_object(cast("Schema", parsed), schema, definitions, depth)
                if isinstance(parsed, dict)
                else value
            )
        case "object", dict():
            return _coerce_object(cast("Schema", value), schema, definitions, depth)
        case _:
            return value


def _coerce_list(value: Any, schema: Schema, definitions: Schema, depth: int) -> Any:
    items: list[Any]
    match value:
        case str():
            parsed = _parse_json(value)
            items = cast("list[Any]", parsed) if isinstance(parsed, list) else [value] if value.strip() else []
        case dict():
            items = [value]
        case list():
            items = cast("list[Any]", value)
        case _:
            return value
    return [_coerce_value(item, schema.get("items", {}), definitions, depth + 1) for item in items]


def _coerce_object(value: Schema, schema: Schema, definitions: Schema, depth: int) -> Any:
    """Return an object without null values of optional fields."""
    properties = cast("Schema", schema.get("properties", {}))
    required_names = schema.get("required", ())
    additional_schema = schema.get("additionalProperties")
    coerced_fields: dict[str, Any] = {}
    for name, field in value.items():
        if field is None and name in properties and name not in required_names:
            continue
        property_schema = properties.get(name, additional_schema if isinstance(additional_schema, dict) else {})
        coerced_fields[name] = _coerce_value(field, property_schema, definitions, depth + 1)
    return coerced_fields


def _parse_json(text: str) -> Any:
    """Return the JSON in a text that begins like a list or an object, else None."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _resolve_reference(schema: Schema, definitions: Schema) -> Schema:
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    return {
        **definitions.get(reference.rpartition("/")[2], {}),
        **{keyword: keyword_value for keyword, keyword_value in schema.items() if keyword != "$ref"},
    }


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def _fits_schema(value: Any, schema: Schema) -> bool:
    """Return whether `value` has the type of `schema`, and is one of its listed values, if any."""
    if "const" in schema:
        return value == schema["const"]
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    is_boolean_match = isinstance(value, bool) is (kind == "boolean")
    return kind is None or (is_boolean_match and isinstance(value, _TYPES.get(kind, ())))
