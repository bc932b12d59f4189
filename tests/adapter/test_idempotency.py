"""The same idempotency key, the same answer, and one effect."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.sdk.meanwhile import Meanwhile

import elytron
from elytron import MemoryRuntime
from elytron_adapter.dispatch import OperationDispatcher
from elytron_adapter.envelope import (
    AcceptedAnswer,
    AuthKind,
    CallAuth,
    CallTransport,
    DuplicatedAnswer,
    Envelope,
    RejectedAnswer,
    Response,
)
from elytron_core.contracts.archive import MemoryImportReport, MemoryImportRequest
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.inspection import MemoryInspectionRequest
from elytron_core.contracts.memories import (
    ControlOutcome,
    MemoryControlReport,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
)
from elytron_core.contracts.skills import RuntimeSkillDeleteRequest
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    MemoryWriteReport,
    MemoryWriteRequest,
    ProcedureSource,
    RuntimeSkillWrite,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.model import Value
from elytron_core.planes.facts import FACTS
from elytron_core.planes.skills import SKILLS
from elytron_core.ports.store import Batch, CommitReceipt, JournalAction, Store
from elytron_core.scope import ScopedRequest
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


def write(*texts: str, key: str | None = None) -> MemoryWriteRequest:
    turns = tuple(TurnDraft.model_validate({"messages": [{"text": text}]}) for text in texts)
    return MemoryWriteRequest(write=TranscriptWrite(turns=turns), idempotency_key=key)


def call(
    dispatcher: OperationDispatcher,
    operation: str,
    request: ScopedRequest,
    *,
    key: str | None = "k",
    who: str | None = None,
) -> Awaitable[Response]:
    auth = CallAuth(authenticated=True, kind=AuthKind.BEARER, principal=who) if who is not None else CallAuth()
    return dispatcher.dispatch(
        Envelope(
            request_id="r",
            transport=CallTransport.SDK,
            operation=operation,
            auth=auth,
            idempotency_key=key,
            payload=request,
        )
    )


def report_of(response: Response) -> Value:
    assert isinstance(response, AcceptedAnswer | DuplicatedAnswer), response
    return response.report


async def remembered(runtime: MemoryRuntime, *texts: str) -> tuple[str, ...]:
    return (await runtime.write(write(*texts))).ids


async def count(runtime: MemoryRuntime) -> int:
    return len((await runtime.list()).items)


async def test_a_stored_answer_leaves_the_store_consistent_with_its_journal(dispatcher: OperationDispatcher) -> None:
    ids = await remembered(dispatcher.runtime, "tea")
    await call(dispatcher, "forget", MemoryForgetRequest(ids=ids))
    report = await dispatcher.runtime.inspect(MemoryInspectionRequest(check=True))
    assert report.journal_account is not None
    assert report.journal_account.ok


class TestWrite:
    async def test_a_repeat_gets_the_first_answer_and_stores_nothing(self, dispatcher: OperationDispatcher) -> None:
        first = report_of(await call(dispatcher, "write", write("tea")))
        again = await call(dispatcher, "write", write("tea"))
        assert isinstance(first, MemoryWriteReport)
        assert again == DuplicatedAnswer(request_id="r", report=first.model_copy(update={"duplicated": True}))
        assert await count(dispatcher.runtime) == 1

    async def test_another_body_under_the_key_is_a_conflict(self, dispatcher: OperationDispatcher) -> None:
        await call(dispatcher, "write", write("tea"))
        other = await call(dispatcher, "write", write("coffee"))
        assert isinstance(other, RejectedAnswer)
        assert (other.error_key, other.retryable) == ("idempotency_conflict", False)
        assert await count(dispatcher.runtime) == 1

    async def test_keys_of_two_principals_are_independent(self, dispatcher: OperationDispatcher) -> None:
        for who in ("ada", "bo", None):
            assert isinstance(await call(dispatcher, "write", write(f"from {who}"), who=who), AcceptedAnswer)
        for who in ("ada", "bo", None):
            assert isinstance(await call(dispatcher, "write", write(f"from {who}"), who=who), DuplicatedAnswer)

    async def test_a_key_in_the_request_is_the_principals_too(self, dispatcher: OperationDispatcher) -> None:
        await call(dispatcher, "write", write("tea", key="k"), key=None, who="ada")
        assert isinstance(await call(dispatcher, "write", write("tea", key="k"), key=None, who="bo"), AcceptedAnswer)
        assert isinstance(await call(dispatcher, "write", write("tea"), who="ada"), DuplicatedAnswer)

    async def test_two_different_keys_for_one_request_are_refused(self, dispatcher: OperationDispatcher) -> None:
        refused = await call(dispatcher, "write", write("tea", key="one"), key="two")
        assert isinstance(refused, RejectedAnswer)
        assert refused.reason == "idempotency_key differs from the key in the request: send only one"

    async def test_concurrent_calls_store_once(self, dispatcher: OperationDispatcher) -> None:
        answers = await asyncio.gather(*(call(dispatcher, "write", write("tea")) for _ in range(8)))
        assert sorted(answer.kind for answer in answers) == ["accepted"] + ["duplicated"] * 7
        assert await count(dispatcher.runtime) == 1


class TestReceipts:
    async def test_a_repeated_forget_gets_the_first_answer(self, dispatcher: OperationDispatcher) -> None:
        (memory,) = await remembered(dispatcher.runtime, "tea")
        request = MemoryForgetRequest(ids=(memory,))
        first = report_of(await call(dispatcher, "forget", request))
        assert isinstance(first, MemoryControlReport)
        assert first.decisions[0].outcome is ControlOutcome.CHANGED
        await dispatcher.runtime.forget(MemoryForgetRequest(ids=(memory,), undo=True))
        assert await call(dispatcher, "forget", request) == DuplicatedAnswer(request_id="r", report=first)
        assert await count(dispatcher.runtime) == 1, "what was undone since stays undone"

    async def test_another_body_under_the_key_is_a_conflict(self, dispatcher: OperationDispatcher) -> None:
        one, two = await remembered(dispatcher.runtime, "tea", "coffee")
        await call(dispatcher, "forget", MemoryForgetRequest(ids=(one,)))
        other = await call(dispatcher, "forget", MemoryForgetRequest(ids=(two,)))
        assert isinstance(other, RejectedAnswer)
        assert other.error_key == "idempotency_conflict"
        assert await count(dispatcher.runtime) == 1

    async def test_a_key_belongs_to_its_operation_and_principal(self, dispatcher: OperationDispatcher) -> None:
        one, two = await remembered(dispatcher.runtime, "tea", "coffee")
        await call(dispatcher, "forget", MemoryForgetRequest(ids=(one,)))
        assert isinstance(await call(dispatcher, "forget", MemoryForgetRequest(ids=(two,)), who="bo"), AcceptedAnswer)
        assert isinstance(await call(dispatcher, "erase", MemoryEraseRequest(ids=(two,))), AcceptedAnswer)

    async def test_concurrent_calls_act_once(self, dispatcher: OperationDispatcher) -> None:
        (memory,) = await remembered(dispatcher.runtime, "tea")
        request = MemoryEraseRequest(ids=(memory,))
        answers = await asyncio.gather(*(call(dispatcher, "erase", request) for _ in range(4)))
        assert sorted(answer.kind for answer in answers) == ["accepted"] + ["duplicated"] * 3
        assert len({report_of(answer).model_dump_json() for answer in answers}) == 1

    async def test_the_answer_survives_the_process(self, tmp_path: Path) -> None:
        async with elytron.open(tmp_path / "m.db", space="ada") as memory:
            request = MemoryForgetRequest(ids=await remembered(memory, "tea"))
            first = report_of(await call(OperationDispatcher(memory), "forget", request))
        async with elytron.open(tmp_path / "m.db", space="ada") as memory:
            assert await call(OperationDispatcher(memory), "forget", request) == DuplicatedAnswer(
                request_id="r", report=first
            )

    async def test_two_processes_get_the_answer_of_the_first(self, tmp_path: Path) -> None:
        # Two runtimes on one store do not share locks, as two processes do not.
        async with (
            elytron.open(tmp_path / "m.db", space="ada") as one,
            elytron.open(tmp_path / "m.db", space="ada") as two,
        ):
            request = MemoryForgetRequest(ids=await remembered(one, "tea"))
            answers = await asyncio.gather(
                *(call(OperationDispatcher(memory), "forget", request) for memory in (one, two))
            )
            changed = [answer for answer in answers if _changed(answer)]
            assert changed
            assert len({report_of(answer).model_dump_json() for answer in changed}) == 1
            later = await call(OperationDispatcher(two), "forget", request)
            assert report_of(later) == report_of(changed[0])

    async def test_a_call_that_changes_nothing_leaves_no_receipt(self, dispatcher: OperationDispatcher) -> None:
        (memory,) = await remembered(dispatcher.runtime, "tea")
        before = (await dispatcher.runtime.inspect()).sequence
        dry = MemoryForgetRequest(ids=(memory,), dry_run=True)
        for _ in range(2):
            assert isinstance(await call(dispatcher, "forget", dry), AcceptedAnswer)
        assert isinstance(await call(dispatcher, "forget", MemoryForgetRequest(ids=("nobody",))), AcceptedAnswer)
        assert (await dispatcher.runtime.inspect()).sequence == before
        assert isinstance(await call(dispatcher, "forget", MemoryForgetRequest(ids=(memory,))), AcceptedAnswer)

    async def test_a_failed_call_leaves_its_key_free(self, dispatcher: OperationDispatcher, tmp_path: Path) -> None:
        await remembered(dispatcher.runtime, "tea")
        missing = MemoryImportRequest(path=str(tmp_path / "missing"))
        assert isinstance(await call(dispatcher, "import", missing), RejectedAnswer)
        assert isinstance(await call(dispatcher, "import", missing), RejectedAnswer)

    async def test_an_import_into_an_empty_space_is_answered_again(
        self, dispatcher: OperationDispatcher, tmp_path: Path
    ) -> None:
        await remembered(dispatcher.runtime, "tea")
        await dispatcher.runtime.export(tmp_path / "a.zip", include_private=True)
        request = MemoryImportRequest(path=str(tmp_path / "a.zip"))
        async with elytron.open("memory:", space="ada") as memory:
            fresh = OperationDispatcher(memory)
            first = report_of(await call(fresh, "import", request))
            assert isinstance(first, MemoryImportReport)
            assert await call(fresh, "import", request) == DuplicatedAnswer(request_id="r", report=first)

    async def test_an_erased_space_stays_erased(self, dispatcher: OperationDispatcher) -> None:
        await remembered(dispatcher.runtime, "tea")
        request = MemoryEraseRequest(whole_space="ada")
        assert isinstance(await call(dispatcher, "erase", request), AcceptedAnswer)
        assert isinstance(await call(dispatcher, "erase", request), AcceptedAnswer)
        assert await dispatcher.runtime.context.store.spaces(limit=10) == []

    async def test_the_journal_entry_of_a_receipt_shows_an_operator_action_but_not_which(
        self, dispatcher: OperationDispatcher
    ) -> None:
        (memory,) = await remembered(dispatcher.runtime, "tea")
        await call(dispatcher, "forget", MemoryForgetRequest(ids=(memory,)), key="s3cret", who="s3cret")
        context = dispatcher.runtime.context
        scope = context.default_scope
        assert scope is not None
        last = (await context.store.journal(scope.space, after=0, limit=100))[-1]
        assert (last.action, last.ref, last.digest) == (JournalAction.OPERATOR, ("space", "0"), "")

    async def test_a_receipt_is_not_part_of_the_space_fingerprint(self, dispatcher: OperationDispatcher) -> None:
        (memory,) = await remembered(dispatcher.runtime, "tea")
        await dispatcher.runtime.forget(MemoryForgetRequest(ids=(memory,)))
        await dispatcher.runtime.forget(MemoryForgetRequest(ids=(memory,), undo=True))
        before = await dispatcher.runtime.inspect()
        again = MemoryForgetRequest(ids=(memory,))
        await call(dispatcher, "forget", again)
        after = await dispatcher.runtime.inspect()
        assert after.documents == before.documents

    async def test_without_a_scope_no_receipt_is_stored(self, tmp_path: Path) -> None:
        async with elytron.open("memory:", space=None) as memory:
            answer = await call(OperationDispatcher(memory), "forget", MemoryForgetRequest(ids=("x",)))
            assert isinstance(answer, RejectedAnswer)
            assert answer.error_key == "scope_missing"


def _changed(answer: Response) -> bool:
    report = report_of(answer)
    return isinstance(report, MemoryControlReport) and report.changed


async def test_a_repeat_is_told_that_the_first_call_is_still_running(runtime: MemoryRuntime) -> None:
    (known,) = await remembered(runtime, "Ada likes tea.")
    dispatcher = OperationDispatcher(runtime, repeat_wait_s=0.001)
    reached, release = asyncio.Event(), asyncio.Event()
    commit = runtime.context.store.commit

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(runtime.context.store, name)

        async def commit(self, batch: Batch, /) -> CommitReceipt:
            reached.set()
            await release.wait()
            return await commit(batch)

    request = MemoryForgetRequest(ids=(known,))
    slow = OperationDispatcher(
        MemoryRuntime(replace(runtime.context, store=cast("Store", Slow()))), repeat_wait_s=0.001
    )
    first = asyncio.create_task(_ended(call(slow, "forget", request)))
    await reached.wait()
    again = await call(slow, "forget", request)
    assert isinstance(again, RejectedAnswer)
    assert (again.error_key, again.retryable) == ("still_running", True)
    release.set()
    assert isinstance(await first, AcceptedAnswer)
    assert isinstance(await call(dispatcher, "forget", request), DuplicatedAnswer)


async def _ended(answer: Awaitable[Response]) -> Response:
    return await answer


@pytest.mark.parametrize(
    ("operation", "collection"), [("forget", FACTS), ("correct", FACTS), ("delete_runtime_skill", SKILLS)]
)
async def test_a_late_repeat_gets_the_answer_of_the_process_that_acted(operation: str, collection: str) -> None:
    store = Meanwhile(MemoryStore())
    async with elytron.open(store, space="ada") as ours, elytron.open(store.inner, space="ada") as theirs:
        fact = FactDraft(topic="birthday", content="14 March")
        skill = RuntimeSkillWrite(name="moor", topic="mooring", title="Moor", summary="How.", content="1. Stop.")
        (known,) = (await theirs.write(MemoryWriteRequest(write=LongTermExtraction(facts=(fact,))))).ids
        (named,) = (await theirs.write(MemoryWriteRequest(write=ProcedureSource(writes=(skill,))))).ids
        request = {
            "forget": MemoryForgetRequest(ids=(known,)),
            "correct": MemoryCorrectRequest(id=known, content="4 March"),
            "delete_runtime_skill": RuntimeSkillDeleteRequest(name=named),
        }[operation]
        answers: list[Response] = []

        async def quicker() -> None:
            answers.append(await call(OperationDispatcher(theirs), operation, request))

        store.behind_reading(collection, quicker)
        late = await call(OperationDispatcher(ours), operation, request)
        assert (answers[0].kind, late.kind) == ("accepted", "duplicated")
        assert report_of(late) == report_of(answers[0])
