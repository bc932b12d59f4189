"""Gemini activity in Google Takeout's JSON: prompts with their answers, without conversations."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Final

from elytron.importers import message_shape
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, sha256_digest

CHANNEL: Final = "gemini"
_PRODUCT: Final = "Gemini Apps"
_KEY: Final = ConversationKey(CHANNEL, "activity")
_PROMPTED: Final = "Prompted "
_BLOCKS: Final = frozenset({"p", "br", "li", "div", "tr", "pre", "h1", "h2", "h3", "h4", "h5", "h6"})
_TAG_END: Final = r"""(?:[^>=]++|=\s*+"[^"]*(?:"|\Z)|=\s*+'[^']*(?:'|\Z)|=)*+(?:>|\Z)"""
_MARKUP: Final = re.compile(
    r"(?P<hidden><!--(?:-?>|.*?(?:--!?>|\Z))"
    rf"|<(?P<raw>script|style|template)(?=[\s/>]){_TAG_END}.*?(?:</(?P=raw)(?=[\s/>])[^>]*+(?:>|\Z)|\Z))"
    rf"|</?(?P<tag>[a-z][^\s/>]*){_TAG_END}|<[!?/][^>]*(?:>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""A piece of markup up to its end, or to the end of the text. Each character is looked at once, whatever the text is.

The standard library's parser needs hours for some texts, such as one that begins a million comments.
"""


def is_activity(document: Json, /) -> bool:
    """Return whether a JSON document is Gemini activity."""
    match document:
        case [{"title": str(), "time": str()} as first, *_]:
            products = first.get("products")
            return first.get("header") == _PRODUCT or (isinstance(products, list) and _PRODUCT in products)
        case _:
            return False


def read_activity(document: Json, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield prompts and answers, oldest first; the file itself is newest first."""
    entries = message_shape.list_items(document, what="activity")
    for position, entry in enumerate(reversed(entries), start=1):
        place.now(f"entry {position} from the end", (position - 1) / len(entries))
        read = place.attempt(_exchange_turns, entry, place)
        for item in [read] if isinstance(read, SkippedRecord) else read:
            yield place.make_message(_KEY, item, title=_PRODUCT) if isinstance(item, TurnDraft) else item


def _exchange_turns(value: Json, place: ReaderPlace) -> list[TurnDraft | LeftOut]:
    entry = message_shape.object_members(value, what="entry")
    answers = [
        plain_text(fragment)
        for item in message_shape.list_items(entry.get("safeHtmlItem") or [], what="safeHtmlItem")
        if isinstance(item, dict) and isinstance(fragment := item.get("html"), str)
    ]
    title = message_shape.content_text(entry.get("title"), what="title").strip()
    answer = "\n\n".join(words for words in answers if words)
    if not answer and not title.startswith(_PROMPTED):
        # The prefix differs in other languages, but only prompts have answers.
        return [LeftOut(OmissionReason.SERVICE)]
    at = place.moment(entry.get("time"), what="time")
    prompt = title.removeprefix(_PROMPTED).strip()
    own = f"{entry.get('time')}-{sha256_digest(title.encode('utf-8', 'replace'))[:12]}"
    items: list[TurnDraft | LeftOut] = []
    for words, role in ((prompt, EvidenceRole.USER), (answer, EvidenceRole.ASSISTANT)):
        if words:
            own_id = message_shape.optional_title(f"{own}-{role.value}")
            items.append(message_shape.message_turn(words, role=role, at=at, own_id=own_id))
    return items or [LeftOut(OmissionReason.NO_WORDS)]


def _visible_text(markup: re.Match[str]) -> str:
    """Return what a page shows for a piece of markup. A tag that never ends is text."""
    if markup["hidden"] is not None:
        return ""
    if not markup[0].endswith(">"):
        return markup[0]
    return "\n" if (markup["tag"] or "").lower() in _BLOCKS else ""


def plain_text(fragment: str, /) -> str:
    """Return the text of an HTML fragment, with a line for each block. Raises InvalidInput."""
    try:
        text = unescape(_MARKUP.sub(_visible_text, fragment))
    except ValueError:
        # A character's number with thousands of digits cannot be parsed.
        raise InvalidInput(field="html", problem="has an invalid character") from None
    lines = (" ".join(line.split()) for line in text.split("\n"))
    return "\n".join(line for line in lines if line)
