"""Function of each part of maintenance."""

from collections.abc import Awaitable, Callable

from elytron.passes.capsules import encapsulate, learn
from elytron.passes.execution_state import keep_state
from elytron.passes.extraction import extract
from elytron.passes.governance import govern, keep_house, note_reuse
from elytron.passes.pass_context import Work
from elytron.passes.summary import sum_up
from elytron_core.contracts.admin.maintenance import PassOutcome
from elytron_core.planes.admin.jobs import Pass

PASSES: dict[Pass, Callable[[Work], Awaitable[PassOutcome]]] = {
    Pass.SUMMARY: sum_up,
    Pass.EXECUTION_STATE: keep_state,
    Pass.GOVERNANCE: govern,
    Pass.SKILL_REUSE: note_reuse,
    Pass.EXTRACTION: extract,
    Pass.HYGIENE: keep_house,
    Pass.TASK_LEARNING: learn,
    Pass.CAPSULES: encapsulate,
}
