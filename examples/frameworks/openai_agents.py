"""An agent whose session goes on after a restart, and whose words memory recalls. A scripted server is the model."""

import asyncio
from tempfile import TemporaryDirectory

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI
from scripted_model import scripted_model

import elytron
from elytron_integrations.openai_agents import ElytronSession, memory_tools

MESSAGES = ({"role": "assistant", "content": words} for words in ("Noted.", "Under the oar."))
ANSWERS = [{"choices": [{"finish_reason": "stop", "message": message}]} for message in MESSAGES]


async def ask(store: str, url: str, question: str) -> None:
    async with elytron.open(store, space="ada") as memory:
        model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url, api_key="none"))
        agent = Agent("Helper", model=model, tools=memory_tools(memory))
        result = await Runner.run(agent, question, session=ElytronSession("thread-1", memory))
        print(result.final_output, len(result.to_input_list()), (await memory.recall("boat key"))[0].text)


set_tracing_disabled(disabled=True)
with TemporaryDirectory() as folder, scripted_model(*ANSWERS) as (address, _):
    for words in ("The boat key is under the oar.", "Where is it?"):
        asyncio.run(ask(f"{folder}/memory.db", address, words))
