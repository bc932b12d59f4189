"""Signed deliveries from hosts: turns that they report, and candidates that they propose.

Signatures follow Standard Webhooks, plus the header `Webhook-Key` with the id of an access key. The signed text is
`<id>.<timestamp>.<body>`, under HMAC-SHA256 with that key's webhook secret. The message id is the idempotency key, so a
message that is sent twice, by the host or by a recorder, acts once.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable
from functools import partial
from typing import Final, Literal

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from elytron.registry import by_name
from elytron_adapter import envelope
from elytron_adapter.access_keys import AccessKeys
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import (
    AuthKind,
    CallHeaders,
    CallOrigin,
    CallSource,
    CallTransport,
    QueuedAnswer,
    RejectedAnswer,
    Response,
    SourceKind,
)
from elytron_adapter.http.requests import AUDIT_ID, read_body, require_json
from elytron_adapter.http.responses import refused_response, request_app, request_id_of, value_response
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces
from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest
from elytron_core.errors import InvalidInput, Unauthorized
from elytron_core.model import Value

WEBHOOK_WINDOW_MS: Final = 5 * 60 * 1000
"""Largest difference of a webhook's time from the server's."""


KEY = "Webhook-Key"
ID = "Webhook-Id"
TIMESTAMP = "Webhook-Timestamp"
SIGNATURE = "Webhook-Signature"
_HEADERS = (KEY, ID, TIMESTAMP)
_VERSION = "v1,"
_WAY_OUT = f"sign `{ID}`, `{TIMESTAMP}` (now, in seconds) and the body with the key that `{KEY}` names"
_REPORTS = frozenset({"transcript"})
_WRITE = by_name("write")


class WebhookAnswer(Value):
    """Outcome of a delivery: `accepted`, or `duplicated` if its id was known."""

    kind: Literal["accepted", "duplicated", "queued"]
    request_id: str
    report: MemoryWriteReport | None = None
    job: str | None = None


def webhook_surfaces(admission: CallerAdmission, keys: AccessKeys, /, *, body_bytes: int) -> tuple[Surface, ...]:
    """Return the two surfaces: reports are evidence, candidates are proposals that admission judges."""
    clock = admission.dispatcher.runtime.context.clock

    async def deliver(request: Request, *, is_report: bool) -> HttpResponse:
        require_json(request.headers)
        try:
            require_recent(request.headers, clock=clock)
            principal, webhook_secrets = await keys.signer(request.headers.get(KEY, ""))
            body = await read_body(request.scope, request.receive, limit=body_bytes)
            message_id = verify_webhook(request.headers, body, secrets=webhook_secrets, clock=clock)
        except Unauthorized:
            raise Unauthorized(_WAY_OUT) from None
        request.state.principal = principal
        await keys.note_use(principal.id)
        transcript_write = await envelope.read_aside(len(body), partial(envelope.decode_request, _WRITE, body))
        assert isinstance(transcript_write, MemoryWriteRequest)
        if (transcript_write.write.kind in _REPORTS) is not is_report:
            accepted_kinds = "turns of a transcript" if is_report else "candidates: facts, procedures or the like"
            raise InvalidInput(
                field="write.kind", problem=f"does not match this webhook, which accepts {accepted_kinds}"
            )
        answer = await admission.call(
            principal,
            origin=CallOrigin(CallTransport.HTTP, source=CallSource(kind=SourceKind.HOST), kind=AuthKind.SIGNATURE),
            operation=_WRITE.name,
            request_id=request_id_of(request.scope),
            payload=transcript_write,
            headers=CallHeaders(idempotency_key=message_id, audit_id=request.headers.get(AUDIT_ID)),
        )
        return _webhook_response(answer)

    routes = (
        Route("POST", "/webhook/report", partial(deliver, is_report=True), "webhook_report",
              "Store messages that a host reports.", MemoryWriteRequest, WebhookAnswer, SurfaceAccess.SIGNED,
              headers=_HEADERS, outcome="The outcome."),
        Route("POST", "/webhook/write-candidate", partial(deliver, is_report=False), "webhook_write_candidate",
              "Judge a host's proposals.", MemoryWriteRequest, WebhookAnswer, SurfaceAccess.SIGNED,
              headers=_HEADERS, outcome="The outcome."),
    )  # fmt: skip
    return build_surfaces(routes, request_app, group="webhooks")


def _webhook_response(answer: Response) -> HttpResponse:
    if isinstance(answer, RejectedAnswer):
        return refused_response(answer)
    return value_response(answer, status=202 if isinstance(answer, QueuedAnswer) else 200)


def verify_webhook(headers: Headers, body: bytes, /, *, secrets: Iterable[str], clock: Clock) -> str:
    """Return the message's id. Raises Unauthorized for a wrong signature, or a wrong time."""
    message_id, timestamp_text = require_recent(headers, clock=clock)
    # There may be several, while a secret is changed.
    signatures = headers.get(SIGNATURE, "").split(" ")[: limits.TAGS]
    expected_signatures = [
        webhook_signature(body, message_id=message_id, timestamp=timestamp_text, secret=secret) for secret in secrets
    ]
    if not any(
        hmac.compare_digest(signature.encode(), one.encode()) for signature in expected_signatures for one in signatures
    ):
        raise Unauthorized
    return message_id


def require_recent(headers: Headers, /, *, clock: Clock) -> tuple[str, int]:
    """Return a delivery's id and time. Raises Unauthorized if one is missing, or the time is off."""
    # Checked before the body too, so that a stale delivery is not read. The signature covers the time.
    message_id, timestamp_text = headers.get(ID, ""), headers.get(TIMESTAMP, "")
    if not message_id or not timestamp_text.isascii() or not timestamp_text.isdecimal() or len(timestamp_text) > 12:
        raise Unauthorized
    if abs(clock.now() - int(timestamp_text) * 1000) > WEBHOOK_WINDOW_MS:
        raise Unauthorized
    return message_id, int(timestamp_text)


def webhook_signature(body: bytes, /, *, message_id: str, timestamp: int, secret: str) -> str:
    """Return the value of `Webhook-Signature` for `body` under a key's webhook secret, in hex digits."""
    signed_bytes = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return _VERSION + base64.b64encode(hmac.digest(bytes.fromhex(secret), signed_bytes, hashlib.sha256)).decode()
