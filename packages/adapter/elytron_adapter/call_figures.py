"""Call figures of one server: counts by transport, operation, minute and model since the process started."""

from collections import Counter, deque
from dataclasses import dataclass

from elytron.registry import OPERATIONS
from elytron_core.clock import DAY_MS, Clock, Instant
from elytron_core.ids import SpaceId

MINUTES_KEPT = 60
UNKNOWN = "unknown"
_NAMES = frozenset(operation.name for operation in OPERATIONS)
_MINUTE_MS = 60_000
PROGRAM_DAYS = 10_000
"""Maximum rows of programs' tokens; beyond that the oldest is dropped."""
MODEL_CHARS = 120


@dataclass(slots=True)
class OperationFigures:
    """Calls of one operation: how many, how many of them were refused, and how long they took."""

    calls: int = 0
    refused: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0


@dataclass(slots=True)
class MinuteFigures:
    """Calls of one minute, which began at `at`."""

    at: Instant
    calls: int = 0
    refused: int = 0


@dataclass(slots=True)
class ProgramTokens:
    """Tokens that programs used of one model through this server, on the day that began at `day`, in UTC."""

    day: Instant
    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class CallFigures:
    """Counts calls as they are answered; nothing is stored."""

    def __init__(self, clock: Clock, /) -> None:
        self._clock = clock
        self.began_at = clock.now()
        self.transports: Counter[str] = Counter()
        self.operations: dict[str, OperationFigures] = {}
        self._minutes: deque[MinuteFigures] = deque(maxlen=MINUTES_KEPT)
        self._programs: dict[tuple[SpaceId, Instant, str], ProgramTokens] = {}

    def count_call(self, transport: str, operation: str, /, *, refused: bool, seconds: float) -> None:
        """Count a call that was answered after `seconds`."""
        self.transports[transport] += 1
        # A caller may name any operation; only existing ones get a separate row.
        operation = operation if operation in _NAMES else UNKNOWN
        operation_figures = self.operations.get(operation)
        if operation_figures is None:
            operation_figures = self.operations[operation] = OperationFigures()
        operation_figures.calls += 1
        operation_figures.refused += refused
        operation_figures.seconds += seconds
        operation_figures.longest_s = max(operation_figures.longest_s, seconds)
        minute = self._minute(self._clock.now())
        minute.calls += 1
        minute.refused += refused

    def minutes(self) -> tuple[MinuteFigures, ...]:
        """Return the last hour, oldest minute first; minutes without a call have no row."""
        oldest_at = self._clock.now() - MINUTES_KEPT * _MINUTE_MS
        return tuple(minute for minute in self._minutes if minute.at > oldest_at)

    def count_tokens(self, space: SpaceId, model: str, /, *, read: int, output: int) -> None:
        """Count a model's answer to a program that asked for `space` through this server."""
        now = self._clock.now()
        day_start, model = Instant(now - now % DAY_MS), model[:MODEL_CHARS]
        row = self._programs.get((space, day_start, model))
        if row is None:
            while len(self._programs) >= PROGRAM_DAYS:
                del self._programs[next(iter(self._programs))]
            row = self._programs[space, day_start, model] = ProgramTokens(day_start, model)
        row.calls += 1
        row.input_tokens += read
        row.output_tokens += output

    def programs(self, space: SpaceId, /) -> tuple[ProgramTokens, ...]:
        """Return the tokens of programs that asked for `space`, oldest first."""
        return tuple(row for (row_space, _, _), row in self._programs.items() if row_space == space)

    def _minute(self, now: Instant) -> MinuteFigures:
        minute_start = Instant(now - now % _MINUTE_MS)
        if not self._minutes or self._minutes[-1].at < minute_start:
            self._minutes.append(MinuteFigures(minute_start))
        return self._minutes[-1]
