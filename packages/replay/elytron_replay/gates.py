"""The benchmark wall: measure a memory's quality with fixtures on a real runtime, and compare it with thresholds."""

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from elytron_core import limits
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.model import Value
from elytron_core.ports.store import KeyProvider
from elytron_core.scope import Scope
from elytron_replay import comparison, runner
from elytron_replay.fixture import Fixture, FixtureStep, Object, ReportPath, Slug, StoryClock, load_fixture, value_in
from elytron_replay.runner import FixtureOutcome, ReplayEngine, StepResult, run_fixture

NOISE = {"compact": 8, "full": 160}
"""Number of messages from another conversation that are added around a case, by size."""
WHOLE = 10_000
"""One hundred percent in basis points."""


class WallKind(StrEnum):
    """Kind of measured quality."""

    MULTI_SESSION_RECALL = "multi_session_recall"
    TEMPORAL_UPDATE = "temporal_update"
    SUBJECT_PROJECTION = "subject_projection"
    SOUL_REGRESSION = "soul_regression"
    PROCEDURAL_REUSE = "procedural_reuse"
    PRIVACY_REFUSAL = "privacy_refusal"
    TOOL_EXPERIENCE = "tool_experience"


class WallSize(StrEnum):
    """Amount of unrelated content in the memory."""

    COMPACT = "compact"
    FULL = "full"


class EvaluationSource(StrEnum):
    """Source of the figures. The wall's own figures always come from a real runtime."""

    CONTRACT_BASELINE = "contract_baseline"
    RUNTIME_REPLAY = "runtime_replay"
    GOLDEN_JUDGE = "golden_judge"


class MemoryProbe(Value):
    """A question to the memory: texts that must be returned, and texts that must not appear anywhere in the report."""

    op: Literal["recall", "project"]
    request: Object
    within: ReportPath | None = None
    """Path in the report to search; by default the hits of a recall or the block of a projection."""
    relevant: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return self.within or ("hits" if self.op == "recall" else "system_memory_block")


class WallCase(Value):
    """A story and the questions at its end."""

    format: Literal["elytron.wall"]
    version: Literal[1]
    id: Slug
    kind: WallKind
    title: Annotated[str, Field(min_length=1, max_length=limits.REASON_CHARS)]
    scope: Scope
    clock: StoryClock
    noise: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)] | None = None
    """A file of messages, as JSON lines with `name` and `content`, relative to the case's folder."""
    steps: Annotated[tuple[FixtureStep, ...], Field(min_length=1, max_length=400)]
    probes: Annotated[tuple[MemoryProbe, ...], Field(min_length=1, max_length=64)]


class CaseMetrics(Value):
    """The result of a case: shares in basis points, and sizes."""

    accuracy: int
    """Share of questions that found every relevant text and showed nothing forbidden."""
    precision: int
    """Share of the top ranks that hold something relevant."""
    faithfulness: int
    """Share of blocks in which every line agrees with its memory."""
    reuse: int
    """Share of questions about a procedure or tool that were answered correctly."""
    recall_at_5: int
    recall_at_10: int
    recall_at_20: int
    recall_at_50: int
    mrr: int
    violations: int
    latency_ms: float
    tokens: int
    bytes: int


class CaseThresholds(Value):
    """The minimum shares and maximum sizes of a case."""

    accuracy: int = 9_000
    precision: int = 8_500
    faithfulness: int = 8_500
    reuse: int = 8_500
    violations: int = 0
    latency_ms: float = 500.0
    """Slower answers are reported but do not fail the case, because other load on the machine may cause them."""
    tokens: int = 4_096
    bytes: int = 256 * 1024

    def shortfalls(self, metrics: CaseMetrics, /) -> tuple[str, ...]:
        """Return each figure that misses its threshold, by name with both values."""
        minimum_figures = ("accuracy", "precision", "faithfulness", "reuse")
        maximum_figures = ("violations", "tokens", "bytes")
        low_figures = [name for name in minimum_figures if getattr(metrics, name) < getattr(self, name)]
        high_figures = [name for name in maximum_figures if getattr(metrics, name) > getattr(self, name)]
        return tuple(
            f"{name}: {getattr(metrics, name):g} {'<' if name in low_figures else '>'} {getattr(self, name):g}"
            for name in (*low_figures, *high_figures)
        )


