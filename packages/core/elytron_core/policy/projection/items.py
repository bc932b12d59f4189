"""Items of a block, before they are lines: facts, procedures, wishes, messages, hints."""

from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.model import Value
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.freshness import FreshnessHint


class StandingFact(Value):
    """A fact that is in every block; `at` is when it was last observed."""

    id: str
    kind: long_term.Kind
    topic: str
    content: str
    at: Instant | None = None
    is_outside: bool = False
    """True if no source here vouches for it."""
    hint: FreshnessHint | None = None


class StandingSkill(Value):
    """A procedure that is in every block."""

    id: str
    title: str
    summary: str


class LabelledItem(Value):
    """A text with a label: of the subject, a private document, the state of work, or a hint of the host's."""

    id: str
    label: str
    text: str


class WishItem(Value):
    """A wish that is to hold: the sentences of one message that say so, in its words."""

    id: str
    text: str
    is_whole: bool = True
    """True if the message says nothing else, so that it is not recalled again."""
    speaker: str | None = None
    at: Instant | None = None


class RecentMessage(Value):
    """One of the conversation's latest messages."""

    id: str
    role: transcript.Role
    text: str
    speaker: str | None = None
    at: Instant | None = None
    is_outside: bool = False
    """True if it came from outside: a tool, a page, a document."""


class RecalledItem(Value):
    """A memory recalled for this turn."""

    id: str
    plane: Plane
    text: str
    speaker: str | None = None
    at: Instant | None = None
    score: float = 0.0
    is_overtaken: bool = False
    """True if a later word on the same matter is shown above it."""
    is_outside: bool = False
    """True if it came from outside: a tool, a page, a document."""
    hint: FreshnessHint | None = None
    """The check that it needs before it is relied on."""
    parts: tuple[tuple[int, int], ...] = ()
    """Start and end of each part that is shown of a text too long to be shown whole; without any, all of it."""
