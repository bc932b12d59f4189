"""One body per operation, as data: preparation, the request, and the expectations of its report.

A step is written as in a fixture: `op`, `request`, `save`, `expect`, `error`. `${space}` is the space of the run, to
which requests without a scope apply; `${tmp}` is its folder. To add an operation, add its entry.
"""

from typing import Any

from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools import with_fingerprints

Body = list[dict[str, Any]]


class OperationBodies(dict[str, Body]):
    """The bodies by operation; a missing one is reported with its place."""

    def __missing__(self, operation: str) -> Body:
        raise AssertionError(f"tests/transports/bodies.py has no body for the operation {operation!r}: add its entry")


def turn(text: str, **scope: str) -> dict[str, Any]:
    """Return a step that stores `text`, saving its id as `turn`."""
    write = {"kind": "transcript", "turns": [{"messages": [{"text": text, "speaker": "Ada"}]}]}
    request: dict[str, Any] = {"write": write} | ({"scope": {"space": "${space}", **scope}} if scope else {})
    return {"op": "write", "request": request, "save": {"turn": "decisions.0.id"}}


def fact(topic: str, content: str, **more: str) -> dict[str, Any]:
    """Return a step that states a fact, saving its id as `fact`."""
    draft = {"topic": topic, "content": content, "fact_kind": "profile", "authority": "user_asserted", **more}
    write = {"kind": "long_term", "facts": [draft]}
    return {"op": "write", "request": {"write": write}, "save": {"fact": "decisions.0.id"}}


def delta(turn_id: str) -> dict[str, Any]:
    """Return a finished turn, as a host saw it."""
    said = {"text": "The ferry leaves at six.", "speaker": "Ada"}
    return {"turn_id": turn_id, "input_messages": [said], "assistant_message": {"role": "assistant", "text": "Noted."}}


NAMED: dict[str, Any] = {"namespace": ["users", "ada"], "key": "theme"}
RECORD: dict[str, Any] = {
    "op": "put_record",
    "request": NAMED | {"value": {"colour": "dark"}, "text": "The screen is dark."},
}
TEA = turn("Ada likes green tea.")
HOME = fact("home city", "Lisbon")
SKILL: dict[str, Any] = {
    "op": "write",
    "request": {
        "write": {
            "kind": "procedural",
            "writes": [
                {"name": "moor", "topic": "mooring", "title": "Moor", "summary": "How to moor", "content": "1. Stop."}
            ],
        }
    },
    "save": {"skill": "decisions.0.name"},
}
NAME = "runtime_skill__moor"
COPY: dict[str, Any] = {"scope": {"space": "${space} copied"}}
COMMITTED: dict[str, Any] = {"op": "commit_transcript", "request": {"delta": delta("t1")}}
TOOLS: dict[str, Any] = {
    "op": "upsert_agent_tool_registry",
    "request": {
        "snapshot": with_fingerprints(
            AgentToolRegistrySnapshot(registry_id="host", namespace="host", tools=())
        ).model_dump(mode="json", exclude_none=True)
    },
}

