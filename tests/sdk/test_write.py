"""Guarantees of writing: evidence once and in order, facts judged, procedures updated."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.sdk.told import believe, learn, talk, texts

import elytron
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import WriteOutcome
from elytron_core.errors import IdempotencyConflict, InvalidInput, ScopeMissing, TurnConflict
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.facts import FactAuthority, FactOperation
from elytron_core.planes.transcript import ToolObservation, TurnDelivery

pytestmark = pytest.mark.anyio
NOON = Instant(1_741_003_200_000)


async def test_messages_are_stored_in_order_and_found_immediately(memory: elytron.MemoryRuntime) -> None:
    report = await memory.add(["We moved to Lisbon in May.", "The flat has a lemon tree."], speaker="Ada")
    assert [decision.outcome for decision in report.decisions] == [WriteOutcome.STORED, WriteOutcome.STORED]
    ledger = await memory.replay()
    assert [turn.messages[0].text for turn in ledger.turns] == [
        "We moved to Lisbon in May.",
        "The flat has a lemon tree.",
    ]
    assert (await texts(memory, "where is the lemon tree?"))[0] == "The flat has a lemon tree."


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud800", 10**400, "x" * 16_385, ["a"]], ids=lambda value: ascii(value)[:12]
)
async def test_metadata_that_cannot_be_stored_exactly_is_rejected_and_nothing_stored(
    memory: elytron.MemoryRuntime, value: object
) -> None:
    with pytest.raises(InvalidInput, match=r"metadata\.line"):
        await memory.add("The ferry leaves at seven.", metadata={"line": value})
    assert not (await memory.inspect()).exists


async def test_a_turn_sent_twice_under_its_host_id_is_one_turn(memory: elytron.MemoryRuntime) -> None:
    first = await talk(memory, (EvidenceRole.USER, "Hello"), host_id="t1")
    again = await talk(memory, (EvidenceRole.USER, "Hello"), host_id="t1")
    assert again.decisions[0].outcome is WriteOutcome.DUPLICATE
    assert again.ids == first.ids
    assert not again.changed
    assert (await memory.replay()).total_turns == 1


async def test_a_host_id_with_other_content_is_a_conflict_and_nothing_is_stored(memory: elytron.MemoryRuntime) -> None:
    await talk(memory, (EvidenceRole.USER, "Hello"), host_id="t1")
    with pytest.raises(TurnConflict):
        await talk(memory, (EvidenceRole.USER, "Good bye"), host_id="t1")
    assert (await memory.replay()).total_turns == 1


async def test_the_same_host_id_twice_in_one_write_is_one_turn(memory: elytron.MemoryRuntime) -> None:
    turn = elytron.TurnDraft(messages=(elytron.Message(text="Hello"),), host_id="t1")
    report = await memory.write(elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=(turn, turn))))
    assert [decision.outcome for decision in report.decisions] == [WriteOutcome.STORED, WriteOutcome.DUPLICATE]


@pytest.mark.parametrize("delivery", [TurnDelivery.INCOMPLETE_STREAM, TurnDelivery.REJECTED_BY_POLICY])
async def test_an_unsuccessful_turn_leaves_no_evidence(memory: elytron.MemoryRuntime, delivery: TurnDelivery) -> None:
    report = await talk(memory, (EvidenceRole.USER, "Hello"), (EvidenceRole.ASSISTANT, "Hi"), delivery=delivery)
    assert report.decisions[0].outcome is WriteOutcome.SKIPPED
    assert report.decisions[0].verdict is AdmissionVerdict.REJECT
    assert not report.changed
    assert (await memory.inspect()).exists is False


@pytest.mark.parametrize("delivery", [TurnDelivery.USER_ONLY, TurnDelivery.UPSTREAM_FAILED, TurnDelivery.CANCELLED])
async def test_an_assistant_text_counts_only_if_delivered(
    memory: elytron.MemoryRuntime, delivery: TurnDelivery
) -> None:
    await talk(memory, (EvidenceRole.USER, "Hello"), (EvidenceRole.ASSISTANT, "Hi"), delivery=delivery)
    (turn,) = (await memory.replay()).turns
    assert [message.text for message in turn.messages] == ["Hello"]


@pytest.mark.parametrize("text", ["", " \n\t\u3000"])
async def test_a_turn_without_text_is_skipped_and_says_so(memory: elytron.MemoryRuntime, text: str) -> None:
    drafts = [elytron.TurnDraft(messages=(elytron.Message(text=said),)) for said in (text, "Hi")]
    report = await memory.write(elytron.MemoryWriteRequest(write=elytron.TranscriptWrite(turns=tuple(drafts))))
    told = [(decision.outcome, decision.reason) for decision in report.decisions]
    assert told == [(WriteOutcome.SKIPPED, "a turn without words creates no evidence"), (WriteOutcome.STORED, "")]
    assert not (await talk(memory, (EvidenceRole.USER, text))).changed
    (turn,) = (await memory.replay()).turns
    assert [message.text for message in turn.messages] == ["Hi"]


async def test_a_message_without_text_keeps_its_position(memory: elytron.MemoryRuntime) -> None:
    await talk(memory, (EvidenceRole.USER, ""), (EvidenceRole.ASSISTANT, "Still there?"))
    (turn,) = (await memory.replay()).turns
    assert [message.text for message in turn.messages] == ["", "Still there?"]


async def test_a_turn_without_text_is_evidence_of_its_actions(memory: elytron.MemoryRuntime) -> None:
    used = ToolObservation(observation_id="o1", tool_name="lights")
    draft = elytron.TurnDraft(messages=(elytron.Message(text=""),), tool_observations=(used,))
    write = elytron.TranscriptWrite(turns=(draft,))
    report = await memory.write(elytron.MemoryWriteRequest(write=write))
    assert report.decisions[0].outcome is WriteOutcome.STORED


async def test_an_idempotency_key_answers_a_repeat_with_the_first_report(memory: elytron.MemoryRuntime) -> None:
    first = await memory.add("Hello", idempotency_key="k")
    again = await memory.add("Hello", idempotency_key="k")
    assert again == first.model_copy(update={"duplicated": True})
    assert (await memory.replay()).total_turns == 1
    assert not (await memory.add("Hello")).duplicated
    assert (await memory.replay()).total_turns == 2


async def test_concurrent_repeats_of_a_spaces_first_write_get_its_answer(memory: elytron.MemoryRuntime) -> None:
    reports = await asyncio.gather(*(memory.add("Hello", idempotency_key="k") for _ in range(3)))
    assert sorted(report.duplicated for report in reports) == [False, True, True]
    assert {report.ids for report in reports} == {reports[0].ids}
    assert (await memory.replay()).total_turns == 1


async def test_an_idempotency_key_with_another_body_is_a_conflict(memory: elytron.MemoryRuntime) -> None:
    await memory.add("Hello", idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await memory.add("Good bye", idempotency_key="k")
    assert (await memory.replay()).total_turns == 1


async def test_concurrent_first_writes_under_one_key_with_different_bodies_conflict(
    memory: elytron.MemoryRuntime,
) -> None:
    answers = await asyncio.gather(
        *(memory.add(text, idempotency_key="k") for text in ("Hello", "Good bye")), return_exceptions=True
    )
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [IdempotencyConflict]
    assert (await memory.replay()).total_turns == 1


async def test_a_key_is_remembered_even_where_the_write_changed_nothing(memory: elytron.MemoryRuntime) -> None:
    await talk(memory, (EvidenceRole.USER, "Hello"), host_id="t1")
    first = await talk(memory, (EvidenceRole.USER, "Hello"), host_id="t1", idempotency_key="k")
    again = await talk(memory, (EvidenceRole.USER, "Hello"), host_id="t1", idempotency_key="k")
    assert first.decisions[0].outcome is WriteOutcome.DUPLICATE
    assert again.duplicated


async def test_many_writers_of_one_conversation_lose_nothing(memory: elytron.MemoryRuntime) -> None:
    await asyncio.gather(*(memory.add(f"note {number}") for number in range(64)))
    ledger = await memory.replay(limit=100)
    assert sorted(turn.messages[0].text for turn in ledger.turns) == sorted(f"note {number}" for number in range(64))
    assert [turn.sequence for turn in ledger.turns] == list(range(1, 65))


async def test_two_runtimes_on_one_file_append_without_losing_a_turn(path: str) -> None:
    async with elytron.open(path) as one, elytron.open(path) as other:
        await asyncio.gather(*(side.add(f"note {n}") for n in range(20) for side in (one, other)))
        ledger = await one.replay(limit=100)
    assert len(ledger.turns) == 40
    assert [turn.sequence for turn in ledger.turns] == list(range(1, 41))


async def test_a_new_value_supersedes_and_the_old_one_stays_in_history(memory: elytron.MemoryRuntime) -> None:
    first = await believe(memory, "home city", "Lisbon")
    second = await believe(memory, "Home  City", "Porto")
    assert second.decisions[0].outcome is WriteOutcome.UPDATED
    assert second.decisions[0].supersedes == first.ids[0]
    assert await texts(memory, "home city") == ["Porto"]
    history = await memory.history(second.ids[0])
    assert [(item.event.value, item.text) for item in history.items] == [
        ("added", "Lisbon"),
        ("superseded", None),
        ("added", "Porto"),
    ]


async def test_a_repeated_fact_adds_evidence_and_no_new_fact(memory: elytron.MemoryRuntime) -> None:
    first = await believe(memory, "home city", "Lisbon", citations=("a",))
    again = await believe(memory, "home city", "lisbon", citations=("b",))
    assert again.decisions[0].outcome is WriteOutcome.CONFIRMED
    assert again.ids == first.ids
    assert (await memory.get(first.ids[0])).citations == ("a", "b")
    assert [item.event.value for item in (await memory.history(first.ids[0])).items] == ["added", "confirmed"]


async def test_a_deleted_fact_is_not_recalled(memory: elytron.MemoryRuntime) -> None:
    await believe(memory, "home city", "Lisbon")
    gone = await believe(memory, "home city", "", operation=FactOperation.DELETE)
    assert gone.decisions[0].outcome is WriteOutcome.DELETED
    assert await texts(memory, "home city Lisbon") == []
    again = await believe(memory, "home city", "", operation=FactOperation.DELETE)
    assert again.decisions[0].outcome is WriteOutcome.SKIPPED
    back = await believe(memory, "home city", "Porto")
    assert back.decisions[0].outcome is WriteOutcome.STORED


async def test_an_assistants_statement_about_itself_is_not_a_fact(memory: elytron.MemoryRuntime) -> None:
    report = await believe(memory, "mood", "I am happy", authority=FactAuthority.ASSISTANT_SELF_CLAIM)
    assert report.decisions[0].verdict is AdmissionVerdict.REJECT
    assert report.ids == ()
    assert not report.changed


async def test_an_older_observation_does_not_replace_a_newer_one(memory: elytron.MemoryRuntime) -> None:
    await believe(memory, "home city", "Porto", observed_at=2_000)
    older = await believe(memory, "home city", "Lisbon", observed_at=1_000)
    assert older.decisions[0].verdict is AdmissionVerdict.REJECT
    assert await texts(memory, "home city") == ["Porto"]


async def test_drafts_of_one_write_are_judged_in_order(memory: elytron.MemoryRuntime) -> None:
    drafts = tuple(
        elytron.FactDraft.model_validate(
            {"topic": "home city", "content": city, "fact_kind": "profile", "authority": "user_asserted"}
        )
        for city in ("Lisbon", "Porto", "Porto")
    )
    report = await memory.write(elytron.MemoryWriteRequest(write=elytron.LongTermExtraction(facts=drafts)))
    assert [decision.outcome for decision in report.decisions] == [
        WriteOutcome.STORED,
        WriteOutcome.UPDATED,
        WriteOutcome.CONFIRMED,
    ]
    assert report.count(WriteOutcome.STORED) == 1
    assert await texts(memory, "home city") == ["Porto"]


async def test_a_procedure_is_recalled_updated_and_not_duplicated(memory: elytron.MemoryRuntime) -> None:
    steps = "1. Run the tests.\n2. Tag the release.\n3. Push the tag."
    first = await learn(memory, "release", steps)
    same = await learn(memory, "release", steps)
    other = await learn(memory, "release", steps + "\n4. Tell the team.")
    outcomes = [report.decisions[0].outcome for report in (first, same, other)]
    assert outcomes == [WriteOutcome.STORED, WriteOutcome.CONFIRMED, WriteOutcome.UPDATED]
    (hit,) = (await memory.recall("how do I do a release when deploying?")).hits
    assert hit.id == "runtime_skill__release"
    assert hit.text.endswith("4. Tell the team.")
    history = await memory.history("runtime_skill__release")
    assert [item.event.value for item in history.items] == ["added", "superseded"]


async def test_an_older_or_empty_procedure_changes_nothing(memory: elytron.MemoryRuntime) -> None:
    steps = "1. Run the tests.\n2. Tag the release.\n3. Push the tag."
    await learn(memory, "release", steps, observed_at=2_000)
    older = await learn(memory, "release", "1. Push.\n2. Pray.", observed_at=1_000)
    empty = await learn(memory, "nothing", "  ")
    assert older.decisions[0].outcome is WriteOutcome.SKIPPED
    assert empty.decisions[0].verdict is AdmissionVerdict.REJECT
    assert not older.changed
    assert not empty.changed


async def test_a_call_without_a_scope_is_rejected() -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing):
            await memory.add("Hello")
        assert (await memory.add("Hello", user_id="ada")).space == "ada"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "",
        " \n",
        {"role": "user"},
        {"role": "wizard", "content": "x"},
        {"content": None},
        {"content": "x", "mood": "bad"},
        {"content": 5},
        {"content": "a\ud800"},
    ],
)
async def test_invalid_messages_are_rejected(memory: elytron.MemoryRuntime, messages: object) -> None:
    with pytest.raises(InvalidInput):
        await memory.add(messages)  # pyright: ignore[reportArgumentType]
    assert (await memory.inspect()).exists is False


async def test_message_formats_used_by_hosts_are_accepted(memory: elytron.MemoryRuntime) -> None:
    await memory.add(
        [
            "plain",
            {"role": "assistant", "content": "said"},
            {"content": [{"type": "text", "text": "part one"}, {"type": "image"}, "part two", 5], "name": "Ada"},
            {"content": "dated", "timestamp": "2025-03-02T10:00:00Z"},
        ],
        speaker="Bob",
        tags=["home"],
        metadata={"room": 3},
    )
    said = [turn.messages[0] for turn in (await memory.replay()).turns]
    assert [(message.role.value, message.text, message.speaker, message.at) for message in said] == [
        ("user", "plain", "Bob", None),
        ("assistant", "said", None, None),
        ("user", "part one\npart two", "Ada", None),
        ("user", "dated", "Bob", 1_740_909_600_000),
    ]
    assert (await memory.list()).items[0].metadata == {"room": 3}


class FromLibrary:
    """A message as model libraries return it: an object, here iterable like pydantic's."""

    def __init__(self, content: object, **more: str) -> None:
        self.content = content
        vars(self).update(more)

    def __iter__(self) -> Iterator[tuple[str, object]]:
        return iter(vars(self).items())


