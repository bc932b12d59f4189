"""Rules against prompt injection in text that is part of every prompt.

Data files hold the rules for other languages.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from elytron_core.policy.projection.sections import JOINERS
from elytron_core.text.similarity import bare_text, visible_text

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
_DATA: Final = "data/injections.toml"
_NEAR: Final = 48
"""Number of characters around the word for "instructions" in which the other words of such an order are searched."""
_FLAGS: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL
_COMPILED: Final = {name: re.compile(pattern, _FLAGS) for name, pattern in _RULES.items()}
_HARMLESS_MARKS: Final = f"\n\t\r{JOINERS}\ufe0f"
"""Line breaks, and marks that Persian and emoji need. They are removed before matching and violate no rule."""
INVISIBLE: Final = "invisible_characters"


class _OrderWords(NamedTuple):
    """The words of an order to ignore instructions in one language; they may occur in any order."""

    instructions: re.Pattern[str]
    ignore: re.Pattern[str]
    earlier: re.Pattern[str]

    def are_in(self, text: str) -> bool:
        for instruction_match in self.instructions.finditer(text):
            surrounding_text = text[max(0, instruction_match.start() - _NEAR) : instruction_match.end() + _NEAR]
            if self.ignore.search(surrounding_text) is not None and self.earlier.search(surrounding_text) is not None:
                return True
        return False


def broken_rules(text: str, /) -> tuple[str, ...]:
    """Return the names of the rules that `text` violates; none if it may be part of a prompt."""
    # Compatibility forms and combining marks could otherwise hide words from the rules.
    plain_text = unicodedata.normalize("NFKC", text)
    visible_characters = "".join(
        char for char in plain_text if char in "\n\t" or not unicodedata.category(char).startswith("C")
    )
    bare_words = bare_text(visible_characters)
    english_rules = (name for name, rule in _COMPILED.items() if rule.search(bare_words) is not None)
    broken_names = tuple(dict.fromkeys((*english_rules, *broken_translations(visible_text(visible_characters)))))
    return (*broken_names, INVISIBLE) if any(map(_is_hidden, plain_text)) else broken_names


def _is_hidden(char: str) -> bool:
    return char not in _HARMLESS_MARKS and (unicodedata.category(char) in {"Cc", "Cf", "Co"} or not visible_text(char))


def refusal_of(text: str, /) -> str | None:
    """Return why `text` must not be part of every prompt, worded for a model, or None if it may."""
    broken_names = broken_rules(text)
    return f"it looks like an injection ({', '.join(broken_names)}), and was not stored" if broken_names else None


def broken_translations(text: str, /) -> Iterator[str]:
    """Yield the names of the rules that `text` violates in other languages; they are named like the English ones."""
    order_words, rules = _injection_rules()
    if any(order.are_in(text) for order in order_words):
        yield "overrides_instructions"
    yield from (name for name, rule in rules.items() if rule.search(text) is not None)


@cache
def _injection_rules() -> tuple[Sequence[_OrderWords], Mapping[str, re.Pattern[str]]]:
    phrases = tomllib.loads(files("elytron_core.text").joinpath(_DATA).read_text("utf-8"))
    rows: list[Mapping[str, str]] = list(phrases.values())
    orders = [
        _OrderWords(*(re.compile(row[part], _FLAGS) for part in ("instructions", "ignore", "earlier"))) for row in rows
    ]
    rules = {
        "poses_as_system": "|".join(rf"^[ \t]*+(?:{row['system']})\s*+[:：]" for row in rows),
        "changes_role": "|".join(f"(?:{row['role']})" for row in rows),
        "hides_from_user": "|".join(f"(?:{row['hide']})" for row in rows),
    }
    return orders, {name: re.compile(rule, _FLAGS) for name, rule in rules.items()}
