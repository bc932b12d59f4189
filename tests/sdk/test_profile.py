"""A person's profile: whose facts it shows and when, grouped, cited, and worded only as far as they support it."""

import json

import pytest
from tests.sdk.told import believe

import elytron
from elytron import (
    EvidenceRole,
    FactAction,
    FactChangeRequest,
    FactKind,
    FactPrivacy,
    Message,
    ProfileReport,
    ProfileRequest,
    Scope,
)
from elytron.models.scripted import ScriptedModel
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.contracts.maintenance.maintenance import MemoryMaintainRequest
from elytron_core.errors import InvalidInput, ModelUnavailable
from elytron_core.ids import SeededIds
from elytron_core.policy.spending_budget import SpendingBudget

pytestmark = pytest.mark.anyio
TALK = (
    Message(
        role=EvidenceRole.USER, speaker="Ada", text="My name is Ada Lovelace. I live in Porto. I'm allergic to peanuts."
    ),
    Message(role=EvidenceRole.USER, speaker="Bob", text="I work as a baker. I live in Rome."),
)


def contents(report: ProfileReport) -> dict[str, list[str]]:
    return {group.kind.value: [line.content for line in group.lines] for group in report.groups}


async def test_a_profile_shows_current_facts_by_kind_with_their_evidence(
    memory: elytron.MemoryRuntime,
) -> None:
    ids = (await memory.add(TALK, conversation="kitchen")).ids
    await memory.maintain(MemoryMaintainRequest(scope=Scope(space="ada", conversation="kitchen")))
    report = await memory.profile("Ada")
    assert contents(report) == {
        "profile": ["Ada is called Ada Lovelace", "Ada lives in Porto"],
        "constraint": ["Ada is allergic to peanuts"],
    }
    assert report.names == ("Ada", "Ada Lovelace")
    assert {line.evidence for group in report.groups for line in group.lines} == {(ids[0].partition("#")[0],)}
    assert "- Ada: residence: Ada lives in Porto" in report.text
    assert contents(await memory.profile("ada lovelace")) == contents(report)
    assert (await memory.profile("Dora")).groups == ()


async def test_an_unnamed_speaker_is_known_by_their_stated_name(memory: elytron.MemoryRuntime) -> None:
    await memory.add("My name is Mia. I live in Graz.", conversation="default")
    await memory.maintain()
    assert "The user lives in Graz" in contents(await memory.profile("Mia"))["profile"]
    assert "The user lives in Graz" in contents(await memory.profile())["profile"]


async def test_facts_about_the_person_precede_those_that_only_mention_them(
    memory: elytron.MemoryRuntime,
) -> None:
    await memory.add_fact("a sister", "Bob's sister Ada sings", kind=FactKind.RELATIONSHIP)
    await memory.add_fact("brother", "Ada has a brother", kind=FactKind.RELATIONSHIP)
    await memory.add_fact("pet", "The Adas are no family", kind=FactKind.RELATIONSHIP)
    await memory.add_fact("宠物", "王芳养了一只猫")
    (group,) = (await memory.profile("Ada")).groups
    assert [(line.bearing.value, line.content) for line in group.lines] == [
        ("subject", "Ada has a brother"),
        ("named", "Bob's sister Ada sings"),
    ]
    assert contents(await memory.profile("王芳")) == {"fact": ["王芳养了一只猫"]}


async def test_a_pets_name_is_not_the_persons_name(memory: elytron.MemoryRuntime) -> None:
    await memory.add_fact("cat", "Ada's cat is called Tom", kind=FactKind.PROFILE)
    assert (await memory.profile("Tom")).names == ("Tom",)


