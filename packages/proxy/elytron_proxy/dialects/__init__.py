"""The dialects of model APIs: the parts of requests that a proxy reads and changes."""

from elytron_proxy.dialects.chat import CHAT
from elytron_proxy.dialects.dialect import AnswerWitness, CallRefusal, PromptDialect
from elytron_proxy.dialects.messages import MESSAGES
from elytron_proxy.dialects.ollama import COMPLETION, OLLAMA
from elytron_proxy.dialects.prompt import CallPrompt, SaidTurn, ToolUse, spoken_answer
from elytron_proxy.dialects.responses import RESPONSES

__all__ = [
    "CHAT",
    "COMPLETION",
    "MESSAGES",
    "OLLAMA",
    "RESPONSES",
    "AnswerWitness",
    "CallPrompt",
    "CallRefusal",
    "PromptDialect",
    "SaidTurn",
    "ToolUse",
    "spoken_answer",
]
