"""Cassettes of fixtures: what a language model answered once, so that a story with a model is told alike again."""

import json
from pathlib import Path

from pydantic import ValidationError

from elytron.models.recorded import Cassette, RecordedModel
from elytron_core import limits, strict_json
from elytron_core.errors import ElytronError, UnreadableFile
from elytron_core.ports.models import LanguageModel
from elytron_replay import layout
from elytron_replay.fixture import Fixture


def model_of(fixture: Fixture, /, *, beside: Path) -> LanguageModel | None:
    """Return the model that answers in `fixture`, None where it needs none. Raises UnreadableFile."""
    return RecordedModel(load(beside / fixture.cassette)) if fixture.cassette is not None else None


def load(path: Path, /) -> Cassette:
    """Return the cassette in the file `path`. Raises UnreadableFile."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.JSON_BYTES + 1)
        return Cassette.model_validate(strict_json.parse(data))
    except OSError as error:
        raise UnreadableFile(name=path.name, problem=f"cannot be read: {error.strerror}") from None
    except ElytronError as error:
        raise UnreadableFile(name=path.name, problem=str(error)) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "cassette"
        raise UnreadableFile(name=path.name, problem=f"{place}: {first['msg']}") from None


def save(path: Path, cassette: Cassette, /) -> None:
    """Write the cassette to the file `path`, laid out like a fixture; an equal one stays as it is."""
    written = layout.write_out(json.loads(cassette.model_dump_json(exclude_defaults=False)))
    if not path.exists() or path.read_text("utf-8") != written:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written, "utf-8")
