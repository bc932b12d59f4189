"""Run every fixture on every store and require equal reports and the recorded fingerprints."""

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
from elytron_core.strict_json import canonical_bytes, sha256_digest
from elytron_replay import fixture, runner
from elytron_replay.comparison import JsonDifference, json_differences
from elytron_replay.fixture import Fixture, load_cassette, load_fixture, save_cassette
from elytron_replay.gates import GateReport
from elytron_replay.runner import FixtureOutcome, ReplayEngine, run_fixture

EXPECTED = "expected"
"""Name of a difference's left side if the fixture itself states the expectation."""
RECORDED = "recorded"
"""Name of a difference's left side if it is the fixture's recorded fingerprints."""


class FixtureVerdict(StrEnum):
    """The result of a fixture on a store."""

    EQUAL = "equal"
    """Every expectation was met, and every result equals that of the first store."""
    DIFFERS = "differs"
    """Every expectation was met, but a result differs from the first store or from the recording."""
    FAILED = "failed"
    """An expectation of the fixture was not met."""
    BARRED = "barred"
    """The fixture's profile does not admit this store, so the fixture was not run."""


class FingerprintRecording(StrEnum):
    """How the recorded fingerprints compare with those of the first store."""

    EQUAL = "equal"
    DIFFERS = "differs"
    MISSING = "missing"


class StoreDifference(Value):
    """One difference between two sides. `step` is None for the fingerprints at the end."""

    step: int | None
    operation: str
    path: str
    left_side: str
    left: str
    right_side: str
    right: str


