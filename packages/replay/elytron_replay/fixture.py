"""The fixture format: steps, expected reports, and the fingerprints of each space at the end."""

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NoReturn, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError, model_validator

from elytron.models.scripted import ModelCassette, RecordedModel
from elytron_core import limits, strict_json
from elytron_core.clock import FrozenClock, Instant, instant
from elytron_core.errors import ElytronError, InvalidInput, UnreadableFile
from elytron_core.ids import SeededIds, make_uuid7
from elytron_core.model import Value
from elytron_core.ports.models import LanguageModel
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope, Space
from elytron_core.strict_json import Json
from elytron_replay import comparison

V = TypeVar("V", bound=Value)


def value_in(path: Path, kind: type[V], /) -> V:
    """Return the `kind` in the file `path`. Raises UnreadableFile, naming the first invalid field."""
    document = plain_of(bytes_in(path), name=path.name)
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False, include_context=False)[0]
        location = ".".join(str(part) for part in first_error["loc"]) or "the file"
        raise UnreadableFile(name=path.name, problem=f"{location}: {first_error['msg']}") from None


def bytes_in(path: Path, /) -> bytes:
    """Return the content of the file `path`, or just enough to show that it is too large. Raises UnreadableFile."""
    try:
        with path.open("rb") as file:
            return file.read(limits.JSON_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from None


def plain_of(data: bytes, /, *, name: str) -> Json:
    """Return the JSON in `data`, from a file called `name`. Raises UnreadableFile."""
    try:
        return strict_json.parse_json(data)
    except InvalidInput as error:
        raise UnreadableFile(name=name, problem=f"is not JSON: it {error.problem}") from None


FORMAT = "elytron.fixture"
VERSION = 1
STEPS_MAX = 500
NOTE_CHARS = 400

Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]
ReportPath = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]
"""A dotted path into a report, such as `decisions.0.id`."""
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Object = dict[str, JsonValue]


def _parse_moment(value: object) -> Instant:
    if not isinstance(value, str):
        raise ValueError("must be ISO 8601 text")  # noqa: TRY004  pydantic handles only ValueError
    try:
        return instant(value)
    except ElytronError as error:
        raise ValueError(str(error)) from None


def _short_profile(value: object) -> object:
    """Return the short name of a profile, without the prefix that some hosts add."""
    return value.removeprefix("profile-") if isinstance(value, str) else value


def _parse_expectation(value: Object) -> Object:
    comparison.require_known(value)
    return value


def _parse_name(value: str) -> str:
    if value == comparison.TMP:
        raise ValueError(f"{value!r} is the name of the fixture's folder: choose another")
    return value


Moment = Annotated[Instant, BeforeValidator(_parse_moment)]
SavedName = Annotated[str, Field(pattern=comparison.NAME_PATTERN), AfterValidator(_parse_name)]
Expectation = Annotated[Object, AfterValidator(_parse_expectation)]


class StoreReopening(StrEnum):
    """State in which a step leaves the store before it is reopened."""

    CLOSED = "closed"
    """The runtime was closed normally."""
    CRASHED = "crashed"
    """The runtime was abandoned: nothing was flushed and no checkpoint written."""


class StoryClock(Value):
    """When the story begins, and the seconds between steps."""

    start: Moment
    step: Annotated[int, Field(ge=0, le=366 * 24 * 3600)] = 60


class StartingArchive(Value):
    """An archive that is imported before the first step. `path` is relative to the fixture's folder."""

    space: Space
    path: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]


class FixtureStep(Value):
    """One operation and what its report must contain. See docs/reference/fixtures.md for each field."""

    op: Annotated[str, Field(min_length=1, max_length=limits.COLLECTION_CHARS)]
    note: Annotated[str, Field(max_length=NOTE_CHARS)] = ""
    at: Moment | None = None
    reopen: StoreReopening | None = None
    request: Object = {}
    save: dict[SavedName, ReportPath] = {}
    expect: Expectation = {}
    minimum: dict[ReportPath, float] = {}
    error: str | None = None

    @model_validator(mode="after")
    def _refused_steps_save_nothing(self) -> Self:
        if self.error is not None and (self.save or self.minimum):
            raise ValueError("a step with `error` has no report: remove `save` and `minimum`")
        return self


class SpaceFingerprints(Value):
    """Fingerprints of a space at the end, identical on every store."""

    state: Hex
    events: Hex


class Fixture(Value):
    """A story: its steps, and the fingerprints of each space at its end."""

    format: Literal["elytron.fixture"]
    version: Literal[1]
    id: Slug
    title: Annotated[str, Field(min_length=1, max_length=NOTE_CHARS)]
    profile: Annotated[ProfileName | None, BeforeValidator(_short_profile)] = None
    """Profile to run under; without one, only the runtime's own limits apply."""
    spaces: Annotated[tuple[Space, ...], Field(min_length=1, max_length=limits.FILTER_VALUES)]
    scope: Scope | None = None
    archive: StartingArchive | None = None
    cassette: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)] | None = None
    """Recorded model answers, in a file relative to the fixture's folder; without it there is no language model."""
    clock: StoryClock
    seed: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    steps: Annotated[tuple[FixtureStep, ...], Field(min_length=1, max_length=STEPS_MAX)]
    expected: dict[Space, SpaceFingerprints] = {}


def load_fixture(path: Path, /) -> Fixture:
    """Load and fully validate the fixture in the file `path`. Raises UnreadableFile, naming the step and the field."""
    return parse_fixture(bytes_in(path), name=path.name)


