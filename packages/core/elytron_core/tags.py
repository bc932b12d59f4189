"""Tags: how they are compared, and their types in requests and filters."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator, Field

from elytron_core import limits
from elytron_core.scope import Name
from elytron_core.text import similarity


def tag_form(tag: str, /) -> str:
    """Return the normal form of `tag` for comparison: case, width and white space do not count."""
    return similarity.plain_text(tag)[: limits.NAME_CHARS].rstrip()


def tag_forms(tags: Iterable[str], /) -> tuple[str, ...]:
    """Return the normal form of each tag once, without invisible ones."""
    return tuple(dict.fromkeys(form for tag in tags if (form := tag_form(tag))))


def _trim_id(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _id_form(value: object) -> object:
    return tag_form(value) if isinstance(value, str) else value


Tags = Annotated[tuple[Annotated[Name, BeforeValidator(_trim_id)], ...], Field(max_length=limits.TAGS)]
"""Tags to store. They are normalised after admission, which recognises some credentials by their capitals."""


TagFilter = Annotated[tuple[Annotated[Name, BeforeValidator(_id_form)], ...], Field(max_length=limits.FILTER_VALUES)]
"""Tags in a filter, normalised."""
