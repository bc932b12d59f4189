"""Examples of requests and answers for the description, by the names of their models.

A server accepts each request unchanged. Its ids do not exist: replace them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

Json = dict[str, Any]

_ID = "0197c0de-0000-7000-8000-000000000000"
_HASH = "0" * 64
_DELTA: Json = {
    "turn_id": "turn-1",
    "input_messages": [{"role": "user", "text": "When did we move?", "speaker": "Ada"}],
    "assistant_message": {"role": "assistant", "text": "In May."},
}
_REGISTRY: Json = {"registry_id": "host-tools", "namespace": "host", "tools": []}
_MANIFEST: Json = {
    "mode": "bootstrap",
    "space": "ada",
    "channel": "default",
    "conversation": "default",
    "made_at": 1767225600000,
    "includes": [],
    "fingerprint": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
}
_NAMED: Json = {"namespace": ["users", "ada"], "key": "theme"}
_SKILL = "runtime_skill__brew_tea"

REQUESTS: Final[Mapping[str, Json]] = MappingProxyType(
    {
        "AddRequest": {"text": "We moved to Lisbon in May.", "speaker": "Ada"},
        "SearchRequest": {"query": "When did we move?", "limit": 5},
        "FactRequest": {"topic": "home town", "content": "Ada lives in Lisbon."},
        "ContextRequest": {"query": "When did we move?", "max_chars": 2000},
        "MemoryWriteRequest": {
            "write": {"kind": "transcript", "turns": [{"messages": [{"text": "We moved to Lisbon in May."}]}]}
        },
        "MemoryRecallRequest": {"query": "When did we move?", "limit": 5},
        "MemoryProjectionRequest": {"query": "When did we move?", "max_chars": 2000},
        "MemorySpaceExportRequest": {"path": "memory.elytron"},
        "MemoryImportRequest": {"path": "memory.elytron", "mode": "bootstrap", "dry_run": True},
        "MemoryErasuresKeepRequest": {"path": "erasures.jsonl"},
        "MemoryErasuresApplyRequest": {"path": "erasures.jsonl"},
        "MemoryGetRequest": {"id": _ID},
        "MemoryHistoryRequest": {"id": _ID},
        "MemoryForgetRequest": {"ids": [_ID]},
        "MemoryCorrectRequest": {"id": _ID, "content": "Ada lives in Porto."},
        "MemoryEraseRequest": {"ids": [_ID], "dry_run": True},
        "RecordPutRequest": _NAMED | {"value": {"colour": "dark"}, "text": "The screen is dark."},
        "RecordGetRequest": _NAMED,
        "RecordDeleteRequest": _NAMED | {"dry_run": True},
        "RecordHistoryRequest": _NAMED,
        "FactDetailRequest": {"id": _ID},
        "FactChangeRequest": {"id": _ID, "action": "correct", "content": "Ada lives in Porto."},
        "FactForgetRequest": {"query": "home town", "dry_run": True},
        "LearningRequest": {"action": "pause", "topic": "home town", "dry_run": True},
        "CandidateResolveRequest": {"id": _ID, "resolution": "reject"},
        "ContinuityImportRequest": {"snapshot": {"manifest": _MANIFEST, "layers": {}}, "dry_run": True},
        "GardenRequest": {"audience": "owner"},
        "MemoryTranscriptCommitRequest": {"delta": _DELTA},
        "MemoryFinalizeTurnRequest": {"delta": _DELTA | {"turn_id": "turn-2"}},
        "MemoryTranscriptLifecycleRequest": {"transition": "review"},
        "RuntimeSkillDetailRequest": {"name": _SKILL},
        "RuntimeSkillEditRequest": {"name": _SKILL, "summary": "Brew tea."},
        "RuntimeSkillSetEnabledRequest": {"name": _SKILL, "enabled": False},
        "RuntimeSkillDeleteRequest": {"name": _SKILL},
        "RuntimeSkillReuseRequest": {"names": [_SKILL], "outcome": "succeeded"},
        "AgentSkillDirAddRequest": {"path": "skills"},
        "AgentToolRegistryUpsertRequest": {"snapshot": _REGISTRY},
        "AgentToolRegistrySnapshot": _REGISTRY,
        "AgentToolRegistryGetRequest": {"registry_id": "host-tools"},
        "AgentToolRegistryDeleteRequest": {"registry_id": "host-tools"},
        "JobRetryRequest": {"id": _HASH},
        "JobCancelRequest": {"id": _HASH},
        "AccessAddRequest": {"kind": "user", "space": "ada", "label": "Ada's phone"},
    }
)

ANSWERS: Final[Mapping[str, Json]] = MappingProxyType(
    {
        "AddReport": {"ids": ["5f0c9a1e7b3d42c8.000000000001"]},
        "SearchReport": {
            "hits": [
                {
                    "id": "5f0c9a1e7b3d42c8.000000000001",
                    "text": "We moved to Lisbon in May.",
                    "score": 0.9,
                    "at": "2026-05-03T10:00:00Z",
                    "speaker": "Ada",
                    "conversation": "default",
                }
            ]
        },
        "FactReport": {"id": _ID, "outcome": "stored"},
        "ContextReport": {"text": "Ada: We moved to Lisbon in May."},
    }
)

PROBLEM: Final[Json] = {
    "type": "urn:elytron:error:invalid_input",
    "title": "A value is not valid",
    "status": 422,
    "detail": "limit is not valid: input should be greater than or equal to 1",
    "instance": "urn:elytron:request:5f0c9a1e",
    "code": "invalid_input",
    "seed_key": "operation_mismatch",
    "request_id": "5f0c9a1e",
    "retryable": False,
}
