"""The maintenance passes, in their order."""

from collections.abc import Awaitable, Callable

from elytron.passes.continuity import encapsulate_work, keep_state, sum_up
from elytron.passes.extraction import extract_facts, learn_procedure
from elytron.passes.governance import govern_space, maintain_space, note_reuse
from elytron.passes.pass_work import PassWork
from elytron_core.contracts.maintenance.maintenance import PassOutcome
from elytron_core.planes.jobs import MaintenancePass

PASSES: dict[MaintenancePass, Callable[[PassWork], Awaitable[PassOutcome]]] = {
    MaintenancePass.SUMMARY: sum_up,
    MaintenancePass.EXECUTION_STATE: keep_state,
    MaintenancePass.GOVERNANCE: govern_space,
    MaintenancePass.SKILL_REUSE: note_reuse,
    MaintenancePass.EXTRACTION: extract_facts,
    MaintenancePass.HYGIENE: maintain_space,
    MaintenancePass.TASK_LEARNING: learn_procedure,
    MaintenancePass.CAPSULES: encapsulate_work,
}
