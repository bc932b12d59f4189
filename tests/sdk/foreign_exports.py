"""A small export in each importable format, handwritten in its published form."""

import json
import pickle
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from elytron.importers.format_table import TranscriptFormat

Files = dict[str, Any]


def write_json(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def json_lines(*records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def write_folder(folder: Path, members: Files) -> Path:
    for name, content in members.items():
        write_json(folder / name, content)
    return folder


def write_zip(path: Path, members: Files) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content if isinstance(content, str | bytes) else json.dumps(content))
    return path


def write_database(path: Path, schema: str, table: str, rows: Sequence[Sequence[Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.commit()
    return path


MEM0: Final[dict[str, Any]] = {
    "results": [
        {
            "id": "mem-1",
            "memory": "Ada lives in Lisbon",
            "hash": "d1",
            "user_id": "ada",
            "categories": ["home"],
            "metadata": {"topic": "home", "edit_of": "0.1", "private": "true"},
            "created_at": "2026-05-01T10:00:00+00:00",
            "novelty": 3,
        },
        {"id": "mem-2", "memory": "Ada is on call", "user_id": "ada", "created_at": "2026-05-02",
         "expiration_date": "2026-05-09"},
    ]
}  # fmt: skip
HISTORY_SCHEMA: Final = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,
    created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_scope TEXT, role TEXT, content TEXT, name TEXT,
    created_at DATETIME);
INSERT INTO messages VALUES ('m1', 'user_id=ada', 'user', 'I moved to Porto', 'Ada', '2026-05-03T10:00:00+00:00');
"""
HISTORY: Final = (
    ("h1", "mem-1", None, "Ada lives in Lisbon", "ADD", "2026-05-01T10:00:00+00:00", None, 0, None, None),
    ("h2", "mem-1", "Ada lives in Lisbon", "Ada lives in Porto", "UPDATE", "2026-05-01T10:00:00+00:00",
     "2026-05-03T10:00:00+00:00", 0, None, None),
    ("h3", "mem-3", None, "Ada owns a boat", "ADD", "2026-05-01T10:00:00+00:00", None, 0, None, None),
    ("h4", "mem-3", "Ada owns a boat", None, "DELETE", "2026-05-01T10:00:00+00:00", "2026-05-04T10:00:00+00:00",
     1, None, None),
)  # fmt: skip
COGX: Final[Files] = {
    "manifest.json": {"cogx_version": "0.1", "source_system": "zep", "counts": {"fact": 2, "episode": 1}},
    "entities.jsonl": json_lines(
        {"kind": "entity", "external_system": "zep", "external_id": "n1", "name": "Ada", "description": "A pilot."},
        {"kind": "entity", "external_system": "zep", "external_id": "n2", "name": "Lisbon"},
    ),
    "facts.jsonl": json_lines(
        {"kind": "fact", "external_system": "zep", "external_id": "f1", "subject_ref": "n1", "predicate": "lives_in",
         "object_ref": "n2", "valid_at": "2026-05-01T00:00:00Z", "invalid_at": "2026-06-01T00:00:00Z"},
        {"kind": "fact", "external_system": "zep", "external_id": "f2", "subject_ref": "n1", "predicate": "lives_in",
         "object_ref": "Porto", "fact_text": "Ada lives in Porto", "valid_at": "2026-06-01T00:00:00"},
    ),
    "episodes.jsonl": json_lines(
        {"kind": "episode", "external_system": "zep", "external_id": "e1", "scope": {"user_id": "ada"},
         "turns": [{"role": "user", "content": "I moved to Porto.", "occurred_at": "2026-06-01T09:00:00Z"},
                   {"role": "episode", "content": "Ada moved.", "occurred_at": None}]},
    ),
}  # fmt: skip
GRAPHITI: Final[dict[str, Any]] = {
    "episodes": [{"uuid": "ep1", "name": "chat", "group_id": "g", "content": "user: I moved",
                  "valid_at": "2026-06-01T09:00:00Z"}],
    "nodes": [{"uuid": "n1", "name": "Ada", "group_id": "g", "labels": ["Entity", "Person"], "summary": "A pilot."},
              {"uuid": "n2", "name": "Lisbon", "group_id": "g"}],
    "edges": [
        {"uuid": "r1", "group_id": "g", "source_node_uuid": "n1", "target_node_uuid": "n2", "name": "LIVES_IN",
         "fact": "Ada lives in Lisbon", "valid_at": "2026-05-01T00:00:00Z", "invalid_at": "2026-06-01T00:00:00Z"},
        {"uuid": "r2", "group_id": "g", "source_node_uuid": "n1", "target_node_uuid": "n2", "name": "LIKES",
         "shade": 1},
    ],
}  # fmt: skip
STORE_SCHEMA: Final = """
CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, created_at TIMESTAMP,
    updated_at TIMESTAMP, expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key));
"""
STORE: Final = (
    ("memories.ada", "k1", '{"content": "Ada lives in Lisbon", "kind": "home"}', "2026-05-01 10:00:00",
     "2026-05-01 10:00:00", None, None),
    ("memories.ada", "k2", '{"data": "Ada is on call"}', "2026-05-01 10:00:00", "2026-05-01 10:00:00",
     "2026-05-02 10:00:00", 1440.0),
    ("memories.ada", "k3", '{"count": 3}', "2026-05-01 10:00:00", "2026-05-01 10:00:00", None, None),
)  # fmt: skip
HINDSIGHT: Final[Files] = {
    "manifest.json": {"schema_version": 1, "source_bank_id": "ada", "archive_type": "documents", "fact_count": 1},
    "documents/000000.json": {
        "id": "doc-1",
        "original_text": "I live in Lisbon.",
        "facts": [{"text": "Ada lives in Lisbon", "fact_type": "world", "tags": ["home"],
                   "mentioned_at": "2026-05-01T10:00:00Z"}],
    },
    "observations.json": [{"text": "Ada likes the sea", "proof_count": 2, "event_date": "2026-05-02T10:00:00Z"}],
}  # fmt: skip
VAULT: Final[Files] = {
    ".obsidian/app.json": {},
    ".trash/old.md": "Thrown away.",
    "Home.md": "---\ntags: [home, sea]\ncreated: 2026-05-01\n---\n# Where\n\n"
    "I live in [[Lisbon|the white city]]. #plan\n",
    "sub/Boat.md": "The boat is called [[Mira]].\n",
}
BASIC: Final[Files] = {
    "ada.md": "---\ntitle: Ada\ntype: person\npermalink: people/ada\ntags: [friend]\ncreated: 2026-05-01T10:00:00\n"
    "---\n# Ada\n\nA pilot.\n\n- [home] lives in Lisbon #city (since May)\n- flies_with [[Noor]]\n",
}
SLACK: Final[Files] = {
    "users.json": [{"id": "U1", "name": "ada", "profile": {"display_name": "Ada"}}, {"id": "U2", "name": "noor"}],
    "channels.json": [{"id": "C1", "name": "harbour"}],
    "harbour/2026-05-01.json": [
        {"type": "message", "subtype": "channel_join", "user": "U1", "text": "joined", "ts": "1777620000.000100"},
        {"type": "message", "user": "U1", "ts": "1777626000.000200",
         "text": "<@U2> see <https://a.example|the list> &amp; go"},
        {"type": "message", "subtype": "bot_message", "bot_id": "B1", "username": "deploys", "text": "done",
         "ts": "1777626060.000300"},
        {"type": "message", "subtype": "tombstone", "user": "U2", "text": "gone", "ts": "1777626070.000300"},
        {"type": "message", "user": "U2", "text": "", "files": [{"id": "F1"}], "ts": "1777626080.000300"},
    ],
}  # fmt: skip
DISCORD: Final[dict[str, Any]] = {
    "guild": {"id": "1", "name": "Boats"},
    "channel": {"id": "77", "type": "GuildTextChat", "name": "harbour"},
    "messages": [
        {"id": "9", "type": "Default", "timestamp": "2026-05-01T10:00:00+02:00", "content": "The boat is blue.",
         "author": {"id": "5", "name": "ada", "nickname": "Ada", "isBot": False}},
        {"id": "10", "type": "GuildMemberJoin", "timestamp": "2026-05-01T10:00:00+02:00", "content": "Joined.",
         "author": {"id": "6", "name": "noor", "isBot": False}},
    ],
    "messageCount": 2,
}  # fmt: skip
MAILBOX: Final = """\
From ada@example.com Fri May  1 10:00:00 2026
From: =?utf-8?q?Ad=C3=A1?= <ada@example.com>
Subject: Boat
Date: Fri, 01 May 2026 10:00:00 +0200
Message-ID: <m1@example.com>
Content-Type: text/plain; charset=utf-8

The boat is blue.
>From here you see it.

--\x20
Ada, captain

From noor@example.com Fri May  1 11:00:00 2026
From: noor@example.com
Subject: Re: Boat
Date: Fri, 01 May 2026 11:00:00 -0000
Message-ID: <m2@example.com>
In-Reply-To: <m1@example.com>

Good.

On Fri, 1 May 2026 at 10:00, Ada wrote:
> The boat is blue.
"""
GEMINI: Final[list[Any]] = [
    {"header": "Gemini Apps", "title": "Used an assistant feature", "time": "2026-05-01T11:00:00Z",
     "products": ["Gemini Apps"]},
    {"header": "Gemini Apps", "title": "Prompted Where is Lisbon?", "time": "2026-05-01T10:00:00.123Z",
     "safeHtmlItem": [{"html": "<p>In <b>Portugal</b>.</p><script>x()</script><p>By the sea.</p>"}]},
]  # fmt: skip
LANGCHAIN: Final[list[Any]] = [
    {"type": "system", "data": {"content": "Be brief.", "type": "system"}},
    {"type": "human", "data": {"content": "Where is it?", "type": "human", "id": "h1"}},
    {"type": "ai", "data": {"content": "", "type": "ai", "tool_calls": [{"name": "look", "args": {}, "id": "c1"}]}},
    {"type": "tool", "data": {"content": "pier 3", "type": "tool", "tool_call_id": "c1"}},
    {"type": "ai", "data": {"content": [{"type": "text", "text": "At pier 3."}], "type": "ai"}},
]
PYDANTIC_AI: Final[list[Any]] = [
    {"kind": "request", "parts": [
        {"part_kind": "system-prompt", "content": "Be brief.", "timestamp": "2026-05-01T10:00:00Z"},
        {"part_kind": "user-prompt", "content": ["Where is it?", {"kind": "image-url", "url": "u"}],
         "timestamp": "2026-05-01T10:00:00Z"}]},
    {"kind": "response", "timestamp": "2026-05-01T10:00:01Z", "parts": [
        {"part_kind": "thinking", "content": "Hm."}, {"part_kind": "tool-call", "tool_name": "look", "args": "{}"},
        {"part_kind": "text", "content": "At pier 3."}]},
]  # fmt: skip
RESPONSES: Final[list[Any]] = [
    {"role": "user", "content": "Where is it?"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "pier 3"},
    {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "At pier 3."}]},
]
SESSION_SCHEMA: Final = """
CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT, created_at TIMESTAMP);
"""
CHATGPT: Final[list[Any]] = [{
    "conversation_id": "c-1", "title": "Tea", "current_node": "a", "create_time": 1777629600,
    "mapping": {"a": {"message": {"id": "a", "author": {"role": "user"},
                                  "content": {"content_type": "text", "parts": ["Tea?"]}}}},
}]  # fmt: skip
CLAUDE: Final[list[Any]] = [
    {"uuid": "u-1", "name": "Tides", "chat_messages": [{"uuid": "a", "sender": "human", "text": "When?"}]}
]
TELEGRAM: Final[dict[str, Any]] = {
    "name": "Boat", "type": "personal_chat", "id": 5,
    "messages": [{"id": 1, "type": "message", "date_unixtime": "1777629600", "from": "Ada", "text": "Where?"}],
}  # fmt: skip


class PointStruct:
    """Replaces Qdrant's class of the same name, which pickles name."""

    def __init__(self, point_id: str, payload: dict[str, Any]) -> None:
        self.state = {"__dict__": {"id": point_id, "vector": [0.1, 0.2], "payload": payload}}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.state, "__pydantic_extra__": None, "__pydantic_fields_set__": {"id", "payload"}}