async def test_a_profile_as_of_a_time_shows_what_held_then(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    home = (await memory.add_fact("home", "Ada lives in Porto", kind=FactKind.PROFILE)).ids[0]
    before = clock.now()
    clock.advance(10 * DAY_MS)
    moved = FactChangeRequest(id=home, action=FactAction.SUPERSEDE, content="Ada lives in Rome")
    await memory.change_fact(moved)
    assert contents(await memory.profile("Ada")) == {"profile": ["Ada lives in Rome"]}
    assert contents(await memory.profile("Ada", as_of=before)) == {"profile": ["Ada lives in Porto"]}
    with pytest.raises(InvalidInput, match="as_of"):
        await memory.profile("Ada", as_of="some day")


async def test_private_facts_and_those_beyond_the_limit_are_omitted_and_counted(
    memory: elytron.MemoryRuntime,
) -> None:
    secret = (await memory.add_fact("illness", "Ada has asthma", kind=FactKind.CONSTRAINT)).ids[0]
    hide = FactChangeRequest(id=secret, action=FactAction.CHANGE_PRIVACY, privacy=FactPrivacy.PRIVATE)
    await memory.change_fact(hide)
    for place in ("Porto", "Rome"):
        await memory.add_fact(f"house in {place}", f"Ada has a house in {place}")
    report = await memory.profile("Ada")
    assert (report.withheld, "asthma" in report.text) == (1, False)
    assert "asthma" in (await memory.profile("Ada", include_private=True)).text
    first = await memory.profile(ProfileRequest(person="Ada", limit=1))
    assert (len(first.groups[0].lines), first.left_out) == (1, 1)


async def test_a_users_profile_omits_facts_about_the_world(memory: elytron.MemoryRuntime) -> None:
    fact = (await memory.add_fact("ferry", "The ferry leaves at six")).ids[0]
    request = FactChangeRequest(id=fact, action=FactAction.CHANGE_SCOPE, reach=elytron.FactReach.WORLD)
    await memory.change_fact(request)
    await memory.add_fact("home", "Lisbon")
    assert contents(await memory.profile()) == {"fact": ["Lisbon"]}


async def test_the_text_is_bounded(memory: elytron.MemoryRuntime) -> None:
    for number in range(90):
        await memory.add_fact(f"thing {number}", f"Ada has {number} " + f"word{number} " * 20)
    report = await memory.profile(ProfileRequest(person="Ada", limit=200))
    assert len(report.text) <= 12_000
    assert len(report.groups[0].lines) == 90


def sentence(text: str, *grounds: tuple[int, str]) -> dict[str, object]:
    return {"text": text, "rests_on": [{"fact": number, "quote": quote} for number, quote in grounds]}


async def written(*sentences: dict[str, object] | Exception, budget: SpendingBudget | None = None) -> ProfileReport:
    said = [each if isinstance(each, Exception) else "" for each in sentences]
    model = ScriptedModel(said if isinstance(said[0], Exception) else [json.dumps({"sentences": sentences})])
    async with elytron.open(
        "memory:", space="ada", language_model=model, clock=FrozenClock(step_ms=1), ids=SeededIds(), budget=budget
    ) as memory:
        await believe(memory, "home", "Ada lives in Porto")
        await believe(memory, "drink", "Ada likes green tea")
        return await memory.profile("Ada", wording=elytron.ProfileWording.MODEL)


async def test_a_written_profile_keeps_only_sentences_supported_by_facts() -> None:
    report = await written(
        sentence("Ada lives in Porto and likes green tea.", (1, "green tea"), (2, "lives in Porto")),
        sentence("Ada lives in Lisbon.", (2, "lives in Porto")),
        sentence("Ada likes coffee.", (1, "coffee")),
        sentence("Ada is kind."),
        sentence("Ada sings.", (7, "sings")),
    )
    (kept,) = report.sentences
    assert (report.wording, report.text, report.sentences_dropped) == (
        "model",
        "Ada lives in Porto and likes green tea.",
        4,
    )
    lines = report.groups[0].lines
    assert set(kept.citations) == {line.id for line in lines}


async def test_without_supported_sentences_the_facts_are_the_text() -> None:
    unborne = await written(sentence("Ada is kind."))
    assert (unborne.wording, unborne.not_written) == ("rules", "nothing_borne_by_facts")
    assert "Ada lives in Porto" in unborne.text
    assert (await written(ModelUnavailable("away"))).not_written == "model_unavailable"
    poor = await written(sentence("Ada sings."), budget=SpendingBudget(calls_per_day=0))
    assert (poor.not_written, poor.wording) == ("budget_reached", "rules")


async def test_without_a_model_or_facts_the_report_says_so(memory: elytron.MemoryRuntime) -> None:
    asked = ProfileRequest(person="Ada", wording=elytron.ProfileWording.MODEL)
    assert (await memory.profile(asked)).not_written == "nothing_stands"
    await memory.add_fact("home", "Ada lives in Porto")
    assert (await memory.profile(asked)).not_written == "no_language_model"
