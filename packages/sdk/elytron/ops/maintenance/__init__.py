"""Operations of maintenance: jobs, the embedding of memories, and compaction of the journal."""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, {"elytron.ops.maintenance": "embedding jobs journal_compaction"})
