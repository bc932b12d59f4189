"""Results of finished or stalled work: a procedure to follow again, and a capsule to continue it."""

from elytron.passes.pass_context import Work, ended, skipped
from elytron_core import limits
from elytron_core.contracts.admin.maintenance import PassOutcome
from elytron_core.contracts.conversation.candidates import CandidatesWrite
from elytron_core.contracts.conversation.write import Outcome
from elytron_core.contracts.planes import CapsulesWrite
from elytron_core.planes.admin.jobs import Pass
from elytron_core.policy.maintenance import due


async def learn(work: Work, /) -> PassOutcome:
    """Propose the steps of finished work as a procedure; admission judges whether it is one."""
    state = await work.state()
    if state is None:
        return skipped(Pass.TASK_LEARNING, "no_execution_state")
    draft = due.learned_of(state, _cited(work))
    if draft is None:
        return skipped(Pass.TASK_LEARNING, "not_due")
    report = await work.write(CandidatesWrite(candidates=(draft,)))
    counts = {outcome.value: report.count(outcome) for outcome in Outcome}
    return ended(Pass.TASK_LEARNING, counts, changed=report.changed)


async def encapsulate(work: Work, /) -> PassOutcome:
    """Write the capsule of the conversation's work, over the one of the same matter."""
    state = await work.state()
    if state is None:
        return skipped(Pass.CAPSULES, "no_execution_state")
    draft = due.capsule_of(state, _cited(work))
    if draft is None:
        return skipped(Pass.CAPSULES, "too_little_to_tell")
    report = await work.write(CapsulesWrite(capsules=(draft,)))
    return ended(Pass.CAPSULES, {"written": int(report.changed)}, changed=report.changed)


def _cited(work: Work) -> tuple[str, ...]:
    return tuple(turn.id for turn in work.turns)[-limits.CANDIDATE_CITATIONS :]
