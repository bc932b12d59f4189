"""An agent of Pydantic AI that remembers, and goes on with a stored conversation. A function stands for the model."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import elytron
from elytron_integrations.pydantic_ai import ElytronConversationStore, ElytronMemory


def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart("Petrel." if "Petrel" in str(messages) else "I do not know.")])


async def main() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        store, agent = (
            ElytronConversationStore(memory),
            Agent(FunctionModel(answer), capabilities=[ElytronMemory(memory)]),
        )
        await memory.add("My boat is called Petrel.")
        conversation = await store.load("harbour") or Conversation(conversation_id="harbour")
        result = await agent.run("What is my boat called?", conversation=conversation)
        await store.save(result)
        print(result.output)
        print(len((await store.load_entries("harbour")) or ()), "messages")


asyncio.run(main())
