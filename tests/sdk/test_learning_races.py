"""Concurrency of two processes: a fact is judged by the rules and tombstones in force when it is stored."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.sdk.meanwhile import Meanwhile, Then
from tests.sdk.told import believe, put

import elytron
from elytron import FactAction, FactChangeRequest, LearningAction
from elytron_core.clock import FrozenClock
from elytron_store import open_store

pytestmark = pytest.mark.anyio

PAUSED = "learning is paused: resume it with set_learning first"
SUPPRESSED = "its topic is suppressed: allow it with set_learning first"
FORGOTTEN = "it was forgotten: allow its topic with set_learning, or undo the forgetting"


class Two:
    """Two runtimes on one SQLite file; the second acts just before the first stores a fact."""

    def __init__(self, ours: elytron.MemoryRuntime, theirs: elytron.MemoryRuntime, meanwhile: Meanwhile) -> None:
        self.ours = ours
        self.theirs = theirs
        self.meanwhile = meanwhile

    async def tried(self, then: Then, /) -> list[tuple[str, str]]:
        """State that Ada likes green tea, while `then` happens."""
        self.meanwhile.before_commit("facts", then)
        report = await believe(self.ours, "drink", "Ada likes green tea")
        assert self.meanwhile.is_over
        return [(decision.outcome.value, decision.reason) for decision in report.decisions]

    async def stand(self) -> list[str]:
        """Return the current facts, as the other process sees them."""
        return [entry.content for entry in (await self.theirs.list_facts()).items if entry.state == "active"]


@pytest.fixture
async def two(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[Two]:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    store = await open_store(url, clock=clock)
    meanwhile = Meanwhile(store)
    async with (
        elytron.open(meanwhile, space="ada", clock=clock) as ours,
        elytron.open(url, space="ada", clock=clock) as theirs,
    ):
        await theirs.add("begun")
        yield Two(ours, theirs, meanwhile)
    await store.close()


@pytest.mark.parametrize(
    ("action", "topic", "reason"),
    [(LearningAction.PAUSE, None, PAUSED), (LearningAction.SUPPRESS, "tea", SUPPRESSED)],
)
async def test_a_fact_is_not_stored_once_another_process_ended_learning(
    two: Two, action: LearningAction, topic: str | None, reason: str
) -> None:
    done = await two.tried(lambda: two.theirs.set_learning(action, topic))
    assert (done, await two.stand()) == ([("rejected", reason)], [])


async def test_a_fact_is_not_stored_once_another_process_forgot_the_same(two: Two) -> None:
    (fact,) = (await believe(two.theirs, "habit", "Ada likes green tea")).ids
    done = await two.tried(lambda: two.theirs.forget(fact))
    assert (done, await two.stand()) == ([("rejected", FORGOTTEN)], [])


async def test_a_fact_is_not_stored_once_another_process_deleted_the_same(two: Two) -> None:
    (fact,) = (await believe(two.theirs, "habit", "Ada likes green tea")).ids
    gone = FactChangeRequest(id=fact, action=FactAction.DELETE)
    done = await two.tried(lambda: two.theirs.change_fact(gone))
    assert (done, await two.stand()) == ([("rejected", FORGOTTEN)], [])


async def test_a_fact_is_not_stored_once_another_process_forgot_it_by_a_query(two: Two) -> None:
    await believe(two.theirs, "habit", "Ada likes green tea")
    told = await two.theirs.forget_facts("green tea")
    done = await two.tried(lambda: two.theirs.forget_facts("green tea", token=told.token))
    assert (done, await two.stand()) == ([("rejected", FORGOTTEN)], [])


async def test_a_candidate_is_not_accepted_once_another_process_forgot_the_same(two: Two) -> None:
    proposal = {"target": "long_term", "fact_kind": "profile", "topic": "drink", "content": "Ada likes green tea"}
    await put(two.ours, "candidates", candidates=[{"proposal": proposal, "authority": "user_asserted"}])
    (waiting,) = (await two.ours.list_candidates()).items
    (fact,) = (await believe(two.theirs, "habit", "Ada likes green tea")).ids
    two.meanwhile.before_commit("facts", lambda: two.theirs.forget(fact))
    request = elytron.CandidateResolveRequest(id=waiting.id, resolution=elytron.CandidateResolution.ACCEPT)
    report = await two.ours.resolve_candidate(request)
    assert two.meanwhile.is_over
    assert (report.changed, report.reason, await two.stand()) == (False, FORGOTTEN, [])


async def test_a_fact_is_stored_despite_a_concurrent_unrelated_rule(two: Two) -> None:
    done = await two.tried(lambda: two.theirs.set_learning(LearningAction.SUPPRESS, "coffee"))
    assert (done, await two.stand()) == ([("stored", "")], ["Ada likes green tea"])
