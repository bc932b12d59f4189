"""The labels of questions that a classifier gives."""

from enum import StrEnum


class QuestionLabel(StrEnum):
    """Label of what a question wants, for matters of taste and not of grammar: a question has none, one or several."""

    ASSISTANT = "assistant"
    """It asks for what the assistant said."""
    LATEST = "latest"
    """It asks how things are now, of several answers over time."""
    RETELLING = "retelling"
    """It asks for an account of what was said: a summary, an order, the course of something."""
