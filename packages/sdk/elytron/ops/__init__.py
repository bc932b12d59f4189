"""The operations, by family. Each reads, asks a policy, commits at most one batch, and reports.

Each is loaded when it is first used, so that a program loads those that it calls.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron.ops.archive": "apply_erasures export_space import_archive keep_erasures",
        "elytron.ops.continuity": "export_continuity import_continuity read_continuity read_garden read_subjects",
        "elytron.ops.control": (
            "correct_memory erase_from_space forget_memories get_memory list_memories memory_history"
        ),
        "elytron.ops.facts": (
            "change_fact forget_facts get_fact list_candidates list_facts merge_facts resolve_candidate set_learning"
        ),
        "elytron.ops.inspection": (
            "close_runtime inspect_space list_capabilities list_spaces recover_store replay_turns"
        ),
        "elytron.ops.maintenance": "cancel_job compact_journal embed_space list_jobs retry_job switch_model",
        "elytron.ops.projection": "build_projection",
        "elytron.ops.recall": "recall_memories",
        "elytron.ops.records": (
            "delete_record get_record list_record_namespaces put_record record_history search_records"
        ),
        "elytron.ops.skills": (
            "add_agent_skill_dir delete_runtime_skill edit_runtime_skill get_runtime_skill "
            "govern_runtime_skills list_runtime_skills record_skill_reuse set_runtime_skill_enabled"
        ),
        "elytron.ops.tools": (
            "delete_agent_tool_registry get_agent_tool_registry list_agent_tool_registries upsert_agent_tool_registry"
        ),
        "elytron.ops.transcript": (
            "commit_transcript export_transcript repair_transcript replay_transcript "
            "request_transcript_lifecycle write_memory"
        ),
    },
)
