"""The operations, by family. Each reads, asks a policy, commits at most one batch, and reports.

Each is loaded when it is first used, so that a program loads those that it calls.
"""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron.ops.admin.archive import export, import_archive
    from elytron.ops.admin.embedding import embed, switch_model
    from elytron.ops.admin.erasures import apply_erasures, keep_erasures
    from elytron.ops.admin.inspection import inspect, replay
    from elytron.ops.admin.maintenance import cancel_job, list_jobs, retry_job
    from elytron.ops.admin.platform import capabilities
    from elytron.ops.admin.runtime_lifecycle import close, recover
    from elytron.ops.admin.spaces import list_spaces
    from elytron.ops.conversation.candidates import list_candidates, merge_facts, resolve_candidate
    from elytron.ops.conversation.continuity import export_continuity, import_continuity, read_continuity
    from elytron.ops.conversation.projection import project
    from elytron.ops.conversation.transcript import (
        commit_transcript,
        export_transcript,
        repair_transcript,
        replay_transcript,
        request_transcript_lifecycle,
    )
    from elytron.ops.conversation.write import write
    from elytron.ops.knowledge.control import correct, erase, forget
    from elytron.ops.knowledge.facts import change_fact, forget_facts, get_fact, list_facts, set_learning
    from elytron.ops.knowledge.recall import recall
    from elytron.ops.knowledge.records import (
        delete_record,
        get_record,
        list_record_namespaces,
        put_record,
        record_history,
        search_records,
    )
    from elytron.ops.knowledge.skills import (
        add_agent_skill_dir,
        delete_runtime_skill,
        edit_runtime_skill,
        get_runtime_skill,
        govern_runtime_skills,
        list_runtime_skills,
        record_skill_reuse,
        set_runtime_skill_enabled,
    )
    from elytron.ops.knowledge.subjects import read_garden, read_subjects
    from elytron.ops.read import get, history, list_memories
    from elytron.ops.tools import (
        delete_agent_tool_registry,
        get_agent_tool_registry,
        list_agent_tool_registries,
        upsert_agent_tool_registry,
    )

__all__ = [
    "add_agent_skill_dir",
    "apply_erasures",
    "cancel_job",
    "capabilities",
    "change_fact",
    "close",
    "commit_transcript",
    "correct",
    "delete_agent_tool_registry",
    "delete_record",
    "delete_runtime_skill",
    "edit_runtime_skill",
    "embed",
    "erase",
    "export",
    "export_continuity",
    "export_transcript",
    "forget",
    "forget_facts",
    "get",
    "get_agent_tool_registry",
    "get_fact",
    "get_record",
    "get_runtime_skill",
    "govern_runtime_skills",
    "history",
    "import_archive",
    "import_continuity",
    "inspect",
    "keep_erasures",
    "list_agent_tool_registries",
    "list_candidates",
    "list_facts",
    "list_jobs",
    "list_memories",
    "list_record_namespaces",
    "list_runtime_skills",
    "list_spaces",
    "merge_facts",
    "project",
    "put_record",
    "read_continuity",
    "read_garden",
    "read_subjects",
    "recall",
    "record_history",
    "record_skill_reuse",
    "recover",
    "repair_transcript",
    "replay",
    "replay_transcript",
    "request_transcript_lifecycle",
    "resolve_candidate",
    "retry_job",
    "search_records",
    "set_learning",
    "set_runtime_skill_enabled",
    "switch_model",
    "upsert_agent_tool_registry",
    "write",
]

_HOMES = {
    "elytron.ops.admin.archive": "export import_archive",
    "elytron.ops.admin.embedding": "embed switch_model",
    "elytron.ops.admin.erasures": "apply_erasures keep_erasures",
    "elytron.ops.admin.inspection": "inspect replay",
    "elytron.ops.admin.maintenance": "cancel_job list_jobs retry_job",
    "elytron.ops.admin.platform": "capabilities",
    "elytron.ops.admin.runtime_lifecycle": "close recover",
    "elytron.ops.admin.spaces": "list_spaces",
    "elytron.ops.conversation.candidates": "list_candidates merge_facts resolve_candidate",
    "elytron.ops.conversation.continuity": "export_continuity import_continuity read_continuity",
    "elytron.ops.conversation.projection": "project",
    "elytron.ops.conversation.transcript": (
        "commit_transcript export_transcript repair_transcript replay_transcript request_transcript_lifecycle"
    ),
    "elytron.ops.conversation.write": "write",
    "elytron.ops.knowledge.control": "correct erase forget",
    "elytron.ops.knowledge.facts": "change_fact forget_facts get_fact list_facts set_learning",
    "elytron.ops.knowledge.recall": "recall",
    "elytron.ops.knowledge.records": (
        "delete_record get_record list_record_namespaces put_record record_history search_records"
    ),
    "elytron.ops.knowledge.skills": (
        "add_agent_skill_dir delete_runtime_skill edit_runtime_skill get_runtime_skill "
        "govern_runtime_skills list_runtime_skills record_skill_reuse set_runtime_skill_enabled"
    ),
    "elytron.ops.knowledge.subjects": "read_garden read_subjects",
    "elytron.ops.read": "get history list_memories",
    "elytron.ops.tools": (
        "delete_agent_tool_registry get_agent_tool_registry list_agent_tool_registries upsert_agent_tool_registry"
    ),
}

if not TYPE_CHECKING:
    __getattr__ = _loading(__name__, _HOMES)
