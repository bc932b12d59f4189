"""The roles of messages, as models know them."""

from enum import StrEnum


class Role(StrEnum):
    """In which role a message was given to a model or by one."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"
