"""Memories that hooks open with the credential of each request."""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import elytron
from elytron.api import MemoryFace
from elytron.runtime import MemoryRuntime
from elytron_agent.hooks.session import TurnCode, TurnInvalid
from elytron_core.clock import Clock
from elytron_core.ids import IdSource

CREDENTIALS_HELD: Final = 64
"""Maximum number of unused memories on an MCP file server that stay open."""
CREDENTIAL_IDLE_MS: Final = 30_000
"""Idle time after which a memory is reopened, because another process may have written to it."""


_SECRET_BYTES = 32


@dataclass(slots=True)
class _CredentialMemory:
    """The memory of a credential once it is open, and the number of turns that use it."""

    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    memory: MemoryRuntime | None = None
    users: int = 0
    used_at: int = 0


class CredentialMemories:
    """Open the memory at `url` with each request's own credential.

    Two credentials never share a memory: they are distinguished by an HMAC under a secret of this process. A credential
    itself is stored only in the client that it opened. Of the unused memories, the most recently used stay open.
    """

    def __init__(self, url: str, /, *, clock: Clock, ids: IdSource) -> None:
        self._url = url
        self._clock = clock
        self._ids = ids
        self._secret = ids.secret(_SECRET_BYTES)
        self._entries: OrderedDict[bytes, _CredentialMemory] = OrderedDict()

    @asynccontextmanager
    async def of(self, credential: str | None, /) -> AsyncGenerator[MemoryFace]:
        """Yield the memory of a credential. Raises TurnInvalid without one, StoreError, Unreachable, Unauthorized."""
        if not credential:
            problem = "is required to open memory on an MCP file server"
            raise TurnInvalid(code=TurnCode.CREDENTIAL_REQUIRED, field="credential", problem=problem)
        key = hmac.digest(self._secret, credential.encode("utf-8", "surrogatepass"), "sha256")
        entry = self._entries.setdefault(key, _CredentialMemory())
        self._entries.move_to_end(key)
        # Count this user before waiting, so that no other turn closes the memory meanwhile.
        entry.users += 1
        try:
            async with entry.opening:
                # Only a sole user may reopen it, because others could be in the middle of a call.
                if entry.memory is not None and entry.users == 1 and self._is_stale(entry):
                    memory, entry.memory = entry.memory, None
                    await memory.close()
                if entry.memory is None:
                    opening = elytron.open(self._url, space=None, clock=self._clock, ids=self._ids, api_key=credential)
                    entry.memory = await opening
            yield entry.memory
        finally:
            entry.users -= 1
            entry.used_at = self._clock.now()
            # Opening failed, so drop the entry.
            if entry.memory is None and not entry.users:
                self._entries.pop(key, None)
            await self._let_go()

    async def close(self) -> None:
        """Close every memory."""
        while self._entries:
            _, entry = self._entries.popitem()
            if entry.memory is not None:
                await entry.memory.close()

    def _is_stale(self, entry: _CredentialMemory) -> bool:
        return self._clock.now() - entry.used_at >= CREDENTIAL_IDLE_MS

    async def _let_go(self) -> None:
        idle_entries = [(key, entry) for key, entry in self._entries.items() if not entry.users]
        for key, entry in idle_entries[: max(len(self._entries) - CREDENTIALS_HELD, 0)]:
            # The entry stays while it is being closed, so that a turn that starts meanwhile waits and reopens the
            # memory.
            async with entry.opening:
                if entry.users:
                    continue
                memory, entry.memory = entry.memory, None
                if memory is not None:
                    await memory.close()
            if not entry.users and self._entries.get(key) is entry:
                del self._entries[key]