def parse_fixture(data: bytes, /, *, name: str) -> Fixture:
    """Parse the fixture in `data`, from a file called `name`. Raises UnreadableFile."""
    document = plain_of(data, name=name)
    try:
        fixture = Fixture.model_validate(document)
    except ValidationError as error:
        first_error = error.errors(include_url=False, include_input=False, include_context=False)[0]
        _refuse_fixture(name, f"{_error_place(first_error['loc'])}: {first_error['msg']}")
    for problem in _fixture_problems(fixture, stem=name.removesuffix(".json")):
        _refuse_fixture(name, problem)
    return fixture


def _error_place(loc: tuple[int | str, ...]) -> str:
    match loc:
        case ("steps", int(index), *rest):
            return f"step {index + 1}" + "".join(f", {part}" for part in rest)
        case ():
            return "fixture"
        case _:
            return ".".join(str(part) for part in loc)


def _fixture_problems(fixture: Fixture, *, stem: str) -> Iterator[str]:
    """Yield the problems that no single field can detect: names that do not match each other."""
    if fixture.id != stem:
        yield f"id: is {fixture.id!r}, but the file is named {stem!r}: use the same name for both"
    used_spaces = {*fixture.expected, *(part.space for part in (fixture.scope, fixture.archive) if part is not None)}
    for space in sorted(used_spaces - set(fixture.spaces)):
        yield f"spaces: lacks {space!r}, which the fixture uses"
    saved_names: set[str] = set()
    for number, step in enumerate(fixture.steps, 1):
        for reference in sorted(comparison.used_names(step.request) | comparison.used_names(step.expect)):
            if reference not in saved_names:
                yield f"step {number}: ${{{reference}}} is not saved by an earlier step"
        space = _space_of(step)
        if space is not None and space not in fixture.spaces:
            yield f"step {number}: spaces lacks {space!r}, which its request names"
        saved_names |= set(step.save)


def _space_of(step: FixtureStep) -> str | None:
    scope = step.request.get("scope")
    space = scope.get("space") if isinstance(scope, dict) else None
    return space if isinstance(space, str) else None


def _refuse_fixture(name: str, problem: str) -> NoReturn:
    raise UnreadableFile(name=name, problem=problem)


WIDTH = 120
INDENT = 2


def write_out(value: JsonValue, /) -> str:
    """Return `value` as JSON text in its key order, with objects and lists on one line where they fit.

    Unprintable characters are escaped, so that a file never contains more than it shows.
    """
    return _format_value(value, indent=0, used_columns=0) + "\n"


def _format_value(value: JsonValue, *, indent: int, used_columns: int) -> str:
    line = _on_one_line(value)
    # One column is reserved for a comma.
    if not isinstance(value, dict | list) or not value or (indent and used_columns + len(line) < WIDTH):
        return line
    inner_indent = indent + INDENT
    padding = " " * inner_indent
    if isinstance(value, dict):
        key_texts = [f"{padding}{_on_one_line(key)}: " for key in value]
        value_texts = [
            _format_value(value[key], indent=inner_indent, used_columns=len(key_text))
            for key, key_text in zip(value, key_texts, strict=True)
        ]
        parts = [key_text + value_text for key_text, value_text in zip(key_texts, value_texts, strict=True)]
        opening, closing = "{", "}"
    else:
        parts = [padding + _format_value(part, indent=inner_indent, used_columns=inner_indent) for part in value]
        opening, closing = "[", "]"
    return f"{opening}\n" + ",\n".join(parts) + f"\n{' ' * indent}{closing}"


def _on_one_line(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return (
        text if text.isprintable() else "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    )


def model_of(fixture: Fixture, /, *, beside: Path) -> LanguageModel | None:
    """Return the model that answers in `fixture`, or None if it has no cassette. Raises UnreadableFile."""
    return RecordedModel(load_cassette(beside / fixture.cassette)) if fixture.cassette is not None else None


def load_cassette(path: Path, /) -> ModelCassette:
    """Return the cassette in the file `path`. Raises UnreadableFile."""
    return value_in(path, ModelCassette)


def save_cassette(path: Path, cassette: ModelCassette, /) -> None:
    """Write the cassette to the file `path`, formatted like a fixture, unless the file is already identical."""
    text = write_out(json.loads(cassette.model_dump_json(exclude_defaults=False)))
    if not path.exists() or path.read_text("utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


_IDS_PER_STEP = 1 << 20


class StoryIds:
    """Ids and secrets that depend only on the seed and the step, so that changing one step does not shift later ones.

    Ids of later steps sort after those of earlier steps. Ids and secrets have separate counters.
    """

    def __init__(self, seed: str, /) -> None:
        self._seed = seed
        self.begin(0)

    def begin(self, step: int, /) -> None:
        """Restart the sequence of ids for `step`."""
        self._step = step
        self._count = 0
        self._tails = SeededIds(f"{self._seed}|{step}|names")
        self._secrets = SeededIds(f"{self._seed}|{step}|secrets")

    def new(self, /) -> str:
        self._count += 1
        # The step takes the place of the time, so that ids sort by step.
        return make_uuid7(self._step * _IDS_PER_STEP + self._count, 0, self._tails.secret(8))

    def secret(self, size: int, /) -> bytes:
        return self._secrets.secret(size)


class FixtureTelling:
    """Position in a fixture: the current step and its time."""

    def __init__(self, fixture: Fixture, /) -> None:
        self.clock = FrozenClock(fixture.clock.start)
        self.ids = StoryIds(fixture.seed or fixture.id)
        self._step_ms = fixture.clock.step * 1000
        self._next = fixture.clock.start

    def begin(self, number: int, step: FixtureStep | None, /) -> None:
        """Advance to step `number`, at the step's own time or one tick after the previous step."""
        at = step.at if step is not None and step.at is not None else self._next
        self.clock.advance(at - self.clock.now())
        self._next = Instant(at + self._step_ms)
        self.ids.begin(number)
