"""Cassettes of fixtures: a language model's recorded answers, so that a fixture with a model repeats."""

import json
from pathlib import Path

from elytron.models.recorded import Cassette, RecordedModel
from elytron_core.ports.models import LanguageModel
from elytron_replay import layout
from elytron_replay.fixture import Fixture
from elytron_replay.json_files import value_in


def model_of(fixture: Fixture, /, *, beside: Path) -> LanguageModel | None:
    """Return the model that answers in `fixture`, None where it needs none. Raises UnreadableFile."""
    return RecordedModel(load(beside / fixture.cassette)) if fixture.cassette is not None else None


def load(path: Path, /) -> Cassette:
    """Return the cassette in the file `path`. Raises UnreadableFile."""
    return value_in(path, Cassette)


def save(path: Path, cassette: Cassette, /) -> None:
    """Write the cassette to the file `path`, laid out like a fixture; an equal one stays as it is."""
    written = layout.write_out(json.loads(cassette.model_dump_json(exclude_defaults=False)))
    if not path.exists() or path.read_text("utf-8") != written:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written, "utf-8")
