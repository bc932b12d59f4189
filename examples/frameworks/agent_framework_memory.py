"""An agent of the Agent Framework with stored history and memory. A scripted client stands for the model."""

import asyncio
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, FunctionInvocationLayer, Message

import elytron
from elytron_integrations.agent_framework import ElytronContextProvider, ElytronHistoryProvider


class ScriptedClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    async def _inner_get_response(self, *, messages: Any, **_: Any) -> ChatResponse:
        text = "Petrel." if "called Petrel" in str([message.text for message in messages]) else "I do not know."
        return ChatResponse(messages=[Message("assistant", [text])])


async def main() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        providers = [ElytronHistoryProvider(memory), ElytronContextProvider(memory, stores=False)]
        agent = Agent(ScriptedClient(), context_providers=providers)
        for text in ("My boat is called Petrel.", "What is my boat called?"):
            print((await agent.run(text, session=agent.create_session())).text)


asyncio.run(main())
