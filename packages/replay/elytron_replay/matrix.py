"""Every story on every store: the same reports, the same fingerprints, and those that were recorded."""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import JsonValue

from elytron.models.scripted import RecordingModel
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.model import Value
from elytron_core.ports.models import LanguageModel
from elytron_core.ports.store import KeyProvider
from elytron_core.strict_json import canonical_bytes, digest
from elytron_replay import engines, fixture, runner
from elytron_replay.comparison import json_diff
from elytron_replay.engines import Engine
from elytron_replay.fixture import Fixture, load, load_cassette, save
from elytron_replay.gates import GateReport
from elytron_replay.runner import Outcome, run_fixture

EXPECTED = "expected"
"""Name of a difference's left side if the fixture itself demands it."""
RECORDED = "recorded"
"""Likewise, for the fingerprints at the fixture's end."""


class Verdict(StrEnum):
    """Result of a fixture on a store."""

    EQUAL = "equal"
    """Every demand met, and the same as the first store throughout."""
    DIFFERS = "differs"
    """Every demand met, but not as the first store met them, or not as recorded."""
    FAILED = "failed"
    """A demand of the fixture was not met."""
    BARRED = "barred"
    """The fixture's profile has no such store, so that it was not run."""


class Recording(StrEnum):
    """Comparison of the recorded fingerprints with those of the first store."""

    EQUAL = "equal"
    DIFFERS = "differs"
    MISSING = "missing"


class StoreDifference(Value):
    """One difference of two sides. `step` is None for the fingerprints at the end."""

    step: int | None
    operation: str
    path: str
    left_side: str
    left: str
    right_side: str
    right: str


