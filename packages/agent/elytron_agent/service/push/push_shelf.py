"""The shelf of push subscriptions: where a user's devices are reached, and the keys that their previews are under.

Keys are derived from the space's own secret, so that none is stored. Addresses and points are stored as numbers:
admission would black out what looks like a credential in them.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from elytron_agent.runs.journal import AGENTS, MAIN
from elytron_agent.service import limits
from elytron_agent.service.companion import UserAgents
from elytron_agent.service.push.push_target import require_address
from elytron_agent.service.push.web_push import (
    AUTH_BYTES,
    POINT_BYTES,
    decode_base64url,
    private_key,
    public_point,
    require_point,
)
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound
from elytron_core.model import Request, Value
from elytron_core.scope import OpaqueId

Octets = tuple[int, ...]


class PushKeys(Request):
    """Keys of a browser's subscription, as `PushSubscription.toJSON()` has them."""

    p256dh: Annotated[str, OpaqueId(), Field(max_length=200)]
    auth: Annotated[str, OpaqueId(), Field(max_length=100)]


class PushRequest(Request):
    """Have previews sent: to a browser (`endpoint` and `keys`, as it gives them), or to a webhook (`url`)."""

    type: Literal["web_push", "webhook"]
    endpoint: Annotated[str, OpaqueId(), Field(max_length=limits.PUSH_URL_CHARS)] | None = None
    keys: PushKeys | None = None
    url: Annotated[str, OpaqueId(), Field(max_length=limits.PUSH_URL_CHARS)] | None = None

    @property
    def address(self) -> str:
        """Return where to send. Raises InvalidInput if what its type needs is missing."""
        is_web = self.type == "web_push"
        found = self.endpoint if is_web else self.url
        if found is None or (self.keys is None) is is_web or (self.url is not None) is is_web:
            needed = "endpoint and keys" if is_web else "url"
            raise InvalidInput(field="type", problem=f"needs {needed}, and nothing else")
        return found


class StoredPush(Value):
    """A subscription as it is stored."""

    id: str
    type: Literal["web_push", "webhook"]
    address: Octets
    point: Octets = ()
    auth: Octets = ()
    created_at: Instant

    @property
    def url(self) -> str:
        return bytes(self.address).decode()


class PushShelf:
    """The subscriptions of one user."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._context = user.memory.context

    async def add(self, asked: PushRequest, /) -> StoredPush:
        """Store a subscription; the same address is stored once. Raises InvalidInput, LimitExceeded."""
        require_address(asked.address, self._user.settings.push_hosts)
        point = auth = b""
        if asked.keys is not None:
            point = decode_base64url(asked.keys.p256dh, field="keys.p256dh", size=POINT_BYTES)
            auth = decode_base64url(asked.keys.auth, field="keys.auth", size=AUTH_BYTES)
            require_point(point, field="keys.p256dh")
        found = await self.list()
        known = next((each for each in found if each.url == asked.address), None)
        if known is None and len(found) >= limits.PUSH_SUBSCRIPTIONS:
            most = limits.PUSH_SUBSCRIPTIONS
            raise LimitExceeded(what="push subscriptions of a user", limit=most, found=most + 1)
        made = StoredPush(
            id=known.id if known is not None else self._context.ids.new(),
            type=asked.type,
            address=tuple(asked.address.encode()),
            point=tuple(point),
            auth=tuple(auth),
            created_at=self._context.clock.now(),
        )
        value: Any = made.model_dump(mode="json")
        await self._user.records.put(_push_place(), made.id, value, text="a push subscription")
        return made

    async def list(self) -> Sequence[StoredPush]:
        """Return the subscriptions, oldest first."""
        found = [StoredPush.model_validate(each.value) async for each in self._user.records.below(_push_place())]
        return sorted(found, key=lambda each: (each.created_at, each.id))

    async def read(self, push_id: str, /) -> StoredPush:
        """Return a subscription. Raises NotFound."""
        for each in await self.list():
            if each.id == push_id:
                return each
        raise NotFound(what="push subscription", name=push_id)

    async def remove(self, push_id: str, /) -> None:
        """Erase a subscription. Raises NotFound."""
        await self.read(push_id)
        found = await self._user.records.get(_push_place(), push_id)
        await self._user.records.erase([found] if found is not None else [])

    async def secret(self, push_id: str, purpose: str, /) -> bytes:
        """Return a key of 32 bytes for a subscription."""
        return hashlib.sha256(await self._derived("push", push_id, purpose)).digest()

    async def vapid_seed(self) -> bytes:
        """Return the seed of the key by which push services know this user's server."""
        return hashlib.sha512(await self._derived("push", "vapid")).digest()

    async def vapid_point(self) -> bytes:
        """Return the public key that a browser subscribes with."""
        return public_point(private_key(await self.vapid_seed()))

    async def _derived(self, *parts: str) -> bytes:
        record = await self._context.spaces.find(self._user.space)
        if record is None:
            raise NotFound(what="agent", name=MAIN)
        return "".join(record.tag("agent", *parts, str(number)) for number in range(_TAGS)).encode()


_TAGS: Final = 6
"""Tags that a key is made of: each has 96 bits."""


def _push_place() -> tuple[str, ...]:
    return (AGENTS, MAIN, "push")
