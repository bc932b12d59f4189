"""Names that users of other memory libraries try first, each with its name here."""

from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from functools import wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
_LIKE = 0.75
"""Similarity of two names, from 0 to 1, from which one is considered a typo of the other."""

KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "content": ("messages", "text"),
    "data": ("content", "messages", "text"),
    "fact": ("content",),
    "filter": ("filters",),
    "id": ("memory_id",),
    "k": ("limit",),
    "memory": ("content", "messages", "text"),
    "metadata_filters": ("filters",),
    "n_results": ("limit",),
    "namespace": ("user_id", "space"),
    "num_results": ("limit",),
    "session_id": ("conversation", "run_id"),
    "text": ("content", "messages"),
    "thread_id": ("conversation", "run_id"),
    "timestamp": ("at",),
    "user": ("user_id", "space", "speaker"),
    "user_id": ("space",),
    "where": ("filters",),
}
"""Keywords of calls. The first name that the call accepts is suggested."""
_FIRST = "pass it first and without a name, as in elytron.open('memory.db') or elytron.connect('http://host:8010')"
INSTEAD: Mapping[str, str] = {
    "base_url": _FIRST,
    "config": "leave it out, or use language_model=, embedder= or keys=",
    "infer": "leave it out: add stores the messages, and maintain extracts facts from them",
    "db_path": _FIRST,
    "host": _FIRST,
    "path": _FIRST,
    "rerank": "leave it out: open(reranker=...) decides the final order",
    "store": _FIRST,
    "url": _FIRST,
}
"""Keywords that no call accepts, with alternatives."""
CALLS: Mapping[str, str] = {
    "aadd": "add",
    "aadd_memory": "add",
    "aclose": "close",
    "add_ai_message": "add",
    "add_documents": "add",
    "add_episode": "add",
    "add_memory": "add",
    "add_message": "add",
    "add_messages": "add",
    "add_texts": "add",
    "add_user_message": "add",
    "adelete": "delete",
    "aget": "get",
    "aget_all": "get_all",
    "ainvoke": "recall",
    "append": "add",
    "aput": "put_record",
    "archival_insert": "add",
    "archival_memory_insert": "add",
    "archival_memory_search": "recall",
    "as_retriever": "recall",
    "as_tools": "tools",
    "asearch": "search",
    "asearch_memories": "search",
    "ask": "recall",
    "aupdate": "update",
    "backup": "export",
    "build_context": "project",
    "chat_history": "replay",
    "clear": "erase(whole_space=...)",
    "consolidate": "maintain",
    "core_memory_append": "add_fact",
    "count": "inspect",
    "create": "add",
    "create_memory": "add",
    "delete_memory": "delete",
    "delete_space": "erase(whole_space=...)",
    "delete_user": "erase(whole_space=...)",
    "disconnect": "close",
    "drop": "erase(whole_space=...)",
    "dump": "export",
    "edit": "update",
    "execute": "operate",
    "export_json": "export",
    "facts": "list",
    "fetch": "get",
    "find": "recall",
    "flush": "maintain",
    "get_context": "project",
    "get_facts": "list",
    "get_history": "replay",
    "get_memories": "list",
    "get_memory": "get",
    "get_messages": "replay",
    "get_relevant_memories": "recall",
    "get_tools": "tools",
    "get_user_context": "project",
    "get_user_memories": "list",
    "graph": "recall",
    "hget": "get_record",
    "hset": "put_record",
    "ingest": "add",
    "insert": "add",
    "invoke": "recall",
    "keys": "list",
    "list_memories": "list",
    "load_memory_variables": "project",
    "lookup": "recall",
    "messages": "replay",
    "peek": "list",
    "put": "put_record",
    "query": "recall",
    "read": "get",
    "read_memory": "get",
    "reflect": "project",
    "remember": "add",
    "remove": "delete",
    "reset": "erase(whole_space=...)",
    "retain": "add",
    "retrieve": "recall",
    "save": "add",
    "save_context": "add",
    "search_facts": "recall",
    "search_memories": "search",
    "search_memory": "search",
    "set": "put_record",
    "similarity_search": "recall",
    "stats": "inspect",
    "status": "inspect",
    "summarize": "maintain",
    "update_memory": "update",
    "upsert": "add",
    "users": "spaces",
    "wipe": "erase(whole_space=...)",
    "write_memory": "add",
}
"""Calls of a memory."""
CALL_HINTS: Mapping[str, str] = {
    "begin": "use write, which stores a batch at once",
    "blocks": "use project, or elytron_agent.Agent for blocks that an agent edits",
    "collection": "use elytron.open(..., space=...)",
    "commit": "use add, which is durable when it returns",
    "create_collection": "use elytron.open(..., space=...)",
    "context": "use project",
    "get_collection": "use elytron.open(..., space=...)",
    "get_or_create_collection": "use elytron.open(..., space=...)",
    "persist": "use add, which is durable when it returns",
    "reindex": "use `elytron inspect --repair`",
    "session": "use conversation= with each call",
    "store": "use add",
    "thread": "use conversation= with each call",
    "transaction": "use write, which stores a batch at once",
    "user": "use user_id= with each call",
}
"""Names that no single call replaces, with what to do instead."""
EXPORTS: Mapping[str, str] = {
    "AsyncClient": "await elytron.connect(...)",
    "AsyncMemory": "await elytron.open(...), or elytron.compat.mem0",
    "AsyncMemoryClient": "await elytron.connect(...)",
    "AsyncZep": "await elytron.connect(...)",
    "Client": "elytron.connect",
    "Elytron": "elytron.open",
    "EphemeralClient": "elytron.open('memory:')",
    "Graphiti": "elytron.open",
    "HttpClient": "elytron.connect",
    "InMemoryStore": "elytron.open",
    "Letta": "elytron.connect",
    "Mem0": "elytron.open, or elytron.compat.mem0",
    "Memory": "elytron.open, or elytron.compat.mem0",
    "MemoryClient": "elytron.connect, or elytron.compat.mem0",
    "MemoryManager": "elytron.open",
    "MemoryStore": "elytron.open",
    "PersistentClient": "elytron.open",
    "Redis": "elytron.open",
    "SQLiteSession": "elytron.open",
    "Session": "elytron.open",
    "Zep": "elytron.connect",
    "connect_async": "elytron.connect",
    "create_client": "elytron.connect",
    "create_manage_memory_tool": "the tools() of elytron.open",
    "create_memory_manager": "elytron.open",
    "create_memory_store_manager": "elytron.open",
    "create_search_memory_tool": "the tools() of elytron.open",
    "init": "elytron.open",
    "load": "elytron.open",
    "mem0": "elytron.open, or elytron.compat.mem0",
    "start": "elytron.open",
}
"""Names of the package."""
FIELDS: Mapping[str, tuple[str, ...]] = {
    "content": ("text",),
    "created_at": ("at", "when"),
    "data": ("hits", "items", "text"),
    "hash": ("id",),
    "id": ("ids",),
    "memories": ("hits", "items", "ids"),
    "memory": ("text",),
    "memory_id": ("id",),
    "page_content": ("text",),
    "results": ("hits", "items", "ids", "decisions"),
    "run_id": ("conversation",),
    "session_id": ("conversation",),
    "similarity": ("score",),
    "thread_id": ("conversation",),
    "user_id": ("space", "speaker"),
    "value": ("text",),
}
"""Fields of reports and of the items that they list. The first name that the value has is suggested."""
_COMMAND_WORDS = {
    "add": "create insert new note put remember save store write",
    "console": "browse browser dashboard gui ui view web",
    "correct": "change edit modify update",
    "erase --all": "clear reset truncate wipe",
    "forget, erase": "del delete destroy drop purge remove rm",
    "get, list": "cat read show",
    "import": "ingest load upload",
    "inspect, doctor": "check health info stat status",
    "list": "all get-all ls",
    "recall": "ask find grep query search",
    "serve": "run start up",
    "server stop": "down quit stop",
    "spaces": "namespaces tenants users",
    "version": "about",
}
COMMANDS: Mapping[str, str] = {word: meant for meant, words in _COMMAND_WORDS.items() for word in words.split()}
"""Commands of other command lines with their equivalents here; the one that can be undone comes first."""
_HINTS = {
    "init": "No setup is needed: `elytron add` and `elytron import` create the store, `elytron demo` shows how.",
    "login": "There is no login: `elytron access add` creates a key, and clients read it from ELYTRON_API_KEY.",
    "logs": "A server logs to its standard error; `elytron doctor` reports on the store.",
    "upgrade": "Upgrade with the installer that you used, for example pip or uv; `elytron version` shows the version.",
}
_HINT_WORDS = {"init": "setup", "login": "auth logout signin", "logs": "log", "upgrade": ""}
COMMAND_HINTS: Mapping[str, str] = {
    word: _HINTS[meant] for meant, words in _HINT_WORDS.items() for word in (meant, *words.split())
}
"""Hints for commands of other command lines that have no equivalent here."""
_FILE = "a file (memory.db), a folder (memory/) or `memory:`"
SCHEMES: Mapping[str, str] = {
    "http": "use elytron.connect for a server, or gateway+http:// for a store that a server shares",
    "https": "use elytron.connect for a server, or gateway+https:// for a store that a server shares",
    "mongodb": f"use {_FILE}",
    "mysql": f"use {_FILE}",
    "neo4j": f"use {_FILE}",
    "qdrant": f"use {_FILE}",
    "redis": f"use {_FILE}",
}
"""Schemes of the URLs of stores."""


