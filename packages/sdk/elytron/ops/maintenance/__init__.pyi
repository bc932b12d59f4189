from elytron.ops.maintenance import embedding as embedding
from elytron.ops.maintenance import jobs as jobs
from elytron.ops.maintenance import journal_compaction as journal_compaction
