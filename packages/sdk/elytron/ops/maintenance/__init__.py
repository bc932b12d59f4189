"""Operations of maintenance: jobs and the journal, and the embedding of memories."""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, {"elytron.ops.maintenance": "embedding jobs"})