def way_out(name: str, names: Collection[str], /) -> str:
    """Return the hint for an unknown keyword `name`: the similar one of `names`, or the whole list."""
    if name in INSTEAD:
        return f": {INSTEAD[name]}"
    if intended_name := _intended_name(name, KEYWORDS.get(name, ()), names):
        return f": use {intended_name}="
    return f": choose from {', '.join(sorted(names))}" if names else ""


def call_instead(name: str, names: Collection[str], /) -> str:
    """Return the hint for an unknown call `name` of a memory; empty if none of `names` is similar."""
    if name in CALL_HINTS:
        return f": {CALL_HINTS[name]}"
    intended_name = CALLS.get(name) or _intended_name(name, (), names)
    return f": use {intended_name}" if intended_name else ""


def export_instead(name: str, names: Collection[str], /) -> str:
    """Return the hint for an unknown export `name` of the package; empty if none of `names` is similar."""
    intended_name = EXPORTS.get(name) or _intended_name(name, (), names)
    return f": use {intended_name}" if intended_name else ""


def field_instead(name: str, names: Collection[str], /) -> str:
    """Return the hint for an unknown field `name` of a value; empty if none of `names` is similar."""
    intended_name = _intended_name(name, FIELDS.get(name, ()), names)
    return f": use .{intended_name}" if intended_name else ""


