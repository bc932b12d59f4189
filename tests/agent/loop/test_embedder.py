"""S38, S23: a conversation continues whatever the embedder does, and summaries are found by meaning."""

from pathlib import Path

import pytest
from tests.agent.chat_script import ScriptedChat, calls, results, text
from tests.sdk.encoders import WordEmbedder

import elytron
from elytron_agent import Agent, AgentSettings, StopReason
from elytron_core.clock import FrozenClock, instant
from elytron_core.contracts.recall import RecallFilters, RecallPlane

pytestmark = pytest.mark.anyio
PLACES = pytest.mark.parametrize("store", ["memory:", "m.db"])


def place(store: str, folder: Path) -> str:
    return store if store == "memory:" else str(folder / store)


@PLACES
async def test_s38_a_conversation_continues_whatever_the_embedder_does(tmp_path: Path, store: str) -> None:
    embedder = WordEmbedder()
    stored = ("archival_insert", {"content": "The boat is called Marimba."})
    search = calls(stored, ("archival_search", {"query": "boat"}))
    model = ScriptedChat(search, text("Marimba."))
    async with elytron.open(place(store, tmp_path), space="ada", embedder=embedder) as memory:
        await memory.add("The tide table hangs in the kitchen.")
        await memory.embed()
        embedder.is_down = True
        agent = Agent(memory, model, settings=AgentSettings(enabled=True, recall_deadline_s=30.0))
        ended = await agent.say("What is the boat called?")
        assert (ended.reason, ended.text) == (StopReason.ANSWERED, "Marimba.")
        assert "Marimba" in results(model.last)[-1]
        assert (await agent.say("And what did I ask about the boat?")).reason is StopReason.ANSWERED
        assert embedder.queries != []
        embedder.is_down = False
        assert (await memory.embed()).embedded > 0


@PLACES
async def test_s23_a_summary_is_embedded_and_found_by_meaning(tmp_path: Path, store: str) -> None:
    clock = FrozenClock(instant("2026-07-01T12:00:00Z"), step_ms=1)
    async with elytron.open(place(store, tmp_path), space="ada", embedder=WordEmbedder(), clock=clock) as memory:
        agent = Agent(memory, ScriptedChat(text("Yes.")), settings=AgentSettings(enabled=True), clock=clock)
        for said in ("The ship lies at the old pier.", "One.", "Two.", "Three.", "Four."):
            await agent.say(said)
        assert await agent.compact() is not None
        await memory.embed()
        hits = (await memory.recall("boat", filters=RecallFilters(planes=(RecallPlane.SUMMARY,)))).hits
        assert "ship" in hits[0].text
