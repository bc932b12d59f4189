"""The constants of agents as a service: one table, in the page of the service, that the code agrees with."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from elytron_agent.rag.table_cache import CacheBounds
from elytron_agent.rag.usage import RagQuotas
from elytron_agent.runs.settings import AgentSettings, RunBudget
from elytron_agent.runs.source import WELCOME
from elytron_agent.service.companion import ServiceSettings
from elytron_agent.service.schedules.schedule_shelf import TERMS
from elytron_core import limits as core_limits

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serve-agents.md"
ROW = re.compile(r"\| [^|]+ \| ([0-9.,]+) \| `([a-z_.]+)\.([A-Z_]+)` \|")
ROWS = [(module, name, float(value.replace(",", ""))) for value, module, name in ROW.findall(PAGE.read_text("utf-8"))]


@pytest.mark.parametrize(("module", "name", "value"), ROWS, ids=[name for _, name, _ in ROWS])
def test_a_constant_is_as_the_page_has_it(module: str, name: str, value: float) -> None:
    whole = module if module.startswith("elytron_") else f"elytron_agent.{module}"
    assert getattr(import_module(whole), name) == value


def test_the_constants_are_in_force_unless_an_operator_says_otherwise() -> None:
    known = {name: value for _, name, value in ROWS}
    settings, service, quotas, bounds = AgentSettings(), ServiceSettings(models=("chat:m",)), RagQuotas(), CacheBounds()
    in_force = {
        "MAX_CONTEXT_TOKENS": settings.max_context_tokens,
        "COMPACTION_THRESHOLD": settings.compaction_threshold,
        "MAX_STEPS": RunBudget().steps,
        "KEEP_ALIVE_S": service.keep_alive_s,
        "HEARTBEAT_S": service.heartbeat_s,
        "SCHEDULE_POLL_S": service.schedule_poll_s,
        "SCHEDULE_LEASE_MS": TERMS.lease_ms,
        "SCHEDULE_WAIT_MAX_MS": TERMS.wait_max_ms,
        "USER_ROWS": quotas.user_rows,
        "USER_BYTES": quotas.user_bytes,
        "PROJECT_ROWS": quotas.project_rows,
        "PROJECT_BYTES": quotas.project_bytes,
        "INSERTS_PER_HOUR": quotas.inserts_per_hour,
        "CACHE_MS": bounds.ttl_ms,
        "CACHE_USERS": bounds.users,
        "CACHE_BYTES": bounds.size_bytes,
        "CACHE_USER_BYTES": bounds.user_bytes,
        "LOAD_WAIT_S": bounds.wait_s,
    }
    assert in_force == {name: known[name] for name in in_force}
    assert (core_limits.JOB_ATTEMPTS, len(WELCOME), len(ROWS)) == (8, 3, 42)