def pickled_point(point_id: str, payload: dict[str, Any]) -> bytes:
    """Return a point as a local Qdrant pickles it."""
    name = "qdrant_client.http.models.models"
    module = ModuleType(name)
    setattr(module, "PointStruct", PointStruct)  # noqa: B010 - a module has no such attribute of its own
    parents = ("qdrant_client", "qdrant_client.http", "qdrant_client.http.models")
    previous = {part: sys.modules.get(part) for part in (*parents, name)}
    sys.modules |= {part: ModuleType(part) for part in parents} | {name: module}
    PointStruct.__module__ = name
    try:
        return pickle.dumps(PointStruct(point_id, payload), protocol=4)
    finally:
        PointStruct.__module__ = __name__
        for part, earlier in previous.items():
            sys.modules.pop(part) if earlier is None else sys.modules.update({part: earlier})


POINT: Final = {
    "data": "Ada lives in Lisbon",
    "hash": "h",
    "user_id": "ada",
    "created_at": "2026-05-01T10:00:00+00:00",
    "topic": "home",
}


def _qdrant(folder: Path) -> Path:
    schema = "CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB);"
    write_database(
        folder / "qdrant" / "collection" / "mem0" / "storage.sqlite", schema, "points",
        [("a", pickled_point("mem-1", POINT))],
    )  # fmt: skip
    return write_json(folder / "qdrant" / "meta.json", {"collections": {"mem0": {}}}).parent


