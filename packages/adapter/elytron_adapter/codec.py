"""Between JSON bytes and typed values. Strict on the way in: unknown fields and other types are errors, not guesses."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from elytron.registry import AnyOperation
from elytron_core import limits
from elytron_core.field_names import every_name
from elytron_core.model import Value, invalid
from elytron_core.strict_json import parse

JsonSchema = dict[str, Any]
ValueT = TypeVar("ValueT", bound=Value)
ResultT = TypeVar("ResultT")


def decode(operation: AnyOperation, data: bytes, /, *, limit: int = limits.JSON_BYTES) -> Value:
    """Return the request of `operation` in `data`.

    Raises InvalidJson for what is no strict JSON, PayloadTooLarge, and InvalidInput that names the field and never
    repeats what was given, be it a value or an unknown field's name.
    """
    model: type[Value] = operation.request
    return decode_as(model, data, limit=limit)


def decode_as(model: type[ValueT], data: bytes, /, *, limit: int = limits.JSON_BYTES) -> ValueT:
    """Return the `model` in `data`. Raises as `decode` does."""
    parse(data, limit=limit)
    try:
        # With an instance to fill, a request's own __init__ is passed by, which would read Python's types, not JSON's.
        return model.__pydantic_validator__.validate_json(data, strict=True, self_instance=model.__new__(model))
    except ValidationError as error:
        raise invalid(error, model=model, known=every_name(model)) from None


async def aside(size: int, read: Callable[[], ResultT], /) -> ResultT:
    """Return what `read` makes of `size` bytes: many are read in a thread, so that others are answered meanwhile."""
    return read() if size <= limits.DECODED_AT_ONCE_BYTES else await asyncio.to_thread(read)


def encode(value: Value, /) -> bytes:
    """Return `value` as JSON; fields without a value are left out."""
    return value.__pydantic_serializer__.to_json(value, exclude_none=True)


def schema(operation: AnyOperation, /) -> JsonSchema:
    """Return the JSON Schemas of an operation's request and report."""
    return {
        "request": operation.request.model_json_schema(mode="validation"),
        "report": operation.report.model_json_schema(mode="serialization"),
    }
