"""A model server: its address `dialect:name[@url]`, JSON requests over its own connections, and typed errors."""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, ModelError, ModelRefused, ModelUnavailable
from elytron_core.ports.chat import FailureReason, ReplyFailed
from elytron_models.dialect import Fields, fields_of, inner_object, json_text, text_field
from elytron_outbound.answers import read_beginning, read_body
from elytron_outbound.clients import ClientSettings, http_client, http_library

if TYPE_CHECKING:
    import httpx

MODEL_CONNECT_S: Final = 10.0
MODEL_DRAIN_S: Final = 0.2
"""Time for which the end of a connection's answer is awaited once the model has said that it is over."""
MODEL_REFUSAL_BYTES: Final = 64 * 1024
"""More of a refusal than this is not read."""
MODEL_BACKOFF_S: Final = 0.5
MODEL_BACKOFF_MAX_S: Final = 8.0
MODEL_RETRY_AFTER_S: Final = 30
"""A server that asks for a longer wait is not waited for."""
MODEL_NAME_CHARS: Final = 200


KEY_VARIABLE: Final = "ELYTRON_MODEL_KEY"
_FORM: Final = "dialect:name[@url], for example openai:gpt-5, ollama:llama3.2 or chat:name@http://host/v1"
_URL: Final = re.compile(r"@(?=https?://)")
_NAME: Final = re.compile(rf"[\x21-\x7e]{{1,{MODEL_NAME_CHARS}}}")
_KEY: Final = re.compile(r"[\x21-\x7e]{1,500}")


@dataclass(frozen=True, slots=True)
class ModelVendor:
    """Meaning of a prefix: a dialect, by its module's name, and the usual server and key variable, if any."""

    dialect: str
    url: str | None = None
    key_variable: str | None = None
    needs_key: bool = False
    """True if the usual server rejects every request without a key."""


