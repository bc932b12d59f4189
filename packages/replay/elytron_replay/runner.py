"""Run a fixture on one store and collect each step's report, its unmet expectations and the final fingerprints."""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import TracebackType
from typing import Protocol, Self

from pydantic import JsonValue

import elytron
from elytron import MemoryRuntime
from elytron.registry import OPERATIONS, by_name
from elytron.writes.facts import keep_all_uses
from elytron_adapter import envelope
from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.contracts.archive import ImportMode, MemoryImportRequest, MemorySpaceExportRequest
from elytron_core.contracts.inspection import MemoryInspectionRequest
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.ids import IdSource, SpaceId
from elytron_core.model import Value
from elytron_core.policy.platform.profiles import profile_of
from elytron_core.ports.models import LanguageModel
from elytron_core.ports.store import KeyProvider
from elytron_core.profiles import ProfileName
from elytron_core.scope import Scope
from elytron_replay import comparison
from elytron_replay.comparison import ABSENT, JsonDifference, normalise_report, shown_json
from elytron_replay.fixture import (
    Fixture,
    FixtureStep,
    FixtureTelling,
    SpaceFingerprints,
    StartingArchive,
    StoreReopening,
    model_of,
)

SEALED = "+sealed"
URLS: Mapping[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory:",
    "file": lambda folder: f"file://{folder}/store",
    "sqlite": lambda folder: f"sqlite:///{folder}/store.db",
    "embedded": lambda folder: f"embedded://{folder}/store",
}
DEFAULT_STORES = tuple(URLS)


class StoreOpener(Protocol):
    """Opens the store in a folder, and creates it if it does not exist."""

    def __call__(
        self,
        folder: Path,
        /,
        *,
        scope: Scope | None,
        clock: Clock,
        ids: IdSource,
        language_model: LanguageModel | None = None,
        profile: ProfileName | None = None,
    ) -> AbstractAsyncContextManager[MemoryRuntime]: ...


@dataclass(frozen=True, slots=True)
class ReplayEngine:
    """A named store. If it is not `durable`, its content is carried across a reopening in archives.

    `kind` is the store's name in profiles, which may admit only some kinds.
    """

    name: str
    open: StoreOpener
    durable: bool = True
    kind: str = "given"

    def is_in(self, profile: ProfileName | None, /) -> bool:
        """Return whether `profile` admits this store."""
        admitted_engines = profile_of(profile).engines if profile is not None else ()
        return not admitted_engines or self.kind in admitted_engines


def named_engine(name: str, /, *, keys: KeyProvider | None = None) -> ReplayEngine:
    """Return the engine called `name`. A sealed one uses `keys`, or else a key that is never stored.

    Raises InvalidInput for an unknown name.
    """
    base_name = name.removesuffix(SEALED)
    if base_name not in URLS:
        names = ", ".join((*URLS, *(f"{store}{SEALED}" for store in URLS)))
        raise InvalidInput(field="store", problem=f"{name!r} is not a replay store; choose from {names}")
    sealing = (keys or passing_key()) if base_name != name else None

    def opener(
        folder: Path,
        /,
        *,
        scope: Scope | None,
        clock: Clock,
        ids: IdSource,
        language_model: LanguageModel | None = None,
        profile: ProfileName | None = None,
    ) -> AbstractAsyncContextManager[MemoryRuntime]:
        url = URLS[base_name](folder)
        return elytron.open(
            url,
            space=None,
            scope=scope,
            keys=sealing,
            clock=clock,
            ids=ids,
            language_model=language_model,
            profile=profile,
        )

    return ReplayEngine(name, opener, durable=base_name != "memory", kind=base_name)


def named_engines(stores: Sequence[str | ReplayEngine], /, *, keys: KeyProvider | None = None) -> list[ReplayEngine]:
    """Return `stores` with every name replaced by its engine. Raises InvalidInput."""
    return [named_engine(store, keys=keys) if isinstance(store, str) else store for store in stores]


def passing_key() -> KeyProvider:
    """Return a key that is never stored."""
    from elytron_store.sealed.providers import LocalKeys

    return LocalKeys({"replay": secrets.token_bytes(32)}, current="replay")


MANDATORY = ("write", "recall", "project", "inspect")
"""Operations that every set of fixtures must cover."""
CLOSE = "close"


