"""The work of a pass: its turns, the model if any, and earlier results; and which turns were maintained."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, value_at, values_at
from elytron.jobs.spending_budget import ModelAsker
from elytron.ops.transcript import write_memory
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core import limits
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod, PassOutcome, PassStatus, SkillReuse
from elytron_core.contracts.transcript import MemoryWrite, MemoryWriteReport, MemoryWriteRequest, WriteDecision
from elytron_core.ids import ConversationTag, SpaceId, TurnId
from elytron_core.model import Value
from elytron_core.planes import continuity, jobs, transcript
from elytron_core.planes.facts import FACTS, Fact, is_replaceable
from elytron_core.planes.jobs import NOTHING, MaintainedTurns, MaintenancePass, ModelUsage
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.models import PromptMessage, PromptRole
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.profiles import MemoryPressure
from elytron_core.scope import Scope

ValueT = TypeVar("ValueT", bound=Value)


NEEDS_MODEL = "no_language_model"


MAINTENANCE = "maintenance"
"""The caller in audit trails of maintenance."""


@dataclass(frozen=True, slots=True)
class KnownTurn:
    """A stored turn by its id."""

    id: TurnId
    turn: transcript.Turn


async def _no_cancel() -> None:
    return


@dataclass(slots=True)
class PassWork:
    """One run of maintenance over some turns of a conversation; it collects every decision on a candidate."""

    ctx: OperationContext
    scope: Scope
    record: SpaceRecord
    turns: tuple[KnownTurn, ...]
    extraction: ExtractionMethod
    asker: ModelAsker | None = None
    reuse: SkillReuse | None = None
    pressure: MemoryPressure = MemoryPressure.NORMAL
    leaves_refused: bool = False
    """True if a turn that the model refused counts as unprocessed: its job can be retried."""
    beat: Callable[[], Awaitable[None]] = _no_cancel
    """Called before long work, to renew a lease."""
    decisions: list[WriteDecision] = field(default_factory=list[WriteDecision])

    def __post_init__(self) -> None:
        self.ctx = replace(self.ctx, caller=MAINTENANCE)

    @property
    def space(self) -> SpaceId:
        return self.scope.space

    @property
    def tag(self) -> ConversationTag:
        return self.record.conversation_tag(self.scope.conversation_key)

    @property
    def chars(self) -> int:
        """Return how many characters of messages a model may be shown at once."""
        return self.ctx.profile.budget.maintenance_chars

    @property
    def spent(self) -> ModelUsage:
        return self.asker.spent if self.asker is not None else NOTHING

    async def ask(self, instruction: str, prompt_data: str, shape: type[ValueT], /) -> ValueT:
        """Return the model's result for `prompt_data`. Raises BudgetReached, ModelError."""
        assert self.asker is not None
        await self.beat()
        prompt = (PromptMessage(PromptRole.SYSTEM, instruction), PromptMessage(PromptRole.USER, prompt_data))
        return await self.asker.structured(prompt, shape, max_tokens=limits.MODEL_ANSWER_TOKENS)

    async def write(self, write: MemoryWrite, /, *, key: str | None = None) -> MemoryWriteReport:
        """Write to the conversation, and collect the decisions; what was already written under `key` gives none."""
        request = MemoryWriteRequest(scope=self.scope, write=write, idempotency_key=key)
        report = await write_memory(self.ctx, request)
        if not report.duplicated:
            self.decisions += report.decisions
        return report

    async def state(self) -> continuity.ExecutionState | None:
        """Return the state of the conversation's work; None if it has none, or it is hidden."""
        ref = DocumentRef(continuity.EXECUTION, self.tag)
        execution_state, _ = await value_at(self.ctx.store, self.space, ref, continuity.ExecutionState)
        return execution_state if execution_state is not None and execution_state.forgotten_at is None else None

    async def current_facts(self) -> list[Fact]:
        """Return the space's current facts, newest first."""
        documents = await self.ctx.store.scan(self.space, FACTS, limit=limits.SCAN_MAX, descending=True)
        facts = [Fact.from_bytes(document.body) for document in documents]
        now = self.ctx.clock.now()
        return [fact for fact in facts if is_replaceable(fact, at=now)]


async def read_turns(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, turn_numbers: Sequence[int], /
) -> tuple[KnownTurn, ...]:
    """Return the turns of the scope's conversation with these sequences, except erased ones."""
    tag = record.conversation_tag(scope.conversation_key)
    turn_ids = [transcript.turn_id(tag, sequence) for sequence in turn_numbers]
    refs = [DocumentRef(transcript.TURNS, turn_id) for turn_id in turn_ids]
    turns = await values_at(ctx.store, scope.space, refs, transcript.Turn)
    return tuple(KnownTurn(TurnId(ref.key), turn) for ref, turn in turns.items())


async def read_maintained(ctx: OperationContext, scope: Scope, record: SpaceRecord, /) -> MaintainedTurns:
    """Return which turns of the scope's conversation are processed."""
    ref = DocumentRef(jobs.MAINTAINED, record.conversation_tag(scope.conversation_key))
    progress, _ = await value_at(ctx.store, scope.space, ref, MaintainedTurns)
    return progress or MaintainedTurns()


async def mark_maintained(work: PassWork, turn_numbers: Sequence[int], /, *, waits: bool = False) -> None:
    """Store that these turns are processed, or with `waits` that they wait for a model."""

    def marked(progress: MaintainedTurns) -> MaintainedTurns:
        for turn_number in turn_numbers:
            progress = progress.put_off(turn_number) if waits else progress.plus(turn_number)
        return progress

    await _change_maintained(work, marked)


async def mark_noted(work: PassWork, last_sequence: int, /) -> None:
    """Store that daily notes were written from the turns up to `last_sequence`."""
    await _change_maintained(
        work, lambda progress: progress.model_copy(update={"noted": max(progress.noted, last_sequence)})
    )


async def _change_maintained(work: PassWork, change: Callable[[MaintainedTurns], MaintainedTurns]) -> None:
    async def plan(record: SpaceRecord) -> SettledChanges[None]:
        ref = DocumentRef(jobs.MAINTAINED, record.conversation_tag(work.scope.conversation_key))
        progress, revision = await value_at(work.ctx.store, work.space, ref, MaintainedTurns)
        changed_turns = change(progress or MaintainedTurns())
        changes = ChangeSet(record)
        if changed_turns != (progress or MaintainedTurns()):
            changes.put(ref, changed_turns, expects=revision, action=JournalAction.MAINTENANCE)
        return SettledChanges(None, changes)

    await settle_changes(work.ctx, work.space, plan)


def cited_turns(work: PassWork, /) -> tuple[str, ...]:
    """Return the ids of the latest turns, as many as a memory may cite."""
    return tuple(turn.id for turn in work.turns)[-limits.CANDIDATE_CITATIONS :]


def skipped_outcome(pass_kind: MaintenancePass, reason: str, /) -> PassOutcome:
    """Return the outcome of a part that did not run."""
    return PassOutcome(of=pass_kind, status=PassStatus.SKIPPED, reason=reason)


def ended_outcome(pass_kind: MaintenancePass, counts: dict[str, int], /, *, changed: int) -> PassOutcome:
    """Return the outcome of a part that ran; zero counts are left out."""
    nonzero_counts = {name: count for name, count in counts.items() if count}
    return PassOutcome(of=pass_kind, status=PassStatus.DONE if changed else PassStatus.UNCHANGED, counts=nonzero_counts)
