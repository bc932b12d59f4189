"""Reading files of JSON whose shape is known: their value, or what is wrong and where."""

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from elytron_core import limits, strict_json
from elytron_core.errors import ElytronError, UnreadableFile
from elytron_core.model import Value
from elytron_core.strict_json import Json

V = TypeVar("V", bound=Value)


def value_in(path: Path, kind: type[V], /) -> V:
    """Return the `kind` in the file `path`. Raises UnreadableFile, naming the first field that does not fit."""
    plain = plain_of(bytes_in(path), name=path.name)
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UnreadableFile(name=path.name, problem=f"{place}: {first['msg']}") from None


def bytes_in(path: Path, /) -> bytes:
    """Return the content of the file `path`; of one that is too large, enough to see that. Raises UnreadableFile."""
    try:
        with path.open("rb") as file:
            return file.read(limits.JSON_BYTES + 1)
    except OSError as error:
        raise UnreadableFile(name=path.name, problem=f"cannot be read: {error.strerror}") from None


def plain_of(data: bytes, /, *, name: str) -> Json:
    """Return the JSON in `data`, from a file called `name`. Raises UnreadableFile."""
    try:
        return strict_json.parse(data)
    except ElytronError as error:
        raise UnreadableFile(name=name, problem=str(error)) from None
