"""The operations, by family. Each reads, asks a policy, commits at most one batch, and reports.

Modules load on first use, so a program loads only the families that it calls.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron.ops": (
            "archive candidates continuity facts inspection maintenance memories projection recall records skills "
            "tools transcript"
        ),
    },
)