BODIES: dict[str, Body] = OperationBodies(
    {
        "write": [TEA | {"expect": {"changed": True, "decisions": [{"outcome": "stored"}]}}],
        "recall": [
            TEA,
            {"op": "recall", "request": {"query": "tea"}, "expect": {"hits": [{"id": "${turn}", "speaker": "Ada"}]}},
        ],
        "project": [
            TEA,
            {
                "op": "project",
                "request": {"query": "tea", "max_chars": 900},
                "expect": {"budget": 900, "system_memory_block": {"$contains": "green tea"}},
            },
        ],
        "inspect": [TEA, {"op": "inspect", "expect": {"exists": True, "sequence": 2, "documents": {"turns": 1}}}],
        "replay": [
            turn("Hello.", conversation="trip"),
            {"op": "replay", "request": {"chat_id": "trip"}, "expect": {"total_turns": 1, "has_more": False}},
        ],
        "export": [TEA, {"op": "export", "request": {"path": "${tmp}/ada.zip"}, "expect": {"space": "${space}"}}],
        "import": [
            TEA,
            {"op": "export", "request": {"path": "${tmp}/ada.zip", "include_private": True}},
            {
                "op": "import",
                "request": {"scope": {"space": "${space} copied"}, "path": "${tmp}/ada.zip"},
                "expect": {"space": "${space} copied", "changed": True, "imported": {"turns": 1}},
            },
        ],
        "compact_journal": [
            TEA,
            {"op": "erase", "request": {"ids": ["${turn}"]}},
            {"op": "compact_journal", "expect": {"space": "${space}", "removed": 5, "changed": True, "sequence": 8}},
        ],
        "keep_erasures": [
            TEA,
            {"op": "erase", "request": {"ids": ["${turn}"]}},
            {
                "op": "keep_erasures",
                "request": {"path": "${tmp}/erasures.jsonl"},
                "expect": {"erased": {"transcript": 1}, "is_whole": False},
            },
        ],
        "apply_erasures": [
            TEA,
            {"op": "export", "request": {"path": "${tmp}/ada.zip", "include_private": True}},
            {"op": "erase", "request": {"ids": ["${turn}"]}},
            {"op": "keep_erasures", "request": {"path": "${tmp}/erasures.jsonl"}},
            {"op": "import", "request": {**COPY, "path": "${tmp}/ada.zip"}, "expect": {"imported": {"turns": 1}}},
            {
                "op": "apply_erasures",
                "request": {**COPY, "path": "${tmp}/erasures.jsonl"},
                "expect": {"outcome": "applied", "erased": {"transcript": 1}, "changed": True},
            },
            {"op": "get", "request": {**COPY, "id": "${turn}"}, "error": "not_found"},
            {
                "op": "apply_erasures",
                "request": {"path": "${tmp}/erasures.jsonl"},
                "expect": {"outcome": "nothing", "changed": False},
            },
        ],
        "get": [TEA, {"op": "get", "request": {"id": "${turn}"}, "expect": {"text": "Ada likes green tea."}}],
        "list": [
            TEA,
            {"op": "list", "request": {"limit": 1}, "expect": {"items": [{"id": "${turn}"}], "has_more": False}},
        ],
        "history": [TEA, {"op": "history", "request": {"id": "${turn}"}, "expect": {"items": [{"event": "added"}]}}],
        "forget": [
            TEA,
            {"op": "forget", "request": {"ids": ["${turn}"], "reason": "asked"}, "expect": {"changed": True}},
            {"op": "recall", "request": {"query": "tea"}, "expect": {"hits": []}},
        ],
        "correct": [
            HOME,
            {
                "op": "correct",
                "request": {"id": "${fact}", "content": "Porto"},
                "expect": {"changed": True, "decisions": [{"outcome": "changed"}]},
            },
        ],
        "erase": [
            TEA,
            {"op": "erase", "request": {"ids": ["${turn}"]}, "expect": {"changed": True, "removed": {"turns": 1}}},
            {"op": "get", "request": {"id": "${turn}"}, "error": "not_found"},
        ],
        "recover": [TEA, {"op": "recover", "expect": {"phase": "recovered", "indexed_units": 1}}],
        "close": [
            {"op": "close", "request": {"reason": "done"}, "expect": {"phase": "closed", "reason": "done"}},
            {"op": "list", "error": "store_closed"},
        ],
        "list_candidates": [{"op": "list_candidates", "expect": {"items": [], "has_more": False}}],
        "resolve_candidate": [
            {"op": "resolve_candidate", "request": {"id": "nobody", "resolution": "reject"}, "error": "not_found"}
        ],
        "list_facts": [
            HOME,
            {
                "op": "list_facts",
                "request": {"query": "lisbon"},
                "expect": {"items": [{"id": "${fact}", "content": "Lisbon", "hint": "none"}], "has_more": False},
            },
        ],
        "get_fact": [
            HOME,
            {
                "op": "get_fact",
                "request": {"id": "${fact}"},
                "expect": {"fact": {"topic": "home city", "authority": "user_asserted", "evidence_count": 1}},
            },
        ],
        "profile": [
            HOME,
            {
                "op": "profile",
                "expect": {"groups": [{"lines": [{"id": "${fact}", "content": "Lisbon", "bearing": "subject"}]}]},
            },
        ],
        "change_fact": [
            HOME,
            {
                "op": "change_fact",
                "request": {"id": "${fact}", "action": "supersede", "content": "Porto"},
                "expect": {"changed": True, "outcome": "changed"},
            },
            {"op": "list_facts", "expect": {"items": [{"content": "Porto"}]}},
        ],
        "forget_facts": [
            HOME,
            {
                "op": "forget_facts",
                "request": {"query": "lisbon", "dry_run": True},
                "save": {"token": "token"},
                "expect": {"items": [{"id": "${fact}"}], "changed": False},
            },
            {"op": "forget_facts", "request": {"query": "lisbon", "token": "${token}"}, "expect": {"changed": True}},
            {"op": "forget_facts", "request": {"query": "lisbon", "dry_run": True}, "expect": {"items": []}},
        ],
        "set_learning": [
            {
                "op": "set_learning",
                "request": {"action": "suppress", "topic": "home city"},
                "expect": {"changed": True, "learning": {"rules": [{"state": "suppressed", "topic": "home city"}]}},
            },
            {"op": "list_facts", "expect": {"items": []}},
        ],
        "merge_facts": [HOME, {"op": "merge_facts", "expect": {"pairs": [], "changed": False}}],
        "read_continuity": [TEA, {"op": "read_continuity", "expect": {"conversation": "default", "capsules": []}}],
        "export_continuity": [HOME, {"op": "export_continuity", "expect": {"space": "${space}", "private_left": 0}}],
        "import_continuity": [
            HOME,
            {"op": "export_continuity", "save": {"snapshot": "snapshot"}},
            {
                "op": "import_continuity",
                "request": {"scope": {"space": "${space} copied"}, "snapshot": "${snapshot}"},
                "expect": {"space": "${space} copied", "changed": True},
            },
        ],
        "read_subjects": [TEA, {"op": "read_subjects", "expect": {"space": "${space}", "clipped": False}}],
        "read_garden": [TEA, {"op": "read_garden", "request": {"audience": "owner"}, "expect": {"documents": []}}],
        "embed": [TEA, {"op": "embed", "expect": {"outcome": "no_embedder", "changed": False}}],
        "switch_model": [TEA, {"op": "switch_model", "expect": {"outcome": "no_embedder", "changed": False}}],
        "commit_transcript": [COMMITTED | {"expect": {"committed": True, "changed": True, "host_turn_id": "t1"}}],
        "replay_transcript": [
            COMMITTED,
            {"op": "replay_transcript", "request": {"view": "host_ui"}, "expect": {"has_more": False}},
        ],
        "export_transcript": [COMMITTED, {"op": "export_transcript", "expect": {"has_more": False}}],
        "request_transcript_lifecycle": [
            COMMITTED,
            {
                "op": "request_transcript_lifecycle",
                "request": {"transition": "archive"},
                "expect": {"affected_turns": 1, "changed": True},
            },
        ],
        "repair_transcript": [COMMITTED, {"op": "repair_transcript", "expect": {"checked_turns": 1, "issues": []}}],
        "capabilities": [{"op": "capabilities", "expect": {"write": {"visible": True}, "recall": {"visible": True}}}],
        "list_spaces": [TEA, {"op": "list_spaces", "expect": {}}],
        "list_runtime_skills": [SKILL, {"op": "list_runtime_skills", "expect": {"total": 1, "active": 1}}],
        "get_runtime_skill": [
            SKILL,
            {"op": "get_runtime_skill", "request": {"name": NAME}, "expect": {"skill": {"title": "Moor"}}},
        ],
        "edit_runtime_skill": [
            SKILL,
            {
                "op": "edit_runtime_skill",
                "request": {"name": NAME, "title": "Moor well", "edit_reason": "clearer"},
                "expect": {"changed": True, "skill": {"title": "Moor well"}},
            },
        ],
        "set_runtime_skill_enabled": [
            SKILL,
            {
                "op": "set_runtime_skill_enabled",
                "request": {"name": NAME, "enabled": False},
                "expect": {"changed": True, "skill": {"enabled": False}},
            },
        ],
        "delete_runtime_skill": [
            SKILL,
            {"op": "delete_runtime_skill", "request": {"name": NAME}, "expect": {"changed": True, "name": NAME}},
        ],
        "record_skill_reuse": [
            SKILL,
            {
                "op": "record_skill_reuse",
                "request": {"names": [NAME, "runtime_skill__none"], "outcome": "succeeded"},
                "expect": {"changed": True, "unknown": ["runtime_skill__none"]},
            },
        ],
        "govern_runtime_skills": [SKILL, {"op": "govern_runtime_skills", "expect": {"looked_at": 1}}],
        "add_agent_skill_dir": [
            {"op": "add_agent_skill_dir", "request": {"path": "${tmp}"}, "expect": {"read_only": True, "skills": []}}
        ],
        "upsert_agent_tool_registry": [TOOLS | {"expect": {"registry_id": "host", "accepted": True, "changed": True}}],
        "list_agent_tool_registries": [{"op": "list_agent_tool_registries", "expect": {"registries": []}}],
        "get_agent_tool_registry": [
            TOOLS,
            {
                "op": "get_agent_tool_registry",
                "request": {"registry_id": "host"},
                "expect": {"registry": {"namespace": "host"}},
            },
        ],
        "delete_agent_tool_registry": [
            TOOLS,
            {"op": "delete_agent_tool_registry", "request": {"registry_id": "host"}, "expect": {"changed": True}},
        ],
        "put_record": [
            RECORD | {"expect": {"changed": True, "record": {"version": 1, "value": {"colour": "dark"}}}},
            {
                "op": "put_record",
                "request": NAMED | {"value": 1, "expected_version": 0},
                "error": "precondition_failed",
            },
        ],
        "get_record": [
            {"op": "put_record", "request": NAMED | {"value": None}, "expect": {"record": {"value": None}}},
            {"op": "get_record", "request": NAMED, "expect": {"record": {"version": 1, "value": None}}},
        ],
        "delete_record": [
            RECORD,
            {"op": "delete_record", "request": NAMED, "expect": {"changed": True, "version": 2}},
            {"op": "get_record", "request": NAMED, "error": "not_found"},
        ],
        "search_records": [
            RECORD,
            {
                "op": "search_records",
                "request": {
                    "namespace": ["users"],
                    "query": "screen",
                    "where": [{"conditions": [{"field": "colour", "values": ["dark"]}]}],
                },
                "expect": {"items": [{"key": "theme"}], "has_more": False},
            },
        ],
        "list_record_namespaces": [
            RECORD,
            {
                "op": "list_record_namespaces",
                "expect": {"namespaces": [{"namespace": ["users", "ada"], "records": 1}]},
            },
        ],
        "record_history": [
            RECORD,
            {"op": "record_history", "request": NAMED, "expect": {"versions": [{"version": 1}]}},
        ],
        "finalize_turn_and_maintain": [
            {
                "op": "finalize_turn_and_maintain",
                "request": {"delta": delta("t1")},
                "expect": {"host_turn_id": "t1", "changed": True},
            }
        ],
        "maintain": [TEA, {"op": "maintain", "expect": {"space": "${space}", "has_more": False}}],
        "list_jobs": [{"op": "list_jobs", "expect": {"jobs": [], "clipped": False}}],
        "run_jobs": [{"op": "run_jobs", "expect": {"jobs": [], "waiting": 0}}],
        "retry_job": [{"op": "retry_job", "request": {"id": "ab"}, "error": "not_found"}],
        "cancel_job": [{"op": "cancel_job", "request": {"id": "ab"}, "error": "not_found"}],
    }
)
