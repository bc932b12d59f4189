"""The dialects of model APIs: the parts of requests that a proxy reads and changes."""

from collections.abc import Mapping
from typing import Final

from elytron_proxy.dialects.dialect import (
    AnswerWitness,
    CallPrompt,
    CallRefusal,
    PromptDialect,
    PromptTurn,
    ToolUse,
    spoken_answer,
)
from elytron_proxy.dialects.messages import MESSAGES
from elytron_proxy.dialects.ollama import COMPLETION, OLLAMA
from elytron_proxy.dialects.openai import CHAT, RESPONSES

DIALECTS: Final[Mapping[str, PromptDialect]] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/api/chat": OLLAMA,
    "/api/generate": COMPLETION,
}
"""Dialect of each path of a call."""

__all__ = [
    "CHAT",
    "COMPLETION",
    "DIALECTS",
    "MESSAGES",
    "OLLAMA",
    "RESPONSES",
    "AnswerWitness",
    "CallPrompt",
    "CallRefusal",
    "PromptDialect",
    "PromptTurn",
    "ToolUse",
    "spoken_answer",
]
