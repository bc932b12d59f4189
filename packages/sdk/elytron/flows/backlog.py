"""The backlog of maintenance: unprocessed turns in all conversations, their cost, and the work."""

from collections.abc import Awaitable, Callable

from elytron.context import OperationContext
from elytron.flows.maintenance import unseen, uses_model
from elytron.passes.pass_context import read_turns
from elytron.state.conversation_heads import read_heads
from elytron_core import limits
from elytron_core.contracts.admin.maintenance import (
    Extraction,
    MemoryMaintainRequest,
    MemoryMaintenanceReport,
    PassStatus,
)
from elytron_core.model import Value
from elytron_core.planes.admin.jobs import NOTHING, Spent
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.extraction import model_facts, prompts
from elytron_core.policy.maintenance.budget import estimate
from elytron_core.scope import Scope

CALLS_A_ROUND = 2
"""At most one summary and one state for each round of turns."""
Progress = Callable[[int, int], None]
"""Called with the turns that are done, and how many there are."""
Maintain = Callable[[MemoryMaintainRequest], Awaitable[MemoryMaintenanceReport]]


class ConversationBacklog(Value):
    """Number of unprocessed turns of a conversation."""

    channel: str
    conversation: str
    turns: int


class MaintenanceBacklog(Value):
    """Backlog of a space. `calls` is the largest number of model calls, `tokens` about what they read."""

    space: str
    conversations: tuple[ConversationBacklog, ...] = ()
    turns: int = 0
    calls: int = 0
    tokens: int = 0


class BacklogReport(Value):
    """Result of working a backlog off. The rest is done when it is run again."""

    space: str
    backlog: MaintenanceBacklog
    conversations: int = 0
    turns: int = 0
    left: int = 0
    decisions: dict[str, int] = {}
    stopped: str = ""
    """Why it ended before the end: a key of an error, or of a bound."""
    changed: bool = False
    dry_run: bool = False
    spent: Spent = NOTHING


async def read_backlog(ctx: OperationContext, scope: Scope, /, *, of: Extraction) -> MaintenanceBacklog:
    """Return what waits in every conversation of the scope's space, oldest conversation first."""
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return MaintenanceBacklog(space=scope.space)
    found: list[ConversationBacklog] = []
    calls = tokens = 0
    asks = uses_model(of) and ctx.models.language is not None
    heads = [head async for head in read_heads(ctx.store, scope.space)]
    for head in sorted(heads, key=lambda head: (head.first_at or 0, head.channel, head.conversation)):
        place = Scope(space=scope.space, channel=head.channel, conversation=head.conversation)
        numbers, _ = await unseen(ctx, place, record, most=head.next_sequence, asks=asks)
        if not numbers:
            continue
        found.append(ConversationBacklog(channel=head.channel, conversation=head.conversation, turns=len(numbers)))
        if asks:
            more_calls, more_tokens = await _cost(ctx, place, record, numbers)
            calls, tokens = calls + more_calls, tokens + more_tokens
    turns = sum(one.turns for one in found)
    return MaintenanceBacklog(space=scope.space, conversations=tuple(found), turns=turns, calls=calls, tokens=tokens)


async def work_off(
    maintain: Maintain, request: MemoryMaintainRequest, backlog: MaintenanceBacklog, /, *, progress: Progress
) -> BacklogReport:
    """Maintain each conversation of `backlog` until nothing of it is left; stop where the model cannot go on."""
    report = BacklogReport(space=backlog.space, backlog=backlog)
    for waiting in backlog.conversations:
        scope = Scope(space=backlog.space, channel=waiting.channel, conversation=waiting.conversation)
        before = report.turns
        while report.turns - before < waiting.turns:
            done = await maintain(request.model_copy(update={"scope": scope}))
            report = _plus(report, done)
            if not done.turns or not done.has_more or report.stopped:
                break
            progress(report.turns, backlog.turns)
        report = report.model_copy(update={"conversations": report.conversations + 1})
        progress(min(report.turns, backlog.turns), backlog.turns)
        if report.stopped:
            break
    return report.model_copy(update={"left": max(0, backlog.turns - report.turns)})


async def _cost(ctx: OperationContext, scope: Scope, record: SpaceRecord, numbers: list[int], /) -> tuple[int, int]:
    """Return how often a model is asked about these turns at most, and about how many tokens it reads."""
    rounds = -(-len(numbers) // limits.MAINTAIN_TURNS)
    calls, tokens = rounds * CALLS_A_ROUND, 0
    for start in range(0, len(numbers), limits.SCAN_MAX - 1):
        page = numbers[start : start + limits.SCAN_MAX]
        turns = [known.turn for known in await read_turns(ctx, scope, record, page)]
        for turn, following in zip(turns, [*turns[1:], None], strict=True):
            if model_facts.gate_for_model(turn, is_pressed=False, following=following) is model_facts.Gate.OPEN:
                prompt = prompts.prompt(turn, before=(), known=(), most=ctx.profile.budget.maintenance_chars)
                calls += 1
                tokens += estimate(prompt.instruction) + estimate(prompt.data)
            tokens += sum(estimate(message.text) for message in turn.messages) * CALLS_A_ROUND
    return calls, tokens


def _plus(report: BacklogReport, done: MemoryMaintenanceReport) -> BacklogReport:
    decisions = dict(report.decisions)
    for decision in done.decisions:
        decisions[decision.outcome.value] = decisions.get(decision.outcome.value, 0) + 1
    ended = (outcome.reason for outcome in done.passes if outcome.status in {PassStatus.FAILED, PassStatus.QUEUED})
    return report.model_copy(
        update={
            "turns": report.turns + done.turns,
            "decisions": decisions,
            "stopped": done.refused.value if done.refused is not None else next(filter(None, ended), ""),
            "changed": report.changed or done.changed,
            "spent": report.spent.plus(done.spent),
        }
    )
