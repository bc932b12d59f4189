"""Every importable format: how it is recognised, its reader, and its row in the documentation."""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Final, Generic, TypeVar

from elytron.importers import formats, whatsapp
from elytron.importers.bundles import FileBundle
from elytron.importers.chats import agent_histories, discord, gemini, mailbox, slack
from elytron.importers.json_lines import LineFile
from elytron.importers.memories import cogx, graphs, mem0_files, notes, records
from elytron.importers.memories.foreign_tables import ForeignDatabase
from elytron.importers.message_shape import SourceReader
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.strict_json import Json

SourceT = TypeVar("SourceT")
Line = dict[str, Json]


class TranscriptFormat(StrEnum):
    """The transcripts and memories that can be read."""

    JSONL = "jsonl"
    OPENAI_MESSAGES = "openai_messages"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    WHATSAPP = "whatsapp"
    TELEGRAM = "telegram"
    MARKDOWN = "markdown"
    TEXT = "text"
    MEM0 = "mem0"
    MEM0_HISTORY = "mem0_history"
    MEM0_QDRANT = "mem0_qdrant"
    MCP_MEMORY = "mcp_memory"
    COGX = "cogx"
    GRAPHITI = "graphiti"
    LANGGRAPH = "langgraph"
    HINDSIGHT = "hindsight"
    BASIC_MEMORY = "basic_memory"
    OBSIDIAN = "obsidian"
    SLACK = "slack"
    DISCORD = "discord"
    MBOX = "mbox"
    GEMINI = "gemini"
    LANGCHAIN = "langchain"
    PYDANTIC_AI = "pydantic_ai"
    RESPONSES = "responses"
    AGENTS_SDK = "agents_sdk"


@dataclass(frozen=True, slots=True)
class FormatRow(Generic[SourceT]):
    """One variant of a format: how a source of this kind is recognised, and its reader."""

    format: TranscriptFormat
    matches: Callable[[SourceT], bool]
    read: SourceReader[SourceT]


@dataclass(frozen=True, slots=True)
class FormatPage:
    """A format's row in the documentation."""

    name: str
    looks_like: str
    conversation: str
    recognised_by: str


def _is_list_of(document: Json, *names: str) -> bool:
    first = document[0] if isinstance(document, list) and document else document
    return isinstance(first, dict) and any(name in first for name in names)


def _is_telegram(document: Json) -> bool:
    match document:
        case {"chats": {"list": list()}} | {"messages": [{"type": str(), "id": int()}, *_], "id": int()}:
            return True
        case _:
            return False


def _is_openai(document: Json) -> bool:
    match document:
        case {"messages": list()} | [{"role": _}, *_]:
            return True
        case _:
            return False


def _has_manifest(*manifest: Callable[[Json], bool]) -> Callable[[FileBundle], bool]:
    """Return a predicate for bundles whose manifest passes one of `manifest`. Unreadable manifests are ignored."""

    def matches(bundle: FileBundle) -> bool:
        for member in bundle.files_named("manifest.json"):
            try:
                document = member.json()
            except (UnreadableFile, InvalidInput):
                continue
            if any(is_own(document) for is_own in manifest):
                return True
        return False

    return matches


def _has_table(table: str, *columns: str) -> Callable[[ForeignDatabase], bool]:
    return lambda database: database.has(table, *columns)


def _is_chatgpt(document: Json) -> bool:
    return _is_list_of(document, "mapping")


def _is_claude(document: Json) -> bool:
    return _is_list_of(document, "chat_messages")


