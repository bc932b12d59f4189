"""Push notifications: the addresses of a user's devices, previews encrypted for each, and the job that sends them.

Preview keys are passed in as bytes so that published test vectors can be checked. A service's own keys are derived from
a key that no copy of the store contains. Addresses and curve points are stored as numbers, because admission would
redact strings that look like credentials.
"""

import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import Field

from elytron.context import Beat, OperationContext
from elytron.jobs.queue import schedule_job
from elytron.secrets.credential_key import derived_token
from elytron_agent import limits
from elytron_agent.runs.journal import MAIN
from elytron_agent.runs.thread_notes import AGENTS
from elytron_agent.service.companion import AgentPart, KnownAgent, ServiceSettings, UserAgents
from elytron_agent.service.wire import ItemRole, ThreadItem
from elytron_core.clock import Instant
from elytron_core.errors import (
    AgentDisabled,
    InvalidInput,
    LimitExceeded,
    NotFound,
    PermissionRefused,
    Unreachable,
    Unsupported,
)
from elytron_core.ids import SpaceId
from elytron_core.model import Request, Value
from elytron_core.planes.jobs import JobTerms
from elytron_core.planes.space import SpaceRecord
from elytron_core.scope import OpaqueId, Scope
from elytron_core.strict_json import keyed_tag
from elytron_outbound.addresses import JudgedAddress, judged_address
from elytron_outbound.clients import ClientSettings, http_client
from elytron_turn.sizes import clip_bytes

PREVIEW_BYTES: Final = 180
"""Maximum size of a preview."""
PUSH_SUBSCRIPTIONS: Final = 16
PUSH_URL_CHARS: Final = 2_000
PUSH_SEND_S: Final = 15.0
PUSH_TTL_S: Final = 24 * 3_600
"""How long a push service stores a preview for an offline device."""
VAPID_S: Final = 12 * 3_600
"""Validity of the signature of a message to a push service."""


push_logger = logging.getLogger(__name__)

_SCHEMES: Final = frozenset({"https", "http"})
ENDED_STATUSES: Final = frozenset({404, 410})
"""Response status codes after which a subscription no longer exists."""
_OK: Final = range(200, 300)


def require_address(url: str, allowed: Collection[str], /) -> SplitResult:
    """Return the parts of an address that a device may subscribe with. Raises InvalidInput if it may not.

    Hosts configured by the operator may be called without TLS.
    """
    try:
        url_parts = urlsplit(url)
        host, port = url_parts.hostname, url_parts.port
    except ValueError:
        host = port = url_parts = None
    is_plain = all("!" <= character <= "~" for character in url)
    if (
        url_parts is None
        or not host
        or not is_plain
        or url_parts.username is not None
        or url_parts.scheme not in _SCHEMES
        or port == 0
    ):
        raise InvalidInput(field="url", problem="must be an address such as https://push.example/send")
    if url_parts.scheme == "http" and host not in allowed:
        raise InvalidInput(field="url", problem="requires https unless the operator allows this host without it")
    return url_parts


async def checked_address(url: str, allowed: Collection[str], /) -> JudgedAddress:
    """Resolve and check an address. Raises InvalidInput, PermissionRefused for a private network, Unreachable."""
    url_parts = require_address(url, allowed)
    return await judged_address(url_parts, may_be_private=url_parts.hostname in allowed)


async def post_preview(url: str, body: bytes, headers: dict[str, str], allowed: Collection[str], /) -> bool:
    """Send a body, and return False if the subscription no longer exists. Raises as `checked_address` does."""
    settings = ClientSettings(extra="llm", purpose="push", timeout_s=PUSH_SEND_S)
    async with http_client(settings) as client:
        import httpx

        address = await checked_address(url, allowed)
        request_headers = {"Host": address.host, **headers}
        extensions = {"sni_hostname": address.name}
        try:
            request = client.build_request(
                "POST", address.url, content=body, headers=request_headers, extensions=extensions
            )
            # The response body is not needed and may be endless.
            response = await client.send(request, stream=True)
            await response.aclose()
        except (httpx.HTTPError, httpx.InvalidURL):
            raise Unreachable("a push service is unreachable") from None
    if response.status_code in ENDED_STATUSES:
        return False
    if response.status_code not in _OK:
        raise Unreachable(f"a push service rejected a preview ({response.status_code})")
    return True


CURVE: Final = ec.SECP256R1()
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_RECORD: Final = 4_096
SALT_BYTES: Final = 16
AUTH_BYTES: Final = 16
POINT_BYTES: Final = 65
NONCE_BYTES: Final = 12
KEY_BYTES: Final = 32


