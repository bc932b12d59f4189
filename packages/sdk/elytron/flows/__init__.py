"""Use cases made of several operations, each loaded when it is first used."""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron.flows.finalize_turn import finalize_turn_and_maintain
    from elytron.flows.inspection import inspect
    from elytron.flows.job_runs import run_jobs
    from elytron.flows.maintenance import maintain
    from elytron.flows.personal_profile import profile

__all__ = [
    "finalize_turn_and_maintain",
    "inspect",
    "maintain",
    "profile",
    "run_jobs",
]

_HOMES = {
    "elytron.flows.finalize_turn": "finalize_turn_and_maintain",
    "elytron.flows.inspection": "inspect",
    "elytron.flows.job_runs": "run_jobs",
    "elytron.flows.maintenance": "maintain",
    "elytron.flows.personal_profile": "profile",
}

if not TYPE_CHECKING:
    __getattr__ = _loading(__name__, _HOMES)
