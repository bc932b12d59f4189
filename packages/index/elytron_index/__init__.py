"""Search inside one memory space: a fold over its journal. `elytron_index.space_index` holds the index itself.

Names are loaded when they are first used.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_index.query": (
            "METADATA Bm25Parameters DocumentChange EmbeddedDocument FoundCandidates IndexQuery SearchUnit "
            "UnitCandidate UnitFilters UnitPlace UnitSignals UnitView latest_first"
        ),
    },
)
