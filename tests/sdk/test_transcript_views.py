"""Pages of a conversation through views: cursors, budgets, and chat aliases."""

import pytest
from tests.sdk.transcripts import SUPPORT, commit, turn, view

import elytron
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import InvalidInput
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange, Store

pytestmark = pytest.mark.anyio

BY_CHAT = elytron.Scope(space=SpaceId("ada"), channel="web", chat="c-1", agent="helper")
TIED = BY_CHAT.model_copy(update={"conversation": "support"})


async def test_pages_are_consecutive(memory: elytron.MemoryRuntime) -> None:
    for number in range(5):
        await commit(memory, f"t{number}", attributes=({"key": "host.n", "value": number, "visibility": "host_ui"},))
    seen: list[tuple[int, object]] = []
    cursor: str | None = None
    while True:
        page = await view(memory, limit=2, cursor=cursor)
        seen += [(found.sequence, found.attributes[0].value) for found in page.slice.turns]
        assert page.has_more is (page.next_cursor is not None)
        cursor = page.next_cursor
        if cursor is None:
            break
        assert cursor == f"{seen[-1][0]}:{page.slice.turns[-1].id}"
    assert seen == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]


async def test_a_page_truncated_by_the_profile_counts_all_turns(clock: FrozenClock) -> None:
    opening = elytron.open("memory:", space="ada", clock=clock, ids=SeededIds(), profile="esp-embedded-sdk")
    async with opening as memory:
        size = memory.context.profile.budget.transcript.page_turns
        for number in range(size + 3):
            await commit(memory, f"t{number}")
        page = await view(memory, limit=1_000)
        (clip,) = page.clipped
        assert (len(page.slice.turns), clip.limit, clip.dropped) == (size, size, 3)
        (clip,) = (await view(memory, limit=size + 2)).clipped
        assert clip.dropped == 2
        assert (await view(memory, limit=1_000, cursor=page.next_cursor)).clipped == ()


async def test_a_forged_cursor_is_an_error(memory: elytron.MemoryRuntime) -> None:
    with pytest.raises(InvalidInput):
        await view(memory, cursor="1:x")
    found = await commit(memory)
    for cursor in ("x:y", "1", f"2:{found.turn_id}", f"٣:{found.turn_id}", f"9:{str(found.turn_id)[:-1]}9"):
        with pytest.raises(InvalidInput):
            await view(memory, cursor=cursor)
    assert (await view(memory, cursor=f"1:{found.turn_id}")).slice.turns == ()


async def test_an_export_shows_exactly_the_export_view(memory: elytron.MemoryRuntime) -> None:
    refs = [
        {"host_kind": "h", "business_ref_type": "t", "business_ref_id": shown, "visibility": shown, "label": "words"}
        for shown in ("export", "host_ui", "internal", "model_context", "operator_audit")
    ]
    await commit(memory, host_refs=refs)
    exported = await memory.export_transcript(elytron.MemoryTranscriptExportRequest(scope=SUPPORT))
    assert exported.slice == (await view(memory, "export")).slice
    assert [(ref.business_ref_id, ref.label) for ref in exported.slice.turns[0].host_refs] == [("export", None)]
    assert (await memory.export_transcript()).slice.turns == ()
    assert (await memory.replay_transcript()).slice.turns == ()


async def test_a_profile_returns_smaller_pages_and_says_so(clock: FrozenClock) -> None:
    opening = elytron.open("memory:", scope=SUPPORT, clock=clock, ids=SeededIds(), profile="esp-embedded-sdk")
    async with opening as memory:
        for number in range(17):
            await commit(memory, f"t{number}")
        page = await view(memory, limit=5_000)
        assert (len(page.slice.turns), page.has_more, page.profile_budget_applied) == (16, True, True)
        assert page.clipped[-1].reason == "profile"
        rest = await view(memory, limit=100, cursor=page.next_cursor)
        assert (len(rest.slice.turns), rest.has_more, rest.profile_budget_applied) == (1, False, False)
        changed = await turn(memory, "mask")
        assert changed.affected_turns == 17


