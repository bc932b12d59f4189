"""An EverOS server as upstream: its v2 API, with bounded retries of transient errors and a pause after failures.

EverOS does not separate users within a session, so session names there begin with the user. Its API cannot erase, and
extracted memories take a while to become searchable.
"""

import asyncio
import base64
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from elytron_core import limits as core_limits
from elytron_core import strict_json
from elytron_core.clock import Clock, Instant
from elytron_core.errors import GatewayRefused, InvalidInput, LimitExceeded, Unreachable, Unsupported
from elytron_core.evidence import EvidenceRole
from elytron_gateway import limits as gateway_limits
from elytron_gateway.names import MemoryOwner
from elytron_gateway.upstream.port import (
    AddedMessages,
    FlushedSession,
    FoundMemory,
    SearchWhere,
    UpstreamItem,
    UpstreamMessage,
)
from elytron_outbound.answers import AnswerBounds, bound_items, request_within
from elytron_outbound.clients import ClientSettings, http_client

if TYPE_CHECKING:
    import httpx

HEALTH_S: Final = 3.0
"""Time limit for an upstream's health check."""


PREFIX = "/api/v2/memory"
SESSION_CHARS = 128
MESSAGES = 500
OK = 200
_BETWEEN = "~"
_TRANSIENT = frozenset({502, 503, 504})
_OF_FILES = frozenset({413, 415, 422, 503})
"""Codes with which it rejects what it cannot read, or is not configured to read."""
_LASTING = frozenset({"CAPABILITY_UNAVAILABLE"})
"""Codes with a transient status that are in fact permanent."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of tries of a call, and the pause after repeated failures of a server."""

    attempts: int = 3
    first_wait_s: float = 0.2
    failures: int = 5
    pause_ms: int = 120_000


