"""The constants of agents as a service have their promised values, and apply unless an operator changes them."""

from importlib import import_module

import pytest

from elytron_agent.rag.table_cache import CacheBounds
from elytron_agent.rag.usage import RagQuotas
from elytron_agent.runs.settings import AgentSettings, RunBudget
from elytron_agent.runs.source import WELCOME
from elytron_agent.service.companion import ServiceSettings
from elytron_agent.service.schedules.schedule_repository import TERMS
from elytron_core import limits as core_limits

CONSTANTS = {
    "elytron_agent.blocks.toolset": {
        "ARCHIVAL_TOP_K_MAX": 20,
    },
    "elytron_agent.limits": {
        "MAX_CONTEXT_TOKENS": 100_000,
        "BLOCK_CHARS": 20_000,
        "ARCHIVAL_TOP_K": 5,
        "CONVERSATION_HITS": 5,
        "SUBAGENT_NAME_CHARS": 80,
        "CHAT_PARTS": 32,
        "QUEUED_RUNS": 8,
        "EVENTS_KEPT_S": 86_400,
        "SCHEDULE_LEASE_MS": 180_000,
        "SCHEDULE_WAIT_MAX_MS": 900_000,
    },
    "elytron_agent.loop.step": {
        "MAX_CORRECTIONS": 1,
    },
    "elytron_agent.loop.tools": {
        "WEB_RESULTS": 10,
    },
    "elytron_agent.rag.embedding_store": {
        "TEXT_BYTES": 16_384,
        "QUERY_BYTES": 4_096,
    },
    "elytron_agent.rag.embedding_wire": {
        "RESULTS_DEFAULT": 5,
        "RESULTS_MAX": 20,
    },
    "elytron_agent.rag.rows": {
        "PAGE_TURNS": 500,
    },
    "elytron_agent.rag.table_cache": {
        "CACHE_MS": 300_000,
        "CACHE_USERS": 100,
        "CACHE_BYTES": 4_294_967_296,
        "CACHE_USER_BYTES": 134_217_728,
        "LOAD_WAIT_S": 60,
    },
    "elytron_agent.rag.usage": {
        "USER_ROWS": 250_000,
        "USER_BYTES": 2_147_483_648,
        "PROJECT_ROWS": 2_500_000,
        "PROJECT_BYTES": 21_474_836_480,
        "INSERTS_PER_HOUR": 10_000,
    },
    "elytron_agent.runs.settings": {
        "MAX_STEPS": 10,
    },
    "elytron_agent.runs.source": {
        "WELCOME_RUNS": 15,
    },
    "elytron_agent.service.agent_service": {
        "SCHEDULES_AT_ONCE": 4,
    },
    "elytron_agent.service.companion": {
        "KEEP_ALIVE_S": 15,
        "HEARTBEAT_S": 30,
        "SCHEDULE_POLL_S": 5,
    },
    "elytron_agent.service.push": {
        "PREVIEW_BYTES": 180,
    },
    "elytron_agent.service.schedules.schedule_runner": {
        "SCHEDULE_BEAT_S": 30,
        "SCHEDULE_STALE_MS": 900_000,
    },
    "elytron_turn.compaction": {
        "RECENT_TURNS_KEPT": 10,
        "SUMMARY_WORDS": 100,
    },
    "elytron_turn.limits": {
        "COMPACTION_THRESHOLD": 0.8,
        "OLD_RESULT_CHARS": 2_000,
        "REACTION_CHARS": 16,
    },
}
"""The values that the service promises to its users; the built site lists them as limits."""

ROWS = [(module, name, value) for module, constants in CONSTANTS.items() for name, value in constants.items()]


@pytest.mark.parametrize(("module", "name", "value"), ROWS, ids=[name for _, name, _ in ROWS])
def test_a_constant_has_the_promised_value(module: str, name: str, value: float) -> None:
    assert getattr(import_module(module), name) == value


def test_the_constants_apply_unless_an_operator_changes_them() -> None:
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
