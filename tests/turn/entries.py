"""What a model sees of memory before a turn, in each entry point."""

import json
from collections.abc import Awaitable, Callable

import httpx
from tests.agent.chat_script import ScriptedChat
from tests.agent.chat_script import text as said
from tests.models.fake_server import serving
from tests.proxy.proxy_setup import PATHS, asked, recorded
from tests.transports.listener import listening

from elytron import MemoryRuntime
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_agent import Agent, AgentSettings, BeforeTurn, TurnHooks
from elytron_assistants.hooks.blocks import recalled_block
from elytron_core.clock import SystemClock
from elytron_core.policy.projection import fence
from elytron_core.policy.projection.builder import DATA_POLICY
from elytron_core.ports.chat import InputMessage, TextPart
from elytron_proxy import ModelUpstream, ProxyApp, ProxySettings
from elytron_turn.memory import TurnBudget, TurnMemory, TurnMessages

Entry = Callable[[MemoryRuntime, str], Awaitable[str]]


async def agent_context(memory: MemoryRuntime, prompt: str) -> str:
    model = ScriptedChat(said("I see."))
    agent = Agent(memory, model, settings=AgentSettings(enabled=True, recall_deadline_s=30))
    await agent.say(prompt)
    references = [each for each in model.asked[0].messages if isinstance(each, InputMessage) and each.is_reference]
    return "\n".join(part.text for each in references for part in each.parts if isinstance(part, TextPart))


async def hooks_context(memory: MemoryRuntime, prompt: str) -> str:
    async with TurnHooks(memory) as hooks:
        report = await hooks.before_turn(BeforeTurn(turn_id="t", conversation="now", current_input=prompt))
    policy, data, _ = (message["content"] for message in report.messages)
    assert policy == DATA_POLICY
    assert json.loads(data.split("\n")[1])["untrusted"]
    return f"{policy}\n{data}"


async def proxy_context(memory: MemoryRuntime, prompt: str) -> str:
    admission = CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())
    async with serving(recorded("chat")) as upstream:
        app = ProxyApp(admission, ProxySettings(upstreams=(ModelUpstream(upstream.url),), max_chars=6_000))
        async with listening(app) as url, httpx.AsyncClient(timeout=20) as client:
            await client.post(f"{url}{PATHS['chat']}", json=asked("chat", prompt))
        await app.idle()
    block = upstream.asked[0].body["messages"][0]["content"].removeprefix(prompt)
    assert fence.without_wrapped(block) == ""
    return block.strip().split("\n", 1)[1].rsplit("\n", 1)[0]


async def assistant_context(memory: MemoryRuntime, prompt: str) -> str:
    messages, budget = TurnMessages(current=prompt), TurnBudget(6_000)
    hook_memory = TurnMemory(memory.operate, memory.scope)
    block = await recalled_block(hook_memory, messages, budget, shown_lines=(), key=b"", now=SystemClock().now())
    return block.text


ENTRIES: dict[str, Entry] = {
    "assistant": assistant_context,
    "hooks": hooks_context,
    "agent": agent_context,
    "proxy": proxy_context,
}
"""The first two store nothing, so their memory is as good as new for the others."""
