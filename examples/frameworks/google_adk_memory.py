"""An agent of Google's ADK with stored sessions and a memory. A scripted model answers with what it was shown."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.preload_memory_tool import preload_memory_tool
from google.genai import types

import elytron
from elytron_integrations.google_adk import ElytronMemoryService, ElytronSessionService


def answer(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse:  # noqa: ARG001
    text = "Petrel." if "called Petrel" in llm_request.model_dump_json() else "I do not know."
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


async def main() -> None:
    async with elytron.open("memory:") as memory:
        agent = LlmAgent(name="pilot", model="gemini-3", tools=[preload_memory_tool], before_model_callback=answer)
        sessions, memories = ElytronSessionService(memory), ElytronMemoryService(memory)
        runner = Runner(app_name="harbour", agent=agent, session_service=sessions, memory_service=memories)
        for name, text in (("monday", "My boat is called Petrel."), ("friday", "What is my boat called?")):
            await sessions.create_session(app_name="harbour", user_id="ada", session_id=name)
            message = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id="ada", session_id=name, new_message=message):
                print(event.content.parts[0].text if event.content and event.content.parts else "")


asyncio.run(main())
