"""Learning rules and tombstones of a space, asked before a model's text gets a place in every prompt."""

import re
from collections.abc import Iterator
from typing import Final

from elytron.api import MemoryFace
from elytron_core import limits
from elytron_core.contracts.conversation.write import FactDraft, LongTermExtraction, MemoryWriteRequest
from elytron_core.planes.knowledge.long_term import Authority
from elytron_core.policy.admission.learning_rules import FORGOTTEN_BEFORE, PAUSED, SUPPRESSED, plain_content

_REASONS: Final = {PAUSED, SUPPRESSED, FORGOTTEN_BEFORE}
_TOPIC: Final = "elytronprompttext"
"""Topic of the rehearsed facts: one word that no rule names. Its slot has no stored fact."""
_MARK: Final = re.compile(r"\A(?:[-*+•>#]+|\d+[.)])\s+")
_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


async def refusal_of(memory: MemoryFace, before: str, after: str, /, *, label: str = "") -> str | None:
    """Return why a model may not make `before` into `after` by the space's rules, in words for it; None if it may.

    Each line and sentence that is new is judged by the rehearsed write of a fact, with `label` as a keyword. A text
    that only loses lines or sentences has nothing new.
    """
    known = set(map(plain_content, _parts(before)))
    new = {plain: part for part in _parts(after) if (plain := plain_content(part)) not in known}
    drafts = [
        FactDraft(topic=_TOPIC, content=part, keywords=(label,) if label else (), authority=Authority.USER_ASSERTED)
        for part in new.values()
    ]
    for start in range(0, len(drafts), limits.WRITES_PER_REQUEST):
        write = LongTermExtraction(facts=tuple(drafts[start : start + limits.WRITES_PER_REQUEST]))
        report = await memory.write(MemoryWriteRequest(write=write, dry_run=True))
        reasons = (decision.reason for decision in report.decisions if decision.reason in _REASONS)
        if (reason := next(reasons, None)) is not None:
            return f"The text may not be learned: {reason}. Nothing was changed."
    return None


def _parts(text: str) -> Iterator[str]:
    """Yield the lines of a text without the marks of lists, and their sentences, in pieces that a fact can hold."""
    for line in text.splitlines():
        bare = _MARK.sub("", line.strip())
        for part in dict.fromkeys((bare, *_ENDS.split(bare))):
            for start in range(0, len(part), limits.FACT_CHARS):
                yield part[start : start + limits.FACT_CHARS]
