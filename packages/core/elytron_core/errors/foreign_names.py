"""Names that users of other memories try first, each with the name here."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches

KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "data": ("content",),
    "k": ("limit",),
    "memory": ("content",),
    "num_results": ("limit",),
    "session_id": ("conversation", "run_id"),
    "text": ("content",),
    "thread_id": ("conversation", "run_id"),
    "user": ("user_id", "speaker"),
}
"""Keywords of calls. The first name that a call has is meant."""
CALLS: Mapping[str, str] = {
    "add_memory": "add",
    "add_messages": "add",
    "aput": "put_record",
    "asearch": "search",
    "clear": "erase(whole_space=...)",
    "create": "add",
    "delete_memory": "delete",
    "edit": "correct",
    "get_context": "project",
    "get_memories": "list",
    "insert": "add",
    "put": "put_record",
    "query": "recall",
    "remember": "add",
    "reset": "erase(whole_space=...)",
    "retrieve": "recall",
    "update": "correct",
    "upsert": "add",
}
"""Calls of a memory."""
EXPORTS: Mapping[str, str] = {
    "AsyncMemory": "await elytron.open(...)",
    "AsyncMemoryClient": "await elytron.connect(...)",
    "Client": "elytron.connect",
    "Elytron": "elytron.open",
    "Memory": "elytron.open",
    "MemoryClient": "elytron.connect",
    "create_client": "elytron.connect",
    "init": "elytron.open",
}
"""Names of the package."""


def way_out(name: str, known: Collection[str], /) -> str:
    """Return what to say of an unknown keyword `name`: which of the `known` ones is meant, or which there are."""
    meant = [word for word in KEYWORDS.get(name, ()) if word in known] or get_close_matches(name, sorted(known), 1)
    if meant:
        return f": say {meant[0]}="
    return f": there are {', '.join(sorted(known))}" if known else ""


def call_instead(name: str, known: Collection[str], /) -> str:
    """Return what to say of an unknown call `name` of a memory; empty if none of the `known` ones is near."""
    meant = CALLS.get(name) or next(iter(get_close_matches(name, sorted(known), 1)), "")
    return f": say {meant}" if meant else ""


def export_instead(name: str, known: Collection[str], /) -> str:
    """Return what to say of an unknown name of the package; empty if none of the `known` ones is near."""
    meant = EXPORTS.get(name) or next(iter(get_close_matches(name, sorted(known), 1)), "")
    return f": say {meant}" if meant else ""
