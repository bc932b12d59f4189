"""Habits from other libraries: each guess works, or its error names the word to use."""

from collections.abc import Callable
from typing import Any

import pytest

import elytron
from elytron import SyncMemoryRuntime
from elytron_core.errors.foreign_names import CALL_HINTS

Guess = Callable[[Any], Any]
CALL_GUESSES: dict[str, Guess] = {
    # mem0, LangMem, Zep, Letta
    "get_all": lambda memory: memory.get_all(user_id="ada"),
    "search top_k": lambda memory: memory.search("key", user_id="ada", top_k=2),
    "search session": lambda memory: memory.search("key", session_id="s1"),
    "archival_memory_insert": lambda memory: memory.archival_memory_insert("x"),
    "core_memory_append": lambda memory: memory.core_memory_append("x"),
    "get_user_context": lambda memory: memory.get_user_context("s1"),
    "thread.create": lambda memory: memory.thread.create("s1"),
    "user.add": lambda memory: memory.user.add("ada"),
    "add_episode": lambda memory: memory.add_episode("x"),
    "delete_user": lambda memory: memory.delete_user("ada"),
    "search_memories": lambda memory: memory.search_memories("key"),
    "get_user_memories": lambda memory: memory.get_user_memories("ada"),
    "memory blocks": lambda memory: memory.blocks.create("x"),
    "consolidate": lambda memory: memory.consolidate(),
    # LangChain and its histories
    "add_texts": lambda memory: memory.add_texts(["x"]),
    "add_documents": lambda memory: memory.add_documents(["x"]),
    "similarity_search": lambda memory: memory.similarity_search("x", k=2),
    "as_retriever": lambda memory: memory.as_retriever(),
    "invoke": lambda memory: memory.invoke("x"),
    "add_user_message": lambda memory: memory.add_user_message("x"),
    "add_ai_message": lambda memory: memory.add_ai_message("x"),
    "messages": lambda memory: memory.messages,
    "load_memory_variables": lambda memory: memory.load_memory_variables({}),
    "save_context": lambda memory: memory.save_context({}, {}),
    "clear": lambda memory: memory.clear(),
    "as_tools": lambda memory: memory.as_tools(),
    # Chroma
    "get_or_create_collection": lambda memory: memory.get_or_create_collection("ada"),
    "query n_results": lambda memory: memory.query("x", n_results=2),
    "recall n_results": lambda memory: memory.recall("x", n_results=2),
    "recall where": lambda memory: memory.recall("x", where={}),
    "upsert": lambda memory: memory.upsert("x"),
    "peek": lambda memory: memory.peek(),
    "count": lambda memory: memory.count(),
    # OpenAI and Anthropic
    "tools": lambda memory: memory.tools("openai"),
    "project messages": lambda memory: memory.project("key", user_id="ada").messages,
    "add message": lambda memory: memory.add({"role": "user", "content": "hello"}, user_id="ada"),
    "create": lambda memory: memory.create("x"),
    "retrieve": lambda memory: memory.retrieve("x"),
    # sqlite3 and Redis
    "execute": lambda memory: memory.execute("select 1"),
    "commit": lambda memory: memory.commit(),
    "set": lambda memory: memory.set("a", "b"),
    "hset": lambda memory: memory.hset("a", "b"),
    "hget": lambda memory: memory.hget("a", "b"),
    "keys": lambda memory: memory.keys(),
    "disconnect": lambda memory: memory.disconnect(),
    # Plain words
    "remember": lambda memory: memory.remember("x"),
    "store": lambda memory: memory.store("x"),
    "lookup": lambda memory: memory.lookup("x"),
    "stats": lambda memory: memory.stats(),
    "facts": lambda memory: memory.facts(),
    "context": lambda memory: memory.context("x"),
    "wipe": lambda memory: memory.wipe(),
    "backup": lambda memory: memory.backup("x.zip"),
    "get_history": lambda memory: memory.get_history(),
    "summarize": lambda memory: memory.summarize(),
    "transaction": lambda memory: memory.transaction(),
    "reindex": lambda memory: memory.reindex(),
    "report as HTML": lambda memory: memory.recall("key", user_id="ada")._repr_html_(),
}


@pytest.fixture(scope="module")
def memory() -> SyncMemoryRuntime:
    memory = elytron.open("memory:", space=None).sync()
    memory.add("The boat key is under the oar.", user_id="ada")
    return memory


@pytest.mark.parametrize("name", CALL_GUESSES)
def test_a_guess_works_or_its_error_names_the_word_to_use(memory: SyncMemoryRuntime, name: str) -> None:
    error: Exception | None = None
    try:
        CALL_GUESSES[name](memory)
    except (AttributeError, TypeError) as raised:
        error = raised
    assert error is None or ": use " in str(error)


@pytest.mark.parametrize("name", CALL_HINTS)
def test_an_unreplaced_name_is_answered_with_a_hint(memory: SyncMemoryRuntime, name: str) -> None:
    with pytest.raises(AttributeError, match=": use "):
        getattr(memory, name)
