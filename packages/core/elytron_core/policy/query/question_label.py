"""The labels of questions that a classifier gives."""

from enum import StrEnum


class QuestionLabel(StrEnum):
    """What a question wants, as far as it is taste and no grammar: a question has none, one or several."""

    ASSISTANT = "assistant"
    """It asks for what the assistant said."""
    LATEST = "latest"
    """It asks how things are now, of several answers over time."""
    RETELLING = "retelling"
    """What was said is to be told again: a summary, an order, how something went."""