class WallRow(Value):
    """One case at one size on one store."""

    store: str
    case: str
    kind: WallKind
    size: WallSize
    metrics: CaseMetrics | None
    """None if the fixture itself failed."""
    shortfalls: tuple[str, ...] = ()
    is_slow: bool = False
    """True if an answer took longer than the latency threshold."""

    @property
    def ok(self) -> bool:
        return self.metrics is not None and not self.shortfalls


class WallReport(Value):
    """The results of every case at each size on each store, and the kinds that no case measures."""

    stores: tuple[str, ...]
    evaluation_source: EvaluationSource = EvaluationSource.RUNTIME_REPLAY
    rows: tuple[WallRow, ...]
    missing: tuple[WallKind, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether every kind is measured and every case meets its thresholds on every store."""
        return bool(self.rows) and not self.below

    @property
    def below(self) -> tuple[str, ...]:
        """Return the stores on which a case misses a threshold, or all stores if a kind is not measured."""
        failing_stores = {row.store for row in self.rows if not row.ok}
        return tuple(store for store in self.stores if self.missing or store in failing_stores)


async def run_wall(
    cases: Sequence[Path],
    stores: Sequence[str | ReplayEngine] = ("memory",),
    /,
    *,
    keys: KeyProvider | None = None,
    thresholds: CaseThresholds | None = None,
    sizes: Sequence[WallSize] = tuple(WallSize),
) -> WallReport:
    """Run every case on a fresh store of each of `stores` at each size, and compare the answers with the thresholds.

    `stores` holds names that `named_engine` accepts, or the caller's own engines. Raises UnreadableFile for a malformed
    case, before anything runs, and InvalidInput for an unknown store.
    """
    engines = runner.named_engines(stores, keys=keys)
    case_thresholds = thresholds or CaseThresholds()
    loaded_cases = [(path, load_case(path)) for path in cases]
    rows = [
        await _case_row(case, path.parent, engine, size, case_thresholds)
        for engine in engines
        for path, case in loaded_cases
        for size in sizes
    ]
    measured_kinds = {case.kind for _, case in loaded_cases}
    return WallReport(
        stores=tuple(engine.name for engine in engines),
        rows=tuple(rows),
        missing=tuple(kind for kind in WallKind if kind not in measured_kinds),
    )


def load_case(path: Path, /) -> WallCase:
    """Return the case in the file `path`. Raises UnreadableFile."""
    return value_in(path, WallCase)


def render_wall(report: WallReport, /) -> str:
    """Return a table for each store, the cases that miss a threshold, and the stores that were measured."""
    lines = [line for store in report.stores for line in _report_table(store, report)]
    lines += [f"no case measures {kind.value}" for kind in report.missing]
    verdict = f"fails on {', '.join(report.below)}" if report.below else f"passes on {', '.join(report.stores)}"
    slow_count = sum(row.is_slow for row in report.rows)
    lines += (
        [f"{slow_count} cases had slow answers, which do not fail a case because the machine may be busy"]
        if slow_count
        else []
    )
    return "\n".join((*lines, f"the wall {verdict} ({report.evaluation_source.value})"))


def _report_table(store: str, report: WallReport) -> Iterator[str]:
    rows = [row for row in report.rows if row.store == store]
    yield f"{store:<18} {'size':<8} {'accuracy':>8} {'precision':>9} {'mrr':>6} {'bad':>4} {'ms':>6} {'tokens':>6}"
    for row in rows:
        metrics = row.metrics
        figures = (
            f"{metrics.accuracy:>8} {metrics.precision:>9} {metrics.mrr:>6} {metrics.violations:>4} "
            f"{metrics.latency_ms:>6g} {metrics.tokens:>6}"
            if metrics is not None
            else "the fixture did not run as written"
        )
        yield f"{row.case:<18} {row.size.value:<8} {figures}"
    yield from (f"{row.case}, {row.size.value}: {shortfall}" for row in rows for shortfall in row.shortfalls)
    yield ""


async def _case_row(case: WallCase, folder: Path, engine: ReplayEngine, size: WallSize, bar: CaseThresholds) -> WallRow:
    outcome = await run_fixture(_case_fixture(case, folder, size), engine, beside=folder)
    probe_steps = outcome.steps[len(outcome.steps) - len(case.probes) :]
    if not outcome.ok:
        metrics, shortfalls = None, tuple(_case_failures(outcome))
    else:
        metrics = measure_case(case.kind, list(zip(case.probes, probe_steps, strict=True)))
        shortfalls = bar.shortfalls(metrics)
    return WallRow(
        store=engine.name,
        case=case.id,
        kind=case.kind,
        size=size,
        metrics=metrics,
        shortfalls=shortfalls,
        is_slow=metrics is not None and metrics.latency_ms > bar.latency_ms,
    )


def _case_failures(outcome: FixtureOutcome) -> Iterator[str]:
    for step in outcome.steps:
        for problem in step.problems:
            yield f"step {step.number}: {problem.path} is {problem.right}, not {problem.left}"


def _case_fixture(case: WallCase, folder: Path, size: WallSize) -> Fixture:
    """Build the fixture for a case: unrelated messages, its own steps, then its questions."""
    noise = _noise_steps(case, folder, NOISE[size]) if case.noise is not None else ()
    questions = tuple(FixtureStep(op=probe.op, request=probe.request) for probe in case.probes)
    return Fixture(
        format="elytron.fixture",
        version=1,
        id=case.id,
        title=case.title,
        spaces=(case.scope.space,),
        scope=case.scope,
        clock=case.clock,
        steps=(*noise, *case.steps, *questions),
    )


def _noise_steps(case: WallCase, folder: Path, count: int) -> tuple[FixtureStep, ...]:
    assert case.noise is not None
    path = folder / case.noise
    try:
        lines = path.read_text("utf-8").splitlines()[:count]
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from None
    turns: list[JsonValue] = []
    for line in lines:
        message = json.loads(line)
        turns.append({"messages": [{"role": "user", "speaker": message["name"], "text": message["content"]}]})
    noise_scope = case.scope.model_copy(update={"conversation": "another person's talk"})
    transcript_write: JsonValue = {"kind": "transcript", "turns": turns}
    return (FixtureStep(op="write", request={"scope": noise_scope.model_dump(mode="json"), "write": transcript_write}),)


def measure_case(kind: WallKind, probes: Sequence[tuple[MemoryProbe, StepResult]], /) -> CaseMetrics:
    """Compute the metrics of a case from its answers; a share of no answers is 100 %."""
    answers = [_ProbeAnswer(probe, step) for probe, step in probes]
    seeking_answers = [answer for answer in answers if answer.probe.relevant]
    block_answers = [answer for answer in answers if answer.probe.op == "project"]
    reuse_answers = seeking_answers if kind in {WallKind.PROCEDURAL_REUSE, WallKind.TOOL_EXPERIENCE} else []
    list_answers = [answer for answer in seeking_answers if answer.is_list]
    return CaseMetrics(
        accuracy=_share_points([answer.is_right for answer in answers]),
        precision=_share_points([answer.precision for answer in list_answers]),
        faithfulness=_share_points([answer.is_faithful for answer in block_answers]),
        reuse=_share_points([answer.is_right for answer in reuse_answers]),
        recall_at_5=_share_points([answer.recall(5) for answer in list_answers]),
        recall_at_10=_share_points([answer.recall(10) for answer in list_answers]),
        recall_at_20=_share_points([answer.recall(20) for answer in list_answers]),
        recall_at_50=_share_points([answer.recall(50) for answer in list_answers]),
        mrr=_share_points([answer.reciprocal_rank for answer in list_answers]),
        violations=sum(answer.violations for answer in answers),
        latency_ms=round(max(step.elapsed_ms for _, step in probes), 1),
        tokens=max(answer.tokens for answer in answers),
        bytes=max(len(json.dumps(step.report).encode()) for _, step in probes),
    )


def _share_points(parts: Sequence[float]) -> int:
    return round(WHOLE * sum(parts) / len(parts)) if parts else WHOLE


class _ProbeAnswer:
    """A report together with the question that produced it."""

    def __init__(self, probe: MemoryProbe, step: StepResult, /) -> None:
        self.probe = probe
        self._whole = json.dumps(step.report, ensure_ascii=False)
        answer_value = comparison.pick_value(step.report, probe.place)
        self.is_list = isinstance(answer_value, list)
        self._items = (
            [_part_text(part) for part in answer_value]
            if isinstance(answer_value, list)
            else [_part_text(answer_value)]
        )
        checks = step.report.get("checks") if isinstance(step.report, dict) else None
        self.is_faithful = not isinstance(checks, dict) or checks.get("faithful") is not False

    @property
    def violations(self) -> int:
        return sum(text in self._whole for text in self.probe.forbidden)

    @property
    def is_right(self) -> bool:
        return not self.violations and self.recall(5) == 1.0

    @property
    def tokens(self) -> int:
        return sum(len(item) for item in self._items) // 4

    @property
    def precision(self) -> float:
        """With n relevant texts, return the share of the first n ranks that hold one."""
        first_items = self._items[: len(self.probe.relevant)]
        return sum(any(text in item for text in self.probe.relevant) for item in first_items) / len(self.probe.relevant)

    @property
    def reciprocal_rank(self) -> float:
        hit_ranks = (
            rank for rank, item in enumerate(self._items, 1) if any(text in item for text in self.probe.relevant)
        )
        return 1 / next(hit_ranks, 1 << 30)

    def recall(self, places: int, /) -> float:
        """Return the share of the relevant texts within the first `places` ranks; a text answer is a single rank."""
        if not self.probe.relevant:
            return 1.0
        first_items = self._items[:places]
        return sum(any(text in item for item in first_items) for text in self.probe.relevant) / len(self.probe.relevant)


def _part_text(part: JsonValue) -> str:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


class GateReport(Value):
    """Coverage of operations by fixtures, and the required operations that no fixture covers."""

    exercised: dict[str, tuple[str, ...]]
    """Each registered operation and the fixtures in which it succeeds; a refused step does not count."""
    demanded: tuple[str, ...]
    """Operations that the fixtures must cover."""
    missing: tuple[str, ...]
    """Required operations that no fixture covers, mandatory ones first."""

    @property
    def ok(self) -> bool:
        """Return whether nothing is missing."""
        return not self.missing


def operation_gate(fixtures: Sequence[Path], /, *, demanded: Sequence[str] = ()) -> GateReport:
    """Return which operations `fixtures` cover, without running them.

    The mandatory operations are always required; `demanded` adds the ones that a host uses in addition. Raises
    UnreadableFile, and InvalidInput for an unknown operation.
    """
    operations = runner.operation_names()
    if not set(demanded) <= {*operations}:
        raise InvalidInput(field="demanded", problem=f"has an unknown operation; choose from {', '.join(operations)}")
    loaded_fixtures = [load_fixture(path) for path in fixtures]
    operation_names = tuple(dict.fromkeys((*runner.MANDATORY, *operations)))
    fixtures_by_operation = {
        name: tuple(
            fixture.id
            for fixture in loaded_fixtures
            if any(step.op == name and step.error is None for step in fixture.steps)
        )
        for name in operation_names
    }
    required_names = tuple(name for name in operation_names if name in {*runner.MANDATORY, *demanded})
    return GateReport(
        exercised=fixtures_by_operation,
        demanded=required_names,
        missing=tuple(name for name in required_names if not fixtures_by_operation[name]),
    )
