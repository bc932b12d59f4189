"""Credentials of the gateway's users, read before anything else of a request is.

They are in the headers, in the query, or in the first bytes of the body; the rest of a body is read for known
users alone.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from urllib.parse import parse_qsl

from pydantic_core import SchemaValidator, core_schema
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.types import Message, Receive

from elytron_adapter.http.bodies import connected
from elytron_core import limits
from elytron_core.errors import Unauthorized
from elytron_gateway.accounts.users import PREFIX
from elytron_gateway.routes.forms import WITHOUT_FILES, form_kind

USER_ID = "X-User-Id"
_JSON = "application/json"
_NAMES = ("user_id", "user_key")
_TEXT = core_schema.with_default_schema(core_schema.str_schema(strict=True), on_error="omit")
_NAMED = SchemaValidator(
    core_schema.typed_dict_schema({name: core_schema.typed_dict_field(_TEXT, required=False) for name in _NAMES})
)
"""Takes the credentials out of a JSON object; of the rest no Python object is made, however many values it has."""
CUT = {"Connection": "close"}
"""Says that the rest of a stranger's body is not even thrown away: reading it would take time from others."""
NOT_AMONG_FIRST = (
    f"invalid user credentials: none are among the first {limits.CREDENTIAL_BYTES} bytes of the body;"
    f" send user_id and user_key before other fields, or as Authorization and {USER_ID}"
)


class Unnamed(Unauthorized):
    """A body whose first bytes hold no credential."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A user's id and key, as a caller sends them; without an id, the key alone identifies the user."""

    user_id: str
    user_key: str


class Beginning:
    """The first bytes of a body. As a `Receive`, it gives them again before the rest."""

    def __init__(self, receive: Receive, /) -> None:
        self._receive = receive
        self._kept: deque[Message] = deque()

    async def read(self) -> tuple[bytes, bool]:
        """Return at most `limits.CREDENTIAL_BYTES` of the body, and whether that is all of it.

        Raises HTTPException where they take too long, ClientDisconnect.
        """
        try:
            async with asyncio.timeout(limits.HTTP_BODY_WAIT_S):
                return await self._read()
        except TimeoutError:
            raise HTTPException(408) from None

    async def _read(self) -> tuple[bytes, bool]:
        head = bytearray()
        while True:
            message = await connected(self._receive)
            self._kept.append(message)
            head += message.get("body", b"")[: limits.CREDENTIAL_BYTES + 1 - len(head)]
            is_more = message.get("more_body", False)
            if not is_more or len(head) > limits.CREDENTIAL_BYTES:
                return bytes(head[: limits.CREDENTIAL_BYTES]), not is_more and len(head) <= limits.CREDENTIAL_BYTES

    async def __call__(self) -> Message:
        """Return the next message of the body."""
        return self._kept.popleft() if self._kept else await self._receive()


async def claimed(request: Request, /, *, has_body: bool) -> tuple[Claim, Request]:
    """Return the caller's credentials, and the request to go on with.

    A user's key in the headers is taken first. Raises Unauthorized if there is no credential.
    """
    known = _of_headers(request.headers)
    if known is not None:
        return known, request
    if not has_body:
        return _claim({name: request.query_params.get(name, "") for name in _NAMES}), request
    beginning = Beginning(request.receive)
    head, is_whole = await beginning.read()
    found = await _of_body(request.headers, head, is_whole=is_whole)
    if not found.get("user_key") and not is_whole:
        raise Unnamed(NOT_AMONG_FIRST)
    return _claim(found), Request(request.scope, beginning)


def is_long(headers: Headers, /) -> bool:
    """Return whether a body may be longer than what is read of a stranger's."""
    declared = headers.get("content-length", "0")
    return "transfer-encoding" in headers or not declared.isdecimal() or int(declared[:18]) > limits.CREDENTIAL_BYTES


def require_same(claim: Claim, user_id: str, user_key: str, /) -> None:
    """Raise Unauthorized where a request names other credentials than those by which its sender was let in."""
    if (user_id and user_id != claim.user_id) or (user_key and user_key != claim.user_key):
        raise Unauthorized


def _of_headers(headers: Headers) -> Claim | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key.startswith(PREFIX):
        return None
    return Claim(headers.get(USER_ID, ""), key)


def _claim(found: dict[str, str]) -> Claim:
    user_id, user_key = (found.get(name, "") for name in _NAMES)
    if not user_id or not user_key:
        raise Unauthorized
    return Claim(user_id, user_key)


async def _of_body(headers: Headers, head: bytes, *, is_whole: bool) -> dict[str, str]:
    """Return the credentials among the first bytes of a body."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _JSON:
        return _of_json(head)
    form_kind(headers)
    if kind == WITHOUT_FILES:
        fields = head if is_whole else head.rpartition(b"&")[0]
        return {name: value for name, value in parse_qsl(fields.decode("utf-8", "replace")) if name in _NAMES}
    return await _of_form(headers, head)


def _of_json(head: bytes) -> dict[str, str]:
    try:
        return _NAMED.validate_json(head, allow_partial=True)
    except ValueError:
        return {}


async def _of_form(headers: Headers, head: bytes) -> dict[str, str]:
    """Return the credentials of a form that are in its first bytes; its files are dropped."""

    async def stream() -> AsyncGenerator[bytes]:
        yield head
        raise EOFError

    parser = MultiPartParser(headers, stream())
    # Ended by an error, the parser closes the files that it began.
    with contextlib.suppress(MultiPartException, EOFError):
        await parser.parse()
    return {name: value for name, value in parser.items if name in _NAMES and isinstance(value, str)}
