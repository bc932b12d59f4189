from elytron.flows.finalize_turn import finalize_turn_and_maintain as finalize_turn_and_maintain
from elytron.flows.inspection import inspect as inspect
from elytron.flows.job_runs import run_jobs as run_jobs
from elytron.flows.maintenance import maintain as maintain
from elytron.flows.personal_profile import profile as profile
