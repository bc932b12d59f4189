"""Push: an encrypted preview of an undelivered turn, to browsers by the published standards and to webhooks."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from tests.agent.service.served import AT, ServedAgents, ServedUser, said, served
from tests.models.fake_server import Asked, FakeServer, Sent, serving

from elytron_agent import limits
from elytron_agent.service.push import PREVIEW_BYTES, checked_address, encrypt_push, public_point
from elytron_core.clock import FrozenClock
from elytron_core.errors import PermissionRefused
from elytron_turn.sizes import clip_bytes

pytestmark = pytest.mark.anyio
MINUTE_MS = 60_000


def octets(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_the_published_push_message_example_is_reproduced() -> None:
    """RFC 8291, appendix A."""
    private = int.from_bytes(octets("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    made = encrypt_push(
        b"When I grow up, I want to be a watermelon",
        point=octets("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
        auth=octets("BTBZMqHH6r4Tts7J_aSIgg"),
        key=ec.derive_private_key(private, ec.SECP256R1()),
        salt=octets("DGv6ra1nlYgDCS1FRnbzlw"),
    )
    assert text_of(made) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95"
        "bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


class Browser:
    """A browser's side of a subscription, as in RFC 8291."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.auth = b"0123456789abcdef"

    @property
    def keys(self) -> dict[str, str]:
        return {"p256dh": text_of(public_point(self.key)), "auth": text_of(self.auth)}

    def read(self, body: bytes) -> dict[str, Any]:
        salt, theirs, sealed = body[:16], body[21 : 21 + body[20]], body[21 + body[20] :]
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
        secret = HKDF(SHA256(), 32, self.auth, b"WebPush: info\0" + public_point(self.key) + theirs).derive(shared)
        key = HKDF(SHA256(), 16, salt, b"Content-Encoding: aes128gcm\0").derive(secret)
        nonce = HKDF(SHA256(), 12, salt, b"Content-Encoding: nonce\0").derive(secret)
        return json.loads(AESGCM(key).decrypt(nonce, sealed, None).removesuffix(b"\x02"))


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncGenerator[FakeServer]:
    """Yield a push service that returns these statuses in turn, then repeats the last one."""
    left = list(statuses or (201,))
    async with serving() as server:
        server.reply = lambda _: Sent((b"",), status=left.pop(0) if len(left) > 1 else left[0], media_type="text/plain")
        yield server


@asynccontextmanager
async def pushing(
    clock: FrozenClock | None = None, text: str = "Water the plants!", *, wait_s: float = 0.0
) -> AsyncGenerator[ServedAgents]:
    fast: dict[str, Any] = {"push_wait_s": wait_s, "schedule_poll_s": 0.01, "push_hosts": ("127.0.0.1",)}
    async with served(lambda _: said(text), clock=clock or FrozenClock(AT, step_ms=1), **fast) as server:
        yield server


async def fired(user: ServedUser, clock: FrozenClock) -> str:
    """Let a schedule say something while no device listens, and return the item."""
    rule = {"type": "interval", "seconds": 60}
    made = await user.made("POST", "/schedules", {"task": "Water the plants.", "rule": rule})
    clock.advance(MINUTE_MS)
    while not (await user.made("GET", f"/schedules/{made['id']}"))["completed"]:
        await asyncio.sleep(0.01)
    await user.made("DELETE", f"/schedules/{made['id']}")
    return (await user.items())["data"][0]["id"]


async def got(push: FakeServer, count: int = 1) -> Asked:
    while len(push.asked) < count:
        await asyncio.sleep(0.01)
    return push.asked[count - 1]


async def test_a_browser_gets_undelivered_messages_and_can_verify_the_sender() -> None:
    clock, browser = FrozenClock(AT, step_ms=1), Browser()
    async with pushing(clock) as server, receiver() as push:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        key = octets((await ada.made("GET", "/push/key"))["key"])
        asked = {"type": "web_push", "endpoint": f"{push.url}/send/abc", "keys": browser.keys}
        made = await ada.made("POST", "/push", asked)
        again = await ada.made("POST", "/push", asked)
        item = await fired(ada, clock)
        sent = await got(push)
    assert (made["id"], made["host"]) == (again["id"], "127.0.0.1")
    assert browser.read(sent.raw) == {
        "agent_id": browser.read(sent.raw)["agent_id"],
        "run_id": item.partition(".")[0],
        "item_id": item,
        "preview": "Water the plants!",
    }
    scheme, token, point = sent.headers["authorization"].replace(",", "").split(" ")
    header, claims, signature = token.removeprefix("t=").split(".")
    pair = encode_dss_signature(*(int.from_bytes(half) for half in (octets(signature)[:32], octets(signature)[32:])))
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)
    public.verify(pair, f"{header}.{claims}".encode(), ec.ECDSA(SHA256()))
    assert (scheme, octets(point.removeprefix("k="))) == ("vapid", key)
    assert json.loads(octets(claims))["aud"] == push.url
    assert sent.headers["content-encoding"] == "aes128gcm"


async def test_a_webhook_gets_a_signed_preview_encrypted_to_its_key() -> None:
    clock = FrozenClock(AT, step_ms=1)
    async with pushing(clock, "x" * 500) as server, receiver() as push:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        made = await ada.made("POST", "/push", {"type": "webhook", "url": f"{push.url}/hook"})
        await fired(ada, clock)
        sent = await got(push)
        listed = await ada.made("GET", "/push")
    message, stamp = sent.headers["webhook-id"], sent.headers["webhook-timestamp"]
    signed = hmac.digest(bytes.fromhex(made["secret"]), f"{message}.{stamp}.".encode() + sent.raw, hashlib.sha256)
    assert sent.headers["webhook-signature"] == f"v1,{base64.b64encode(signed).decode()}"
    plain = AESGCM(bytes.fromhex(made["key"])).decrypt(sent.raw[:12], sent.raw[12:], message.encode())
    assert len(json.loads(plain)["preview"].encode()) == PREVIEW_BYTES == 180
    assert "x" * 20 not in sent.raw.decode("latin-1")
    assert [each.get("key") for each in listed["data"]] == [None]


