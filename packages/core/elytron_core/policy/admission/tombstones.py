"""The forms of forgotten content, under which tombstones recognise it when it is proposed again."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from elytron_core.text import similarity

TOMBSTONE_SENTENCES: Final = 64

_ENDING: Final = ".!。！ "
_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def normal_forms(text: str, /) -> tuple[str, str]:
    """Return the normal forms of a text: with invisible characters removed, and with them as word breaks."""
    return similarity.normalise_text(similarity.visible_text(text)), similarity.normalise_text(
        similarity.visible_text(text, instead=" ")
    )


def plain_content(content: str, /) -> str:
    """Return the form under which forgotten content is recognised."""
    return similarity.plain_text(content).rstrip(_ENDING)


def content_forms(content: str, /) -> tuple[str, ...]:
    """Return the forms under which forgotten content is tagged; that of earlier builds comes last."""
    earlier_form = " ".join(unicodedata.normalize("NFKC", content).casefold().split()).rstrip(_ENDING)
    return tuple(dict.fromkeys((plain_content(content), earlier_form)))


def message_sentences(text: str, /) -> tuple[str, ...]:
    """Return the normalised sentences of a message, each once, up to the limit."""
    normal_sentences = (normal_form for raw_sentence in _ENDS.split(text) for normal_form in normal_forms(raw_sentence))
    return tuple(dict.fromkeys(sentence for sentence in normal_sentences if sentence))[:TOMBSTONE_SENTENCES]


def telling_sentences(texts: Iterable[str], content: str, /) -> tuple[str, ...]:
    """Return the sentences of cited messages that share most words with a fact's content, and at least one."""
    words = similarity.normalise_text(content).split()
    shared_counts = {
        sentence: sum(similarity.has_term(sentence, word) for word in words)
        for text in texts
        for sentence in message_sentences(text)
    }
    most_shared = max(shared_counts.values(), default=0)
    return tuple(sentence for sentence, count in shared_counts.items() if most_shared and count == most_shared)