class EverOsUpstream:
    """Memories on an EverOS server; `close` it when done. Raises Unreachable, and GatewayRefused for a refusal."""

    def __init__(
        self,
        url: str,
        /,
        *,
        clock: Clock,
        patience: RetryPolicy | None = None,
        timeout_s: float = gateway_limits.TIMEOUT_S,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            raise InvalidInput(field="upstream", problem="must begin with http:// or https://")
        settings = ClientSettings(extra="client", purpose="an EverOS upstream", url=url, timeout_s=timeout_s)
        self._client = http_client(settings)
        self._clock = clock
        self._patience = patience or RetryPolicy()
        self._wait = wait
        self._failed = 0
        self._paused_until = Instant(0)

    @property
    def reads_media(self) -> bool:
        return True

    async def add(self, owner: MemoryOwner, session: str, messages: Sequence[UpstreamMessage], /) -> AddedMessages:
        place_fields = _place_fields(owner, session)
        for start in range(0, len(messages), MESSAGES):
            message_slice = messages[start : start + MESSAGES]
            has_files = any(one.items for one in message_slice)
            try:
                await self._add(
                    place_fields, [_encode_message(owner, one) for one in message_slice], _repeat_key(message_slice)
                )
            except GatewayRefused as error:
                has_file_only_message = any(one.is_file_alone for one in message_slice)
                if not has_files or has_file_only_message or error.status not in _OF_FILES:
                    raise
                # It reads no such file, or none at all; what could be read of it here is in the text.
                await self._add(
                    place_fields,
                    [_encode_message(owner, replace(one, items=())) for one in message_slice],
                    _repeat_key(message_slice),
                )
        return AddedMessages()

    async def _add(self, place_fields: Json, messages: list[Json], key: str | None) -> None:
        # A call whose answer was lost would be done twice, so only a refusal is retried.
        await self._post("/add", place_fields | {"messages": messages}, is_repeatable=False, key=key)

    async def flush(self, owner: MemoryOwner, session: str, /) -> FlushedSession:
        answer = await self._post("/flush", _place_fields(owner, session), is_repeatable=True)
        return FlushedSession(answer.get("status") == "extracted")

    async def search(
        self, owner: MemoryOwner, query: str, search_where: SearchWhere, /, *, limit: int
    ) -> Sequence[FoundMemory]:
        search_request: Json = {
            "user_id": owner.user,
            "app_id": owner.app,
            "project_id": owner.project,
            "query": query,
            "top_k": min(limit, gateway_limits.TOP_K),
        }
        if search_where.session is not None:
            search_request["filters"] = {"session_id": _upstream_session(owner, search_where.session)}
        elif search_where.tag is not None:
            search_request["filters"] = {
                "session_id": {"in": [_upstream_session(owner, session) for session in search_where.sessions]}
            }
        answer = await self._post("/search", search_request, is_repeatable=True)
        episode_results = [
            _found_item(owner, item, item.get("episode") or item.get("summary"), _ordered_score(item.get("score")))
            for item in _json_objects(answer, "episodes")
        ]
        # Messages that were not extracted yet are only found by their session, so after all that was.
        unprocessed_results = [
            _found_item(owner, item, item.get("content"), 0.0) for item in _json_objects(answer, "unprocessed_messages")
        ]
        memories = [memory for memory in (*episode_results, *unprocessed_results) if memory is not None]
        bounds = AnswerBounds(limit, core_limits.MESSAGE_CHARS, gateway_limits.SEARCH_CHARS)
        return bound_items(
            memories,
            bounds,
            size=lambda memory: len(memory.text),
            clip=lambda memory, chars: replace(memory, text=memory.text[:chars]),
        ).items

    async def session_of(self, owner: MemoryOwner, memory_id: str, /) -> str | None:  # noqa: ARG002 - it cannot be asked
        return None

    async def hide(self, owner: MemoryOwner, memory_id: str, /, *, undo: bool) -> None:
        """Do nothing: overrides are applied to its hits."""

    async def erase(self, owner: MemoryOwner, memory_ids: Sequence[str], /) -> int:  # noqa: ARG002 - it is unknown
        raise Unsupported("an EverOS upstream cannot erase through its API: delete the memory instead")

    async def healthy(self) -> bool:
        import httpx

        if self._clock.now() < self._paused_until:
            return False
        try:
            most, wait_s = gateway_limits.UPSTREAM_ANSWER_BYTES, HEALTH_S
            return (await request_within(self._client, "GET", "/health", limit=most, timeout=wait_s)).status_code == OK
        except (httpx.HTTPError, LimitExceeded):
            return False

    async def resume(self) -> None:
        self._failed = 0
        self._paused_until = Instant(0)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, path: str, body: Json, *, is_repeatable: bool, key: str | None = None) -> Json:
        """Return the data of an answer, after as many attempts as the policy allows."""
        if self._clock.now() < self._paused_until:
            raise Unreachable("the upstream failed repeatedly and will not be called for a while")
        for attempt in range(1, self._patience.attempts + 1):
            is_last_attempt = attempt == self._patience.attempts
            try:
                answer = await self._once(path, body, key)
            except _FailedCall as failure:
                if is_last_attempt or not (is_repeatable or failure.was_refused):
                    self._count_failure()
                    raise Unreachable(failure.reason) from None
                await self._wait(self._patience.first_wait_s * 4 ** (attempt - 1))
                continue
            self._failed = 0
            return answer
        raise AssertionError("unreachable")

    async def _once(self, path: str, body: Json, key: str | None) -> Json:
        import httpx

        try:
            headers = {"Idempotency-Key": key} if key is not None else None
            max_bytes = gateway_limits.UPSTREAM_ANSWER_BYTES
            response = await request_within(
                self._client, "POST", PREFIX + path, limit=max_bytes, json=body, headers=headers
            )
        except LimitExceeded:
            raise _FailedCall("the upstream returned an answer that is too long", was_refused=False) from None
        except httpx.ConnectError:
            # Nothing was sent, so nothing was done.
            raise _FailedCall("the upstream cannot be reached", was_refused=True) from None
        except httpx.HTTPError as error:
            raise _FailedCall(f"the upstream does not respond: {type(error).__name__}", was_refused=False) from None
        answer = _parse_response(response)
        if response.status_code == OK:
            data = answer.get("data")
            if not isinstance(data, dict):
                # Something else answers in its place, so nothing is known to have been done.
                raise _FailedCall("the upstream does not answer like an EverOS server", was_refused=False)
            return cast("Json", data)
        code = str(_json_object(answer.get("error")).get("code", ""))
        if response.status_code in _TRANSIENT and code not in _LASTING:
            raise _FailedCall(f"the upstream returned HTTP {response.status_code}", was_refused=True)
        # Its message may repeat what was sent, so only its code is reported.
        raise GatewayRefused(
            f"the upstream returned HTTP {response.status_code} {code}".rstrip(), status=response.status_code
        )

    def _count_failure(self) -> None:
        self._failed += 1
        if self._failed >= self._patience.failures:
            self._failed = 0
            self._paused_until = Instant(self._clock.now() + self._patience.pause_ms)


