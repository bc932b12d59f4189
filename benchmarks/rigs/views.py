"""Check that no view of a transcript shows what it must not: random transcripts in which each private word is a canary.

`python -m benchmarks.rigs.views` tries 100,000 transcripts; `--count N --seed S` changes that. What a view may show is
specified here independently, canary by canary, without using the code that builds the views.
"""

import argparse
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TranscriptReplayView as View
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.ids import ConversationTag, TurnId
from elytron_core.planes.transcript import (
    ActorAttribution,
    AttributePolicy,
    HostOpaqueRef,
    HostRefVisibility,
    Message,
    TextRedaction,
    ToolObservation,
    Turn,
    TurnAttribute,
    TurnLifecycle,
    TurnSource,
    turn_id,
)
from elytron_core.policy.platform.profiles import default_profile
from elytron_core.policy.transcript import cut_transcript
from elytron_core.scope import ConversationKey

COUNT = 100_000
NOW = Instant(1_770_000_000_000)
KEY = ConversationKey("channel", "conversation")
TAG = ConversationTag("0123456789abcdef01234567")
EVERYBODY = frozenset(View)
INSIDE = frozenset({View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT})
OWNER = frozenset({View.RAW_OWNER_ONLY})
NOBODY = frozenset[View]()
SEEN_BY = {
    HostRefVisibility.INTERNAL: OWNER,
    HostRefVisibility.HOST_UI: INSIDE | {View.HOST_UI},
    HostRefVisibility.MODEL_CONTEXT: OWNER | {View.MODEL_CONTEXT},
    HostRefVisibility.OPERATOR_AUDIT: INSIDE,
    HostRefVisibility.EXPORT: INSIDE | {View.EXPORT},
}
PRIVATE = frozenset({EvidenceAuthority.PRIVATE_GARDEN_INTERNAL, EvidenceAuthority.SOUL_GOVERNANCE})
STATES = (
    (TurnLifecycle.ACTIVE, TextRedaction.RAW_AVAILABLE),
    (TurnLifecycle.ARCHIVED, TextRedaction.RAW_AVAILABLE),
    (TurnLifecycle.MASKED, TextRedaction.MASKED),
    (TurnLifecycle.RAW_DELETED, TextRedaction.RAW_DELETED),
)


@dataclass(slots=True)
class Story:
    """A random transcript, and for each of its canaries the views that may show it."""

    turns: list[tuple[TurnId, Turn]] = field(default_factory=list[tuple[TurnId, Turn]])
    attributes: dict[TurnId, list[TurnAttribute]] = field(default_factory=dict[TurnId, list[TurnAttribute]])
    canaries: dict[str, frozenset[View]] = field(default_factory=dict[str, frozenset[View]])

    def canary(self, views: frozenset[View], /) -> str:
        """Return a new word that only `views` may show."""
        word = f"canary{len(self.canaries):04d}x"
        self.canaries[word] = views
        return word


def leaks(story: Story, /) -> list[str]:
    """Return the problems of a transcript's views: canaries that are wrongly shown or wrongly hidden."""
    wrong: list[str] = []
    budget = default_profile().budget.transcript
    for view in View:
        made = cut_transcript("space", KEY, story.turns, story.attributes, view=view, budget=budget)
        shown = made.slice.model_dump_json()
        for word, views in story.canaries.items():
            if (word in shown) is not (view in views):
                wrong.append(f"{view.value} {'shows' if word in shown else 'lacks'} {word}")
    return wrong


def random_story(dice: random.Random, /) -> Story:
    """Return a transcript of up to four turns in which anything can be combined with anything."""
    story = Story()
    for sequence in range(1, dice.randint(1, 4) + 1):
        place = turn_id(TAG, sequence)
        turn = _turn(dice, story, sequence)
        story.turns.append((place, turn))
        story.attributes[place] = [_attribute(dice, story, place, turn, number) for number in range(dice.randint(0, 3))]
    return story


