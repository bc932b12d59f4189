"""Continuity capsules: which are shown, their text, and which are dropped when there are too many."""

import hashlib
from collections.abc import Sequence
from typing import Final

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.continuity import SnapshotLayer, SnapshotLayers, SnapshotMode
from elytron_core.planes.continuity import CapsuleState, ContinuityCapsule, state_at
from elytron_core.planes.facts import Fact, FactKind, FactPrivacy
from elytron_core.text import similarity

_WORTH: Final = {
    CapsuleState.ACTIVE: 3,
    CapsuleState.DONE: 2,
    CapsuleState.STALE: 1,
    CapsuleState.SUPERSEDED: 0,
}
"""Kinds that are dropped last when there are too many."""
TERM_POINTS: Final = 4.0
OPEN_POINTS: Final = 6.0
"""An active capsule is more likely to be taken up than one that is done."""


def select_capsules(
    capsules: Sequence[ContinuityCapsule], query: str, *, now: Instant
) -> tuple[ContinuityCapsule, ...]:
    """Return up to three of the twelve newest capsules that may be shown, best first; stale ones never.

    Those that share words with `query` come first, then active ones, then the newer; without a shared word an active
    one still says where things stand.
    """
    shown = [c for c in capsules if c.is_recallable and state_at(c, now) is not CapsuleState.STALE]
    newest = sorted(shown, key=lambda c: (-c.updated_at, c.id))[: limits.CAPSULES_CONSIDERED]
    words = similarity.words_of(similarity.normalise_text(query), limit=limits.QUERY_TERMS)
    ranked = sorted(newest, key=lambda c: (-_capsule_points(c, words), -c.updated_at, c.id))
    worthy = [c for c in ranked if _capsule_points(c, words) > 0]
    return tuple(worthy[: limits.CAPSULES_SELECTED])


def capsule_block(capsules: Sequence[ContinuityCapsule]) -> str:
    """Return the capsules as at most 900 characters, one after the other; what does not fit whole is left out."""
    lines: list[str] = []
    left = limits.CAPSULE_BLOCK_CHARS
    for capsule in capsules:
        line = f"[{capsule.kind.value}] {capsule.topic}: " + " ".join(capsule.text.split())
        if len(line) > left:
            continue
        lines.append(line)
        left -= len(line) + 1
    return "\n".join(lines)


def giving_way(
    capsules: Sequence[ContinuityCapsule], *, fresh: frozenset[str], now: Instant
) -> tuple[ContinuityCapsule, ...]:
    """Return the capsules beyond 16 of a conversation and 96 of the space, least worth first; never `fresh` ones."""
    order = sorted(capsules, key=lambda c: (c.id in fresh, *_capsule_retention(c, now), c.updated_at, c.id))
    held: dict[tuple[str, str], int] = {}
    for capsule in capsules:
        held[capsule.channel, capsule.conversation] = held.get((capsule.channel, capsule.conversation), 0) + 1
    total = len(capsules)
    leaving: list[ContinuityCapsule] = []
    for capsule in order:
        place = (capsule.channel, capsule.conversation)
        if capsule.id in fresh:
            break
        if held[place] > limits.CAPSULES_PER_CONVERSATION or total > limits.CAPSULES_PER_SPACE:
            leaving.append(capsule)
            held[place] -= 1
            total -= 1
    return tuple(leaving)


def _capsule_retention(capsule: ContinuityCapsule, now: Instant) -> tuple[bool, int]:
    return capsule.forgotten_at is None, _WORTH[state_at(capsule, now)]


def _capsule_points(capsule: ContinuityCapsule, words: Sequence[str]) -> float:
    told = similarity.normalise_text(f"{capsule.topic} {capsule.text}")
    is_open = capsule.state is CapsuleState.ACTIVE
    return TERM_POINTS * sum(similarity.has_term(told, word) for word in words) + OPEN_POINTS * is_open


KIND_ORDER: Final = (
    FactKind.CONSTRAINT,
    FactKind.PROFILE,
    FactKind.PREFERENCE,
    FactKind.TASK,
    FactKind.PROJECT,
    FactKind.RELATIONSHIP,
    FactKind.FACT,
)
"""Facts that a conversation needs first when it begins again."""


def facts_limit(mode: SnapshotMode, /) -> int:
    """Return how many facts a snapshot of this mode holds at most."""
    return limits.SNAPSHOT_FACTS_BOOTSTRAP if mode is SnapshotMode.BOOTSTRAP else limits.SNAPSHOT_FACTS_FULL


def choose_facts(facts: Sequence[Fact], *, mode: SnapshotMode, conversation: str) -> tuple[Fact, ...]:
    """Return which of the facts that hold to take along: of this conversation first, then by kind, then the latest."""
    shared = [fact for fact in facts if fact.privacy is not FactPrivacy.PRIVATE]
    shared.sort(key=lambda fact: (fact.chat != conversation, KIND_ORDER.index(fact.kind), -fact.confirmed_at, fact.id))
    return tuple(shared[: facts_limit(mode)])


def included_layers(layers: SnapshotLayers, /) -> tuple[SnapshotLayer, ...]:
    """Return which layers hold anything."""
    there = {
        SnapshotLayer.FACTS: bool(layers.facts),
        SnapshotLayer.EXECUTION: layers.state is not None,
        SnapshotLayer.SUMMARY: layers.summary is not None,
        SnapshotLayer.CAPSULES: bool(layers.capsules),
    }
    return tuple(layer for layer, holds in there.items() if holds)


def layers_fingerprint(layers: SnapshotLayers, /) -> str:
    """Return the SHA-256 of the layers, by which a changed or broken snapshot is known."""
    return hashlib.sha256(layers.to_bytes()).hexdigest()
