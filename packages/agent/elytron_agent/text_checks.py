"""Checks of a text that a model wrote: known forms of injection, and the learning rules of its space."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from elytron.api import MemoryFace
from elytron_core import limits
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.transcript import LongTermExtraction, MemoryWriteRequest
from elytron_core.planes.facts import FactAuthority
from elytron_core.policy.admission.facts import FORGOTTEN_BEFORE, PAUSED, SUPPRESSED, plain_content

_RULES: Final = {
    "overrides_instructions": r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier)\b"
    r".{0,40}\b(?:instructions?|rules?|prompts?|guidelines?|directives?)\b"
    r"|\b(?:ignore|disregard|forget|override)\b.{0,20}\b(?:all|your|system)\b.{0,20}\b(?:instructions?|prompts?)\b",
    "poses_as_system": r"<\s*+/?\s*+(?:system|assistant|instructions?)\s*+>|<\|[a-z_]+\|>|\[/?(?:inst|system_prompt)\]"
    r"|^[ \t]*+(?:system|developer)\s*+(?:prompt|message|override)\s*+:",
    "changes_role": r"\byou are (?:now|no longer)\b|\bfrom now on,? you (?:are|must|will)\b"
    r"|\b(?:act|behave) as if you\b",
    "hides_from_user": r"\b(?:do not|don't|never) (?:tell|inform|mention|reveal|show)\b.{0,30}"
    r"\b(?:the )?(?:user|human|person)\b",
    "carries_out": r"\b(?:curl|wget|invoke-webrequest|nc)\b.{0,200}"
    r"(?:\$\{?\w*(?:key|token|secret|password)|https?://)|!\[[^\]]{0,300}\]\(\s*+https?://",
    "reads_secrets": r"\b(?:cat|less|send|upload|exfiltrate|print)\b.{0,60}"
    r"(?:\.env\b|\.ssh\b|id_rsa|authorized_keys|\.netrc|credentials\b)",
    "asks_for_prompt": r"\b(?:reveal|print|repeat|output|show)\b.{0,40}"
    r"\b(?:system prompt|hidden instructions|api keys?)\b",
}
_COMPILED: Final = {
    name: re.compile(pattern, re.IGNORECASE | re.MULTILINE | re.DOTALL) for name, pattern in _RULES.items()
}
_KEPT: Final = "\n\t"
_JOINERS: Final = "\u200c\u200d"
"""Persian and emoji need them; they are taken out before the rules look."""
INVISIBLE: Final = "invisible_characters"


def broken_rules(text: str, /) -> tuple[str, ...]:
    """Return the names of the rules that `text` breaks; none if it may be in a prompt."""
    plain = unicodedata.normalize("NFKC", text)
    hidden = any(_is_hidden(char) for char in plain)
    bare = "".join(char for char in plain if char in _KEPT or not unicodedata.category(char).startswith("C"))
    found = [name for name, rule in _COMPILED.items() if rule.search(bare) is not None]
    return (*found, INVISIBLE) if hidden else tuple(found)


def _is_hidden(char: str) -> bool:
    if char in _KEPT or char in _JOINERS or char == "\r":
        return False
    return unicodedata.category(char) in {"Cc", "Cf", "Co"} or "\ufe00" <= char <= "\ufe0e" or char >= "\U000e0000"


def refusal_of(text: str, /) -> str | None:
    """Return why `text` may not stand in every prompt, in words for a model; None if it may."""
    broken = broken_rules(text)
    return f"it looks like an injection ({', '.join(broken)}), and was not stored" if broken else None


_REASONS: Final = {PAUSED, SUPPRESSED, FORGOTTEN_BEFORE}
_TOPIC: Final = "elytronprompttext"
"""Topic of the rehearsed facts: one word that no rule names. Its slot has no stored fact."""
_MARK: Final = re.compile(r"\A(?:[-*+•>#]+|\d+[.)])\s+")
_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")


async def learning_refusal(memory: MemoryFace, before: str, after: str, /, *, label: str = "") -> str | None:
    """Return why a model may not make `before` into `after` by the space's rules, in words for it; None if it may.

    Each line and sentence that is new is judged by the rehearsed write of a fact, with `label` as a keyword. A text
    that only loses lines or sentences has nothing new.
    """
    known = set(map(plain_content, _text_sentences(before)))
    new = {plain: part for part in _text_sentences(after) if (plain := plain_content(part)) not in known}
    drafts = [
        FactDraft(topic=_TOPIC, content=part, keywords=(label,) if label else (), authority=FactAuthority.USER_ASSERTED)
        for part in new.values()
    ]
    for start in range(0, len(drafts), limits.WRITES_PER_REQUEST):
        write = LongTermExtraction(facts=tuple(drafts[start : start + limits.WRITES_PER_REQUEST]))
        report = await memory.write(MemoryWriteRequest(write=write, dry_run=True))
        reasons = (decision.reason for decision in report.decisions if decision.reason in _REASONS)
        if (reason := next(reasons, None)) is not None:
            return f"The text may not be learned: {reason}. Nothing was changed."
    return None


def _text_sentences(text: str) -> Iterator[str]:
    """Yield the lines of a text without the marks of lists, and their sentences, in pieces that a fact can hold."""
    for line in text.splitlines():
        bare = _MARK.sub("", line.strip())
        for part in dict.fromkeys((bare, *_ENDS.split(bare))):
            for start in range(0, len(part), limits.FACT_CHARS):
                yield part[start : start + limits.FACT_CHARS]
