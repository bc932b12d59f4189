"""A host's loop over a strategy, and the transport to a gateway in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.agent.places import AT

from elytron_agent import GatewayPlace, MemoryStrategy, RunEnding, RunMemory, TurnExchange
from elytron_agent.strategies.strategy import role_message
from elytron_core.ports.chat import ChatRole, InputMessage, TextPart

Wrong = Callable[[httpx.Request], httpx.Response]


@dataclass
class Road(httpx.AsyncBaseTransport):
    """The transport to a gateway in this process: it records requests, and may fail on each path."""

    to: httpx.AsyncBaseTransport
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    broken: dict[str, Wrong] = field(default_factory=dict[str, Wrong])
    key: str = ""

    @property
    def place(self) -> GatewayPlace:
        return GatewayPlace(base_url="http://localhost:8010", user_id="ada", user_key=self.key)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append((request.url.path, json.loads(request.content or b"{}")))
        wrong = self.broken.get(request.url.path)
        return wrong(request) if wrong is not None else await self.to.handle_async_request(request)


@dataclass
class Host:
    """A host's loop: it knows only the calls of its strategy."""

    memory: MemoryStrategy
    answers: Callable[[str], str] = lambda prompt: f"You said: {prompt}"
    seen: list[list[str]] = field(default_factory=list[list[str]])
    tools: list[list[str]] = field(default_factory=list[list[str]])
    order: list[str] = field(default_factory=list[str])
    history: list[InputMessage] = field(default_factory=list[InputMessage])

    async def run(self, prompt: str, *, conversation: str = "c") -> str:
        self.order.append("recall")
        given = await self.memory.before_run(conversation, prompt)
        head = [
            role_message(f"You are helpful. {given.system}".strip(), role=ChatRole.SYSTEM),
            role_message("skill: be brief"),
        ]
        messages = given.arranged(head, self.history, role_message(prompt))
        self.seen.append([words(message) for message in messages if isinstance(message, InputMessage)])
        self.tools.append([tool.name for tool in given.tools])
        self.order.append("model")
        try:
            answer, ending = self.answers(prompt), RunEnding.COMPLETED
        except RuntimeError:
            answer, ending = "", RunEnding.FAILED
        self.order.append("persist")
        exchange = TurnExchange(prompt=prompt, answer=answer, asked_at=AT, answered_at=AT, ending=ending)
        await self.memory.after_run(conversation, exchange)
        return answer


def words(message: InputMessage) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, TextPart))


@dataclass
class Notes:
    """Another strategy: notes in the system prompt, and nothing to do after a run."""

    notes: str

    async def before_run(self, _conversation: str, _prompt: str, /) -> RunMemory:
        return RunMemory(system=self.notes)

    async def after_run(self, _conversation: str, _exchange: TurnExchange, /) -> None:
        return None

    async def close(self) -> None:
        return None
