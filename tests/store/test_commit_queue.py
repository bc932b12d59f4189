"""Group commit as both engines use it: groups, work between them, and all kinds of endings."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from elytron_conformance.examples import batch, fact
from elytron_core.errors import StoreBusy, StoreClosed, StoreFailed
from elytron_core.ports.store import Batch, CommitReceipt, PutChange
from elytron_store import limits as store_limits
from elytron_store.commit_queue import GroupCommitter, Outcome, Work

pytestmark = pytest.mark.anyio


class Engine:
    """Writes in a separate thread, like an engine, and records its input."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.thread = ThreadPoolExecutor(1)
        self.failure: BaseException | None = None
        self.wanted: list[Work | None] = []

    def write(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        self.groups.append(len(batches))
        if self.failure is not None:
            raise self.failure
        return [CommitReceipt(1, 1)] * len(batches)

    def between(self) -> Work | None:
        return self.wanted.pop() if self.wanted else None

    def submit(self, work: Work) -> None:
        try:
            self.thread.submit(work)
        except RuntimeError as error:
            raise StoreClosed from error

    def committer(self) -> GroupCommitter:
        return GroupCommitter(self.write, engine="test", submit=self.submit, between=self.between)


def some(count: int, committer: GroupCommitter) -> list[asyncio.Task[CommitReceipt]]:
    return [asyncio.create_task(committer.commit(batch(PutChange(fact(number), b"", 0)))) for number in range(count)]


async def test_commits_in_the_same_loop_iteration_are_one_group() -> None:
    engine = Engine()
    committer = engine.committer()
    assert committer.is_idle
    assert await asyncio.gather(*some(64, committer)) == [CommitReceipt(1, 1)] * 64
    assert engine.groups == [64]


async def test_callers_that_continue_together_stay_one_group() -> None:
    engine = Engine()
    committer = engine.committer()

    async def write() -> None:
        for _ in range(5):
            await committer.commit(batch(PutChange(fact(1), b"", 0)))

    await asyncio.gather(*(write() for _ in range(8)))
    assert engine.groups == [8] * 5


@pytest.mark.parametrize(("waiting", "order"), [(1, ["given", "told", "given"]), (2, ["given", "given", "told"])])
async def test_a_large_enough_group_does_not_wait_for_answered_callers(
    waiting: int, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_store.commit_queue.GROUP_PUTS", 2)
    given: list[Work] = []
    seen: list[str] = []

    def submit(work: Work) -> None:
        seen.append("given")
        given.append(work)

    committer = GroupCommitter(Engine().write, engine="test", submit=submit, between=lambda: None)

    async def write() -> None:
        await committer.commit(batch(PutChange(fact(1), b"", 0)))
        seen.append("told")

    first = asyncio.create_task(write())
    while not given:
        await asyncio.sleep(0)
    later = some(waiting, committer)
    await asyncio.sleep(0)
    given.pop()()
    await first
    while not given:
        await asyncio.sleep(0)
    given.pop()()
    await asyncio.gather(*later)
    assert seen == order


async def test_commits_beyond_the_queue_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_limits, "QUEUE_BATCHES", 3)
    engine = Engine()
    committer = engine.committer()
    assert await asyncio.gather(*some(8, committer)) == [CommitReceipt(1, 1)] * 8
    assert max(engine.groups) <= 3
    assert sum(engine.groups) == 8


async def test_a_caller_cancelled_before_the_group_was_formed_is_left_out() -> None:
    engine = Engine()
    committer = engine.committer()
    gone, *stayed = some(3, committer)
    await asyncio.sleep(0)
    gone.cancel()
    assert await asyncio.gather(*stayed) == [CommitReceipt(1, 1)] * 2
    assert engine.groups == [2]


async def test_closing_finishes_accepted_commits_and_refuses_the_rest() -> None:
    engine = Engine()
    committer = engine.committer()
    accepted = some(3, committer)
    await asyncio.sleep(0)
    await committer.close()
    assert [task.result() for task in accepted] == [CommitReceipt(1, 1)] * 3
    with pytest.raises(StoreClosed):
        await committer.commit(batch(PutChange(fact(1), b"", 0)))


async def test_a_stopped_thread_refuses_every_waiting_commit() -> None:
    engine = Engine()
    committer = engine.committer()
    engine.thread.shutdown()
    told = await asyncio.gather(*some(3, committer), return_exceptions=True)
    assert [type(outcome) for outcome in told] == [StoreClosed] * 3
    await committer.close()


async def test_work_between_groups_runs_before_the_next_even_if_it_fails() -> None:
    engine = Engine()
    committer = engine.committer()
    done: list[int] = []

    def work() -> None:
        done.append(len(engine.groups))
        raise StoreBusy(engine="test", waited_s=0.0)

    engine.wanted = [None, work, work]
    for number in range(3):
        assert await committer.commit(batch(PutChange(fact(number), b"", 0))) == CommitReceipt(1, 1)
    await committer.close()
    assert done == [1, 2]


async def test_an_unexpected_failure_answers_every_waiting_commit() -> None:
    engine = Engine()
    engine.failure = ZeroDivisionError()
    committer = engine.committer()
    told = await asyncio.gather(*some(3, committer), return_exceptions=True)
    assert [type(outcome) for outcome in told] == [StoreFailed] * 3
    causes = [outcome.__cause__ for outcome in told if isinstance(outcome, StoreFailed)]
    assert [type(cause) for cause in causes] == [ZeroDivisionError] * 3
    engine.failure = None
    assert await committer.commit(batch(PutChange(fact(1), b"", 0))) == CommitReceipt(1, 1)


def test_a_loop_closed_before_the_store_gets_no_callbacks() -> None:
    engine = Engine()
    given: list[Work] = []
    loop = asyncio.new_event_loop()

    async def begin() -> None:
        committer = GroupCommitter(engine.write, engine="test", submit=given.append, between=lambda: None)
        task = asyncio.create_task(committer.commit(batch(PutChange(fact(1), b"", 0))))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()

    loop.run_until_complete(begin())
    loop.close()
    for work in given:
        work()
    assert engine.groups == [1]
