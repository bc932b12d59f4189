"""The fixture format: steps of a story, the expected reports, and the fingerprints at its end."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, NoReturn, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError, model_validator

from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.errors import ElytronError, UnreadableFile
from elytron_core.model import Value
from elytron_core.planes.knowledge.profiles import ProfileName
from elytron_core.scope import Scope, Space
from elytron_replay.comparison import expectations, references
from elytron_replay.json_files import bytes_in, plain_of

FORMAT = "elytron.fixture"
VERSION = 1
STEPS_MAX = 500
NOTE_CHARS = 400

Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=80)]
ReportPath = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]
"""A dotted path into a report: `decisions.0.id`."""
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Object = dict[str, JsonValue]


def _moment(value: object) -> Instant:
    if not isinstance(value, str):
        raise ValueError("a time is written as ISO 8601 text")  # noqa: TRY004  pydantic reads ValueError alone
    try:
        return instant(value)
    except ElytronError as error:
        raise ValueError(str(error)) from None


def _profile(value: object) -> object:
    """Return the short name of a profile, which some hosts write with a prefix."""
    return value.removeprefix("profile-") if isinstance(value, str) else value


def _expectation(value: Object) -> Object:
    expectations.require_known(value)
    return value


def _name(value: str) -> str:
    if value == references.TMP:
        raise ValueError(f"{value!r} is the name of the story's folder: take another")
    return value


Moment = Annotated[Instant, BeforeValidator(_moment)]
SavedName = Annotated[str, Field(pattern=references.NAME_PATTERN), AfterValidator(_name)]
Expectation = Annotated[Object, AfterValidator(_expectation)]


class Reopening(StrEnum):
    """State of the store before a step opens it again."""

    CLOSED = "closed"
    """The runtime was closed in good order."""
    CRASHED = "crashed"
    """The runtime was left as it was: nothing flushed, no checkpoint written."""


class StoryClock(Value):
    """When the story begins, and how many seconds pass from one step to the next."""

    start: Moment
    step: Annotated[int, Field(ge=0, le=366 * 24 * 3600)] = 60


class StartingArchive(Value):
    """An archive that is there before the first step. `path` is relative to the fixture's folder."""

    space: Space
    path: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]


class Step(Value):
    """One operation, and what its report must say. See docs/fixtures.md for each field."""

    op: Annotated[str, Field(min_length=1, max_length=limits.COLLECTION_CHARS)]
    note: Annotated[str, Field(max_length=NOTE_CHARS)] = ""
    at: Moment | None = None
    reopen: Reopening | None = None
    request: Object = {}
    save: dict[SavedName, ReportPath] = {}
    expect: Expectation = {}
    minimum: dict[ReportPath, float] = {}
    error: str | None = None

    @model_validator(mode="after")
    def _refused_steps_save_nothing(self) -> Self:
        if self.error is not None and (self.save or self.minimum):
            raise ValueError("a step with `error` has no report to save from or measure")
        return self


class Fingerprints(Value):
    """Fingerprints of a space at the end, the same on every store."""

    state: Hex
    events: Hex


class Fixture(Value):
    """A story: its steps, and the fingerprints of each space at its end."""

    format: Literal["elytron.fixture"]
    version: Literal[1]
    id: Slug
    title: Annotated[str, Field(min_length=1, max_length=NOTE_CHARS)]
    profile: Annotated[ProfileName | None, BeforeValidator(_profile)] = None
    """The profile that it runs under; without one, the runtime's own bounds alone hold."""
    spaces: Annotated[tuple[Space, ...], Field(min_length=1, max_length=limits.FILTER_VALUES)]
    scope: Scope | None = None
    archive: StartingArchive | None = None
    cassette: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)] | None = None
    """Recorded answers of a language model, in a file relative to the fixture's folder; without, there is no model."""
    clock: StoryClock
    seed: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=STEPS_MAX)]
    expected: dict[Space, Fingerprints] = {}


def load(path: Path, /) -> Fixture:
    """Return the fixture in the file `path`, checked whole. Raises UnreadableFile naming the step and the field."""
    return parse(bytes_in(path), name=path.name)


def parse(data: bytes, /, *, name: str) -> Fixture:
    """Return the fixture in `data`, from a file called `name`. Raises UnreadableFile."""
    plain = plain_of(data, name=name)
    try:
        fixture = Fixture.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        _refuse(name, f"{_place(first['loc'])}: {first['msg']}")
    for problem in _problems(fixture, stem=name.removesuffix(".json")):
        _refuse(name, problem)
    return fixture


def _place(loc: tuple[int | str, ...]) -> str:
    match loc:
        case ("steps", int(index), *rest):
            return f"step {index + 1}" + "".join(f", {part}" for part in rest)
        case ():
            return "fixture"
        case _:
            return ".".join(str(part) for part in loc)


def _problems(fixture: Fixture, *, stem: str) -> Iterator[str]:
    """Say what a single field cannot know: names that do not fit together."""
    if fixture.id != stem:
        yield f"id: is {fixture.id!r}, and the file is called {stem!r}: give both one name"
    named = {*fixture.expected, *(part.space for part in (fixture.scope, fixture.archive) if part is not None)}
    for space in sorted(named - set(fixture.spaces)):
        yield f"spaces: lacks {space!r}, which the fixture uses"
    saved: set[str] = set()
    for number, step in enumerate(fixture.steps, 1):
        for reference in sorted(references.used(step.request) | references.used(step.expect)):
            if reference not in saved:
                yield f"step {number}: ${{{reference}}} is saved by no earlier step"
        space = _space_of(step)
        if space is not None and space not in fixture.spaces:
            yield f"step {number}: spaces lacks {space!r}, which its request names"
        saved |= set(step.save)


def _space_of(step: Step) -> str | None:
    scope = step.request.get("scope")
    space = scope.get("space") if isinstance(scope, dict) else None
    return space if isinstance(space, str) else None


def _refuse(name: str, problem: str) -> NoReturn:
    raise UnreadableFile(name=name, problem=problem)