DOCUMENT_ROWS: Final[tuple[FormatRow[Json], ...]] = (
    FormatRow(TranscriptFormat.DISCORD, discord.is_exporter_file, discord.read_exporter_file),
    FormatRow(TranscriptFormat.TELEGRAM, _is_telegram, formats.read_telegram_export),
    FormatRow(TranscriptFormat.CHATGPT, _is_chatgpt, formats.read_chatgpt_export),
    FormatRow(TranscriptFormat.CLAUDE, _is_claude, formats.read_claude_export),
    FormatRow(TranscriptFormat.LANGCHAIN, agent_histories.is_langchain, agent_histories.read_langchain),
    FormatRow(TranscriptFormat.PYDANTIC_AI, agent_histories.is_pydantic_ai, agent_histories.read_pydantic_ai),
    FormatRow(TranscriptFormat.RESPONSES, agent_histories.is_response_items, agent_histories.read_response_items),
    FormatRow(TranscriptFormat.MEM0, mem0_files.looks_exported, mem0_files.read_export),
    FormatRow(TranscriptFormat.OPENAI_MESSAGES, _is_openai, formats.read_openai_messages),
    FormatRow(TranscriptFormat.GEMINI, gemini.is_activity, gemini.read_activity),
    FormatRow(TranscriptFormat.LANGGRAPH, records.is_store_export, records.read_store_export),
    FormatRow(TranscriptFormat.GRAPHITI, graphs.is_graphiti_dump, graphs.read_graphiti_dump),
)
"""JSON documents, the more specific formats first."""
LINE_ROWS: Final[tuple[FormatRow[Line], ...]] = (
    FormatRow(TranscriptFormat.COGX, cogx.is_record, cogx.read_record_line),
    FormatRow(TranscriptFormat.MCP_MEMORY, graphs.is_graph_line, graphs.read_graph_line),
    FormatRow(TranscriptFormat.MEM0, mem0_files.looks_like_line, mem0_files.read_record),
    FormatRow(TranscriptFormat.JSONL, lambda line: "content" in line, formats.read_message_line),
)
"""JSON Lines, recognised by the first line. The last row takes files that no other row recognises."""
DATABASE_ROWS: Final[tuple[FormatRow[ForeignDatabase], ...]] = (
    FormatRow(TranscriptFormat.MEM0_HISTORY, _has_table("history", "memory_id", "new_memory"), mem0_files.read_history),
    FormatRow(TranscriptFormat.MEM0_QDRANT, _has_table("points", "id", "point"), mem0_files.read_points),
    FormatRow(TranscriptFormat.LANGGRAPH, _has_table("store", "prefix", "key", "value"), records.read_store_table),
    FormatRow(
        TranscriptFormat.AGENTS_SDK, _has_table("agent_messages", "session_id", "message_data"),
        agent_histories.read_sessions,
    ),
)  # fmt: skip
"""SQLite files, recognised by their tables."""
BUNDLE_ROWS: Final[tuple[FormatRow[FileBundle], ...]] = (
    FormatRow(TranscriptFormat.COGX, _has_manifest(cogx.is_manifest), cogx.read_archive),
    FormatRow(TranscriptFormat.HINDSIGHT, _has_manifest(records.is_hindsight_manifest), records.read_hindsight),
    FormatRow(TranscriptFormat.SLACK, slack.is_slack, slack.read_slack),
    FormatRow(TranscriptFormat.DISCORD, discord.is_data_package, discord.read_data_package),
    FormatRow(TranscriptFormat.OBSIDIAN, notes.is_vault, notes.read_vault),
    FormatRow(TranscriptFormat.BASIC_MEMORY, notes.is_basic_memory, notes.read_basic_memory),
)
"""Folders and ZIP files that form a single export, recognised by their files."""
MAIL_ROW: Final[FormatRow[LineFile]] = FormatRow(
    TranscriptFormat.MBOX, lambda source: mailbox.begins_mailbox(source.file.read(4096)), mailbox.read_mailbox
)
TEXT_READERS: Final[dict[TranscriptFormat, SourceReader[Json]]] = {
    TranscriptFormat.WHATSAPP: whatsapp.read_whatsapp_export,
    TranscriptFormat.MARKDOWN: formats.read_markdown,
    TranscriptFormat.TEXT: formats.read_plain_text,
}
"""Text formats: a chat is recognised by its lines, prose by the file name."""
_PROSE: Final = {
    "": TranscriptFormat.TEXT,
    ".txt": TranscriptFormat.TEXT,
    ".text": TranscriptFormat.TEXT,
    ".md": TranscriptFormat.MARKDOWN,
    ".markdown": TranscriptFormat.MARKDOWN,
}
FILE_SUFFIXES: Final = frozenset({*_PROSE, ".jsonl", ".json", ".mbox", ".db", ".sqlite", ".sqlite3"} - {""})
"""File suffixes of possible transcripts in a folder or ZIP file."""


@cache
def format_pages() -> dict[TranscriptFormat, FormatPage]:
    """Return each format's row in the documentation."""
    text = files("elytron.importers").joinpath("format_pages.toml").read_text("utf-8")
    return {TranscriptFormat(name): FormatPage(**page) for name, page in tomllib.loads(text).items()}


def supported_formats() -> str:
    """Return a sentence fragment that lists the supported formats."""
    names = ", ".join(page.name for page in format_pages().values())
    return f"supported formats are {names}, and folders or ZIP files of these"


def prose_format(name: str, /) -> TranscriptFormat | None:
    """Return the format of a prose file by its suffix, or None."""
    return _PROSE.get(PurePosixPath(name).suffix.lower())


def page_table() -> Iterator[str]:
    """Yield the lines of the documentation's table of formats."""
    yield "| format | looks like | conversation | messages recognised by |"
    yield "|---|---|---|---|"
    for page in format_pages().values():
        yield f"| {page.name} | {page.looks_like} | {page.conversation} | {page.recognised_by} |"
