"""The plane of learning: which topics are not to be learned, and content-free tombstones of what was forgotten."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import FactId
from elytron_core.model import Value
from elytron_core.planes.knowledge.long_term import Topic

TOMBSTONES = "tombstones"
LEARNING = "learning"
KEY = "0"
"""A space has one document of learning rules."""


class Tombstone(Value):
    """A mark that a fact was forgotten or deleted. Its key is a keyed tag of what is not to be learned again."""

    fact: FactId
    topic: str
    """The keyed tag of the fact's topic."""
    at: Instant


class LearningAction(StrEnum):
    """Effect of a rule on learning."""

    PAUSE = "pause"
    """Nothing is learned until it is resumed; what is said meanwhile stays evidence, and is not learned later."""
    RESUME = "resume"
    SUPPRESS = "suppress"
    """The topic is not learned until it is allowed."""
    ALLOW = "allow"
    """Ends the suppression of the topic, and removes the tombstones of its facts."""


class LearningState(StrEnum):
    """Why a topic is not learned."""

    PAUSED = "paused"
    SUPPRESSED = "suppressed"


class LearningRule(Value):
    """A topic that is not learned. Without a topic, nothing is."""

    state: LearningState
    topic: Topic | None = None
    since: Instant
    by: str
    reason: str = ""


class LearningEvent(Value):
    """One call that changed what is learned."""

    action: LearningAction
    topic: Topic | None = None
    at: Instant
    by: str
    reason: str = ""


class Learning(Value):
    """The rules that stand, and the newest calls that made or ended such rules, oldest first."""

    rules: Annotated[tuple[LearningRule, ...], Field(max_length=limits.LEARNING_RULES)] = ()
    log: Annotated[tuple[LearningEvent, ...], Field(max_length=limits.AUDIT_EVENTS)] = ()
