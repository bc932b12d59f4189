"""Prompts in the dialects of model APIs: the parts of requests that a proxy reads and changes."""

from collections.abc import Mapping
from typing import Final

from elytron_proxy.prompts.messages import MESSAGES
from elytron_proxy.prompts.ollama import COMPLETION, OLLAMA
from elytron_proxy.prompts.openai import CHAT, RESPONSES
from elytron_proxy.prompts.prompt import (
    AnswerWitness,
    CallPrompt,
    CallRefusal,
    PromptDialect,
    PromptTurn,
    ToolUse,
    spoken_answer,
)

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
