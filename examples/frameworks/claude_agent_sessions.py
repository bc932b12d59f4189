"""Sessions of Claude agents in Ada's memory. The entries are as the SDK appends them while an agent works."""

import asyncio
from typing import Any

from claude_agent_sdk import SessionKey, list_sessions_from_store

import elytron
from elytron_integrations.claude_agent import ElytronSessionStore

KEY: SessionKey = {"project_key": "-boat", "session_id": "5f0c6b8e-6a3c-4a6e-9d53-0a2b7f6f3c11"}


def entry(role: str, text: str, uuid: str) -> Any:
    message = {"role": role, "content": text}
    return {"type": role, "uuid": uuid, "timestamp": "2026-05-04T10:00:00Z", "message": message}


async def main() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        store = ElytronSessionStore(memory)  # for ClaudeAgentOptions(session_store=store)
        await store.append(KEY, [entry("user", "Name the boat Petrel.", "u1"), entry("assistant", "Done.", "u2")])
        print(*(session.summary for session in await list_sessions_from_store(store, directory="/boat")))
        print((await memory.recall("what is the boat called?"))[0].text)


asyncio.run(main())