def _turn(dice: random.Random, story: Story, sequence: int) -> Turn:
    lifecycle, redaction = dice.choice(STATES)
    count = dice.randint(1, 4)
    erased = tuple(part for part in range(count) if dice.random() < 0.15)
    forgotten = {part: NOW for part in range(count) if dice.random() < 0.15}
    is_raw = redaction is TextRedaction.RAW_AVAILABLE
    state = _State(lifecycle, is_raw, erased, forgotten)
    return Turn(
        sequence=sequence,
        channel=KEY.channel,
        conversation=KEY.conversation,
        messages=tuple(_message(dice, story, part, state) for part in range(count)),
        recorded_at=NOW,
        host_id=story.canary(INSIDE | {View.HOST_UI}),
        lifecycle=lifecycle,
        redaction=redaction,
        erased=erased,
        forgotten=forgotten,
        tags=(story.canary(INSIDE),),
        metadata={"note": story.canary(OWNER if is_raw else NOBODY)},
        source=TurnSource(request_id=story.canary(INSIDE), model_resolved=story.canary(INSIDE)),
        actor=ActorAttribution(
            speaker_id="speaker",
            subject_id=story.canary(INSIDE),
            actor_subject_id=story.canary(INSIDE),
            mounted_subject_id=story.canary(INSIDE),
            agent_id=story.canary(INSIDE),
            triggered_by=story.canary(INSIDE),
        ),
        tool_observations=tuple(
            ToolObservation(
                observation_id=story.canary(INSIDE if is_raw else NOBODY),
                tool_name="tool",
                summary=story.canary(INSIDE if is_raw else NOBODY),
            )
            for _ in range(dice.randint(0, 2))
        ),
        host_refs=tuple(_host_ref(dice, story, is_raw=is_raw) for _ in range(dice.randint(0, 3))),
        candidate_ids=(story.canary(INSIDE),),
    )


@dataclass(frozen=True, slots=True)
class _State:
    lifecycle: TurnLifecycle
    is_raw: bool
    erased: tuple[int, ...]
    forgotten: dict[int, Instant]


def _message(dice: random.Random, story: Story, part: int, state: _State) -> Message:
    role, authority = dice.choice(list(EvidenceRole)), dice.choice([None, *EvidenceAuthority])
    views = EVERYBODY
    if authority in PRIVATE:
        views = OWNER
    elif authority is EvidenceAuthority.OPERATOR_DIAGNOSTIC or role in {EvidenceRole.SYSTEM, EvidenceRole.TOOL}:
        views = INSIDE
    elif (
        authority is EvidenceAuthority.EXTERNAL_CONTENT
        or state.lifecycle is not TurnLifecycle.ACTIVE
        or part in state.forgotten
    ):
        views = EVERYBODY - {View.MODEL_CONTEXT}
    if not state.is_raw or part in state.erased:
        views = NOBODY
    return Message(role=role, text=f"so {story.canary(views)} it is", authority=authority)


def _host_ref(dice: random.Random, story: Story, *, is_raw: bool) -> HostOpaqueRef:
    visibility = dice.choice(list(HostRefVisibility))
    views = SEEN_BY[visibility]
    return HostOpaqueRef(
        host_kind="host",
        business_ref_type="thing",
        business_ref_id=story.canary(views),
        visibility=visibility,
        label=story.canary(views & {View.RAW_OWNER_ONLY, View.HOST_UI} if is_raw else NOBODY),
    )


def _attribute(dice: random.Random, story: Story, place: TurnId, turn: Turn, number: int) -> TurnAttribute:
    visibility, policy = dice.choice(list(HostRefVisibility)), dice.choice(list(AttributePolicy))
    part = dice.choice([None, *range(len(turn.messages))])
    export_allowed = dice.random() < 0.5
    views = SEEN_BY[visibility]
    if not export_allowed:
        views -= {View.EXPORT}
    if part is not None:
        authority = turn.messages[part].authority
        if authority in PRIVATE:
            views &= OWNER
        elif authority is EvidenceAuthority.OPERATOR_DIAGNOSTIC:
            views &= INSIDE
        if part in turn.erased:
            views = NOBODY
    if turn.redaction is not TextRedaction.RAW_AVAILABLE:
        views = views if policy is AttributePolicy.METADATA_SURVIVES_MASK else views & INSIDE
        views = NOBODY if policy is AttributePolicy.FOLLOW_TRANSCRIPT else views
    return TurnAttribute(
        key=f"host.a{number}",
        value=story.canary(views),
        part=part,
        visibility=visibility,
        policy=policy,
        export_allowed=export_allowed,
        turn=place,
        channel=KEY.channel,
        conversation=KEY.conversation,
        written_at=NOW,
    )


def run(count: int, seed: int, /) -> Iterable[str]:
    """Yield the problems in the views of `count` random transcripts, each with the seed that reproduces it."""
    for number in range(count):
        for wrong in leaks(random_story(random.Random(seed + number))):
            yield f"seed {seed + number}: {wrong}"


def main() -> int:
    """Try transcripts and print how many were correct. Returns 1 if a view showed too much or hid too much."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=COUNT)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    for wrong in run(asked.count, asked.seed):
        print(wrong)
        return 1
    print(f"{asked.count} transcripts, {len(View)} views of each: no private word crossed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
