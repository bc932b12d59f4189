"""The async and the blocking client. Neither repeats a request on its own."""

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, cast, overload
from urllib.parse import urlsplit

from pydantic import ValidationError

from elytron.remote.wire import proxy_of
from elytron_core import limits
from elytron_core.errors import GatewayRefused, InvalidInput, LimitExceeded, Unreachable
from elytron_core.model import Value
from elytron_gateway import limits as gateway_limits
from elytron_gateway.client import calls
from elytron_gateway.client.calls import GatewayCall
from elytron_gateway.wire import SearchAnswer
from elytron_outbound.answers import AnswerBounds, blocking_request_within, bound_items, request_within
from elytron_outbound.clients import ClientSettings, blocking_http_client, http_client, http_library

if TYPE_CHECKING:
    import httpx

logger = logging.getLogger("elytron.gateway")
BASE_URL = "http://127.0.0.1:8010"
USER_ID = "X-User-Id"
P = ParamSpec("P")
AnswerT = TypeVar("AnswerT", bound=Value)
_DETAIL_CHARS = 300
_RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})


class CallFailure(StrEnum):
    """Why a call failed, in a word that reveals nothing of what was sent."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    AUTH = "auth"
    HTTP_STATUS = "http_status"
    INVALID_JSON = "invalid_json"
    INVALID_SHAPE = "invalid_shape"


class NoAnswer(Unreachable):
    """A call without an answer, or without a readable one; `status` if there was one."""

    def __init__(self, message: str, /, *, failure: CallFailure, status: int | None = None) -> None:
        super().__init__(message)
        self.failure = failure
        self.status = status


class _NoObject(ValueError):
    """JSON that is not ours."""


@dataclass(frozen=True, slots=True)
class GatewayAccount:
    """The gateway's address and the account. Shows no key."""

    base_url: str = BASE_URL
    user_id: str = ""
    user_key: str = field(default="", repr=False)
    provisioning_key: str = field(default="", repr=False)
    timeout_s: float = gateway_limits.TIMEOUT_S
    proxy: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not is_address(self.base_url):
            raise InvalidInput(field="base_url", problem="must begin with http:// or https://")
        if not 0 < self.timeout_s <= gateway_limits.TIMEOUT_MAX_S:
            max_timeout_s = gateway_limits.TIMEOUT_MAX_S
            raise InvalidInput(field="timeout", problem=f"must be above 0 and at most {max_timeout_s:.0f} seconds")
        proxy_of(self.proxy)


def is_address(base_url: str, /) -> bool:
    """Return whether `base_url` names a server: its host, and its port if any, without a user."""
    try:
        url_parts = urlsplit(base_url)
        port = url_parts.port
    except ValueError:
        return False
    is_host_valid = bool(url_parts.hostname) and url_parts.username is None and port != 0
    return url_parts.scheme in {"http", "https"} and is_host_valid and base_url.isprintable() and " " not in base_url


class _ClientCall(Generic[P, AnswerT]):
    """A call as a method of both clients: one returns an awaitable answer, the other waits for it."""

    def __init__(self, build: Callable[P, GatewayCall[AnswerT]], /) -> None:
        self._build = build

    @overload
    def __get__(self, client: "MemoryGatewayClient", owner: object = None) -> Callable[P, Awaitable[AnswerT]]: ...

    @overload
    def __get__(self, client: "SyncMemoryGatewayClient", owner: object = None) -> Callable[P, AnswerT]: ...

    def __get__(self, client: Any, owner: object = None) -> Any:
        @wraps(self._build)
        def send(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self._build(*args, **kwargs))

        return send


