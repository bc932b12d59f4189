"""The checkpointer in graphs: a run's state is resumed, forked, pruned, and erased, and stays in its space."""

# Types of the framework are in part unknown, or unions that a test knows better.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportTypedDictNotRequiredAccess=false, reportIndexIssue=false

import asyncio
import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

import elytron
from elytron.runtime_records import RuntimeRecords, records_of
from elytron_core.errors import InvalidInput, LimitExceeded, ScopeMissing, StoreClosed, Unsupported
from elytron_core.planes.records import Record
from elytron_integrations import opaque_parts
from elytron_integrations.langgraph import ElytronSaver

pytestmark = pytest.mark.anyio
ADA: RunnableConfig = {"configurable": {"thread_id": "ada"}}
NOOR: RunnableConfig = {"configurable": {"thread_id": "noor"}}


class Talk(TypedDict):
    """The state of a graph that repeats what it hears."""

    words: Annotated[list[str], operator.add]


def talk_graph(saver: ElytronSaver) -> Any:
    """Return a graph of two steps, the second of which asks a person about `stop`."""

    def hear(state: Talk) -> Talk:
        return {"words": [f"heard {state['words'][-1]}"]}

    def ask(state: Talk) -> Talk:
        return {"words": [f"told {interrupt('go on?')}"]} if "stop" in state["words"] else {"words": []}

    graph = StateGraph(Talk).add_node("hear", hear).add_node("ask", ask)
    return graph.add_edge(START, "hear").add_edge("hear", "ask").add_edge("ask", END).compile(checkpointer=saver)


def checkpoint_of(number: int, **values: Any) -> Checkpoint:
    """Return a checkpoint whose id follows those of lower numbers."""
    return {**empty_checkpoint(), "id": f"{number:08}", "channel_values": values}


async def put_chain(saver: ElytronSaver, count: int, config: RunnableConfig = ADA) -> list[RunnableConfig]:
    """Store checkpoints, each the parent of the next, and return their configs."""
    place: RunnableConfig = {"configurable": {"checkpoint_ns": "", **config["configurable"]}}
    configs: list[RunnableConfig] = []
    for number in range(count):
        place = await saver.aput(place, checkpoint_of(number), {"source": "loop", "step": number}, {})
        configs.append(place)
    return configs


async def test_a_thread_resumes_where_it_stopped_and_another_starts_empty() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        graph = talk_graph(ElytronSaver(memory))
        await graph.ainvoke({"words": ["tea"]}, ADA)
        assert (await graph.ainvoke({"words": ["rye"]}, ADA))["words"] == ["tea", "heard tea", "rye", "heard rye"]
        assert (await graph.ainvoke({"words": ["sea"]}, NOOR))["words"] == ["sea", "heard sea"]


def test_blocking_calls_continue_a_thread_of_an_earlier_process(tmp_path: Path) -> None:
    for word, words in (("tea", ["tea", "heard tea"]), ("rye", ["tea", "heard tea", "rye", "heard rye"])):
        with elytron.open(tmp_path / "memory.db", space="ada") as memory:
            assert talk_graph(ElytronSaver(memory)).invoke({"words": [word]}, ADA)["words"] == words


async def test_a_graph_that_waits_for_a_person_is_resumed_after_a_restart(tmp_path: Path) -> None:
    async with elytron.open(tmp_path / "memory.db", space="ada") as memory:
        waiting = await talk_graph(ElytronSaver(memory)).ainvoke({"words": ["stop"]}, ADA)
    assert waiting["__interrupt__"][0].value == "go on?"
    async with elytron.open(tmp_path / "memory.db", space="ada") as memory:
        graph = talk_graph(ElytronSaver(memory))
        assert (await graph.ainvoke(Command(resume="yes"), ADA))["words"] == ["stop", "heard stop", "told yes"]


async def test_a_run_from_an_earlier_checkpoint_is_a_separate_branch() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        graph = talk_graph(ElytronSaver(memory))
        await graph.ainvoke({"words": ["tea"]}, ADA)
        first = (await graph.aget_state(ADA)).config
        await graph.ainvoke({"words": ["rye"]}, ADA)
        assert (await graph.ainvoke({"words": ["sea"]}, first))["words"] == ["tea", "heard tea", "sea", "heard sea"]
        history = [state async for state in graph.aget_state_history(ADA)]
        assert len(history) == len({state.config["configurable"]["checkpoint_id"] for state in history}) == 12


async def test_another_space_sees_no_thread_even_by_ids_of_the_first() -> None:
    async with elytron.open("memory:", space=None) as memory:
        ada, noor = (ElytronSaver(memory, space=space) for space in ("ada", "noor"))
        stored = (await put_chain(ada, 2))[-1]
        assert await noor.aget_tuple(stored) is None
        assert await noor.aget_tuple(ADA) is None
        assert [each async for each in noor.alist(None)] == []
        await noor.adelete_thread("ada")
        await noor.acopy_thread("ada", "copy")
        await noor.aprune(["ada"], strategy="delete")
        await noor.adelete_for_runs(["run"])
        assert len([each async for each in ada.alist(None)]) == 2


