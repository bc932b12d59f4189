"""Planes: stored values round-trip, and the small rules on the values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import ConversationTag, FactId, SkillId, TurnId
from elytron_core.planes import facts, skills, space, transcript
from elytron_core.scope import ConversationKey

NOW = Instant(1_750_000_000_000)
LATER = Instant(NOW + 5)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
CONTENTS = TEXTS.filter(bool)
NAMES = st.text("abc外婆é", min_size=1, max_size=5)
MOMENTS = st.integers(limits.EARLIEST_MS, limits.LATEST_MS).map(Instant)
MAYBE = st.one_of(st.none(), MOMENTS)
SEVERAL = st.lists(NAMES, max_size=3).map(tuple)

FACTS = st.builds(
    facts.Fact,
    id=NAMES.map(FactId),
    kind=st.sampled_from(facts.FactKind),
    topic=CONTENTS,
    content=CONTENTS,
    keywords=SEVERAL,
    entities=SEVERAL,
    citations=SEVERAL,
    privacy=st.sampled_from(facts.FactPrivacy),
    authority=st.sampled_from(facts.FactAuthority),
    confidence=st.sampled_from(facts.FactConfidence),
    observed_at=MOMENTS,
    recorded_at=MOMENTS,
    confirmed_at=MOMENTS,
    valid_from=MAYBE,
    valid_to=MAYBE,
    state=st.sampled_from(facts.FactState),
)
SKILLS = st.builds(
    skills.Skill,
    id=NAMES.map(SkillId),
    name=NAMES,
    topic=CONTENTS,
    title=CONTENTS,
    summary=TEXTS,
    procedure=CONTENTS,
    citations=SEVERAL,
    source=st.sampled_from(skills.SkillSource),
    observed_at=MOMENTS,
    recorded_at=MOMENTS,
    updated_at=MOMENTS,
    forgotten_at=MAYBE,
)
MESSAGES = st.builds(
    transcript.Message, role=st.sampled_from(EvidenceRole), text=TEXTS, speaker=st.one_of(st.none(), NAMES), at=MAYBE
)
TURNS = st.builds(
    transcript.Turn,
    sequence=st.integers(1, 2**40),
    channel=NAMES,
    conversation=NAMES,
    messages=st.lists(MESSAGES, max_size=3).map(tuple),
    recorded_at=MOMENTS,
    delivery=st.sampled_from(transcript.TurnDelivery),
    metadata=st.dictionaries(NAMES, st.one_of(st.none(), st.booleans(), st.integers(-5, 5), TEXTS), max_size=2),
    forgotten=st.dictionaries(st.integers(0, 3), MOMENTS, max_size=2),
    erased=st.lists(st.integers(0, 3), max_size=2).map(tuple),
)


@given(st.one_of(FACTS, SKILLS, TURNS))
def test_stored_values_are_read_back_unchanged(value: facts.Fact | skills.Skill | transcript.Turn) -> None:
    again = type(value).from_bytes(value.to_bytes())
    assert again == value
    assert again.to_bytes() == value.to_bytes()


def fact(*, valid_to: Instant | None = None) -> facts.Fact:
    return facts.Fact(
        id=FactId("f1"),
        kind=facts.FactKind.FACT,
        topic="tea",
        content="green",
        observed_at=NOW,
        recorded_at=NOW,
        confirmed_at=NOW,
        valid_to=valid_to,
    )


def test_a_superseded_fact_held_until_it_was_closed() -> None:
    closed = facts.close_fact(
        fact(), at=LATER, because="a newer word", state=facts.FactState.SUPERSEDED, by=FactId("f2")
    )
    assert closed == fact(valid_to=LATER).model_copy(
        update={
            "state": facts.FactState.SUPERSEDED,
            "closed_at": LATER,
            "closed_because": "a newer word",
            "superseded_by": FactId("f2"),
        }
    )
    assert (fact().is_current, closed.is_current) == (True, False)


def test_a_known_end_is_preserved() -> None:
    closed = facts.close_fact(fact(valid_to=NOW), at=LATER, because="", state=facts.FactState.SUPERSEDED)
    assert closed.valid_to == NOW


@pytest.mark.parametrize("state", [facts.FactState.CORRECTED, facts.FactState.FORGOTTEN, facts.FactState.DELETED])
def test_a_fact_closed_for_another_reason_has_no_end(state: facts.FactState) -> None:
    closed = facts.close_fact(fact(), at=LATER, because="asked", state=state)
    assert (closed.valid_to, closed.closed_at, closed.state) == (None, LATER, state)


_GONE = [state for state in facts.FactState if state is not facts.FactState.ACTIVE and state not in facts.PAST_STATES]


@given(FACTS, st.sampled_from(_GONE))
def test_a_fact_that_is_not_believed_is_unchanged(one: facts.Fact, state: facts.FactState) -> None:
    closed = facts.close_fact(one, at=NOW, because="first", state=state)
    assert not closed.is_believed
    assert facts.close_fact(closed, at=LATER, because="second", state=facts.FactState.DELETED) == closed


@given(FACTS, st.sampled_from(sorted(facts.PAST_STATES)))
def test_a_closed_version_that_is_forgotten_is_restored_unchanged(one: facts.Fact, state: facts.FactState) -> None:
    current = one.model_copy(update={"state": facts.FactState.ACTIVE})
    closed = facts.close_fact(current, at=NOW, because="first", state=state)
    gone = facts.close_fact(closed, at=LATER, because="asked", state=facts.FactState.FORGOTTEN)
    assert (gone.is_believed, gone.valid_to, gone.end_known_at) == (False, closed.valid_to, closed.end_known_at)
    assert facts.reopen_fact(gone) == closed


def test_case_and_white_space_of_a_topic_do_not_matter() -> None:
    assert facts.topic_key("  Blue\tBOAT\n") == facts.topic_key("blue boat") == "blue boat"


def test_a_fact_without_content_is_invalid() -> None:
    with pytest.raises(InvalidInput) as raised:
        facts.Fact.from_bytes(b'{"id":"f1","kind":"fact","topic":"tea","content":""}')
    assert raised.value.message == "content is not valid: string should have at least 1 character (and 3 more)"


TAG = ConversationTag("ab" * 12)


@given(st.lists(st.integers(1, 2**47), min_size=2, max_size=5))
def test_turn_ids_sort_in_conversation_order(sequences: list[int]) -> None:
    made = [transcript.turn_id(TAG, sequence) for sequence in sequences]
    assert sorted(made) == [transcript.turn_id(TAG, sequence) for sequence in sorted(sequences)]
    assert {transcript.tag_of(turn) for turn in made} == {TAG}


def test_the_first_message_has_the_turns_id_and_later_ones_add_their_position() -> None:
    turn = TurnId("ab.01")
    assert [transcript.message_id(turn, part) for part in range(3)] == ["ab.01", "ab.01#1", "ab.01#2"]


def turn(
    *messages: transcript.Message, lifecycle: transcript.TurnLifecycle = transcript.TurnLifecycle.ACTIVE
) -> transcript.Turn:
    return transcript.Turn(
        sequence=1,
        channel="default",
        conversation="default",
        messages=messages,
        recorded_at=NOW,
        lifecycle=lifecycle,
        forgotten={1: NOW},
        erased=(2,),
    )


def test_hidden_and_erased_messages_and_archived_turns_are_not_recalled() -> None:
    assert [turn(*SPOKEN).is_recallable(part) for part in range(4)] == [True, False, False, True]
    for lifecycle in transcript.TurnLifecycle:
        assert turn(*SPOKEN, lifecycle=lifecycle).is_recallable(0) is (lifecycle is transcript.TurnLifecycle.ACTIVE)


def test_a_message_has_the_hosts_time_or_else_its_recording_time() -> None:
    dated, undated = transcript.Message(text="a", at=LATER), transcript.Message(text="a")
    assert [transcript.said_at(turn(dated, undated), message) for message in (dated, undated)] == [LATER, NOW]


SPOKEN = tuple(transcript.Message(role=role, text=role.value) for role in EvidenceRole)


@pytest.mark.parametrize(
    ("delivery", "kept"),
    [
        (transcript.TurnDelivery.DELIVERED, ["user", "assistant", "system", "tool"]),
        (transcript.TurnDelivery.USER_ONLY, ["user", "system", "tool"]),
        (transcript.TurnDelivery.UPSTREAM_FAILED, ["user", "system", "tool"]),
        (transcript.TurnDelivery.CANCELLED, ["user", "system", "tool"]),
        (transcript.TurnDelivery.INCOMPLETE_STREAM, []),
        (transcript.TurnDelivery.REJECTED_BY_POLICY, []),
    ],
)
def test_only_delivered_messages_are_evidence(delivery: transcript.TurnDelivery, kept: list[str]) -> None:
    assert [message.text for message in transcript.evidence_of(SPOKEN, delivery)] == kept


def test_a_conversation_is_known_by_channel_and_name() -> None:
    head = transcript.Conversation(channel="mail", conversation="boat")
    assert head.key == ConversationKey("mail", "boat")


RECORD = space.SpaceRecord(secret="5a" * 32, created_at=NOW)
OTHER = space.SpaceRecord(secret="5b" * 32, created_at=NOW)


def tags(record: space.SpaceRecord) -> list[str]:
    key = ConversationKey("mail", "boat")
    return [
        record.conversation_tag(key),
        record.turn_name_tag(key, "t1"),
        record.slot_tag(facts.FactKind.TASK, "Blue  Boat"),
        record.slot_tag(facts.FactKind.FACT, "blue boat"),
        record.skill_tag("runtime_skill__row"),
    ]


def test_tags_differ_between_spaces_and_reveal_no_name() -> None:
    assert tags(RECORD) == tags(space.SpaceRecord.from_bytes(RECORD.to_bytes()))
    assert not set(tags(RECORD)) & set(tags(OTHER))
    assert len(set(tags(RECORD))) == 5
    assert all(len(tag) == space.TAG_DIGITS and set(tag) <= set("0123456789abcdef") for tag in tags(RECORD))
    assert RECORD.slot_tag(facts.FactKind.TASK, "blue boat") == RECORD.slot_tag(facts.FactKind.TASK, " BLUE\nboat")


def test_the_digest_of_a_body_differs_between_spaces() -> None:
    assert RECORD.digest(b"tea") == RECORD.digest(b"tea")
    assert len({RECORD.digest(b"tea"), RECORD.digest(b"tee"), OTHER.digest(b"tea")}) == 3


def test_every_collection_of_a_space_is_listed_once() -> None:
    assert len(set(space.COLLECTIONS)) == len(space.COLLECTIONS)
    assert {"turns", "facts", "skills", "capsules", "garden", "candidates"} <= set(space.COLLECTIONS)
