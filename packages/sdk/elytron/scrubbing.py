"""What is taken out of every write before it is stored: credentials, payment numbers, memory's own output."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import TypeVar

from elytron_core.collecting import Uncollected
from elytron_core.contracts.writing import MemoryWrite, TranscriptWrite, TurnDraft
from elytron_core.model import Value
from elytron_core.policy.provenance import is_own_output, strip_own_output
from elytron_core.policy.secrets import scrub

OWN_OUTPUT = "recalled_memory"
ROOM = 100
"""Every text may have so many characters: up to there a blacked out one may grow."""
_LONG_CHARS = 1 << 17
"""Messages longer than this together are looked through by a thread, which lets others have their turn."""

ValueT = TypeVar("ValueT", bound=Value)


async def scrub_write(write: MemoryWrite, /) -> tuple[MemoryWrite, dict[str, int]]:
    """Return `write` without the secrets that `policy.secrets` knows, and how many of each kind there were.

    Of messages, the blocks that this memory had projected go too: what was recalled is no new evidence.
    """
    if isinstance(write, TranscriptWrite) and _chars(write) > _LONG_CHARS:
        return await asyncio.to_thread(_scrubbed, write)
    with Uncollected():
        return _scrubbed(write)


def _chars(write: TranscriptWrite) -> int:
    return sum(len(message.text) for turn in write.turns for message in turn.messages)


def _scrubbed(write: MemoryWrite) -> tuple[MemoryWrite, dict[str, int]]:
    found: Counter[str] = Counter()
    if isinstance(write, TranscriptWrite):
        turns = tuple(_turn(turn, found) for turn in write.turns)
        write = write.model_copy(update={"turns": turns}) if found else write
    else:
        write = _everywhere(write, found)
    return write, dict(sorted(found.items()))


def _everywhere(value: ValueT, found: Counter[str]) -> ValueT:
    """Return `value` with every text in it blacked out; the same one where there was nothing."""
    changed: dict[str, object] = {}
    for name in type(value).model_fields:
        part: object = getattr(value, name)
        clean = _clean(part, found)
        if clean is not part:
            changed[name] = clean
    return value.model_copy(update=changed) if changed else value


def _clean(part: object, found: Counter[str]) -> object:
    if type(part) is str:  # an enum's member is one of a closed set
        return _bounded(part, found)
    if isinstance(part, Value):
        return _everywhere(part, found)
    if isinstance(part, tuple):
        items: tuple[object, ...] = part  # pyright: ignore[reportUnknownVariableType]
        clean = tuple(_clean(item, found) for item in items)
        return clean if any(one is not other for one, other in zip(clean, items, strict=True)) else items
    return part


def _bounded(text: str, found: Counter[str]) -> str:
    """Return `text` blacked out and no longer than a text of its kind may be."""
    clean = _text(text, found)
    return clean if clean is text else clean[: max(len(text), ROOM)]


def scrub_texts(texts: Mapping[str, str], /) -> tuple[dict[str, str], dict[str, int]]:
    """Return `texts` by their names without secrets, and how many of each kind there were."""
    found: Counter[str] = Counter()
    return {name: _text(text, found) for name, text in texts.items()}, dict(sorted(found.items()))


def _turn(turn: TurnDraft, found: Counter[str]) -> TurnDraft:
    """Return the turn itself where there is nothing to black out."""
    turn = _beside(turn, found)
    texts = [_text(_told(message.text, found), found) for message in turn.messages]
    if all(text is message.text for text, message in zip(texts, turn.messages, strict=True)):
        return turn
    messages = [message.model_copy(update={"text": text}) for text, message in zip(texts, turn.messages, strict=True)]
    return turn.model_copy(update={"messages": tuple(messages)})


def _beside(turn: TurnDraft, found: Counter[str]) -> TurnDraft:
    """Return the turn with what stands beside its messages blacked out: observations, labels, attributes."""
    if not (turn.tool_observations or turn.host_refs or turn.attributes):
        return turn
    observed = [item.model_copy(update={"summary": _text(item.summary, found)}) for item in turn.tool_observations]
    refs = [
        ref.model_copy(update={"label": _text(ref.label, found)}) if ref.label is not None else ref
        for ref in turn.host_refs
    ]
    attributes = [
        item.model_copy(update={"value": _text(item.value, found)}) if isinstance(item.value, str) else item
        for item in turn.attributes
    ]
    return turn.model_copy(
        update={"tool_observations": tuple(observed), "host_refs": tuple(refs), "attributes": tuple(attributes)}
    )


def _told(text: str, found: Counter[str]) -> str:
    """Return what was said, without what memory had shown."""
    if not is_own_output(text):
        return text
    told, blocks = strip_own_output(text)
    found[OWN_OUTPUT] += blocks
    return told


def _text(text: str, found: Counter[str]) -> str:
    scrubbed = scrub(text)
    if not scrubbed.found:
        return text
    found.update(scrubbed.found)
    return scrubbed.text
