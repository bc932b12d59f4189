"""One peer with one corpus, in its own environment.

The input is one question number per line, and the output the number of hits. `+` and the number of a text adds that
text; the output is the seconds that took, and whether a search by the text's own vector finds it first.
"""

import hashlib
import json
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from benchmarks.corpora import ADDED, DIMENSIONS, Corpus, corpus, vectors_of


class Side(Protocol):
    """A peer that has loaded the corpus."""

    def recall(self, number: int, /) -> int:
        """Answer a question and return the number of hits."""
        ...

    def add(self, text: str, /) -> None:
        """Add a text whose vector is known."""
        ...

    def first(self, text: str, /) -> str:
        """Return the text that the vector of `text` finds first."""
        ...


class LangGraph:
    """LangGraph's stores, with vectors."""

    def __init__(self, data: Corpus, store: Any) -> None:
        put: Any = import_module("langgraph.store.base").PutOp

        self._data, self._store, self._size = data, store, len(data.texts)
        for start in range(0, len(data.texts), 500):
            puts = [put(("u",), str(place), {"text": text})
                    for place, text in enumerate(data.texts[start : start + 500], start)]  # fmt: skip
            store.batch(puts)

    def recall(self, number: int, /) -> int:
        return len(self._store.search(("u",), query=self._data.questions[number], limit=10))

    def add(self, text: str, /) -> None:
        self._store.put(("u",), str(self._size), {"text": text})
        self._size += 1

    def first(self, text: str, /) -> str:
        return self._store.search(("u",), query=text, limit=1)[0].value["text"]


def index_of(data: Corpus, more: Corpus) -> dict[str, Any]:
    known = vectors_of(data, more)

    def ready(texts: list[str]) -> list[list[float]]:
        # One of the stores embeds a value as JSON, the other one its text.
        return [(known[text] if text in known else known[json.loads(text)["text"]]).tolist() for text in texts]

    return {"dims": DIMENSIONS, "embed": ready, "fields": ["text"]}


def langgraph_sqlite(data: Corpus, more: Corpus, folder: Path) -> Side:
    made: Any = import_module("langgraph.store.sqlite").SqliteStore

    rows = sqlite3.connect(folder / "s.db", check_same_thread=False, isolation_level=None)
    store = made(rows, index=index_of(data, more))
    store.setup()
    return LangGraph(data, store)


def langgraph_memory(data: Corpus, more: Corpus, folder: Path) -> Side:  # noqa: ARG001 - one shape for all
    made: Any = import_module("langgraph.store.memory").InMemoryStore
    return LangGraph(data, made(index=index_of(data, more)))


class Chroma:
    """Chroma, filtered by user, as a memory of several users has to be."""

    def __init__(self, data: Corpus, more: Corpus, folder: Path) -> None:
        chromadb: Any = import_module("chromadb")
        self._data, self._known, self._size = data, vectors_of(more), len(data.texts)
        client = chromadb.PersistentClient(str(folder))
        settings = {"hnsw": {"space": "cosine"}}
        self._rows = client.create_collection("memories", configuration=settings, embedding_function=None)
        for start in range(0, len(data.texts), 1_000):
            texts = data.texts[start : start + 1_000]
            names = [str(place) for place in range(start, start + len(texts))]
            vectors = data.vectors[start : start + 1_000]
            self._rows.add(ids=names, embeddings=vectors, documents=texts, metadatas=[{"user": "u"}] * len(texts))

    def recall(self, number: int, /) -> int:
        found = self._rows.query(query_embeddings=[self._data.asked[number]], n_results=10, where={"user": "u"})
        return len(found["ids"][0])

    def add(self, text: str, /) -> None:
        self._rows.add(
            ids=[str(self._size)], embeddings=[self._known[text]], documents=[text], metadatas=[{"user": "u"}]
        )
        self._size += 1

    def first(self, text: str, /) -> str:
        found = self._rows.query(query_embeddings=[self._known[text]], n_results=1, where={"user": "u"})
        return found["documents"][0][0]


class Mem0:
    """mem0 with its default store, filled through that store's own interface."""

    def __init__(self, data: Corpus, more: Corpus, folder: Path) -> None:
        memory: Any = import_module("mem0").Memory
        self._data = data
        store = {"path": str(folder / "q"), "on_disk": True, "embedding_model_dims": DIMENSIONS, "collection_name": "m"}
        self._memory = memory.from_config({
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(folder / "h.db"),
            "embedder": {"provider": "openai", "config": {"embedding_dims": DIMENSIONS}},
            "llm": {"provider": "openai", "config": {}},
        })  # fmt: skip
        known = vectors_of(data, more)
        ready = self._memory.embedding_model

        class Ready:
            config = ready.config

            def embed(self, text: str, memory_action: object = None) -> list[float]:  # noqa: ARG002 - mem0's shape
                return known[text].tolist()

        self._memory.embedding_model = Ready()
        for start in range(0, len(data.texts), 1_000):
            texts = data.texts[start : start + 1_000]
            self._memory.vector_store.insert(
                vectors=[vector.tolist() for vector in data.vectors[start : start + 1_000]],
                ids=[str(uuid.uuid4()) for _ in texts],
                payloads=[{"data": text, "hash": hashlib.md5(text.encode()).hexdigest(), "user_id": "u",
                           "created_at": "2026-01-01T00:00:00+00:00", "text_lemmatized": text} for text in texts],
            )  # fmt: skip

    def recall(self, number: int, /) -> int:
        question = self._data.questions[number]
        return len(self._memory.search(question, top_k=10, filters={"user_id": "u"}, threshold=0.0)["results"])

    def add(self, text: str, /) -> None:
        self._memory.add(text, user_id="u", infer=False)

    def first(self, text: str, /) -> str:
        return self._memory.search(text, top_k=1, filters={"user_id": "u"}, threshold=0.0)["results"][0]["memory"]


SIDES: dict[str, Callable[[Corpus, Corpus, Path], Side]] = {
    "langgraph-sqlite": langgraph_sqlite,
    "langgraph-memory": langgraph_memory,
    "chroma": Chroma,
    "mem0": Mem0,
}


def main(name: str, size: int, folder: Path) -> None:
    """Load the corpus, report that, and answer until the input ends."""
    folder.mkdir(parents=True)
    more = corpus(ADDED, seed=1)
    side = SIDES[name](corpus(size), more, folder)
    side.recall(0)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.startswith("+"):
            text = more.texts[int(line)]
            began = time.perf_counter()
            side.add(text)
            print(f"added {time.perf_counter() - began} {int(side.first(text) == text)}", flush=True)
        else:
            print(f"found {side.recall(int(line))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
