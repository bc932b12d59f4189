"""The official OpenAI client against a server of agents."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI
from tests.agent.service.served import Reply, ServedAgents, ServedUser, echo, served


@dataclass
class ServedClient:
    """A user's client, and the server that it talks to."""

    server: ServedAgents
    user: ServedUser
    openai: AsyncOpenAI


def client_of(url: str, key: str) -> AsyncOpenAI:
    """Return a client that asks once."""
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=20)


@asynccontextmanager
async def served_client(reply: Reply = echo, **settings: Any) -> AsyncGenerator[ServedClient]:
    """Serve agents before a model that answers as `reply` says, with a client of the user ada."""
    async with served(reply, **settings) as server:
        user = await server.user("ada")
        async with client_of(server.url, user.key) as openai:
            yield ServedClient(server, user, openai)