async def test_no_recall_list_or_record_search_shows_a_checkpoint() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await talk_graph(ElytronSaver(memory)).ainvoke({"words": ["the boat key"]}, ADA)
        assert (await memory.recall("boat key")).hits == ()
        assert (await memory.list()).items == ()
        assert (await memory.search_records((), include_private=True)).items == ()


async def test_state_is_returned_unchanged_including_apparent_secrets() -> None:
    values = {"text": "AKIAIOSFODNN7EXAMPLE ", "data": bytes(range(256)) * 2_000, "set": {1, 2}}
    async with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        place: RunnableConfig = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        stored = await saver.aput(place, checkpoint_of(1, **values), {"source": "input"}, {})
        await saver.aput_writes(stored, [("large", values["data"])], "task")
        found = await saver.aget_tuple(stored)
    assert found is not None
    assert found.checkpoint["channel_values"] == values
    assert found.pending_writes == [("task", "large", values["data"])]


async def test_writes_are_ordered_by_path_task_and_index() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        (stored,) = await put_chain(saver, 1)
        await saver.aput_writes(stored, [("a", 1), ("b", 2)], "task-1", "~2")
        await saver.aput_writes(stored, [("a", 3)], "task-2", "~1")
        await saver.aput_writes(stored, [("a", 9)], "task-2", "~1")
        await saver.aput_writes(stored, [("__error__", "first")], "task-2", "~1")
        await saver.aput_writes(stored, [("__error__", "second")], "task-2", "~1")
        found = await saver.aget_tuple(stored)
    assert found is not None
    assert found.pending_writes == [
        ("task-2", "__error__", "second"),
        ("task-2", "a", 3),
        ("task-1", "a", 1),
        ("task-1", "b", 2),
    ]


async def test_after_a_deletion_the_newest_remaining_checkpoint_is_the_head() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        configs = await put_chain(saver, 3)
        late: RunnableConfig = {"configurable": {**configs[2]["configurable"]}}
        await saver.aput(late, checkpoint_of(3), {"source": "loop", "run_id": "run"}, {})
        await saver.adelete_for_runs(["run"])
        newest = await saver.aget_tuple(ADA)
        assert newest is not None
        assert newest.config == configs[2]
        await saver.adelete_thread("ada")
        assert await saver.aget_tuple(ADA) is None


async def test_deleting_a_thread_leaves_no_record_even_of_writes_without_a_checkpoint() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        await put_chain(saver, 2, NOOR)
        stored = [record.key async for record in records_of(memory).below()]
        for config in await put_chain(saver, 2):
            await saver.aput_writes(config, [("a", 1)], "task")
        lost: RunnableConfig = {"configurable": {"thread_id": "ada", "checkpoint_ns": "", "checkpoint_id": "lost"}}
        await saver.aput_writes(lost, [("a", 1)], "task")
        await saver.adelete_thread("ada")
        assert [record.key async for record in records_of(memory).below()] == stored


async def test_a_deleted_thread_is_restored_from_an_older_copy_and_deleted_again() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        await put_chain(saver, 1, NOOR)
        await put_chain(saver, 2)
        await saver.adelete_thread("ada")
        await saver.acopy_thread("noor", "ada")
        restored = await saver.aget_tuple(ADA)
        assert restored is not None
        assert [each.checkpoint["id"] async for each in saver.alist(ADA)] == ["00000000"]
        await saver.adelete_thread("ada")
        await saver.adelete_thread("noor")
        assert [record.key async for record in records_of(memory).below()] == []


async def test_a_checkpoint_stored_during_a_deletion_leaves_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        writer = ElytronSaver(memory)
        configs = await put_chain(writer, 2)
        erase = RuntimeRecords.erase

        async def put_and_erase(records: RuntimeRecords, erased: Iterable[Record], /) -> int:
            monkeypatch.undo()
            await writer.aput(configs[-1], checkpoint_of(2), {}, {})
            return await erase(records, erased)

        monkeypatch.setattr(RuntimeRecords, "erase", put_and_erase)
        await ElytronSaver(memory).adelete_thread("ada")
        assert [record.key async for record in records_of(memory).below()] == []
        await writer.aput(configs[-1], checkpoint_of(3), {}, {})
        assert [each.checkpoint["id"] async for each in writer.alist(ADA)] == ["00000003"]


async def test_an_older_checkpoint_does_not_become_the_head() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        newest = (await put_chain(saver, 2))[-1]
        place: RunnableConfig = {"configurable": {"thread_id": "ada", "checkpoint_ns": ""}}
        await saver.aput(place, {**checkpoint_of(0), "id": "0000000"}, {}, {})
        found = await saver.aget_tuple(ADA)
        assert found is not None
        assert found.config == newest


def append_words(words: list[str] | None, updates: Sequence[list[str]]) -> list[str]:
    """Return the text with that of each update."""
    return [*(words or ()), *(word for update in updates for word in update)]


class DeltaTalk(TypedDict):
    """A state that is stored completely at intervals, and as changes in between."""

    words: Annotated[list[str], DeltaChannel(append_words, snapshot_frequency=5)]