async def test_messages_of_model_libraries_are_accepted_unchanged(memory: elytron.MemoryRuntime) -> None:
    parts = [FromLibrary(None, text="It is noon."), FromLibrary(None, id="call-1")]
    await memory.add(FromLibrary(parts, role="assistant"), speaker="Io")
    await memory.add(
        [FromLibrary("Hello?", type="human"), FromLibrary(None, role="assistant"), FromLibrary("Yes.", type="ai")],
        speaker="Ada",
    )
    own = elytron.Message(role=EvidenceRole.TOOL, text="Noon.", authority=EvidenceAuthority.RUNTIME_OBSERVATION)
    await memory.add([own, elytron.Message(text="Dated.", at=NOON)], speaker="Ada", at="2025-03-02T10:00:00Z")
    said = [turn.messages[0] for turn in (await memory.replay()).turns]
    assert [(message.role.value, message.text, message.speaker, message.at) for message in said] == [
        ("assistant", "It is noon.", "Io", None),
        ("user", "Hello?", "Ada", None),
        ("assistant", "Yes.", None, None),
        ("tool", "Noon.", None, 1_740_909_600_000),
        ("user", "Dated.", "Ada", NOON),
    ]


@pytest.mark.parametrize("at", [1_740_909_600, 1_740_909_600.0, 1_740_909_600_000, "2025-03-02T10:00:00Z"])
async def test_a_number_is_read_as_seconds_or_milliseconds_by_size(
    memory: elytron.MemoryRuntime, at: float | str
) -> None:
    await memory.add(["said", {"content": "dated", "timestamp": at}], at=at)
    assert [turn.messages[0].at for turn in (await memory.replay()).turns] == [1_740_909_600_000] * 2