def _agents_sdk(folder: Path) -> Path:
    rows = [(number, "s1", json.dumps(item), "2026-05-01 10:00:00") for number, item in enumerate(RESPONSES, 1)]
    return write_database(folder / "sessions.db", SESSION_SCHEMA, "agent_messages", rows)


GRAPH_LINES: Final = json_lines(
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["lives in Lisbon", "flies"]},
    {"type": "relation", "from": "Ada", "to": "Noor", "relationType": "works_with"},
)
EXPORTS: Final[dict[TranscriptFormat, Callable[[Path], Path]]] = {
    TranscriptFormat.JSONL: lambda to: write_json(to / "a.jsonl", json_lines({"role": "user", "content": "Where?"})),
    TranscriptFormat.OPENAI_MESSAGES: lambda to: write_json(to / "a.json", [{"role": "user", "content": "Where?"}]),
    TranscriptFormat.CHATGPT: lambda to: write_json(to / "a.json", CHATGPT),
    TranscriptFormat.CLAUDE: lambda to: write_json(to / "a.json", CLAUDE),
    TranscriptFormat.WHATSAPP: lambda to: write_json(to / "a.txt", "[2026-05-01, 10:00:00] Ada: The boat is blue.\n"),
    TranscriptFormat.TELEGRAM: lambda to: write_json(to / "result.json", TELEGRAM),
    TranscriptFormat.MARKDOWN: lambda to: write_json(to / "a.md", "# Boat\n\nIt is blue.\n"),
    TranscriptFormat.TEXT: lambda to: write_json(to / "a.txt", "The boat is blue.\n\nIt is at pier 3.\n"),
    TranscriptFormat.MEM0: lambda to: write_json(to / "mem0.json", MEM0),
    TranscriptFormat.MEM0_HISTORY: lambda to: write_database(to / "history.db", HISTORY_SCHEMA, "history", HISTORY),
    TranscriptFormat.MEM0_QDRANT: _qdrant,
    TranscriptFormat.MCP_MEMORY: lambda to: write_json(to / "memory.jsonl", GRAPH_LINES),
    TranscriptFormat.COGX: lambda to: write_folder(to / "cogx", COGX),
    TranscriptFormat.GRAPHITI: lambda to: write_json(to / "dump.json", GRAPHITI),
    TranscriptFormat.LANGGRAPH: lambda to: write_database(to / "store.db", STORE_SCHEMA, "store", STORE),
    TranscriptFormat.HINDSIGHT: lambda to: write_zip(to / "bank.zip", HINDSIGHT),
    TranscriptFormat.BASIC_MEMORY: lambda to: write_folder(to / "notes", BASIC),
    TranscriptFormat.OBSIDIAN: lambda to: write_folder(to / "vault", VAULT),
    TranscriptFormat.SLACK: lambda to: write_zip(to / "slack.zip", SLACK),
    TranscriptFormat.DISCORD: lambda to: write_json(to / "harbour.json", DISCORD),
    TranscriptFormat.MBOX: lambda to: write_json(to / "inbox.mbox", MAILBOX),
    TranscriptFormat.GEMINI: lambda to: write_json(to / "MyActivity.json", GEMINI),
    TranscriptFormat.LANGCHAIN: lambda to: write_json(to / "history.json", LANGCHAIN),
    TranscriptFormat.PYDANTIC_AI: lambda to: write_json(to / "history.json", PYDANTIC_AI),
    TranscriptFormat.RESPONSES: lambda to: write_json(to / "items.json", RESPONSES),
    TranscriptFormat.AGENTS_SDK: _agents_sdk,
}
"""Writes a sample of each format into a folder and returns what to import."""