def command_instead(name: str, commands: Collection[str], /) -> str:
    """Return the hint for an unknown command: the similar one of `commands`, or the whole list."""
    if name in COMMAND_HINTS:
        return COMMAND_HINTS[name]
    similar_commands = get_close_matches(name, sorted(commands), 1, _LIKE)
    intended_commands = COMMANDS[name].split(", ") if name in COMMANDS else similar_commands
    return (
        f"Did you mean {' or '.join(map(repr, intended_commands))}?"
        if intended_commands
        else "See `elytron --help` for the commands."
    )


def scheme_instead(scheme: str, /) -> str:
    """Return the hint for a store URL with an unknown scheme."""
    return f": {SCHEMES.get(scheme, f'use {_FILE}')}"


def known_keywords(function: Callable[P, ResultT], /) -> Callable[P, ResultT]:
    """Make `function` reject unknown keywords with a TypeError that suggests the intended one."""
    code = cast("FunctionType", function).__code__
    keywords = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> ResultT:
        require_keywords(function.__name__, kwargs, keywords)
        return function(*args, **kwargs)

    return call


def require_keywords(call: str, keywords: Mapping[str, Any], names: Collection[str], /) -> None:
    """Raise TypeError for the first of `keywords` that is not in `names`, suggesting the intended one."""
    unknown_keyword = next((name for name in keywords if name not in names), None)
    if unknown_keyword is not None:
        raise TypeError(f"{call}() has no parameter {unknown_keyword!r}{way_out(unknown_keyword, names)}")


def _intended_name(name: str, replacements: Collection[str], names: Collection[str]) -> str:
    candidates = [replacement for replacement in replacements if replacement in names] or get_close_matches(
        name, sorted(names), 1, _LIKE
    )
    return candidates[0] if candidates else ""
