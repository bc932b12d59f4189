"""Use cases that combine several operations, each loaded on first use."""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron.flows.maintenance": "finalize_turn_and_maintain maintenance_inspection run_maintenance",
        "elytron.flows.personal_profile": "build_profile",
        "elytron.flows.worker": "run_jobs",
    },
)