class MatrixRow(Value):
    """The results of one fixture on all stores."""

    fixture: str
    title: str
    steps: int
    verdicts: dict[str, FixtureVerdict]
    fingerprint: str
    """A digest of the fingerprints of all spaces on the first store; empty if the run ended early."""
    recording: FingerprintRecording
    differences: tuple[StoreDifference, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether at least one store ran the fixture, all of them agree, and the recorded fingerprints match."""
        return self.recording is FingerprintRecording.EQUAL and {*self.verdicts.values()} - {FixtureVerdict.BARRED} == {
            FixtureVerdict.EQUAL
        }


class MatrixReport(Value):
    """The results of all fixtures on all stores."""

    stores: tuple[str, ...]
    rows: tuple[MatrixRow, ...]

    @property
    def ok(self) -> bool:
        """Return whether there was at least one fixture, and all are equal on every store and as recorded."""
        return bool(self.rows) and all(row.ok for row in self.rows)


async def run_matrix(
    fixtures: Sequence[Path],
    stores: Sequence[str | ReplayEngine] = runner.DEFAULT_STORES,
    /,
    *,
    keys: KeyProvider | None = None,
) -> MatrixReport:
    """Run every fixture on every store and compare each step with that of the first store.

    `stores` holds names that `named_engine` accepts, or the caller's own engines. Raises UnreadableFile for a malformed
    fixture, before anything runs, and InvalidInput for an unknown store.
    """
    return await compare_stores(fixtures, runner.named_engines(stores, keys=keys))


async def compare_stores(fixtures: Sequence[Path], stores: Sequence[ReplayEngine], /) -> MatrixReport:
    """Do the same as `run_matrix` with engines instead of names."""
    _require_stores(stores)
    loaded_fixtures = [(path, _load_named(path)) for path in fixtures]
    rows = [await _fixture_row(fixture, path, stores) for path, fixture in loaded_fixtures]
    return MatrixReport(stores=tuple(store.name for store in stores), rows=tuple(rows))


async def record_fingerprints(
    fixtures: Sequence[Path],
    stores: Sequence[str | ReplayEngine] = runner.DEFAULT_STORES,
    /,
    *,
    keys: KeyProvider | None = None,
    model: LanguageModel | None = None,
) -> MatrixReport:
    """Record in each fixture the fingerprints on which all stores agree, and return the report of a run after that.

    A fixture with an unmet expectation or a difference between stores keeps its previous recording. With `model`, calls
    that a fixture's cassette lacks are first made to that model, and the cassette then holds exactly the fixture's
    calls.
    """
    engines = runner.named_engines(stores, keys=keys)
    _require_stores(engines)
    for path in fixtures:
        fixture = _load_named(path)
        # One store is enough, because a fixture makes the same model calls on each.
        if model is not None and fixture.cassette is not None:
            await _record_model(fixture, path.parent, _admitted_engines(fixture, engines)[:1], model)
        outcomes = [
            await run_fixture(fixture, store, beside=path.parent) for store in _admitted_engines(fixture, engines)
        ]
        if (
            outcomes
            and not list(_demand_differences(fixture, outcomes))
            and not list(_store_differences(fixture, outcomes))
        ):
            _write_expected(path, outcomes[0])
    return await compare_stores(fixtures, engines)


async def _record_model(fixture: Fixture, beside: Path, stores: Sequence[ReplayEngine], model: LanguageModel) -> None:
    assert fixture.cassette is not None
    path = beside / fixture.cassette
    recording = RecordingModel(model, cassette=load_cassette(path) if path.exists() else None)
    for store in stores:
        await run_fixture(fixture, store, beside=beside, model=recording)
    save_cassette(path, recording.cassette)


def _admitted_engines(fixture: Fixture, stores: Sequence[ReplayEngine]) -> list[ReplayEngine]:
    """Return those of `stores` that the fixture's profile admits."""
    return [store for store in stores if store.is_in(fixture.profile)]


def _require_stores(stores: Sequence[ReplayEngine]) -> None:
    if not stores:
        raise InvalidInput(field="stores", problem="are missing: name at least one")


def _load_named(path: Path) -> Fixture:
    fixture = load_fixture(path)
    operations = runner.operation_names()
    for number, step in enumerate(fixture.steps, 1):
        if step.op not in operations:
            problem = f"step {number}: {step.op!r} is not an operation; choose from {', '.join(operations)}"
            raise UnreadableFile(name=path.name, problem=problem)
    return fixture


async def _fixture_row(fixture: Fixture, path: Path, stores: Sequence[ReplayEngine]) -> MatrixRow:
    outcomes = [await run_fixture(fixture, store, beside=path.parent) for store in _admitted_engines(fixture, stores)]
    unmet_expectations = list(_demand_differences(fixture, outcomes))
    unequal_results = list(_store_differences(fixture, outcomes))
    unlike_recorded = list(_recorded_differences(fixture, outcomes))
    # Later assignments win: a failure outweighs a difference.
    verdicts = dict.fromkeys((store.name for store in stores), FixtureVerdict.BARRED)
    verdicts |= {outcome.store: FixtureVerdict.EQUAL for outcome in outcomes}
    verdicts |= {difference.right_side: FixtureVerdict.DIFFERS for difference in (*unequal_results, *unlike_recorded)}
    verdicts |= {difference.right_side: FixtureVerdict.FAILED for difference in unmet_expectations}
    end_fingerprints = _outcome_fingerprints(outcomes[0]) if outcomes else {}
    return MatrixRow(
        fixture=fixture.id,
        title=fixture.title,
        steps=len(fixture.steps),
        verdicts=verdicts,
        fingerprint=sha256_digest(canonical_bytes(end_fingerprints)) if end_fingerprints else "",
        recording=_compare_recording(fixture, unlike_recorded),
        differences=(*unmet_expectations, *unequal_results, *unlike_recorded),
    )


def _compare_recording(fixture: Fixture, unlike_recorded: Sequence[StoreDifference]) -> FingerprintRecording:
    if set(fixture.expected) != set(fixture.spaces):
        return FingerprintRecording.MISSING
    return FingerprintRecording.DIFFERS if unlike_recorded else FingerprintRecording.EQUAL


def _demand_differences(fixture: Fixture, outcomes: Sequence[FixtureOutcome]) -> Iterator[StoreDifference]:
    """Yield the fixture's expectations that a store did not meet."""
    for outcome in outcomes:
        for step in outcome.steps:
            for problem in step.problems:
                yield _step_difference(fixture, step.number, problem, EXPECTED, outcome.store)


def _store_differences(fixture: Fixture, outcomes: Sequence[FixtureOutcome]) -> Iterator[StoreDifference]:
    """Yield where the reports or fingerprints of a store differ from those of the first."""
    for first_outcome, other_outcome in ((outcomes[0], other_outcome) for other_outcome in outcomes[1:]):
        # A run that ended early is compared up to its end; the early end is itself a difference.
        for first_step, other_step in zip(first_outcome.steps, other_outcome.steps, strict=False):
            for difference in json_differences(first_step.report, other_step.report):
                yield _step_difference(fixture, first_step.number, difference, first_outcome.store, other_outcome.store)
        end_states: list[JsonValue] = [
            {"ended_at": outcome.ended_at, "fingerprints": _outcome_fingerprints(outcome)}
            for outcome in (first_outcome, other_outcome)
        ]
        for difference in json_differences(*end_states):
            yield _step_difference(fixture, None, difference, first_outcome.store, other_outcome.store)


def _recorded_differences(fixture: Fixture, outcomes: Sequence[FixtureOutcome]) -> Iterator[StoreDifference]:
    """Yield where a store's fingerprints differ from the recorded ones. Without a recording there is no difference."""
    recorded_fingerprints: dict[str, JsonValue] = {
        space: fingerprint.model_dump() for space, fingerprint in fixture.expected.items()
    }
    for outcome in outcomes:
        end_fingerprints = {
            space: difference
            for space, difference in _outcome_fingerprints(outcome).items()
            if space in recorded_fingerprints
        }
        for difference in json_differences(recorded_fingerprints, end_fingerprints, path="fingerprints"):
            yield _step_difference(fixture, None, difference, RECORDED, outcome.store)


def _outcome_fingerprints(outcome: FixtureOutcome) -> dict[str, JsonValue]:
    return {space: fingerprint.model_dump() for space, fingerprint in outcome.fingerprints.items()}


def _step_difference(
    fixture: Fixture, step: int | None, difference: JsonDifference, left_side: str, right_side: str
) -> StoreDifference:
    return StoreDifference(
        step=step,
        operation=fixture.steps[step - 1].op if step is not None else "",
        path=difference.path,
        left_side=left_side,
        left=difference.left,
        right_side=right_side,
        right=difference.right,
    )


def _write_expected(path: Path, outcome: FixtureOutcome) -> None:
    fields: Mapping[str, JsonValue] = json.loads(path.read_text("utf-8"))
    text = fixture.write_out({**fields, "expected": _outcome_fingerprints(outcome)})
    if text != path.read_text("utf-8"):
        path.write_text(text, "utf-8")


FINGERPRINT_DIGITS = 12
SHOWN_PER_FIXTURE = 20
HEADINGS = ("fixture", "fingerprint")


def render_matrix(report: MatrixReport, /) -> str:
    """Return a table of fixtures by stores, followed by the differences, without a trailing newline."""
    first_heading, last_heading = HEADINGS
    table = [(first_heading, *report.stores, last_heading), *(_row_line(row, report.stores) for row in report.rows)]
    equal_count = sum(row.ok for row in report.rows)
    lines = [
        *_align_columns(table),
        "",
        f"{equal_count} of {len(report.rows)} fixtures equal on {', '.join(report.stores)}",
    ]
    for row in report.rows:
        lines += _difference_lines(row)
    return "\n".join(lines)


def render_gate(report: GateReport, /) -> str:
    """Return a table of operations and the fixtures that cover them, followed by what is missing."""
    fixtures_by_operation = report.exercised.items()
    rows = [
        (name, str(len(fixtures)), "demanded" if name in report.demanded else "")
        for name, fixtures in fixtures_by_operation
    ]
    table = [("operation", "fixtures", ""), *rows]
    verdict = "every required operation is covered" if report.ok else f"not covered: {', '.join(report.missing)}"
    return "\n".join((*_align_columns(table), "", verdict))


def _row_line(row: MatrixRow, stores: Sequence[str]) -> tuple[str, ...]:
    fingerprint = f"{row.fingerprint[:FINGERPRINT_DIGITS] or '-'} {row.recording.value}"
    return (row.fixture, *(row.verdicts[store].value for store in stores), fingerprint)


def _align_columns(table: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _difference_lines(row: MatrixRow) -> Iterator[str]:
    if row.ok:
        return
    yield ""
    yield f"{row.fixture}: {row.title}"
    if not row.differences:
        yield "  no fingerprints are recorded: review the fixture, then run `elytron replay --record`"
    for difference in row.differences[:SHOWN_PER_FIXTURE]:
        yield from _difference_text(difference)
    hidden_count = len(row.differences) - SHOWN_PER_FIXTURE
    if hidden_count > 0:
        yield f"  and {hidden_count} more"


def _difference_text(difference: StoreDifference) -> Iterator[str]:
    location = f"step {difference.step} ({difference.operation})" if difference.step is not None else "at the end"
    width = max(len(difference.left_side), len(difference.right_side))
    yield f"  {location}: {difference.path or 'the whole report'}"
    yield f"    {difference.left_side.ljust(width)}  {difference.left}"
    yield f"    {difference.right_side.ljust(width)}  {difference.right}"