VENDORS: Final[Mapping[str, ModelVendor]] = {
    "anthropic": ModelVendor("messages", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", needs_key=True),
    "chat": ModelVendor("chat"),
    "messages": ModelVendor("messages"),
    "ollama": ModelVendor("ollama", "http://127.0.0.1:11434", "OLLAMA_API_KEY"),
    "openai": ModelVendor("responses", "https://api.openai.com/v1", "OPENAI_API_KEY", needs_key=True),
    "responses": ModelVendor("responses"),
}


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """A model on a server. `str` of it is the address in its short form."""

    prefix: str
    model: str
    url: str

    def __str__(self) -> str:
        return f"{self.prefix}:{self.model}" + ("" if self.is_official else f"@{self.url}")

    @property
    def vendor(self) -> ModelVendor:
        return VENDORS[self.prefix]

    @property
    def is_official(self) -> bool:
        """Return whether the server is the usual one of the prefix."""
        return self.url == self.vendor.url

    @property
    def needs_key(self) -> bool:
        """Return whether the server rejects every request without a key."""
        return self.is_official and self.vendor.needs_key

    @property
    def key_variables(self) -> str:
        """Return the names of the variables for the key, for a message."""
        vendor_variable = self.vendor.key_variable if self.is_official else None
        return f"{vendor_variable} or {KEY_VARIABLE}" if vendor_variable is not None else KEY_VARIABLE

    @property
    def issuer(self) -> str:
        """Return the mark of opaque items that this model issues and accepts."""
        return f"{self.vendor.dialect}:{self.model}@{self.url}"


def address_of(text: str, /, *, field: str = "model") -> ModelAddress:
    """Return the address in `text`. Raises InvalidInput, which names `field` and repeats nothing of `text`."""
    prefix, colon_found, address_rest = text.partition(":")
    if not colon_found or prefix not in VENDORS:
        raise InvalidInput(field=field, problem=f"names none of the dialects {', '.join(VENDORS)}: write {_FORM}")
    *names, url = _URL.split(address_rest) if _URL.search(address_rest) else (address_rest, VENDORS[prefix].url)
    name = "@".join(part for part in names if part is not None)
    if not _NAME.fullmatch(name):
        raise InvalidInput(field=field, problem=f"has no name after the dialect: write {_FORM}")
    if url is None:
        raise InvalidInput(field=field, problem=f"has no server, and {prefix!r} has no default one: write {_FORM}")
    return ModelAddress(prefix=prefix, model=name, url=_checked_url(url, field))


def key_of(address: ModelAddress, environment: Mapping[str, str], /) -> str:
    """Return the key for a model: ELYTRON_MODEL_KEY, else the vendor's own variable, else an empty one.

    The vendor's key is for the vendor's server alone. Raises InvalidInput for a key that no header can hold.
    """
    vendor_variable = address.vendor.key_variable if address.is_official else None
    for variable in (KEY_VARIABLE, vendor_variable):
        if variable is not None and (key := environment.get(variable, "").strip()):
            return checked_key(key, field=variable)
    return ""


def require_key(address: ModelAddress, environment: Mapping[str, str], /) -> None:
    """Raise InvalidInput, by the variable's name, if the model needs a key and `environment` has none."""
    if address.needs_key and not key_of(address, environment):
        field = address.vendor.key_variable or KEY_VARIABLE
        raise InvalidInput(field=field, problem=f"is not set: {address} needs a key in {address.key_variables}")


def checked_key(key: str, /, *, field: str) -> str:
    """Return `key`. Raises InvalidInput, which does not repeat it, if it is not a valid key."""
    if key and not _KEY.fullmatch(key):
        raise InvalidInput(field=field, problem="is not a valid key: use printable ASCII without spaces")
    return key


def _checked_url(url: str, field: str) -> str:
    problem = "has an address without a server: write http:// or https:// and a host"
    try:
        url_parts = urlsplit(url)
        is_server_address = bool(url_parts.hostname) and (url_parts.port is None or url_parts.port > 0)
    except ValueError:
        raise InvalidInput(field=field, problem=problem) from None
    if not is_server_address:
        raise InvalidInput(field=field, problem=problem)
    # Addresses appear in reports and logs, so they must contain no credential.
    if url_parts.username is not None or url_parts.password is not None or url_parts.query or url_parts.fragment:
        problem = f"has more than scheme, host, port and path in its address: set a key in {KEY_VARIABLE}"
        raise InvalidInput(field=field, problem=problem)
    return url.rstrip("/")


_CODES: Final = {
    "context_length_exceeded": FailureReason.CONTEXT_TOO_LONG,
    "request_too_large": FailureReason.CONTEXT_TOO_LONG,
    "invalid_encrypted_content": FailureReason.OPAQUE_REFUSED,
    "rate_limit_exceeded": FailureReason.RATE_LIMITED,
    "rate_limit_error": FailureReason.RATE_LIMITED,
    "overloaded_error": FailureReason.UNAVAILABLE,
    "api_error": FailureReason.UNAVAILABLE,
    "timeout_error": FailureReason.UNAVAILABLE,
    "server_error": FailureReason.UNAVAILABLE,
    "internal_error": FailureReason.UNAVAILABLE,
    "vector_store_timeout": FailureReason.UNAVAILABLE,
    "authentication_error": FailureReason.UNAUTHORIZED,
    "permission_error": FailureReason.UNAUTHORIZED,
    "invalid_api_key": FailureReason.UNAUTHORIZED,
    "insufficient_quota": FailureReason.REFUSED,
}
_PHRASES: Final = {
    "prompt is too long": FailureReason.CONTEXT_TOO_LONG,
    "maximum context length": FailureReason.CONTEXT_TOO_LONG,
    "context window": FailureReason.CONTEXT_TOO_LONG,
    "context length": FailureReason.CONTEXT_TOO_LONG,
    "exceeds the available context": FailureReason.CONTEXT_TOO_LONG,
    "in `thinking` block": FailureReason.OPAQUE_REFUSED,
}
"""Messages of servers that have no code for it."""
_STATUSES: Final = {
    401: FailureReason.UNAUTHORIZED,
    403: FailureReason.UNAUTHORIZED,
    408: FailureReason.UNAVAILABLE,
    409: FailureReason.UNAVAILABLE,
    413: FailureReason.CONTEXT_TOO_LONG,
    429: FailureReason.RATE_LIMITED,
}
_FAILURE_TEXTS: Final = {
    FailureReason.UNREACHABLE: "cannot be reached: check its address",
    FailureReason.TIMEOUT: "did not answer in time",
    FailureReason.CUT: "stopped before the end of its answer: try again",
    FailureReason.RATE_LIMITED: "accepts no more calls for now: try again later",
    FailureReason.UNAVAILABLE: "cannot answer now: try again later",
    FailureReason.UNAUTHORIZED: "did not accept the key: check {key}",
    FailureReason.KEY_MISSING: "has no key: set {key}",
    FailureReason.CONTEXT_TOO_LONG: "received more than it accepts: send less",
    FailureReason.OPAQUE_REFUSED: "did not accept an item of its own reasoning: send the conversation without it",
    FailureReason.REFUSED: "refused the request: check the model's name and the request",
    FailureReason.MALFORMED: "returned an answer that does not fit its dialect: check the dialect and the address",
    FailureReason.TOO_LARGE: "returned an answer that is too long",
}


def failure_of(error: Fields, /, *, status: int | None = None) -> ReplyFailed:
    """Return the failure described by an error object, and its status, if any."""
    status = status if status is not None else _stream_status(error)
    # From the surest sign to the weakest: a code, a phrase of the message, the status.
    for code in (text_field(error, "code"), text_field(error, "type")):
        if (reason := _CODES.get(code)) is not None:
            return ReplyFailed(reason=reason, status=status)
    message = text_field(error, "message").lower()
    for known_phrase, reason in _PHRASES.items():
        if known_phrase in message:
            return ReplyFailed(reason=reason, status=status)
    return ReplyFailed(reason=_of_status(status), status=status)


def refusal_of(status: int, body: bytes, /, *, retry_after_s: int = 0) -> ReplyFailed:
    """Return the failure of an answer with another status than 200."""
    answer = fields_of(body) or {}
    error = inner_object(answer, "error") or {"message": text_field(answer, "error") or text_field(answer, "message")}
    return failure_of(error, status=status).model_copy(update={"retry_after_s": retry_after_s})


def error_of(failure: ReplyFailed, /, *, name: str, kind: str = "model") -> ModelError:
    """Return `failure` as the error of a call of the model `name`, or of what else `kind` says."""
    status = f" ({failure.status})" if failure.status is not None else ""
    error_type = ModelUnavailable if failure.is_passing else ModelRefused
    description = _FAILURE_TEXTS[failure.reason].format(key=_key_variables(name) if kind == "model" else "it")
    error = error_type(f"the {kind} {name!r} {description}{status}")
    error.retry_after_s = failure.retry_after_s
    return error


def _of_status(status: int | None) -> FailureReason:
    if status is None or status >= 500:
        return FailureReason.UNAVAILABLE
    return _STATUSES.get(status, FailureReason.REFUSED)


def _stream_status(error: Fields) -> int | None:
    """Return the status that some servers write as the code of an error within a stream."""
    code = error.get("code")
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _key_variables(name: str) -> str:
    """Return the variables for the key of the model called `name`; a vendor's is only for its own server."""
    try:
        return address_of(name).key_variables
    except InvalidInput:
        return KEY_VARIABLE


_OK: Final = 200
_HEADERS: Final = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
Pause = Callable[[float], Awaitable[None]]


class ModelServer:
    """Sends requests to the server at `url`, for one event loop at a time. `headers` contain the key and are not shown.

    `purpose` is named if the extra `llm` is missing.
    """

    def __init__(
        self,
        url: str,
        /,
        *,
        headers: Mapping[str, str],
        silence_s: float,
        attempts: int,
        pause: Pause = asyncio.sleep,
        purpose: str = "a model on a server",
    ) -> None:
        if not 1 <= attempts <= limits.MODEL_ATTEMPTS * 3:
            raise InvalidInput(field="attempts", problem=f"must be 1 to {limits.MODEL_ATTEMPTS * 3}")
        if not 0 < silence_s <= limits.MODEL_STREAM_S:
            raise InvalidInput(field="timeout_s", problem=f"must be above 0 and at most {limits.MODEL_STREAM_S:.0f}")
        self._settings = ClientSettings(
            extra="llm",
            purpose=purpose,
            url=url,
            headers={**_HEADERS, **headers},
            timeout_s=silence_s,
            connect_s=MODEL_CONNECT_S,
            uses_environment=True,
        )
        http_library(self._settings)
        self._attempts = attempts
        self._pause = pause
        self._opened: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, path: str, body: object, /) -> "httpx.Response | ReplyFailed":
        """Return the answer, whose body the caller reads and closes, or the reason for not getting one."""
        import httpx

        client = self._client()
        content = json_text(body).encode("utf-8", "replace")
        try:
            url = self._settings.url + path
            response = await client.send(client.build_request("POST", url, content=content), stream=True)
        except httpx.TimeoutException:
            return ReplyFailed(reason=FailureReason.TIMEOUT)
        except (httpx.TransportError, httpx.InvalidURL):
            return ReplyFailed(reason=FailureReason.UNREACHABLE)
        if response.status_code == _OK:
            return response
        refusal = await read_beginning(response, limit=MODEL_REFUSAL_BYTES)
        return refusal_of(response.status_code, refusal, retry_after_s=_retry_after_s(response.headers))

    async def ask(self, path: str, body: object, /, *, attempts: int | None = None) -> Fields | ReplyFailed:
        """Return the JSON object answered, retrying where that may help, at most `attempts` times."""
        import httpx

        attempt = 0
        while True:
            attempt += 1
            response = await self.send(path, body)
            if isinstance(response, ReplyFailed):
                if attempt != attempts and await self.waits(response, attempt=attempt):
                    continue
                return response
            try:
                answer = fields_of(await read_body(response, limit=limits.MODEL_STREAM_BYTES))
            except LimitExceeded:
                return ReplyFailed(reason=FailureReason.TOO_LARGE)
            except httpx.HTTPError:
                return ReplyFailed(reason=FailureReason.CUT)
            return answer if answer is not None else ReplyFailed(reason=FailureReason.MALFORMED)

    async def waits(self, failure: ReplyFailed, /, *, attempt: int) -> bool:
        """Wait until the next attempt and return True, or False if `failure` is final."""
        wait_s = pause_s(failure, attempt=attempt, attempts=self._attempts, jitter=random.random())  # noqa: S311
        if wait_s is None:
            return False
        await self._pause(wait_s)
        return True

    async def close(self) -> None:
        """Release the connections; the next call opens them again."""
        client, self._opened = self._opened, None
        if client is not None:
            await client.aclose()

    def _client(self) -> "httpx.AsyncClient":
        """Return the client, opened if there is none for this loop."""
        event_loop = asyncio.get_running_loop()
        # A client works in only one loop, and cannot be closed after that loop's end.
        if self._opened is None or self._loop is not event_loop:
            self._opened = http_client(self._settings)
            self._loop = event_loop
        return self._opened