async def test_a_model_message_list_is_accepted_and_only_text_stored(memory: elytron.MemoryRuntime) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    await memory.add(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "What time is it?"},
            {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
            {"role": "tool", "tool_call_id": "c1", "content": "It is noon."},
            {"role": "assistant", "content": ""},
        ]
    )
    said = [turn.messages[0] for turn in (await memory.replay()).turns]
    assert [(message.role.value, message.text) for message in said] == [
        ("system", "Be brief."),
        ("user", "What time is it?"),
        ("tool", "It is noon."),
    ]


async def test_secrets_are_redacted_before_anything_is_stored(memory: elytron.MemoryRuntime) -> None:
    secret = "ghp_" + "a1B2" * 9
    said = await talk(
        memory, (EvidenceRole.USER, f"my token is {secret}"), (EvidenceRole.ASSISTANT, "noted"), host_id="t"
    )
    known = await believe(memory, "token", f"it is {secret}")
    taught = await learn(memory, "login", f"1. Open the site.\n2. Paste {secret}.")
    assert [sum(report.scrubbed.values()) for report in (said, known, taught)] == [1, 1, 1]
    for item in (await memory.list()).items:
        assert secret not in item.text
    assert (await memory.add("nothing to hide")).scrubbed == {}
    again = await talk(
        memory, (EvidenceRole.USER, f"my token is {secret}"), (EvidenceRole.ASSISTANT, "noted"), host_id="t"
    )
    assert again.decisions[0].outcome is WriteOutcome.DUPLICATE


