"""The runner of previews: one for each turn and device, if no device got a message of the turn."""

import json
from typing import Any, Final
from urllib.parse import urlsplit

from elytron.context import Beat, OperationContext
from elytron.jobs.queue import schedule_job
from elytron_agent.service import limits
from elytron_agent.service.companion import AgentPart, KnownAgent, ServiceSettings, UserAgents
from elytron_agent.service.push.push_shelf import PushShelf, StoredPush
from elytron_agent.service.push.push_target import post_preview
from elytron_agent.service.push.web_push import (
    KEY_BYTES,
    NONCE_BYTES,
    SALT_BYTES,
    encrypt_push,
    private_key,
    seal_preview,
    sign_body,
    vapid_header,
)
from elytron_agent.service.wire import ItemRole, ThreadItem
from elytron_core.clock import Instant
from elytron_core.errors import AgentDisabled, NotFound, PermissionRefused
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import JobTerms
from elytron_core.scope import Scope

KIND: Final = "agent_push"
"""Kind of the jobs of previews."""
TERMS: Final = JobTerms(lease_ms=limits.SCHEDULE_LEASE_MS, wait_max_ms=limits.SCHEDULE_WAIT_MAX_MS)


class PushRunner:
    """Sends previews."""

    def __init__(self, context: OperationContext, settings: ServiceSettings, /) -> None:
        self._context = context
        self._settings = settings

    async def note(self, user: UserAgents, known: KnownAgent, run: str, /) -> None:
        """Have a preview of a turn sent to each of the user's devices, unless one of them gets the turn meanwhile."""
        if self._settings.off & {AgentPart.ALL, AgentPart.PUSH}:
            return
        due = Instant(self._context.clock.now() + round(self._settings.push_wait_s * 1000))
        scope = Scope.model_validate(user.scope.model_dump() | {"conversation": known.name})
        for push in await PushShelf(user).list():
            payload = json.dumps({"run": run, "agent": known.id, "push": push.id})
            await schedule_job(self._context, scope, KIND, f"{run}/{push.id}", payload, due_at=due, terms=TERMS)

    async def run(self, scope: Scope, payload: str, _beat: Beat, /) -> None:
        """Send one preview. Raises Unreachable to be tried again."""
        found = json.loads(payload)
        user = UserAgents(self._context, scope.space, self._settings, caller="push")
        shelf = PushShelf(user)
        try:
            known = await user.agent(found["agent"])
            push = await shelf.read(found["push"])
            items = [
                item for item in await user.items(known).run_items(found["run"]) if item.role is ItemRole.ASSISTANT
            ]
        except (AgentDisabled, NotFound):
            return
        if not items or any(item.delivered_at is not None for item in items):
            return
        try:
            is_there = await self._send(shelf, push, known, items[-1])
        except PermissionRefused:
            is_there = False
        if not is_there:
            await shelf.remove(push.id)

    async def give_up(self, space: SpaceId, payload: str, /) -> None:
        """Leave a preview that could not be sent: its message is in the items."""

    async def repair(self, space: SpaceId, /) -> None:
        """Leave the previews of a space as they are: each is a job, or was one."""

    async def _send(self, shelf: PushShelf, push: StoredPush, known: KnownAgent, item: ThreadItem) -> bool:
        told: dict[str, Any] = {"agent_id": known.id, "run_id": item.run_id, "item_id": item.id}
        plain = json.dumps(told | {"preview": clip_bytes(item.text, limits.PREVIEW_BYTES)}, ensure_ascii=False).encode()
        if push.type == "webhook":
            return await self._send_webhook(shelf, push, plain)
        ids, now_s = self._context.ids, self._context.clock.now() // 1000
        body = encrypt_push(
            plain,
            point=bytes(push.point),
            auth=bytes(push.auth),
            key=private_key(ids.secret(64)),
            salt=ids.secret(SALT_BYTES),
        )
        parts = urlsplit(push.url)
        signature = vapid_header(
            f"{parts.scheme}://{parts.netloc}",
            key=private_key(await shelf.vapid_seed()),
            expires_s=now_s + limits.VAPID_S,
            contact=self._settings.push_contact,
        )
        headers = {
            "Authorization": signature,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(limits.PUSH_TTL_S),
        }
        return await post_preview(push.url, body, headers, self._settings.push_hosts)

    async def _send_webhook(self, shelf: PushShelf, push: StoredPush, plain: bytes) -> bool:
        key, secret = await shelf.secret(push.id, "seal"), await shelf.secret(push.id, "sign")
        assert len(key) == KEY_BYTES
        message_id, now_s = self._context.ids.new(), self._context.clock.now() // 1000
        nonce = self._context.ids.secret(NONCE_BYTES)
        body = seal_preview(plain, key=key, nonce=nonce, message_id=message_id)
        headers = {
            "Content-Type": "application/octet-stream",
            "Webhook-Id": message_id,
            "Webhook-Timestamp": str(now_s),
            "Webhook-Signature": sign_body(body, message_id=message_id, timestamp_s=now_s, secret=secret),
        }
        return await post_preview(push.url, body, headers, self._settings.push_hosts)


def clip_bytes(text: str, most: int, /) -> str:
    """Return the beginning of a text in at most `most` bytes; an ellipsis says that there is more."""
    plain = " ".join(text.split())
    if len(plain.encode()) <= most:
        return plain
    return plain.encode()[: most - len("…".encode())].decode(errors="ignore").rstrip() + "…"
