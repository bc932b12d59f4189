"""What is there is given at once; what comes late is given up; and everything on the way reaches the work."""

import asyncio

import pytest

from elytron.waiting import within

pytestmark = pytest.mark.anyio


async def given(value: str, *futures: asyncio.Future[str]) -> str:
    for future in futures:
        try:
            value += await future
        except LookupError:
            value += "?"
    return value


async def test_what_is_there_is_given_without_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(asyncio, "timeout")
    assert await within(1.0, given("tea")) == "tea"


async def test_what_the_work_waits_for_reaches_it() -> None:
    loop = asyncio.get_running_loop()
    one, wrong, two = loop.create_future(), loop.create_future(), loop.create_future()
    loop.call_soon(one.set_result, " and")
    loop.call_soon(wrong.set_exception, LookupError())
    loop.call_soon(two.set_result, " milk")
    assert await within(1.0, given("tea", one, wrong, two)) == "tea and? milk"


async def test_an_error_is_the_caller_s_whether_it_comes_at_once_or_later() -> None:
    async def fail(*, later: bool) -> str:
        if later:
            await asyncio.sleep(0)
        raise LookupError

    for later in (False, True):
        with pytest.raises(LookupError):
            await within(1.0, fail(later=later))


async def test_what_takes_too_long_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        await within(0.0, given("tea", asyncio.get_running_loop().create_future()))


async def test_whoever_is_cancelled_cancels_the_work() -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(within(1.0, given("tea", future)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert future.cancelled()