async def test_other_tasks_run_while_a_long_message_is_scanned(memory: elytron.MemoryRuntime) -> None:
    secret = "ghp_" + "a1B2" * 9
    adding = asyncio.ensure_future(memory.add("tea and cake " * 12_000 + secret))
    await asyncio.sleep(0)
    assert not adding.done()
    assert (await adding).scrubbed == {"github_token": 1}
    (said,) = await texts(memory, "tea")
    assert secret not in said


async def test_a_dry_run_write_shows_its_effect_and_stores_nothing(memory: elytron.MemoryRuntime) -> None:
    write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=(elytron.Message(text="Hello"),), host_id="t"),))
    rehearsed = await memory.write(elytron.MemoryWriteRequest(write=write, dry_run=True, idempotency_key="k"))
    assert (rehearsed.dry_run, rehearsed.changed, rehearsed.ids) == (True, False, ())
    assert rehearsed.decisions[0].outcome is WriteOutcome.STORED
    assert (await memory.inspect()).exists is False
    assert not (await memory.write(elytron.MemoryWriteRequest(write=write, idempotency_key="k"))).duplicated
    again = await memory.write(elytron.MemoryWriteRequest(write=write, dry_run=True))
    assert again.decisions[0].outcome is WriteOutcome.DUPLICATE
    other = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=(elytron.Message(text="Bye"),), host_id="t"),))
    with pytest.raises(TurnConflict):
        await memory.write(elytron.MemoryWriteRequest(write=other, dry_run=True))