class _BaseClient:
    """The part that both clients share: the account, requests from calls, and values from answers."""

    def __init__(
        self,
        base_url: str = BASE_URL,
        /,
        *,
        user_id: str = "",
        user_key: str = "",
        provisioning_key: str = "",
        timeout_s: float = gateway_limits.TIMEOUT_S,
        proxy: str | None = None,
    ) -> None:
        self.account = GatewayAccount(base_url.rstrip("/"), user_id, user_key, provisioning_key, timeout_s, proxy)

    def _settings(self) -> ClientSettings:
        account = self.account
        return ClientSettings(
            extra="client",
            purpose="the gateway's client",
            url=account.base_url,
            timeout_s=account.timeout_s,
            proxy=account.proxy,
        )

    def _request(self, call: GatewayCall[Any]) -> dict[str, Any]:
        """Return the arguments of the HTTP client's request."""
        account = self.account
        if call.is_placed and not (account.user_id and account.user_key):
            raise InvalidInput(field="user_id and user_key", problem="are missing: this call requires both")
        headers = {"Idempotency-Key": call.idempotency_key} if call.idempotency_key is not None else {}
        fields = dict(call.fields)
        if not call.is_placed:
            if account.provisioning_key:
                headers["Authorization"] = f"Bearer {account.provisioning_key}"
        elif call.method == "POST":
            # Before potentially long fields: a gateway looks for them among the first bytes of a body.
            fields = {"user_id": account.user_id, "user_key": account.user_key, **fields}
        else:
            # Requests without a body have them in headers, because addresses are logged on the way.
            headers |= {"Authorization": f"Bearer {account.user_key}", USER_ID: account.user_id}
        arguments: dict[str, Any] = {"method": call.method, "url": account.base_url + call.path, "headers": headers}
        if call.method != "POST":
            arguments["params"] = fields
        elif call.files is not None:
            arguments |= {"data": fields, "files": dict(call.files)}
        else:
            arguments["json"] = fields
        return arguments

    def _answer(self, call: GatewayCall[AnswerT], response: "httpx.Response") -> AnswerT:
        """Return what the gateway answered. Raises GatewayRefused, Unreachable."""
        if not response.is_success:
            message = f"Memory Gateway returned HTTP {response.status_code}: {self._detail(response)}"
            if response.status_code in _RETRYABLE:
                raise NoAnswer(message, failure=CallFailure.HTTP_STATUS, status=response.status_code)
            raise GatewayRefused(message, status=response.status_code)
        try:
            body = _answer_object(response) if response.content or call.answer.model_fields else {}
            body = _within_bounds(call, body)
            # Unknown fields are ignored, so that a newer gateway can be read.
            fields = {name: value for name, value in body.items() if name in call.answer.model_fields}
            answer = call.answer.model_validate(fields)
        except (ValidationError, ValueError) as error:
            has_wrong_shape = isinstance(error, ValidationError | _NoObject)
            failure = CallFailure.INVALID_SHAPE if has_wrong_shape else CallFailure.INVALID_JSON
            raise NoAnswer("Memory Gateway returned an unreadable answer", failure=failure) from None
        return answer if call.keeps_raw else _without_raw(answer)

    def _detail(self, response: "httpx.Response") -> str:
        """Return the gateway's error text, without any key that it might repeat."""
        try:
            body = _answer_object(response)
        except ValueError:
            body = {}
        detail = body.get("detail") or body.get("error") or ""
        text = detail if isinstance(detail, str) else json.dumps(detail)
        for secret in (self.account.user_key, self.account.provisioning_key):
            text = text.replace(secret, "********") if secret else text
        return text[:_DETAIL_CHARS] or "no reason given"

    def _failed(self, error: "httpx.HTTPError | httpx.InvalidURL | LimitExceeded") -> NoAnswer:
        if isinstance(error, LimitExceeded):
            message = "Memory Gateway returned an answer that is too long"
            return NoAnswer(message, failure=CallFailure.INVALID_SHAPE)
        is_timeout = isinstance(error, http_library(self._settings()).TimeoutException)
        failure = CallFailure.TIMEOUT if is_timeout else CallFailure.CONNECTION
        return NoAnswer(f"Memory Gateway did not respond: {type(error).__name__}", failure=failure)

    health = _ClientCall(calls.check_health)
    create_user = _ClientCall(calls.create_user)
    add = _ClientCall(calls.add_messages)
    add_with_files = _ClientCall(calls.add_with_files)
    flush = _ClientCall(calls.flush_session)
    search = _ClientCall(calls.search_memories)
    override = _ClientCall(calls.override_memory)
    delete = _ClientCall(calls.delete_memory)
    undo = _ClientCall(calls.undo_edit)
    edits = _ClientCall(calls.list_edits)
    upload_resource = _ClientCall(calls.upload_resource)
    register_resource = _ClientCall(calls.register_resource)
    list_resources = _ClientCall(calls.list_resources)
    get_resource = _ClientCall(calls.get_resource)
    delete_resource = _ClientCall(calls.delete_resource)
    list_users = _ClientCall(calls.list_users)
    usage = _ClientCall(calls.user_usage)
    rotate_key = _ClientCall(calls.rotate_key)
    revoke_key = _ClientCall(calls.revoke_key)
    erase_user = _ClientCall(calls.erase_user)
    drain_backlog = _ClientCall(calls.drain_backlog)


