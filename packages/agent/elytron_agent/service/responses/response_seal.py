"""Seals of summaries that clients keep: only the server of their user reads them."""

import base64
import hashlib
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from elytron_agent.runs.journal import AGENTS
from elytron_agent.service.companion import UserAgents
from elytron_core.errors import InvalidInput

_NONCE: Final = 12
_TAGS: Final = 6
"""Tags that a key is made of: each has 96 bits."""


class SummarySeal:
    """Seals and opens summaries of one user, under a key that is derived from the secret of the user's space."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._key: bytes | None = None

    async def prepare(self) -> None:
        """Have the key be there; a user without a space gets one."""
        spaces, space = self._user.memory.context.spaces, self._user.space
        if await spaces.find(space) is None:
            await self._user.records.put((AGENTS, "responses"), "seal", {"version": 1})
        record = await spaces.find(space)
        assert record is not None
        tags = "".join(record.tag("agent", "summary", str(number)) for number in range(_TAGS))
        self._key = hashlib.sha256(tags.encode()).digest()

    def seal(self, text: str, /) -> str:
        """Return a summary as text that only `open` reads."""
        nonce = self._user.memory.context.ids.secret(_NONCE)
        return base64.urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, text.encode(), None)).decode()

    def open(self, sealed: str, /) -> str:
        """Return a sealed summary. Raises InvalidInput for one that was not sealed here."""
        try:
            data = base64.urlsafe_b64decode(sealed.encode("ascii"))
            return self._cipher.decrypt(data[:_NONCE], data[_NONCE:], None).decode()
        except (ValueError, InvalidTag):
            raise InvalidInput(field="encrypted_content", problem="was not sealed by this server") from None

    @property
    def _cipher(self) -> AESGCM:
        assert self._key is not None
        return AESGCM(self._key)
