"""Sessions: whose memory a turn is about, by a name that no credential can be read from.

A session of a project has a memory space of its own, so that no turn sees what another session said.
"""

import asyncio
import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import elytron
from elytron.api import MemoryFace
from elytron.runtime import MemoryRuntime
from elytron_agent import limits
from elytron_core.clock import Clock
from elytron_core.errors import InvalidInput
from elytron_core.ids import IdSource
from elytron_core.limits import SPACE_CHARS

PREFIX: Final = "ak-"
_DIGEST_BYTES: Final = 16
_PROJECT: Final = re.compile(r"[A-Za-z0-9_.-]+")


class SessionHash(StrEnum):
    """Derivation of a session's id from a credential."""

    HMAC_SHA256 = "hmac-sha256"
    """Under a secret of the installation: without it, a credential cannot be guessed and compared."""
    SHA256 = "sha256"
    """Without a secret, as go-ramjet makes it."""


class TurnCode(StrEnum):
    """Errors of a hook's input."""

    PROJECT_REQUIRED = "PROJECT_REQUIRED"
    PROJECT_INVALID = "PROJECT_INVALID"
    SESSION_ID_REQUIRED = "SESSION_ID_REQUIRED"
    SESSION_ID_INVALID = "SESSION_ID_INVALID"
    TURN_ID_REQUIRED = "TURN_ID_REQUIRED"
    CREDENTIAL_REQUIRED = "CREDENTIAL_REQUIRED"
    CURRENT_INPUT_REQUIRED = "CURRENT_INPUT_REQUIRED"


class TurnInvalid(InvalidInput):
    """A hook was given what it cannot work with: `code` is a word of the seed, `field` the field's name."""

    told = ("field", "problem", "code")

    def __init__(self, *, code: TurnCode, field: str, problem: str) -> None:
        super().__init__(field=field, problem=problem)
        self.code = code


def session_of(credential: str, /, *, secret: bytes, by: SessionHash = SessionHash.HMAC_SHA256) -> str:
    """Return the session's id of a credential: the same for the same one, and not reversible.

    Raises InvalidInput for an empty credential, and for a missing secret if the hash needs one.
    """
    if not credential or len(credential) > limits.CREDENTIAL_CHARS:
        raise InvalidInput(field="credential", problem="is empty or too long")
    data = credential.encode("utf-8", "surrogatepass")
    if by is SessionHash.SHA256:
        return f"{PREFIX}{hashlib.sha256(data).digest()[:_DIGEST_BYTES].hex()}"
    if not secret:
        problem = "is missing: give session_secret, or set session_hash to sha256"
        raise InvalidInput(field="session_secret", problem=problem)
    return f"{PREFIX}{hmac.digest(secret, data, 'sha256')[:_DIGEST_BYTES].hex()}"


def checked_project(project: str, /) -> str:
    """Return a project's name. Raises TurnInvalid."""
    if not project.strip():
        raise TurnInvalid(code=TurnCode.PROJECT_REQUIRED, field="project", problem="is required")
    if len(project) > limits.PROJECT_CHARS or _PROJECT.fullmatch(project) is None:
        problem = f"has other characters than letters, digits, _ . -, or more than {limits.PROJECT_CHARS}"
        raise TurnInvalid(code=TurnCode.PROJECT_INVALID, field="project", problem=problem)
    return project


def checked_session(session: str, /) -> str:
    """Return a session's id. Raises TurnInvalid."""
    if not session.strip():
        raise TurnInvalid(code=TurnCode.SESSION_ID_REQUIRED, field="session_id", problem="is required")
    is_path = session in {".", ".."} or "/" in session or "\\" in session
    if is_path or len(session) > limits.SESSION_CHARS or not session.isprintable() or session != session.strip():
        problem = f"has slashes, control characters or more than {limits.SESSION_CHARS} characters, or is . or .."
        raise TurnInvalid(code=TurnCode.SESSION_ID_INVALID, field="session_id", problem=problem)
    return session


def checked_turn(turn: str, /) -> str:
    """Return a turn's id. Raises TurnInvalid."""
    if not turn.strip():
        raise TurnInvalid(code=TurnCode.TURN_ID_REQUIRED, field="turn_id", problem="is required")
    if len(turn) > limits.TURN_ID_CHARS or not turn.isprintable() or turn != turn.strip():
        problem = f"has control characters, outer white space, or more than {limits.TURN_ID_CHARS} characters"
        raise TurnInvalid(code=TurnCode.TURN_ID_REQUIRED, field="turn_id", problem=problem)
    return turn


def space_of(project: str, session: str, /) -> str:
    """Return the memory space of a session; neither part can contain the separator."""
    name = f"{project}/{session}"
    if len(name) <= SPACE_CHARS:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{project[: SPACE_CHARS - len(digest) - 2]}//{digest}"


_SECRET_BYTES = 32


@dataclass(slots=True)
class _HeldMemory:
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

    def __init__(self, url: str, /, *, clock: Clock, ids: IdSource) -> None:
        self._url = url
        self._clock = clock
        self._ids = ids
        self._secret = ids.secret(_SECRET_BYTES)
        self._held: OrderedDict[bytes, _HeldMemory] = OrderedDict()

    @asynccontextmanager
    async def of(self, credential: str | None, /) -> AsyncGenerator[MemoryFace]:
        """Yield the memory of a credential. Raises TurnInvalid without one, StoreError, Unreachable, Unauthorized."""
        if not credential:
            problem = "is required: memory on an MCP file server is opened with it"
            raise TurnInvalid(code=TurnCode.CREDENTIAL_REQUIRED, field="credential", problem=problem)
        key = hmac.digest(self._secret, credential.encode("utf-8", "surrogatepass"), "sha256")
        held = self._held.setdefault(key, _HeldMemory())
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

    def _is_stale(self, held: _HeldMemory) -> bool:
        return self._clock.now() - held.used_at >= limits.CREDENTIAL_IDLE_MS

    async def _let_go(self) -> None:
        idle = [key for key, held in self._held.items() if not held.users]
        for key in idle[: max(len(self._held) - limits.CREDENTIALS_HELD, 0)]:
            held = self._held.pop(key)
            if held.memory is not None:
                await held.memory.close()
