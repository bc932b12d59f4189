from elytron.flows.finalize_turn import finalize_turn_and_maintain as finalize_turn_and_maintain
from elytron.flows.maintenance import inspect as inspect
from elytron.flows.maintenance import maintain as maintain
from elytron.flows.personal_profile import profile as profile
from elytron.flows.worker import run_jobs as run_jobs
