from elytron.ops.maintenance import embedding as embedding
from elytron.ops.maintenance import jobs as jobs