def private_key(seed: bytes, /) -> ec.EllipticCurvePrivateKey:
    """Return the P-256 key for a seed of at least 48 bytes."""
    # The seed has 128 bits more than the curve's order, so the remainder is evenly distributed.
    return ec.derive_private_key(int.from_bytes(seed) % (_ORDER - 1) + 1, CURVE)


def public_point(key: ec.EllipticCurvePrivateKey, /) -> bytes:
    """Return the public key as an uncompressed point."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def require_point(point: bytes, /, *, field: str) -> None:
    """Raise InvalidInput for bytes that are not a public P-256 key."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(CURVE, point)
    except ValueError:
        raise InvalidInput(field=field, problem="is not a public key of the curve P-256") from None


def encrypt_push(plain: bytes, /, *, point: bytes, auth: bytes, key: ec.EllipticCurvePrivateKey, salt: bytes) -> bytes:
    """Return the body of a message to a browser's push service. `key` must be used for this message only."""
    device_key, server_point = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, point), public_point(key)
    shared_secret = key.exchange(ec.ECDH(), device_key)
    input_key = _expand_key(_extract_key(auth, shared_secret), b"WebPush: info\x00" + point + server_point, 32)
    pseudo_random_key = _extract_key(salt, input_key)
    content_key = _expand_key(pseudo_random_key, b"Content-Encoding: aes128gcm\x00", 16)
    nonce = _expand_key(pseudo_random_key, b"Content-Encoding: nonce\x00", NONCE_BYTES)
    ciphertext = AESGCM(content_key).encrypt(nonce, plain + b"\x02", None)
    return salt + _RECORD.to_bytes(4) + len(server_point).to_bytes(1) + server_point + ciphertext


def vapid_header(origin: str, /, *, key: ec.EllipticCurvePrivateKey, expires_s: int, contact: str | None) -> str:
    """Return the `Authorization` header that identifies this server to a push service."""
    claims: dict[str, str | int] = {"aud": origin, "exp": expires_s}
    if contact is not None:
        claims["sub"] = contact
    signing_input = b".".join(
        _base64url_text(json.dumps(part, separators=(",", ":")).encode()) for part in (_HEADER, claims)
    )
    signature_r, signature_s = decode_dss_signature(key.sign(signing_input, ec.ECDSA(SHA256())))
    token = signing_input + b"." + _base64url_text(signature_r.to_bytes(32) + signature_s.to_bytes(32))
    return f"vapid t={token.decode()}, k={_base64url_text(public_point(key)).decode()}"


def seal_preview(plain: bytes, /, *, key: bytes, nonce: bytes, message_id: str) -> bytes:
    """Return the body of a webhook: the nonce, then the ciphertext, which is bound to the message's id."""
    return nonce + AESGCM(key).encrypt(nonce, plain, message_id.encode())


def sign_body(body: bytes, /, *, message_id: str, timestamp_s: int, secret: bytes) -> str:
    """Return the signature of a webhook, in the same form as those that the server accepts."""
    signing_input = b"%b.%d.%b" % (message_id.encode(), timestamp_s, body)
    return "v1," + base64.b64encode(hmac.digest(secret, signing_input, hashlib.sha256)).decode()


def decode_base64url(text: str, /, *, field: str, size: int) -> bytes:
    """Decode base64url with or without padding. Raises InvalidInput for invalid text or another size."""
    try:
        data = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except ValueError:
        data = b""
    if len(data) != size:
        raise InvalidInput(field=field, problem=f"must be base64url of {size} bytes")
    return data


_HEADER: Final = {"typ": "JWT", "alg": "ES256"}