class MatrixRow(Value):
    """One story and what each store made of it."""

    fixture: str
    title: str
    steps: int
    verdicts: dict[str, Verdict]
    fingerprint: str
    """One digest over the fingerprints of all its spaces, from the first store; empty where the story broke off."""
    recording: Recording
    differences: tuple[StoreDifference, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether all stores of its profile, at least one, are equal and the recorded fingerprints hold."""
        return self.recording is Recording.EQUAL and {*self.verdicts.values()} - {Verdict.BARRED} == {Verdict.EQUAL}


class MatrixReport(Value):
    """All stories on all stores."""

    stores: tuple[str, ...]
    rows: tuple[MatrixRow, ...]

    @property
    def ok(self) -> bool:
        """Return whether there was a fixture, and every one is equal on all stores and as recorded."""
        return bool(self.rows) and all(row.ok for row in self.rows)


async def run_matrix(
    fixtures: Sequence[Path],
    stores: Sequence[str | Engine] = engines.DEFAULT_STORES,
    /,
    *,
    keys: KeyProvider | None = None,
) -> MatrixReport:
    """Tell every fixture to every store and compare step by step; the first store is what others are held against.

    Stores are named as `engines.engine` knows them, or are engines of the caller's own. Raises UnreadableFile before
    anything runs where a fixture is not well formed, InvalidInput for a store that is none.
    """
    return await compare(fixtures, engines.engines(stores, keys=keys))


async def compare(fixtures: Sequence[Path], stores: Sequence[Engine], /) -> MatrixReport:
    """Do what `run_matrix` does on engines of the caller's own."""
    _require(stores)
    loaded = [(path, _load(path)) for path in fixtures]
    rows = [await _row(fixture, path, stores) for path, fixture in loaded]
    return MatrixReport(stores=tuple(store.name for store in stores), rows=tuple(rows))


async def record(
    fixtures: Sequence[Path],
    stores: Sequence[str | Engine] = engines.DEFAULT_STORES,
    /,
    *,
    keys: KeyProvider | None = None,
    model: LanguageModel | None = None,
) -> MatrixReport:
    """Write into each fixture the fingerprints on which all stores agree; return the report after that.

    A fixture with an unmet demand or a difference between stores keeps what was recorded before. With `model`, what a
    fixture's cassette lacks is asked of it first, and the cassette then holds just the calls of the story.
    """
    named = engines.engines(stores, keys=keys)
    _require(named)
    for path in fixtures:
        fixture = _load(path)
        if model is not None and fixture.cassette is not None:
            await _record_model(fixture, path.parent, _admitted(fixture, named)[:1], model)
        outcomes = [await run_fixture(fixture, store, beside=path.parent) for store in _admitted(fixture, named)]
        if outcomes and not list(_demands(fixture, outcomes)) and not list(_between(fixture, outcomes)):
            _write_expected(path, outcomes[0])
    return await compare(fixtures, named)


async def _record_model(fixture: Fixture, beside: Path, stores: Sequence[Engine], model: LanguageModel) -> None:
    assert fixture.cassette is not None
    path = beside / fixture.cassette
    recording = RecordingModel(model, cassette=load_cassette(path) if path.exists() else None)
    for store in stores:
        await run_fixture(fixture, store, beside=beside, model=recording)
    save(path, recording.cassette)


def _admitted(fixture: Fixture, stores: Sequence[Engine]) -> list[Engine]:
    """Return those of `stores` that the fixture's profile has."""
    return [store for store in stores if store.is_in(fixture.profile)]


def _require(stores: Sequence[Engine]) -> None:
    if not stores:
        raise InvalidInput(field="stores", problem="are missing: name at least one")


def _load(path: Path) -> Fixture:
    fixture = load(path)
    known = runner.names()
    for number, step in enumerate(fixture.steps, 1):
        if step.op not in known:
            problem = f"step {number}: {step.op!r} is no operation; there are {', '.join(known)}"
            raise UnreadableFile(name=path.name, problem=problem)
    return fixture


async def _row(fixture: Fixture, path: Path, stores: Sequence[Engine]) -> MatrixRow:
    outcomes = [await run_fixture(fixture, store, beside=path.parent) for store in _admitted(fixture, stores)]
    unmet = list(_demands(fixture, outcomes))
    unequal = list(_between(fixture, outcomes))
    unlike_recorded = list(_recorded(fixture, outcomes))
    verdicts = dict.fromkeys((store.name for store in stores), Verdict.BARRED)
    verdicts |= {outcome.store: Verdict.EQUAL for outcome in outcomes}
    verdicts |= {found.right_side: Verdict.DIFFERS for found in (*unequal, *unlike_recorded)}
    verdicts |= {found.right_side: Verdict.FAILED for found in unmet}
    ended = _fingerprints(outcomes[0]) if outcomes else {}
    return MatrixRow(
        fixture=fixture.id,
        title=fixture.title,
        steps=len(fixture.steps),
        verdicts=verdicts,
        fingerprint=digest(canonical_bytes(ended)) if ended else "",
        recording=_recording(fixture, unlike_recorded),
        differences=(*unmet, *unequal, *unlike_recorded),
    )


def _recording(fixture: Fixture, unlike_recorded: Sequence[StoreDifference]) -> Recording:
    if set(fixture.expected) != set(fixture.spaces):
        return Recording.MISSING
    return Recording.DIFFERS if unlike_recorded else Recording.EQUAL


def _demands(fixture: Fixture, outcomes: Sequence[Outcome]) -> Iterator[StoreDifference]:
    """Yield what the fixture demands and a store did not give."""
    for outcome in outcomes:
        for told in outcome.steps:
            for found in told.problems:
                yield _difference(fixture, told.number, found, EXPECTED, outcome.store)


def _between(fixture: Fixture, outcomes: Sequence[Outcome]) -> Iterator[StoreDifference]:
    """Yield where another store's reports or fingerprints are not the first one's."""
    for first, other in ((outcomes[0], other) for other in outcomes[1:]):
        # A run that broke off is compared up to its end; the early end is itself a difference.
        for one, two in zip(first.steps, other.steps, strict=False):
            for found in json_diff.differences(one.report, two.report):
                yield _difference(fixture, one.number, found, first.store, other.store)
        ends: list[JsonValue] = [
            {"ended_at": outcome.ended_at, "fingerprints": _fingerprints(outcome)} for outcome in (first, other)
        ]
        for found in json_diff.differences(*ends):
            yield _difference(fixture, None, found, first.store, other.store)


def _recorded(fixture: Fixture, outcomes: Sequence[Outcome]) -> Iterator[StoreDifference]:
    """Yield where the recorded fingerprints are not those of a store; what was never recorded is no difference."""
    recorded: dict[str, JsonValue] = {space: kept.model_dump() for space, kept in fixture.expected.items()}
    for outcome in outcomes:
        ended = {space: found for space, found in _fingerprints(outcome).items() if space in recorded}
        for found in json_diff.differences(recorded, ended, path="fingerprints"):
            yield _difference(fixture, None, found, RECORDED, outcome.store)


def _fingerprints(outcome: Outcome) -> dict[str, JsonValue]:
    return {space: found.model_dump() for space, found in outcome.fingerprints.items()}


def _difference(
    fixture: Fixture, step: int | None, found: json_diff.Difference, left_side: str, right_side: str
) -> StoreDifference:
    return StoreDifference(
        step=step,
        operation=fixture.steps[step - 1].op if step is not None else "",
        path=found.path,
        left_side=left_side,
        left=found.left,
        right_side=right_side,
        right=found.right,
    )


def _write_expected(path: Path, outcome: Outcome) -> None:
    kept: Mapping[str, JsonValue] = json.loads(path.read_text("utf-8"))
    written = fixture.write_out({**kept, "expected": _fingerprints(outcome)})
    if written != path.read_text("utf-8"):
        path.write_text(written, "utf-8")


FINGERPRINT_DIGITS = 12
SHOWN_PER_FIXTURE = 20
HEADINGS = ("fixture", "fingerprint")


def render(report: MatrixReport, /) -> str:
    """Return `report` as a table of fixtures by stores, followed by what differs; it ends without a line break."""
    first, last = HEADINGS
    table = [(first, *report.stores, last), *(_line(row, report.stores) for row in report.rows)]
    equal = sum(row.ok for row in report.rows)
    lines = [*_columns(table), "", f"{equal} of {len(report.rows)} fixtures equal on {', '.join(report.stores)}"]
    for row in report.rows:
        lines += _differences(row)
    return "\n".join(lines)


def render_gate(report: GateReport, /) -> str:
    """Return `report` as a table of operations and the fixtures that exercise them, and what is missing."""
    exercised = report.exercised.items()
    rows = [(name, str(len(found)), "demanded" if name in report.demanded else "") for name, found in exercised]
    table = [("operation", "fixtures", ""), *rows]
    verdict = "every demanded operation is exercised" if report.ok else f"not exercised: {', '.join(report.missing)}"
    return "\n".join((*_columns(table), "", verdict))


def _line(row: MatrixRow, stores: Sequence[str]) -> tuple[str, ...]:
    fingerprint = f"{row.fingerprint[:FINGERPRINT_DIGITS] or '-'} {row.recording.value}"
    return (row.fixture, *(row.verdicts[store].value for store in stores), fingerprint)


def _columns(table: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _differences(row: MatrixRow) -> Iterator[str]:
    if row.ok:
        return
    yield ""
    yield f"{row.fixture}: {row.title}"
    if not row.differences:
        yield "  no fingerprints are recorded: look at the story, then run `elytron replay --record`"
    for found in row.differences[:SHOWN_PER_FIXTURE]:
        yield from _difference_text(found)
    left = len(row.differences) - SHOWN_PER_FIXTURE
    if left > 0:
        yield f"  and {left} more"


def _difference_text(found: StoreDifference) -> Iterator[str]:
    place = f"step {found.step} ({found.operation})" if found.step is not None else "at the end"
    width = max(len(found.left_side), len(found.right_side))
    yield f"  {place}: {found.path or 'the whole report'}"
    yield f"    {found.left_side.ljust(width)}  {found.left}"
    yield f"    {found.right_side.ljust(width)}  {found.right}"
