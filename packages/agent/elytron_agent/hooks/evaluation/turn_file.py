"""A host's turns with what is expected of them, one JSON object a line.

`turn`: what a user said in a session, and the answer. `question`: texts that the facts recalled for it are to hold
(`expects`) and not to hold (`excludes`); it is stored nowhere. `wait`: days that go by. `setup`, on the first line
alone: settings of the hooks, and other bars for rates.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from elytron_agent import limits
from elytron_agent.hooks.contract import HookSettings, StorageKind
from elytron_agent.hooks.evaluation.rates import CEILINGS, FLOORS
from elytron_agent.hooks.session import checked_session
from elytron_core import limits as core_limits
from elytron_core.errors import InvalidInput, InvalidJson, UnreadableFile
from elytron_core.model import Value, invalid_input
from elytron_core.strict_json import parse_json
from elytron_core.text.similarity import is_blank

_Words = Annotated[str, Field(min_length=1, max_length=core_limits.CONDITION_CHARS)]
_Said = Annotated[str, Field(min_length=1, max_length=core_limits.MESSAGE_CHARS)]
_Texts = Annotated[tuple[_Words, ...], Field(max_length=limits.EVALUATED_TEXTS)]


class TurnLine(Value):
    """A turn of a session that memory keeps."""

    kind: Literal["turn"]
    user: _Said
    assistant: _Said
    session: str = "default"


class QuestionLine(Value):
    """A question to a session, at this place among the turns."""

    kind: Literal["question"]
    user: _Said
    expects: _Texts = ()
    excludes: _Texts = ()
    session: str = "default"


class WaitLine(Value):
    """Days that go by before the next line."""

    kind: Literal["wait"]
    days: Annotated[int, Field(ge=1, le=limits.EVALUATED_DAYS)]


class SetupLine(Value):
    """Settings of the hooks, and bars that are other than the product's own."""

    kind: Literal["setup"]
    settings: dict[str, JsonValue] = {}
    bars: dict[str, Annotated[float, Field(ge=0)]] = {}


class TurnScript(Value):
    """All of a file."""

    lines: tuple[TurnLine | QuestionLine | WaitLine, ...]
    settings: HookSettings = HookSettings()
    bars: dict[str, float] = {}

    @property
    def turns(self) -> dict[str, list[TurnLine]]:
        """Return the turns of each session, in their order."""
        found: dict[str, list[TurnLine]] = {}
        for line in self.lines:
            if isinstance(line, TurnLine):
                found.setdefault(line.session, []).append(line)
        return found


_Line = TurnLine | QuestionLine | WaitLine | SetupLine
_LINES: Final = TypeAdapter[_Line](Annotated[_Line, Field(discriminator="kind")])


def read_script(path: Path, /) -> TurnScript:
    """Return the turns of a file. Raises UnreadableFile, which names the line; nothing of the line is in it."""
    try:
        with path.open("rb") as file:
            data = file.read(limits.EVALUATED_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from None
    if len(data) > limits.EVALUATED_BYTES:
        raise UnreadableFile(name=path.name, problem=f"has more than {limits.EVALUATED_BYTES:,} bytes")
    lines: list[TurnLine | QuestionLine | WaitLine] = []
    setup: SetupLine | None = None
    settings = HookSettings()
    for number, text in enumerate(data.split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            line = _parse_line(text)
            if not isinstance(line, SetupLine):
                lines.append(line)
                continue
            settings, setup = _line_settings(line, is_first=setup is None and not lines), line
        except InvalidInput as error:
            problem = f"{error.field} {error.problem}"
            raise UnreadableFile(name=path.name, line=number, problem=problem) from None
    if len(lines) > limits.EVALUATED_LINES:
        raise UnreadableFile(name=path.name, problem=f"has more than {limits.EVALUATED_LINES:,} lines")
    if not any(isinstance(line, TurnLine) for line in lines):
        raise UnreadableFile(name=path.name, problem="has no turn: give lines of the kind turn")
    return TurnScript(lines=tuple(lines), settings=settings, bars=setup.bars if setup is not None else {})


def _parse_line(text: bytes) -> _Line:
    """Return what one line says. Raises InvalidInput."""
    try:
        line = _LINES.validate_python(parse_json(text, limit=limits.EVALUATED_BYTES))
    except InvalidJson as error:
        raise InvalidInput(field="JSON", problem=error.problem) from None
    except ValidationError as error:
        raise invalid_input(error) from None
    match line:
        case SetupLine(bars=bars):
            if bars.keys() - CEILINGS.keys() - FLOORS.keys():
                problem = f"names no rate: there are {', '.join([*CEILINGS, *FLOORS])}"
                raise InvalidInput(field="bars", problem=problem)
        case TurnLine() | QuestionLine():
            checked_session(line.session)
            if is_blank(line.user):
                raise InvalidInput(field="user", problem="has no visible character")
        case WaitLine():
            pass
    return line


def _line_settings(line: SetupLine, *, is_first: bool) -> HookSettings:
    if not is_first:
        raise InvalidInput(field="setup", problem="belongs on the first line")
    settings = HookSettings.read(line.settings)
    if settings.memory_storage is not StorageKind.ELYTRON or not settings.enable_memory:
        problem = "leave memory on and in a memory of this evaluation: leave memory_storage and enable_memory out"
        raise InvalidInput(field="settings", problem=problem)
    return settings
