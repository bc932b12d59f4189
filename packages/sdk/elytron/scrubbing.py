"""Credentials and payment numbers are blacked out of every write before anything of it is stored."""

from collections import Counter
from typing import assert_never

from elytron_core.contracts.writing import LongTermExtraction, Procedural, TranscriptWrite, TurnDraft
from elytron_core.policy.secrets import is_suspect, scrub

Write = TranscriptWrite | LongTermExtraction | Procedural


def scrub_write(write: Write, /) -> tuple[Write, dict[str, int]]:
    """Return `write` without the secrets that `policy.secrets` knows, and how many of each kind there were."""
    found: Counter[str] = Counter()
    match write:
        case TranscriptWrite():
            turns = tuple(_turn(turn, found) for turn in write.turns)
            write = write.model_copy(update={"turns": turns}) if found else write
        case LongTermExtraction():
            facts = tuple(
                draft.model_copy(update={"content": _text(draft.content, found)}) for draft in write.facts
            )
            write = write.model_copy(update={"facts": facts}) if found else write
        case Procedural():
            skills = tuple(
                skill.model_copy(
                    update={"summary": _text(skill.summary, found), "content": _text(skill.content, found)}
                )
                for skill in write.writes
            )
            write = write.model_copy(update={"writes": skills}) if found else write
        case _:
            assert_never(write)
    return write, dict(sorted(found.items()))


def _turn(turn: TurnDraft, found: Counter[str]) -> TurnDraft:
    """Return the turn itself where there is nothing to black out."""
    turn = _beside(turn, found)
    texts = [_text(message.text, found) for message in turn.messages]
    if all(text is message.text for text, message in zip(texts, turn.messages, strict=True)):
        return turn
    messages = [
        message.model_copy(update={"text": text}) for text, message in zip(texts, turn.messages, strict=True)
    ]
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


def _text(text: str, found: Counter[str]) -> str:
    if not is_suspect(text):
        return text
    scrubbed = scrub(text)
    if not scrubbed.found:
        return text
    found.update(scrubbed.found)
    return scrubbed.text
