from elytron.flows.maintenance import finalize_turn_and_maintain as finalize_turn_and_maintain
from elytron.flows.maintenance import maintenance_inspection as maintenance_inspection
from elytron.flows.maintenance import run_maintenance as run_maintenance
from elytron.flows.personal_profile import build_profile as build_profile
from elytron.flows.worker import run_jobs as run_jobs
