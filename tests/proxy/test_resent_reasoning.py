"""Encrypted reasoning that a model server cannot read: retried once without it, if configured."""

from typing import Any

import pytest
from tests.models.fake_server import Sent, refusal
from tests.models.streams import TEXTS
from tests.proxy.proxy_setup import KEY, PATHS, proxying
from tests.proxy.test_state import ask, response

from elytron_proxy.figures import ProxyFigure
from elytron_proxy.wire.relay import ERROR_BYTES

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs9", "summary": [], "encrypted_content": "b3RoZXI="}
ITEMS = [REASONING, {"type": "message", "role": "user", "content": "One"}]
CANNOT = refusal(400, {"code": "invalid_encrypted_content", "message": f"cannot be verified ({KEY})"})


async def test_a_request_is_sent_once_more_without_the_reasoning() -> None:
    async with proxying(CANNOT, response("r1"), resend=True) as proxied:
        answer = await ask(proxied, ITEMS)
        assert answer.content == response("r1").chunks[0]
        first, second = (one.body["input"] for one in proxied.upstream.asked)
        assert (first, second) == (ITEMS, ITEMS[1:])
        assert await proxied.kept() == ["One", TEXT]
        assert proxied.app.figures[ProxyFigure.RESENT] == 1


async def test_a_request_is_not_sent_a_third_time() -> None:
    async with proxying(CANNOT, CANNOT, resend=True) as proxied:
        answer = await ask(proxied, ITEMS)
        assert (answer.status_code, len(proxied.upstream.asked)) == (400, 2)


async def test_without_resending_a_client_gets_the_refusal() -> None:
    async with proxying(CANNOT) as proxied:
        answer = await ask(proxied, ITEMS)
        assert answer.content == CANNOT.chunks[0].replace(KEY.encode(), b"*" * len(KEY))
        assert len(proxied.upstream.asked) == 1


async def test_continuations_of_stored_responses_are_resent_unless_disabled() -> None:
    async with proxying(response("r1"), CANNOT, response("r2")) as proxied:
        await ask(proxied, "One")
        assert (await ask(proxied, "Two", previous_response_id="r1")).status_code == 200
        second, third = ([item["type"] for item in one.body["input"]] for one in proxied.upstream.asked[1:])
        assert (second, third) == (["message", "reasoning", "message", "message"], ["message", "message", "message"])


@pytest.mark.parametrize(
    "sent",
    [
        refusal(400, {"code": "invalid_value", "message": f"of {KEY}"}),
        refusal(400, "no object"),
        refusal(400, {"code": "invalid_encrypted_content", "message": "x" * ERROR_BYTES}),
        Sent((b'{"err', b'or"'), 400, "application/json"),
    ],
)
async def test_any_other_refusal_passes_unchanged(sent: Sent) -> None:
    async with proxying(sent, resend=True) as proxied:
        answer = await ask(proxied, ITEMS)
        assert (answer.status_code, len(proxied.upstream.asked)) == (400, 1)
        assert answer.content == b"".join(sent.chunks).replace(KEY.encode(), b"*" * len(KEY))


async def test_a_truncated_refusal_is_truncated_for_the_client() -> None:
    import httpx

    async with proxying(Sent((b'{"error"',), 400, "application/json", dies=True), resend=True) as proxied:
        with pytest.raises(httpx.RemoteProtocolError):
            await ask(proxied, ITEMS)


async def test_other_dialects_are_not_resent() -> None:
    async with proxying(CANNOT, resend=True) as proxied:
        said = [{"role": "user", "content": "One"}]
        assert (await proxied.post(PATHS["chat"], {"model": "m", "messages": said})).status_code == 400
        assert len(proxied.upstream.asked) == 1
