"""The providers of the Agent Framework: recall, storage and history around an agent's runs, for one user only."""

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import Agent, BaseChatClient, ChatResponse, Content, Message

import elytron
from elytron.api import MemoryFace
from elytron_core.errors import ScopeMissing
from elytron_integrations.agent_framework import ElytronContextProvider, ElytronHistoryProvider

pytestmark = pytest.mark.anyio


class ScriptedClient(BaseChatClient[Any]):
    """A model that answers with the boat's name if it sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[list[str]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse]:
        self.requests.append([message.text for message in messages])

        async def answer() -> ChatResponse:
            text = "Petrel." if "Petrel" in str(self.requests[-1]) else "I do not know."
            return ChatResponse(messages=[Message("assistant", [text])])

        return answer()


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


async def texts_of(memory: MemoryFace) -> list[str]:
    return [item.text for item in (await memory.list()).items]


async def test_a_run_gets_known_memories_before_its_input(memory: MemoryFace, client: ScriptedClient) -> None:
    await memory.add("My boat is called Petrel.")
    agent = Agent(client, context_providers=[ElytronContextProvider(memory)])
    assert (await agent.run("What is my boat called?")).text == "Petrel."
    (request,) = client.requests
    assert "My boat is called Petrel." in request[0]
    assert request[-1] == "What is my boat called?"


async def test_a_run_is_stored_as_a_turn_of_its_session(memory: MemoryFace, client: ScriptedClient) -> None:
    agent = Agent(client, context_providers=[ElytronContextProvider(memory)])
    session = agent.create_session(session_id="s1")
    await agent.run("What is my boat called?", session=session)
    items = (await memory.list()).items
    assert [(item.role, item.text, item.conversation) for item in items] == [
        ("user", "What is my boat called?", "s1"),
        ("assistant", "I do not know.", "s1"),
    ]


async def test_a_run_without_text_passes(memory: MemoryFace, client: ScriptedClient) -> None:
    agent = Agent(client, context_providers=[ElytronContextProvider(memory)])
    await agent.run([Message("user", [Content.from_uri("https://example.org/a.png", media_type="image/png")])])
    assert await texts_of(memory) == []


async def test_with_a_history_provider_text_is_stored_once(memory: MemoryFace, client: ScriptedClient) -> None:
    providers = [ElytronHistoryProvider(memory), ElytronContextProvider(memory, stores=False)]
    agent = Agent(client, context_providers=providers)
    session = agent.create_session()
    await agent.run("My boat is called Petrel.", session=session)
    await agent.run("What is my boat called?", session=session)
    assert await texts_of(memory) == ["My boat is called Petrel.", "Petrel.", "What is my boat called?", "Petrel."]
    assert client.requests[1][:2] == ["My boat is called Petrel.", "Petrel."]


async def test_a_failing_memory_does_not_fail_the_run(memory: MemoryFace, client: ScriptedClient) -> None:
    agent = Agent(client, context_providers=[ElytronContextProvider(memory)])
    await memory.close()
    assert (await agent.run("What is my boat called?")).text == "I do not know."


async def test_messages_are_returned_complete_and_in_order(memory: MemoryFace) -> None:
    history = ElytronHistoryProvider(memory)
    call = Content.from_function_call("c1", "look", arguments={"place": "oar"})
    messages = [
        Message("user", ["Where is the key?"], additional_properties={"n": 1}),
        Message("assistant", [call], author_name="pilot"),
        Message("tool", [Content.from_function_result("c1", result="under the oar")]),
        Message("assistant", ["Under the oar.", Content.from_data(b"\x00" * 90_000, "image/png")]),
    ]
    await history.save_messages("s1", messages)
    stored = await history.get_messages("s1")
    assert [message.to_dict() for message in stored] == [message.to_dict() for message in messages]
    assert [text for text in await texts_of(memory) if text] == ["Where is the key?", "Under the oar."]


async def test_a_message_with_half_a_surrogate_pair_is_returned_unchanged(memory: MemoryFace) -> None:
    provider = ElytronHistoryProvider(memory)
    await provider.save_messages("s", [Message("assistant", ["Under the oar \ud83d"])])
    (message,) = await provider.get_messages("s")
    assert message.text == "Under the oar \ud83d"
    assert [item.text for item in (await memory.list()).items] == ["Under the oar \ufffd"]


async def test_a_message_with_an_id_is_stored_once(memory: MemoryFace) -> None:
    history = ElytronHistoryProvider(memory)
    for _ in range(2):
        await history.save_messages("s1", [Message("user", ["ok"], message_id="m1"), Message("user", ["ok"])])
    assert [message.message_id for message in await history.get_messages("s1")] == ["m1", None, None]


async def test_clearing_erases_one_session(memory: MemoryFace) -> None:
    history = ElytronHistoryProvider(memory)
    for session in ("s1", "s2"):
        await history.save_messages(session, [Message("user", [f"Hello from {session}."])])
    await history.clear("s1")
    assert (await history.get_messages("s1"), await texts_of(memory)) == ([], ["Hello from s2."])


@pytest.mark.parametrize("session_id", [None, ""])
async def test_history_without_a_session_is_refused(memory: MemoryFace, session_id: str | None) -> None:
    history = ElytronHistoryProvider(memory)
    with pytest.raises(ScopeMissing, match="get_messages"):
        await history.get_messages(session_id)
    with pytest.raises(ScopeMissing, match="save_messages"):
        await history.save_messages(session_id, [Message("user", ["Hello."])])
    with pytest.raises(ScopeMissing, match="clear"):
        await history.clear(session_id)


async def test_another_space_or_session_sees_nothing(memory: MemoryFace, client: ScriptedClient) -> None:
    history = ElytronHistoryProvider(memory)
    await history.save_messages("s1", [Message("user", ["My boat is called Petrel."], message_id="m1")])
    grace = ElytronHistoryProvider(memory, space="grace")
    assert (await grace.get_messages("s1"), await history.get_messages("s2")) == ([], [])
    await grace.clear("s1")
    agent = Agent(client, context_providers=[ElytronContextProvider(memory, space="grace")])
    assert (await agent.run("What is my boat called?")).text == "I do not know."
    assert await texts_of(memory) == ["My boat is called Petrel."]


async def test_a_provider_without_a_space_is_refused() -> None:
    async with elytron.open("memory:", space=None) as memory:
        for provider in (ElytronContextProvider, ElytronHistoryProvider):
            with pytest.raises(ScopeMissing):
                provider(memory)
