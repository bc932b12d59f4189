"""The one flavour of value: frozen, strict about unknown fields, silent about what a wrong value was."""

from collections.abc import Container
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from elytron_core.errors import InvalidInput
from elytron_core.text.names import NAME_PATTERN


class Value(BaseModel):
    """A frozen value. Unknown fields are errors; validation errors name fields and never echo what was given."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    def to_bytes(self) -> bytes:
        """Return the bytes to store: JSON in field order, defaults left out; equal values give equal bytes."""
        return self.__pydantic_serializer__.to_json(self, exclude_defaults=True)

    @classmethod
    def from_bytes(cls, data: bytes, /) -> Self:
        """Return the value in `data`. Raises InvalidInput where it is none."""
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise invalid(error) from None


class Request(Value):
    """A request of an operation: what its caller got wrong is an InvalidInput, wherever it was built."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise invalid(error) from None


def invalid(error: ValidationError, /, *, known: Container[str] | None = None) -> InvalidInput:
    """Return the InvalidInput for the first problem in `error`: its field path and what is wrong, no value.

    With `known`, the path keeps only those names: what a stranger called a field is a value too.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    path = [str(part) for part in first["loc"] if known is None or isinstance(part, int) or part in known]
    more = error.error_count() - 1
    tail = f" (and {more} more)" if more else ""
    match first["type"]:
        case "string_pattern_mismatch":
            pattern = first.get("ctx", {}).get("pattern")
            named = "has control characters or outer white space"
            problem = named if pattern == NAME_PATTERN else f"has not the form {pattern}"
        case "union_tag_invalid":
            problem = "is of no known kind"
        case "extra_forbidden":
            problem = "has an unknown field" if known is not None else "is not a field"
        case _:
            problem = f"is not valid: {_lower(first['msg'])}"
    return InvalidInput(field=".".join(path) or "request", problem=problem + tail)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