class MemoryGatewayClient(_BaseClient):
    """Calls a Memory Gateway. `async with` closes it. Raises GatewayRefused, Unreachable, InvalidInput."""

    async def send(self, call: GatewayCall[AnswerT], /) -> AnswerT:
        """Send `call` once and return its answer."""
        httpx = http_library(self._settings())
        try:
            response = await request_within(
                self._http, limit=gateway_limits.UPSTREAM_ANSWER_BYTES, **self._request(call)
            )
            return self._answer(call, response)
        except (httpx.HTTPError, httpx.InvalidURL, LimitExceeded) as error:
            raise self._failed(error) from None

    @cached_property
    def _http(self) -> "httpx.AsyncClient":
        return http_client(self._settings())

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class SyncMemoryGatewayClient(_BaseClient):
    """Blocking client of a Memory Gateway. `with` closes it. Raises as MemoryGatewayClient does."""

    def send(self, call: GatewayCall[AnswerT], /) -> AnswerT:
        """Send `call` once and return its answer."""
        httpx = http_library(self._settings())
        try:
            max_bytes = gateway_limits.UPSTREAM_ANSWER_BYTES
            return self._answer(call, blocking_request_within(self._http, limit=max_bytes, **self._request(call)))
        except (httpx.HTTPError, httpx.InvalidURL, LimitExceeded) as error:
            raise self._failed(error) from None

    @cached_property
    def _http(self) -> "httpx.Client":
        return blocking_http_client(self._settings())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer_object(response: "httpx.Response") -> dict[str, Any]:
    """Return the JSON object in an answer. Raises ValueError if it is not one."""
    body: Any = response.json()
    if not isinstance(body, dict):
        raise _NoObject
    return cast("dict[str, Any]", body)


def _within_bounds(call: GatewayCall[Any], body: dict[str, Any]) -> dict[str, Any]:
    """Return a search's answer with at most the requested results, and bounded texts; logs what it leaves out."""
    results: Any = body.get("results")
    if "top_k" not in call.fields or not isinstance(results, list):
        return body
    bounds = AnswerBounds(call.fields["top_k"], limits.MESSAGE_CHARS, gateway_limits.SEARCH_CHARS)
    bounded_results = bound_items(cast("list[Any]", results), bounds, size=_result_size, clip=_clip_result)
    if bounded_results.dropped:
        logger.warning("the gateway returned more results than requested: %d dropped", bounded_results.dropped)
    return {**body, "results": list(bounded_results.items)}


def _result_size(result: Any) -> int:
    fields = cast("dict[str, Any]", result).values() if isinstance(result, dict) else ()
    return sum(len(value) for value in fields if isinstance(value, str))


def _clip_result(result: Any, chars: int) -> Any:
    """Return a result whose texts are clipped to `chars` in total, the longest field first."""
    clipped_result, remaining_chars = dict(cast("dict[str, Any]", result)), chars
    texts = sorted((len(value), name) for name, value in clipped_result.items() if isinstance(value, str))
    for _, name in texts:
        clipped_result[name] = clipped_result[name][:remaining_chars]
        remaining_chars -= len(clipped_result[name])
    return clipped_result


def _without_raw(answer: AnswerT) -> AnswerT:
    """Return a search's answer without the upstream's raw answer, which is not for prompts."""
    if not isinstance(answer, SearchAnswer):
        return answer
    results = tuple(result.model_copy(update={"raw": {}}) for result in answer.results)
    return answer.model_copy(update={"results": results})
