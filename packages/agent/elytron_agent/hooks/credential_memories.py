"""Memories on an MCP file server: one for each credential, opened with it and held by its fingerprint alone."""

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import elytron
from elytron.api import MemoryFace
from elytron.runtime import MemoryRuntime
from elytron_agent import limits
from elytron_agent.hooks.session import TurnCode, TurnInvalid
from elytron_core.clock import Clock
from elytron_core.ids import Ids

_SECRET_BYTES = 32


@dataclass(slots=True)
class _Held:
    """The memory of a credential, once it is open, and how many turns use it now."""

    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    memory: MemoryRuntime | None = None
    users: int = 0
    used_at: int = 0


class CredentialMemories:
    """Opens the memory at `url` with each request's own credential.

    Two credentials never share one: an HMAC under a secret of this process distinguishes them, and no credential is
    kept but in the client that it opened. Of those that no turn uses, the ones used last stay open.
    """

    def __init__(self, url: str, /, *, clock: Clock, ids: Ids) -> None:
        self._url = url
        self._clock = clock
        self._ids = ids
        self._secret = ids.secret(_SECRET_BYTES)
        self._held: OrderedDict[bytes, _Held] = OrderedDict()

    @asynccontextmanager
    async def of(self, credential: str | None, /) -> AsyncGenerator[MemoryFace]:
        """Yield the memory of a credential. Raises TurnInvalid without one, StoreError, Unreachable, Unauthorized."""
        if not credential:
            problem = "is required: memory on an MCP file server is opened with it"
            raise TurnInvalid(code=TurnCode.CREDENTIAL_REQUIRED, field="credential", problem=problem)
        key = hmac.digest(self._secret, credential.encode("utf-8", "surrogatepass"), "sha256")
        held = self._held.setdefault(key, _Held())
        self._held.move_to_end(key)
        held.users += 1
        try:
            async with held.opening:
                if held.memory is not None and held.users == 1 and self._is_stale(held):
                    memory, held.memory = held.memory, None
                    await memory.close()
                if held.memory is None:
                    opening = elytron.open(self._url, space=None, clock=self._clock, ids=self._ids, api_key=credential)
                    held.memory = await opening
            yield held.memory
        finally:
            held.users -= 1
            held.used_at = self._clock.now()
            if held.memory is None and not held.users:
                self._held.pop(key, None)
            await self._let_go()

    async def close(self) -> None:
        """Close every memory."""
        while self._held:
            _, held = self._held.popitem()
            if held.memory is not None:
                await held.memory.close()

    def _is_stale(self, held: _Held) -> bool:
        return self._clock.now() - held.used_at >= limits.CREDENTIAL_IDLE_MS

    async def _let_go(self) -> None:
        idle = [key for key, held in self._held.items() if not held.users]
        for key in idle[: max(len(self._held) - limits.CREDENTIALS_HELD, 0)]:
            held = self._held.pop(key)
            if held.memory is not None:
                await held.memory.close()