def pause_s(failure: ReplyFailed, /, *, attempt: int, attempts: int, jitter: float) -> float | None:
    """Return how long to wait before the next attempt, or None if `failure` is final.

    A silence is not waited for again. A server that names a time is given it, up to the bound.
    """
    if attempt >= attempts or not failure.is_passing or failure.reason is FailureReason.TIMEOUT:
        return None
    if failure.retry_after_s > MODEL_RETRY_AFTER_S:
        return None
    backoff_s = min(MODEL_BACKOFF_S * 2 ** (attempt - 1), MODEL_BACKOFF_MAX_S)
    return max(float(failure.retry_after_s), backoff_s * (0.5 + jitter / 2))


def chunks_of(response: "httpx.Response", /) -> AsyncGenerator[bytes]:
    """Return the body as it arrives; if left early, it must be closed."""
    # It is a generator, which its declared type does not say.
    return cast("AsyncGenerator[bytes]", response.aiter_bytes())


async def drain_answer(chunks: AsyncGenerator[bytes], /) -> None:
    """Read what follows an answer's own end, so that its connection can serve the next request.

    A server that leaves the connection open, or says more, is not waited for: its connection is closed.
    """
    import httpx

    remaining_bytes = MODEL_REFUSAL_BYTES
    try:
        async with asyncio.timeout(MODEL_DRAIN_S):
            async for chunk in chunks:
                remaining_bytes -= len(chunk)
                if remaining_bytes < 0:
                    return
    except (TimeoutError, httpx.HTTPError, httpx.StreamError):
        return


def _retry_after_s(headers: Mapping[str, str]) -> int:
    header = headers.get("retry-after", "")
    # A date, or a number that no caller would wait for, is ignored.
    return int(header) if header.isdecimal() and len(header) <= 6 else 0