async def test_pruning_preserves_what_a_delta_channel_needs() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        builder = StateGraph(DeltaTalk).add_node("hear", lambda state: {"words": [f"heard {state['words'][-1]}"]})
        graph = builder.add_edge(START, "hear").add_edge("hear", END).compile(checkpointer=saver)
        words: list[str] = []
        for number in range(4):
            await graph.ainvoke({"words": [f"word {number}"]}, ADA)
            words += [f"word {number}", f"heard word {number}"]
            assert (await graph.aget_state(ADA)).values["words"] == words
        before = len([each async for each in saver.alist(ADA)])
        await saver.aprune(["ada"])
        assert (await graph.aget_state(ADA)).values["words"] == words
        assert len([each async for each in saver.alist(ADA)]) < before


async def test_a_call_without_a_thread_space_or_checkpoint_is_refused() -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing, match="pass space="):
            ElytronSaver(memory)
        saver = ElytronSaver(memory, space="ada")
        with pytest.raises(ScopeMissing, match="thread_id"):
            await saver.aget_tuple({"configurable": {}})
        with pytest.raises(InvalidInput, match="checkpoint_id"):
            await saver.aput_writes(ADA, [("a", 1)], "task")
        with pytest.raises(InvalidInput, match="keep_latest"):
            await saver.aprune(["ada"], strategy="oldest")


async def test_blocking_calls_on_the_loop_of_the_memory_are_refused() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        with pytest.raises(Unsupported, match="would stop the loop"):
            saver.get_tuple(ADA)
        with pytest.raises(Unsupported, match="would stop the loop"):
            next(saver.list(ADA))


async def test_an_unopened_or_closed_memory_is_refused() -> None:
    opening: Any = elytron.open("memory:", space="ada")
    with pytest.raises(InvalidInput, match="is not open"):
        ElytronSaver(opening)
    with opening as memory:
        saver = ElytronSaver(memory)
    with pytest.raises(StoreClosed):
        saver.get_tuple(ADA)
    with pytest.raises(StoreClosed):
        await saver.aget_tuple(ADA)


async def test_a_state_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opaque_parts, "OPAQUE_BYTES", 1_000)
    async with elytron.open("memory:", space="ada") as memory:
        with pytest.raises(LimitExceeded, match="bytes in a value of a framework"):
            await ElytronSaver(memory).aput(
                {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint_of(1, text="x" * 2_000), {}, {}
            )


def test_blocking_calls_list_copy_prune_and_delete() -> None:
    with elytron.open("memory:", space="ada") as memory:
        saver = ElytronSaver(memory)
        place: RunnableConfig = {"configurable": {"thread_id": "ada", "checkpoint_ns": ""}}
        for number in range(4):
            place = saver.put(
                place, checkpoint_of(number), {"source": "loop", "step": number, "run_id": f"r{number}"}, {}
            )
        saver.put_writes(place, [("a", 1)], "task")
        assert [each.metadata["step"] for each in saver.list(ADA, limit=2)] == [3, 2]
        assert [each.metadata["step"] for each in saver.list(ADA, filter={"step": 1})] == [1]
        assert [each.metadata["step"] for each in saver.list(ADA, before=place, limit=1)] == [2]
        saver.copy_thread("ada", "copy")
        saver.delete_for_runs(["r1", "r3"])
        assert [each.metadata["step"] for each in saver.list(None)] == [2, 2, 0, 0]
        saver.prune(["copy"])
        assert [each.metadata["step"] for each in saver.list({"configurable": {"thread_id": "copy"}})] == [2]
        saver.delete_thread("ada")
        assert saver.get_tuple(ADA) is None


async def test_writers_of_one_thread_lose_no_checkpoint_and_the_newest_is_the_head() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        savers = [ElytronSaver(memory) for _ in range(8)]
        place: RunnableConfig = {"configurable": {"thread_id": "ada", "checkpoint_ns": ""}}
        puts = [saver.aput(place, checkpoint_of(number), {}, {}) for number, saver in enumerate(savers)]
        await asyncio.gather(*puts)
        found = [each async for each in savers[0].alist(ADA)]
        assert [each.checkpoint["id"] for each in found] == [f"{number:08}" for number in reversed(range(8))]
        newest = await savers[0].aget_tuple(ADA)
        assert newest is not None
        assert newest.checkpoint["id"] == "00000007"


@pytest.mark.parametrize("is_blocking", [False, True])
def test_a_checkpoint_erased_during_listing_is_omitted(is_blocking: bool) -> None:
    async def list_and_delete(memory: Any) -> list[str]:
        saver = ElytronSaver(memory)
        await put_chain(saver, 3)
        ids: list[str] = []
        if is_blocking:
            for each in saver.list(ADA):
                ids.append(each.checkpoint["id"])
                saver.delete_thread("ada")
            return ids
        async for each in saver.alist(ADA):
            ids.append(each.checkpoint["id"])
            await saver.adelete_thread("ada")
        return ids

    with elytron.open("memory:", space="ada") as memory:
        assert asyncio.run(list_and_delete(memory)) == ["00000002"]