class _FailedCall(Exception):
    """A call that may be retried. `was_refused`: it certainly had no effect."""

    def __init__(self, reason: str, /, *, was_refused: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.was_refused = was_refused


def _upstream_session(owner: MemoryOwner, session: str) -> str:
    """Return a session's name upstream. Raises InvalidInput if it is too long for it."""
    name = f"{owner.user}{_BETWEEN}{session}"
    if len(name) > SESSION_CHARS:
        max_name_chars = SESSION_CHARS - len(owner.user) - len(_BETWEEN)
        raise InvalidInput(
            field="session_id", problem=f"is longer than the {max_name_chars} characters that the upstream allows"
        )
    return name


def _our_session(owner: MemoryOwner, session: object) -> str | None:
    """Return our name of a session upstream, None if it is not this owner's."""
    user, separator, name = str(session).partition(_BETWEEN)
    return name if separator and user == owner.user else None


def _repeat_key(messages: Sequence[UpstreamMessage]) -> str | None:
    """Return a key that identifies these messages if sent again; None if they have none."""
    keys = [one.key for one in messages]
    return strict_json.sha256_digest("\n".join(key for key in keys if key).encode())[:32] if all(keys) else None


def _place_fields(owner: MemoryOwner, session: str) -> Json:
    return {"session_id": _upstream_session(owner, session), "app_id": owner.app, "project_id": owner.project}


def _encode_message(owner: MemoryOwner, upstream_message: UpstreamMessage) -> Json:
    gateway_message = upstream_message.message
    sender = (
        owner.user
        if gateway_message.role is EvidenceRole.USER
        else str(upstream_message.metadata.get("sender_id") or gateway_message.role.value)
    )
    message: Json = {
        "sender_id": sender,
        "sender_name": gateway_message.speaker,
        "role": gateway_message.role.value,
        "timestamp": max(1, gateway_message.at or 1),
        "content": [_encode_content(item) for item in upstream_message.items] or gateway_message.text,
    }
    call = upstream_message.metadata.get("tool_call_id")
    return message | ({"tool_call_id": call} if call else {})


def _encode_content(item: UpstreamItem) -> Json:
    message_item = item.item
    if not item.data:
        return {"type": message_item.type, "text": message_item.text}
    name_field = {"name": message_item.name} if message_item.name else {}
    return {
        "type": message_item.type,
        "base64": base64.b64encode(item.data).decode(),
        "ext": message_item.ext,
        **name_field,
    }


def _found_item(owner: MemoryOwner, item: Json, text: object, score: float) -> FoundMemory | None:
    session = _our_session(owner, item.get("session_id"))
    if session is None or not isinstance(text, str):
        return None
    return FoundMemory(str(item.get("id")), session, text, score, {}, item)


def _ordered_score(value: object) -> float:
    """Return a comparable score for any received value."""
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return float(cast("float", value)) if is_number else 0.0


def _parse_response(response: "httpx.Response") -> Json:
    try:
        return _json_object(response.json())
    except ValueError:
        return {}


def _json_object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _json_objects(value: Json, name: str) -> list[Json]:
    values = value.get(name)
    return [_json_object(item) for item in cast("list[object]", values)] if isinstance(values, list) else []
