"""Continuity snapshots: which facts are taken along, and whether a snapshot is whole."""

import hashlib
from collections.abc import Sequence
from typing import Final

from elytron_core import limits
from elytron_core.contracts.conversation.continuity import Layer, SnapshotLayers, SnapshotMode
from elytron_core.planes.knowledge.long_term import Fact, Kind, Privacy

KIND_ORDER: Final = (
    Kind.CONSTRAINT,
    Kind.PROFILE,
    Kind.PREFERENCE,
    Kind.TASK,
    Kind.PROJECT,
    Kind.RELATIONSHIP,
    Kind.FACT,
)
"""Facts that a conversation needs first when it begins again."""


def facts_limit(mode: SnapshotMode, /) -> int:
    """Return how many facts a snapshot of this mode holds at most."""
    return limits.SNAPSHOT_FACTS_BOOTSTRAP if mode is SnapshotMode.BOOTSTRAP else limits.SNAPSHOT_FACTS_FULL


def chosen(facts: Sequence[Fact], *, mode: SnapshotMode, conversation: str) -> tuple[Fact, ...]:
    """Return which of the facts that hold to take along: of this conversation first, then by kind, then the latest."""
    shared = [fact for fact in facts if fact.privacy is not Privacy.PRIVATE]
    shared.sort(key=lambda fact: (fact.chat != conversation, KIND_ORDER.index(fact.kind), -fact.confirmed_at, fact.id))
    return tuple(shared[: facts_limit(mode)])


def included(layers: SnapshotLayers, /) -> tuple[Layer, ...]:
    """Return which layers hold anything."""
    there = {
        Layer.FACTS: bool(layers.facts),
        Layer.EXECUTION: layers.state is not None,
        Layer.SUMMARY: layers.summary is not None,
        Layer.CAPSULES: bool(layers.capsules),
    }
    return tuple(layer for layer, holds in there.items() if holds)


def fingerprint(layers: SnapshotLayers, /) -> str:
    """Return the SHA-256 of the layers, by which a changed or broken snapshot is known."""
    return hashlib.sha256(layers.to_bytes()).hexdigest()