async def test_a_chat_means_the_conversation_committed_last_under_it(memory: elytron.MemoryRuntime) -> None:
    await commit(memory, "t1", "the parcel is blue", scope=TIED)
    page = await view(memory, scope=BY_CHAT)
    assert (page.alias, page.slice.conversation, len(page.slice.turns)) == ("trusted", "support", 1)
    await memory.write(
        elytron.MemoryWriteRequest(
            scope=BY_CHAT,
            write=elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=(elytron.Message(text="it came"),)),)),
        )
    )
    assert len((await view(memory)).slice.turns) == 2
    replayed = await memory.replay(elytron.MemoryReplayRequest(scope=BY_CHAT, chat_id="c-1"))
    assert (replayed.conversation, replayed.total_turns) == ("support", 2)
    request = elytron.MemoryProjectionRequest(scope=BY_CHAT, query="x", recall_limit=0)
    assert "it came" in (await memory.project(request)).system_memory_block
    await commit(memory, "t2", "another parcel", scope=TIED.model_copy(update={"conversation": "second"}))
    assert (await view(memory, scope=BY_CHAT)).slice.conversation == "second"


async def nothing_is_said(memory: elytron.MemoryRuntime, scope: elytron.Scope, alias: str) -> None:
    """Require that no content is shown under a scope, and that each report says why."""
    page = await view(memory, scope=scope)
    assert (page.alias, page.slice.turns) == (alias, ())
    recalled = await memory.recall(elytron.MemoryRecallRequest(scope=scope, query="parcel"))
    assert (recalled.alias, [hit for hit in recalled.hits if hit.plane == "transcript"]) == (alias, [])
    projected = await memory.project(elytron.MemoryProjectionRequest(scope=scope, query="parcel"))
    assert (projected.alias, "parcel" in projected.system_memory_block) == (alias, False)
    assert (await memory.replay(elytron.MemoryReplayRequest(scope=scope))).turns == ()
    inspected = await memory.inspect(elytron.MemoryInspectionRequest(scope=scope))
    assert (inspected.alias, inspected.conversations, inspected.speakers) == (alias, (), ())
    changed = await turn(memory, "mask", scope=scope)
    assert (changed.alias, changed.affected_turns, changed.changed) == (alias, 0, False)
    checked = await memory.repair_transcript(elytron.MemoryTranscriptRepairRequest(scope=scope))
    assert (checked.alias, checked.fail_closed) == (alias, True)


async def test_another_subjects_chat_resolves_to_nothing(memory: elytron.MemoryRuntime) -> None:
    await commit(memory, "t1", "the parcel is blue", scope=TIED)
    stranger = BY_CHAT.model_copy(update={"agent": "stranger"})
    await nothing_is_said(memory, stranger, "unknown_subject")
    with pytest.raises(InvalidInput):
        await commit(memory, "t2", scope=stranger)
    with pytest.raises(InvalidInput):
        await view(memory, scope=stranger, cursor="1:x")


async def test_a_chat_whose_conversation_is_gone_resolves_to_nothing(memory: elytron.MemoryRuntime) -> None:
    report = await commit(memory, "t1", "the parcel is blue", scope=TIED)
    await memory.erase(elytron.MemoryEraseRequest(ids=report.message_ids))
    await nothing_is_said(memory, BY_CHAT, "conversation_gone")
    assert (await commit(memory, "t2", scope=BY_CHAT)).conversation == "support"


@pytest.mark.parametrize("body", [b'{"channel":"web","chat":"c-2"}', b'{"channel":"web"}', b"rubbish"])
async def test_a_mismatched_alias_resolves_to_nothing(memory: elytron.MemoryRuntime, body: bytes) -> None:
    await commit(memory, "t1", "the parcel is blue", scope=TIED)
    record = await memory.context.spaces.find(TIED.space)
    assert isinstance(record, SpaceRecord)
    await put(memory.context.store, DocumentRef("chat_aliases", record.alias_tag("web", "c-1")), body, expects=1)
    await nothing_is_said(memory, BY_CHAT, "mismatched")


async def test_an_unlinked_chat_is_the_conversation_of_that_name(memory: elytron.MemoryRuntime) -> None:
    assert (await view(memory, scope=BY_CHAT)).slice.turns == ()
    await commit(memory, "t1", scope=BY_CHAT)
    assert (await view(memory, scope=BY_CHAT)).slice.conversation == "c-1"
    assert (await memory.inspect()).documents.get("chat_aliases") is None
    await commit(memory, "t2", scope=BY_CHAT.model_copy(update={"conversation": "c-1"}))
    assert (await memory.inspect()).documents.get("chat_aliases") is None


async def put(store: Store, ref: DocumentRef, body: bytes, *, expects: int) -> None:
    """Write a document directly into the store."""
    await store.commit(
        Batch(
            space=TIED.space,
            at=Instant(1_770_000_000_000),
            entries=(EntryDraft(JournalAction.OPERATOR, ref),),
            puts=(PutChange(ref, body, expects),),
        )
    )