def operation_names() -> tuple[str, ...]:
    """Return the names of all registered operations, in order."""
    return tuple(operation.name for operation in OPERATIONS)


async def call_operation(runtime: MemoryRuntime, name: str, request: dict[str, JsonValue], /) -> JsonValue:
    """Run the operation `name` as a transport would and return its report as JSON. Raises what the operation raises."""
    operation = by_name(name)
    decoded_request = envelope.decode_request(operation, json.dumps(request).encode())
    report: Value = await runtime.operate(decoded_request)
    return report.model_dump(mode="json")


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of one step: its normalised report and the expectations that it does not meet."""

    number: int
    report: JsonValue
    problems: tuple[JsonDifference, ...] = ()
    elapsed_ms: float = field(default=0.0, compare=False)
    """Duration of the step, which is not compared."""


@dataclass(frozen=True, slots=True)
class FixtureOutcome:
    """The result of a fixture on a store. `ended_at` is the step that failed; later steps were not run."""

    store: str
    steps: tuple[StepResult, ...]
    fingerprints: Mapping[str, SpaceFingerprints]
    ended_at: int | None = None

    @property
    def ok(self) -> bool:
        """Return whether every step met its expectations."""
        return self.ended_at is None and not any(step.problems for step in self.steps)


async def run_fixture(
    fixture: Fixture, engine: ReplayEngine, /, *, beside: Path | None = None, model: LanguageModel | None = None
) -> FixtureOutcome:
    """Run `fixture` on a fresh store of `engine` and return the result. Nothing remains on disk.

    `beside` is the folder of the fixture's file, which holds its starting archive and cassette. The fixture determines
    time and ids, so every run is the same. A language model answers from the cassette, unless `model` is passed.
    """
    with TemporaryDirectory(prefix="elytron-replay-") as folder_name:
        folder = Path(folder_name)
        telling = FixtureTelling(fixture)
        language_model = model or model_of(fixture, beside=beside or Path())
        async with _FixtureStage(fixture, engine, telling, folder, language_model) as stage:
            if fixture.archive is not None:
                await _begin_with(stage, fixture.archive, beside or Path())
            steps, ended_at = await _tell_steps(fixture, stage, telling, folder)
            telling.begin(len(fixture.steps) + 1, None)
            fingerprints = await stage.fingerprints() if ended_at is None else {}
            return FixtureOutcome(engine.name, steps, fingerprints, ended_at)


class _FixtureStage:
    """The runtime that a fixture runs on, reopened when the fixture asks for it."""

    def __init__(
        self,
        fixture: Fixture,
        engine: ReplayEngine,
        telling: FixtureTelling,
        folder: Path,
        model: LanguageModel | None,
        /,
    ) -> None:
        self._fixture = fixture
        self._engine = engine
        self._telling = telling
        self._folder = folder
        self._model = model
        self._crashed = AsyncExitStack()
        self._open = AsyncExitStack()
        self._runtime: MemoryRuntime | None = None
        self._carried: Mapping[SpaceId, str] = {}
        self._is_closed = False

    @property
    def runtime(self) -> MemoryRuntime:
        assert self._runtime is not None
        return self._runtime

    async def __aenter__(self) -> Self:
        await self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A crashed runtime is released only now, after the store was read in the state in which it was left.
        await self._open.aclose()
        await self._crashed.aclose()

    async def reopen(self, how: StoreReopening, /) -> None:
        """Leave the store in the state `how` and open it again."""
        if not self._is_closed:
            await self._carry(how)
        if how is StoreReopening.CRASHED:
            self._crashed.push_async_exit(self._open.pop_all())
        else:
            await self._open.aclose()
        await self._enter()
        for space, archive in self._carried.items():
            request = MemoryImportRequest(scope=Scope(space=space), path=archive, mode=ImportMode.FULL_RESTORE)
            await self.runtime.import_archive(request)

    async def before_close(self) -> None:
        """Prepare for a step that closes the runtime itself; afterwards it can only be reopened."""
        if not self._is_closed:
            await self._carry(StoreReopening.CLOSED)
        self._is_closed = True

    async def _carry(self, how: StoreReopening) -> None:
        """Export the content of a store that is not durable, so that the next opening can import it."""
        archive_paths: dict[SpaceId, str] = {}
        if not self._engine.durable and how is StoreReopening.CLOSED:
            # The archive must also contain the documents that closing the runtime would store.
            await keep_all_uses(self.runtime.context, within_s=limits.CLOSE_WAIT_S)
        for number, space in enumerate(() if self._engine.durable else self._fixture.spaces):
            scope = Scope(space=space)
            if (await self.runtime.inspect(MemoryInspectionRequest(scope=scope))).exists:
                path = str(self._folder / f"carried-{number}")
                await self.runtime.export(
                    MemorySpaceExportRequest(scope=scope, path=path, overwrite=True, include_private=True)
                )
                archive_paths[space] = path
        self._carried = archive_paths

    async def fingerprints(self) -> dict[str, SpaceFingerprints]:
        """Return the fingerprints of each space of the fixture."""
        if self._is_closed:
            await self.reopen(StoreReopening.CLOSED)
        reports = {
            space: await self.runtime.inspect(MemoryInspectionRequest(scope=Scope(space=space), fingerprints=True))
            for space in self._fixture.spaces
        }
        return {
            space: SpaceFingerprints(state=report.state_fingerprint, events=report.event_fingerprint)
            for space, report in reports.items()
        }

    async def _enter(self) -> None:
        opening = self._engine.open(
            self._folder,
            scope=self._fixture.scope,
            clock=self._telling.clock,
            ids=self._telling.ids,
            language_model=self._model,
            profile=self._fixture.profile,
        )
        self._is_closed = False
        self._runtime = await self._open.enter_async_context(opening)


async def _begin_with(stage: _FixtureStage, archive: StartingArchive, beside: Path) -> None:
    request = MemoryImportRequest(scope=Scope(space=archive.space), path=str(beside / archive.path))
    await stage.runtime.import_archive(request)


async def _tell_steps(
    fixture: Fixture, stage: _FixtureStage, telling: FixtureTelling, folder: Path
) -> tuple[tuple[StepResult, ...], int | None]:
    values: dict[str, JsonValue] = {comparison.TMP: str(folder)}
    steps: list[StepResult] = []
    for number, step in enumerate(fixture.steps, 1):
        telling.begin(number, step)
        if step.reopen is not None:
            await stage.reopen(step.reopen)
            # Opening may have consumed ids, and how many depends on the store.
            telling.ids.begin(number)
        if step.op == CLOSE:
            await stage.before_close()
        start_s = perf_counter()
        report, error = await _do_step(step, stage.runtime, values)
        elapsed_ms = (perf_counter() - start_s) * 1000
        problems = tuple(_step_problems(step, report, error, values))
        steps.append(StepResult(number, normalise_report(report, folder=folder), problems, elapsed_ms))
        # A step with the wrong outcome may not have saved its names, so the run cannot continue.
        if error != step.error:
            return tuple(steps), number
        for name, path in step.save.items():
            try:
                values[name] = comparison.pick_value(report, path)
            except KeyError:
                steps[-1] = StepResult(
                    number, steps[-1].report, (*problems, JsonDifference(f"save.{name}", path, ABSENT))
                )
                return tuple(steps), number
    return tuple(steps), None


async def _do_step(
    step: FixtureStep, runtime: MemoryRuntime, values: Mapping[str, JsonValue]
) -> tuple[JsonValue, str | None]:
    """Run one step and return its report and None, or its error's details and key."""
    try:
        request = comparison.resolve_references(step.request, values)
        assert isinstance(request, dict)
        return await call_operation(runtime, step.op, request), None
    except ElytronError as error:
        return {"error": error.key, "message": error.message, **error.details()}, error.key


def _step_problems(
    step: FixtureStep, report: JsonValue, error: str | None, values: Mapping[str, JsonValue]
) -> Iterator[JsonDifference]:
    if error != step.error:
        expected_error = f"the error {step.error!r}" if step.error is not None else "a report"
        yield JsonDifference("", expected_error, shown_json(report))
        return
    try:
        expected = comparison.resolve_references(step.expect, values)
    except InvalidInput as problem:
        yield JsonDifference("expect", "valid references", str(problem))
        return
    yield from comparison.find_mismatches(expected, report)
    yield from comparison.find_shortfalls(step.minimum, report)