def _base64url_text(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _extract_key(salt: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt, secret, hashlib.sha256)


def _expand_key(key: bytes, info: bytes, size: int) -> bytes:
    """Return the first block of HKDF-Expand, which is sufficient here."""
    return hmac.digest(key, info + b"\x01", hashlib.sha256)[:size]


Octets = tuple[int, ...]


class PushKeys(Request):
    """Keys of a browser's subscription, as in `PushSubscription.toJSON()`."""

    p256dh: Annotated[str, OpaqueId(), Field(max_length=200)]
    auth: Annotated[str, OpaqueId(), Field(max_length=100)]


class PushRequest(Request):
    """Subscribe to previews, in a browser (its `endpoint` and `keys`) or through a webhook (`url`)."""

    type: Literal["web_push", "webhook"]
    endpoint: Annotated[str, OpaqueId(), Field(max_length=PUSH_URL_CHARS)] | None = None
    keys: PushKeys | None = None
    url: Annotated[str, OpaqueId(), Field(max_length=PUSH_URL_CHARS)] | None = None

    @property
    def address(self) -> str:
        """Return the address to send to. Raises InvalidInput if a field that its type requires is missing."""
        is_web = self.type == "web_push"
        address = self.endpoint if is_web else self.url
        if address is None or (self.keys is None) is is_web or (self.url is not None) is is_web:
            requirement = "endpoint and keys" if is_web else "url"
            raise InvalidInput(field="type", problem=f"requires {requirement}, and no other address fields")
        return address


class StoredPush(Value):
    """A stored subscription."""

    id: str
    type: Literal["web_push", "webhook"]
    address: Octets
    point: Octets = ()
    auth: Octets = ()
    key_check: Annotated[str, OpaqueId()] = ""
    """Identifies the key from which the subscription's secrets are derived; empty if stored by an earlier build."""
    created_at: Instant

    @property
    def url(self) -> str:
        return bytes(self.address).decode()


class PushRepository:
    """The subscriptions of one user."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._context = user.memory.context

    async def add(self, request: PushRequest, /) -> StoredPush:
        """Store a subscription, once per address.

        Raises InvalidInput, LimitExceeded, and PermissionRefused for an address to which nothing could be sent.
        """
        with suppress(Unreachable):  # if the name cannot be resolved now, it is checked again before each preview
            await checked_address(request.address, self._user.settings.push_hosts)
        point_bytes = auth_bytes = b""
        if request.keys is not None:
            point_bytes = decode_base64url(request.keys.p256dh, field="keys.p256dh", size=POINT_BYTES)
            auth_bytes = decode_base64url(request.keys.auth, field="keys.auth", size=AUTH_BYTES)
            require_point(point_bytes, field="keys.p256dh")
        key_check = self._key_check(await self._space_key())
        pushes = await self.list()
        subscription = next((stored_push for stored_push in pushes if stored_push.url == request.address), None)
        if subscription is None and len(pushes) >= PUSH_SUBSCRIPTIONS:
            max_pushes = PUSH_SUBSCRIPTIONS
            raise LimitExceeded(what="push subscriptions per user", limit=max_pushes, found=max_pushes + 1)
        push = StoredPush(
            id=subscription.id if subscription is not None else self._context.ids.new(),
            type=request.type,
            address=tuple(request.address.encode()),
            point=tuple(point_bytes),
            auth=tuple(auth_bytes),
            key_check=key_check,
            created_at=self._context.clock.now(),
        )
        value: Any = push.model_dump(mode="json")
        await self._user.records.put(_push_place(), push.id, value, text="a push subscription")
        return push

    async def list(self) -> Sequence[StoredPush]:
        """Return the subscriptions, oldest first."""
        pushes = [StoredPush.model_validate(record.value) async for record in self._user.records.below(_push_place())]
        return sorted(pushes, key=lambda push: (push.created_at, push.id))

    async def read(self, push_id: str, /) -> StoredPush:
        """Return a subscription. Raises NotFound."""
        for stored_push in await self.list():
            if stored_push.id == push_id:
                return stored_push
        raise NotFound(what="push subscription", name=push_id)

    async def remove(self, push_id: str, /) -> None:
        """Erase a subscription. Raises NotFound."""
        await self.read(push_id)
        record = await self._user.records.get(_push_place(), push_id)
        await self._user.records.erase([record] if record is not None else [])

    async def is_usable(self, push: StoredPush, /) -> bool:
        """Return whether the device has the secrets with which previews are currently sent."""
        if push.key_check:
            return push.key_check == self._key_check(await self._space_key())
        return await self._space_key() == bytes.fromhex((await self._record()).secret)

    async def secret(self, push: StoredPush, purpose: str, /) -> bytes:
        """Return a 32-byte key for a subscription. Raises Unsupported."""
        if not push.key_check:
            return hashlib.sha256(await self._derived("push", push.id, purpose)).digest()
        return bytes.fromhex(derived_token(await self._space_key(), "push", push.id, purpose))

    async def vapid_seed(self) -> bytes:
        """Return the seed of the key that identifies this user's server to push services."""
        return hashlib.sha512(await self._derived("push", "vapid")).digest()

    async def vapid_point(self) -> bytes:
        """Return the public key that a browser subscribes with."""
        return public_point(private_key(await self.vapid_seed()))

    async def _derived(self, *parts: str) -> bytes:
        key = await self._space_key()
        key_tags = (keyed_tag(key, "agent", *parts, str(tag_number), size=_TAG_DIGITS) for tag_number in range(_TAGS))
        return "".join(key_tags).encode()

    async def _space_key(self) -> bytes:
        """Return the user's key for credentials. Raises Unsupported if a copy of the store would contain it."""
        return self._context.credential_key.require(await self._record(), needed_for="push keys", is_own=True)

    async def _record(self) -> SpaceRecord:
        record = await self._context.spaces.find(self._user.space)
        if record is None:
            raise NotFound(what="agent", name=MAIN)
        return record

    def _key_check(self, key: bytes) -> str:
        return keyed_tag(key, "push check", size=_TAG_DIGITS)


_TAGS: Final = 6
"""Number of 96-bit tags that a key is made of."""
_TAG_DIGITS: Final = 24


def _push_place() -> tuple[str, ...]:
    return (AGENTS, MAIN, "push")


KIND: Final = "agent_push"
"""Kind of the jobs that send previews."""
TERMS: Final = JobTerms(lease_ms=limits.SCHEDULE_LEASE_MS, wait_max_ms=limits.SCHEDULE_WAIT_MAX_MS)


class PushRunner:
    """Send previews."""

    def __init__(self, context: OperationContext, settings: ServiceSettings, /) -> None:
        self._context = context
        self._settings = settings

    async def note(self, user: UserAgents, agent: KnownAgent, run: str, /) -> None:
        """Schedule a preview of a turn for each of the user's devices, unless a device receives the turn first."""
        if self._settings.off & {AgentPart.ALL, AgentPart.PUSH}:
            return
        due_at = Instant(self._context.clock.now() + round(self._settings.push_wait_s * 1000))
        scope = Scope.model_validate(user.scope.model_dump() | {"conversation": agent.name})
        for push in await PushRepository(user).list():
            payload = json.dumps({"run": run, "agent": agent.id, "push": push.id})
            await schedule_job(self._context, scope, KIND, f"{run}/{push.id}", payload, due_at=due_at, terms=TERMS)

    async def run(self, scope: Scope, payload: str, _beat: Beat, /) -> None:
        """Send one preview. Raises Unreachable, after which it is retried."""
        event = json.loads(payload)
        user = UserAgents(self._context, scope.space, self._settings, caller="push")
        repository = PushRepository(user)
        try:
            agent = await user.agent(event["agent"])
            push = await repository.read(event["push"])
            items = [
                item for item in await user.items(agent).run_items(event["run"]) if item.role is ItemRole.ASSISTANT
            ]
        except (AgentDisabled, NotFound):
            return
        if not items or any(item.delivered_at is not None for item in items):
            return
        try:
            is_subscribed = await repository.is_usable(push) and await self._send(repository, push, agent, items[-1])
        except (PermissionRefused, Unsupported) as error:
            push_logger.warning("a push subscription ended, and its device must subscribe again: %s", error.key)
            is_subscribed = False
        if not is_subscribed:
            await repository.remove(push.id)

    async def give_up(self, space: SpaceId, payload: str, /) -> None:
        """Drop a preview that could not be sent. Its message remains among the items."""

    async def repair(self, space: SpaceId, /) -> None:
        """Do nothing, because each preview already is or was a job."""

    async def _send(self, repository: PushRepository, push: StoredPush, agent: KnownAgent, item: ThreadItem) -> bool:
        message: dict[str, Any] = {"agent_id": agent.id, "run_id": item.run_id, "item_id": item.id}
        plain_message = json.dumps(
            message | {"preview": clip_bytes(" ".join(item.text.split()), PREVIEW_BYTES)}, ensure_ascii=False
        ).encode()
        if push.type == "webhook":
            return await self._send_webhook(repository, push, plain_message)
        ids, now_s = self._context.ids, self._context.clock.now() // 1000
        body = encrypt_push(
            plain_message,
            point=bytes(push.point),
            auth=bytes(push.auth),
            key=private_key(ids.secret(64)),
            salt=ids.secret(SALT_BYTES),
        )
        url_parts = urlsplit(push.url)
        signature = vapid_header(
            f"{url_parts.scheme}://{url_parts.netloc}",
            key=private_key(await repository.vapid_seed()),
            expires_s=now_s + VAPID_S,
            contact=self._settings.push_contact,
        )
        headers = {
            "Authorization": signature,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(PUSH_TTL_S),
        }
        return await post_preview(push.url, body, headers, self._settings.push_hosts)

    async def _send_webhook(self, repository: PushRepository, push: StoredPush, plain: bytes) -> bool:
        seal_key, sign_secret = await repository.secret(push, "seal"), await repository.secret(push, "sign")
        assert len(seal_key) == KEY_BYTES
        message_id, now_s = self._context.ids.new(), self._context.clock.now() // 1000
        nonce = self._context.ids.secret(NONCE_BYTES)
        body = seal_preview(plain, key=seal_key, nonce=nonce, message_id=message_id)
        headers = {
            "Content-Type": "application/octet-stream",
            "Webhook-Id": message_id,
            "Webhook-Timestamp": str(now_s),
            "Webhook-Signature": sign_body(body, message_id=message_id, timestamp_s=now_s, secret=sign_secret),
        }
        return await post_preview(push.url, body, headers, self._settings.push_hosts)