async def test_delivered_messages_are_not_pushed_and_a_turn_is_pushed_once() -> None:
    clock = FrozenClock(AT, step_ms=1)
    async with pushing(clock, wait_s=30.0) as server, receiver() as push:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.made("POST", "/push", {"type": "webhook", "url": f"{push.url}/hook"})
        await ada.chat("hello")
        async with ada.stream("GET", "/events") as events:
            waiting = asyncio.create_task(anext(events))
            await fired(ada, clock)
            await waiting
            while not all("delivered_at" in item for item in (await ada.items())["data"][::2]):
                await anext(events)
        await fired(ada, clock)
        clock.advance(MINUTE_MS)
        await got(push)
    assert len(push.asked) == 1


async def test_an_unavailable_push_service_is_retried_and_a_gone_one_is_removed() -> None:
    clock = FrozenClock(AT, step_ms=1)
    async with pushing(clock) as server, receiver(503, 201, 410) as push:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        await ada.made("POST", "/push", {"type": "webhook", "url": f"{push.url}/hook"})
        await fired(ada, clock)
        await got(push)
        while len(push.asked) < 2:
            clock.advance(limits.SCHEDULE_WAIT_MAX_MS)
            await asyncio.sleep(0.02)
        await fired(ada, clock)
        await got(push, 3)
        while (left := await ada.made("GET", "/push"))["data"]:
            await asyncio.sleep(0.01)
    assert left["data"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"type": "webhook", "url": "ftp://push.example/x"}, "url"),
        ({"type": "webhook", "url": "http://push.example/x"}, "url"),
        ({"type": "webhook", "url": "https://user:word@push.example/x"}, "url"),
        ({"type": "webhook", "url": "https:///x"}, "url"),
        ({"type": "webhook", "url": "https://push example/x"}, "url"),
        ({"type": "webhook", "url": "https://b\u00fccher.example/x"}, "url"),
        ({"type": "webhook", "url": "https://push.example\u3002evil/x"}, "url"),
        ({"type": "webhook", "endpoint": "https://push.example/x"}, "type"),
        ({"type": "web_push", "endpoint": "https://push.example/x"}, "type"),
        ({"type": "web_push", "endpoint": "https://push.example/x", "keys": {"p256dh": "AAAA", "auth": "BBBB"}},
         "keys.p256dh"),
        ({"type": "web_push", "endpoint": "https://push.example/x",
          "keys": {"p256dh": text_of(b"\4" + bytes(64)), "auth": text_of(bytes(16))}}, "keys.p256dh"),
        ({"type": "mail"}, "type"),
    ],
)  # fmt: skip
async def test_an_impossible_subscription_is_rejected(body: dict[str, Any], field: str) -> None:
    async with served(runs_schedules=False) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        answer = await ada.call("POST", "/push", body)
    assert (answer.status_code, answer.json()["details"]["field"]) == (422, field)


PRIVATE = pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "localhost", "100.64.0.1", "2130706433", "224.0.0.1",
     "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fec0::1]", "[::7f00:1]", "[::ffff:127.0.0.1]"],
)  # fmt: skip


@PRIVATE
async def test_a_subscription_to_a_private_network_is_rejected_at_creation(host: str) -> None:
    async with served(runs_schedules=False) as server:
        ada = await server.user("ada")
        await ada.made("POST", "/init")
        answer = await ada.call("POST", "/push", {"type": "webhook", "url": f"https://{host}/x"})
        assert (answer.status_code, answer.json()["code"]) == (403, "permission_refused")
        assert (await ada.made("GET", "/push"))["data"] == []


@PRIVATE
async def test_requests_reach_only_private_networks_that_the_operator_named(host: str) -> None:
    with pytest.raises(PermissionRefused):
        await checked_address(f"https://{host}/x", ())


async def test_another_users_subscription_does_not_exist() -> None:
    async with served(runs_schedules=False) as server:
        ada, bob = await server.user("ada"), await server.user("bob")
        await ada.made("POST", "/init")
        await bob.made("POST", "/init")
        made = await ada.made("POST", "/push", {"type": "webhook", "url": "https://push.example/x"})
        answers = [
            await bob.call("DELETE", f"/push/{each}", X_Request_ID="x")
            for each in (made["id"], "019e7044-8807-7000-970c-000000000000")
        ]
        keys = [await user.made("GET", "/push/key") for user in (ada, bob, ada)]
        empty = await bob.made("GET", "/push")
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert keys[0] == keys[2] != keys[1]
    assert empty["data"] == []


@pytest.mark.parametrize(
    ("text", "clipped"),
    [
        ("short", "short"),
        ("a\n\n b", "a b"),
        ("x" * 180, "x" * 180),
        ("é" * 200, "é" * 88 + "…"),
        ("🦜" * 60, "🦜" * 44 + "…"),
    ],
)
def test_a_preview_has_at_most_180_bytes_and_no_broken_character(text: str, clipped: str) -> None:
    found = clip_bytes(" ".join(text.split()), PREVIEW_BYTES)
    assert found == clipped
    assert len(found.encode()) <= 180
