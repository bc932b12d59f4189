"""Facts from a model: which turns may be read, and which items an answer may propose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.planes.candidates import AdmissionVerdict, CandidateDraft, FactProposal, OriginTag, SkillProposal
from elytron_core.planes.transcript import ActorAttribution, Message, ToolObservation, Turn, TurnLifecycle, TurnSource
from elytron_core.policy.extraction import model_facts
from elytron_core.policy.extraction.model_facts import EXTRACTION_ITEMS, ExtractedItem, ExtractedItems, ReadingGate

AT = Instant(1_767_225_600_000)
ASKED = Message(text="I moved to Porto in March, and the flat is tiny.")
ANSWERED = Message(role=EvidenceRole.ASSISTANT, text="Porto is lovely. First open the valve, then bleed the radiator.")


def turn(*messages: Message, **changes: object) -> Turn:
    made = Turn(sequence=1, channel="c", conversation="d", messages=messages or (ASKED, ANSWERED), recorded_at=AT)
    return made.model_copy(update=changes)


def item(**changes: object) -> ExtractedItem:
    fields = {
        "plane": "factual",
        "op": "upsert",
        "kind": "profile",
        "topic": "residence",
        "content": "The user lives in Porto.",
        "confidence": "high",
        "quote": "I moved to Porto in March",
        **changes,
    }
    return ExtractedItem.model_validate(fields)


def propose(*items: ExtractedItem, of: Turn | None = None) -> model_facts.ProposedCandidates:
    return model_facts.propose_candidates("aa.1", of or turn(), ExtractedItems(items=items))


def test_a_two_sided_turn_started_by_a_user_may_be_read() -> None:
    assert model_facts.gate_for_model(turn(), is_pressed=False) is ReadingGate.OPEN
    assert model_facts.gate_for_rules(turn(ASKED)) is ReadingGate.OPEN


@pytest.mark.parametrize(
    ("changes", "gate"),
    [
        ({"external_content_used": True}, ReadingGate.EXTERNAL_CONTENT),
        (
            {"tool_observations": (ToolObservation(observation_id="1", tool_name="web", external_content=True),)},
            ReadingGate.EXTERNAL_CONTENT,
        ),
        ({"actor": ActorAttribution(triggered_by="Scheduler")}, ReadingGate.SCHEDULED_RUN),
        ({"source": TurnSource(ingress="cron")}, ReadingGate.SCHEDULED_RUN),
        ({"actor": ActorAttribution(speaker_kind="assistant")}, ReadingGate.NOT_USER_INGRESS),
        ({"messages": (ANSWERED,)}, ReadingGate.NOT_USER_INGRESS),
        ({"lifecycle": TurnLifecycle.ARCHIVED}, ReadingGate.NOT_RECALLABLE),
        ({"forgotten": {0: AT}}, ReadingGate.NOT_RECALLABLE),
    ],
)
def test_a_turn_without_a_users_own_words_is_not_read(changes: dict[str, object], gate: ReadingGate) -> None:
    assert model_facts.gate_for_rules(turn(**changes)) is gate
    assert model_facts.gate_for_model(turn(**changes), is_pressed=False) is gate


def test_a_model_reads_no_one_sided_turn_and_none_under_pressure() -> None:
    assert model_facts.gate_for_model(turn(ASKED), is_pressed=False) is ReadingGate.ONE_SIDED
    assert (
        model_facts.gate_for_model(turn(ASKED, Message(role=EvidenceRole.ASSISTANT, text=" ")), is_pressed=False)
        is ReadingGate.ONE_SIDED
    )
    assert model_facts.gate_for_model(turn(), is_pressed=True) is ReadingGate.PRESSURE


def test_text_that_a_user_quotes_is_not_the_users_word() -> None:
    pasted = Message(text="I live in Rome.", authority=EvidenceAuthority.EXTERNAL_CONTENT)
    assert model_facts.user_parts(turn(pasted, ASKED)) == (1,)


def test_rules_propose_explicit_statements_with_the_users_authority() -> None:
    (draft,) = model_facts.rule_candidates(
        "aa.1", turn(Message(role=EvidenceRole.ASSISTANT, text="I live in Oslo."), Message(text="I live in Porto."))
    )
    assert isinstance(draft.proposal, FactProposal)
    assert draft.proposal.content == "The user lives in Porto"
    assert draft.authority is EvidenceAuthority.USER_ASSERTED
    assert (draft.citations, draft.origins) == (("aa.1#1",), (OriginTag.USER,))


def test_nothing_is_extracted_from_recalled_text_in_a_users_message() -> None:
    echoed = Message(text="<memory-3f2a9c114d>\n- I live in Atlantis.\n</memory-3f2a9c114d>\nI live in Porto.")
    assert [
        draft.proposal.content
        for draft in model_facts.rule_candidates("aa.1", turn(echoed))
        if isinstance(draft.proposal, FactProposal)
    ] == ["The user lives in Porto"]


def test_an_item_based_on_the_users_words_is_proposed_but_not_vouched_for() -> None:
    (draft,) = propose(item()).drafts
    assert draft.authority is EvidenceAuthority.ARCHIVE_EVIDENCE
    assert (draft.citations, draft.origins) == (("aa.1",), (OriginTag.USER,))
    assert draft.judgement is not None
    assert draft.judgement.verdict is AdmissionVerdict.ACCEPT


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"quote": "I moved to Paris in March"}, "rests_on_no_words"),
        ({"quote": ""}, "rests_on_no_words"),
        ({"quote": "the"}, "rests_on_no_words"),
        ({"quote": "Porto is lovely"}, "rests_on_no_words"),
        ({"plane": "ignore"}, "ignored"),
        ({"topic": " "}, "empty"),
        ({"content": ""}, "empty"),
        ({"content": "x" * (limits.FACT_CHARS + 1)}, "too_long"),
    ],
)
def test_an_item_without_the_users_words_is_dropped(changes: dict[str, object], reason: str) -> None:
    assert propose(item(**changes)) == model_facts.ProposedCandidates(drafts=(), dropped={reason: 1})


def test_at_most_four_items_are_proposed() -> None:
    found = propose(*(item(topic=f"t{number}") for number in range(6)))
    assert len(found.drafts) == EXTRACTION_ITEMS
    assert found.dropped == {"too_many": 2}


def test_a_procedure_may_be_based_on_the_assistants_words() -> None:
    skill = item(plane="skill", topic="Bleed a radiator", content="1. open the valve", quote="then bleed the radiator")
    (draft,) = propose(skill).drafts
    assert isinstance(draft.proposal, SkillProposal)
    assert draft.proposal.name == "bleed_a_radiator"
    assert draft.origins == (OriginTag.ASSISTANT,)


def test_a_short_message_may_be_quoted_completely() -> None:
    assert propose(item(quote="Call me Al"), of=turn(Message(text="Call me Al"), ANSWERED)).drafts


@given(st.lists(st.text(max_size=40), max_size=6))
def test_no_model_answer_proposes_a_fact_without_the_users_words(quotes: list[str]) -> None:
    said = " ".join(ASKED.text.casefold().split())
    for draft in propose(*(item(quote=quote) for quote in quotes)).drafts:
        assert isinstance(draft, CandidateDraft)
        assert any(
            " ".join(quote.casefold().replace(",", "").replace(".", "").split()) in said.replace(",", "")
            for quote in quotes
        )
