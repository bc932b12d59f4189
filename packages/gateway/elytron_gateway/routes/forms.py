"""Forms, read within limits of size and time. Large files stay on disk until the form is closed."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qsl

from pydantic_core import SchemaValidator, core_schema
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.types import Message, Receive

from elytron_adapter.http.requests import next_message, read_body, require_length
from elytron_core import limits
from elytron_core.errors import InvalidInput, PayloadTooLarge, Unauthorized
from elytron_core.policy.credentials import USER_KEY_PREFIX
from elytron_gateway import limits as gateway_limits
from elytron_gateway.messages import MessageUpload

CREDENTIAL_BYTES: Final = 64 * 1024
"""Bytes of a body that are read before its sender is known."""
HTTP_UPLOAD_WAIT_S: Final = 300.0
"""Longest time in which a form with files may arrive, with no pause in it longer than the wait for a body."""


_FORM = "multipart/form-data"
WITHOUT_FILES = "application/x-www-form-urlencoded"
"""Media type of a form without a file, as HTTP clients send it."""
_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii"})
"""Others are not decoded: some take time quadratic in the length of a text."""
_FIELDS = 64
_ROOM = 1024 * 1024
"""Bytes of a form in addition to its files."""


def form_kind(headers: Headers, /) -> str:
    """Return the media type of a form. Raises HTTPException for another type, or another charset than UTF-8."""
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    charset = next((part for part in parameters.split(";") if part.strip().startswith("charset")), "")
    if kind.strip() not in {_FORM, WITHOUT_FILES} or charset.partition("=")[2].strip(' "') not in _CHARSETS:
        raise HTTPException(415, headers={"Accept": _FORM})
    return kind.strip()


class UploadForm:
    """The form of a request, read on entering and released on leaving.

    Raises PayloadTooLarge, InvalidInput for what is no form, and HTTPException for a body that takes too long.
    """

    def __init__(self, request: Request, /, *, file_bytes: int = gateway_limits.RESOURCE_BYTES) -> None:
        self._request = request
        self._limit = file_bytes + _ROOM
        self._size = 0
        self._until = 0.0
        self._form: FormData | None = None

    async def __aenter__(self) -> Self:
        if form_kind(self._request.headers) == WITHOUT_FILES:
            self._form = await self._without_files()
            return self
        require_length(self._request.scope, limit=self._limit)
        self._until = asyncio.get_running_loop().time() + HTTP_UPLOAD_WAIT_S
        bounded_request = Request(self._request.scope, self._receive)
        try:
            self._form = await bounded_request.form(
                max_files=gateway_limits.ITEMS, max_fields=_FIELDS, max_part_size=limits.JSON_BYTES
            )
        except (MultiPartException, HTTPException) as error:
            # Starlette rejects a bad form with 400. Other refusals come from `_receive`.
            if isinstance(error, HTTPException) and error.status_code != 400:
                raise
            raise InvalidInput(field="body", problem="is not a multipart form, or has too many parts") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._form is not None
        await self._form.close()

    def fields(self, *names: str) -> dict[str, str]:
        """Return the text fields. Raises InvalidInput for one not in `names`, or one that occurs twice."""
        assert self._form is not None
        values: dict[str, str] = {}
        for name, value in self._form.multi_items():
            if isinstance(value, UploadFile):
                continue
            if name not in names or name in values:
                raise InvalidInput(field="body", problem=f"may have {', '.join(names)} once each, and no other field")
            values[name] = value
        return values

    def file(self, name: str, /) -> UploadFile:
        """Return the only file of the form. Raises InvalidInput if it is missing or there are more."""
        assert self._form is not None
        files = [(key, value) for key, value in self._form.multi_items() if isinstance(value, UploadFile)]
        if len(files) != 1 or files[0][0] != name:
            raise InvalidInput(field=name, problem="must be the form's only file")
        return files[0][1]

    async def uploads(self) -> dict[str, MessageUpload]:
        """Return the files by the names of their fields. Raises InvalidInput for a duplicate name."""
        assert self._form is not None
        uploads_by_name: dict[str, MessageUpload] = {}
        for name, value in self._form.multi_items():
            if isinstance(value, UploadFile):
                if name in uploads_by_name:
                    raise InvalidInput(field="files", problem="has two files with the same name")
                uploads_by_name[name] = MessageUpload(
                    (value.filename or "")[:128], value.content_type or "", await value.read()
                )
        return uploads_by_name

    async def _without_files(self) -> FormData:
        body = await read_body(self._request.scope, self._request.receive, limit=limits.JSON_BYTES)
        try:
            fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
        except ValueError:
            raise InvalidInput(field="body", problem="is not a text form, or has too many fields") from None
        return FormData([*fields])

    async def _receive(self) -> Message:
        try:
            now = asyncio.get_running_loop().time()
            # Each part has its own timeout, and all of them together have one.
            async with asyncio.timeout_at(min(now + limits.HTTP_BODY_WAIT_S, self._until)):
                message = await self._request.receive()
        except TimeoutError:
            raise HTTPException(408) from None
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise PayloadTooLarge(limit=self._limit, what="the form", way_out="send fewer or smaller files at once")
        return message


USER_ID = "X-User-Id"
_JSON = "application/json"
_NAMES = ("user_id", "user_key")
_TEXT = core_schema.with_default_schema(core_schema.str_schema(strict=True), on_error="omit")
_FIELD_NAMES = SchemaValidator(
    core_schema.typed_dict_schema({name: core_schema.typed_dict_field(_TEXT, required=False) for name in _NAMES})
)
"""Extracts the credentials from a JSON object without creating Python objects for the rest, however many values it
has."""
CUT = {"Connection": "close"}
"""Reject the rest of an unauthenticated body without reading it, which would take time from others."""
NOT_AMONG_FIRST = (
    f"invalid user credentials: none are among the first {CREDENTIAL_BYTES} bytes of the body;"
    f" send user_id and user_key before other fields, or as Authorization and {USER_ID}"
)


class UnnamedCaller(Unauthorized):
    """A body whose first bytes hold no credential."""


@dataclass(frozen=True, slots=True)
class CallerClaim:
    """A user's id and key, as a caller sends them; without an id, the key identifies the user."""

    user_id: str
    user_key: str


class BodyBeginning:
    """The first bytes of a body. As a `Receive`, it repeats them before the rest."""

    def __init__(self, receive: Receive, /) -> None:
        self._receive = receive
        self._messages: deque[Message] = deque()

    async def read(self) -> tuple[bytes, bool]:
        """Return at most `CREDENTIAL_BYTES` of the body, and whether that is all of it.

        Raises HTTPException where they take too long, ClientDisconnect.
        """
        try:
            async with asyncio.timeout(limits.HTTP_BODY_WAIT_S):
                return await self._read()
        except TimeoutError:
            raise HTTPException(408) from None

    async def _read(self) -> tuple[bytes, bool]:
        beginning_bytes = bytearray()
        while True:
            message = await next_message(self._receive)
            self._messages.append(message)
            # One byte more shows that there is more.
            beginning_bytes += message.get("body", b"")[: CREDENTIAL_BYTES + 1 - len(beginning_bytes)]
            has_more = message.get("more_body", False)
            if not has_more or len(beginning_bytes) > CREDENTIAL_BYTES:
                return bytes(beginning_bytes[:CREDENTIAL_BYTES]), not has_more and len(
                    beginning_bytes
                ) <= CREDENTIAL_BYTES

    async def __call__(self) -> Message:
        """Return the next message of the body."""
        return self._messages.popleft() if self._messages else await self._receive()


async def claimed_request(request: Request, /, *, has_body: bool) -> tuple[CallerClaim, Request]:
    """Return the caller's credentials, and the request for further processing.

    A user's key in the headers is taken first. Raises Unauthorized if there is no credential.
    """
    header_claim = _of_headers(request.headers)
    if header_claim is not None:
        return header_claim, request
    if not has_body:
        return _form_claim({name: request.query_params.get(name, "") for name in _NAMES}), request
    body_beginning = BodyBeginning(request.receive)
    head_bytes, is_whole = await body_beginning.read()
    credentials = await _of_body(request.headers, head_bytes, is_whole=is_whole)
    if not credentials.get("user_key") and not is_whole:
        raise UnnamedCaller(NOT_AMONG_FIRST)
    return _form_claim(credentials), Request(request.scope, body_beginning)


def is_long(headers: Headers, /) -> bool:
    """Return whether a body may be longer than the limit before authentication."""
    # `int` refuses very long numbers by an error of its own, hence the cut.
    declared = headers.get("content-length", "0")
    return "transfer-encoding" in headers or not declared.isdecimal() or int(declared[:18]) > CREDENTIAL_BYTES


def require_same(claim: CallerClaim, user_id: str, user_key: str, /) -> None:
    """Raise Unauthorized if a request names other credentials than those its sender was authenticated with."""
    if (user_id and user_id != claim.user_id) or (user_key and user_key != claim.user_key):
        raise Unauthorized


def _of_headers(headers: Headers) -> CallerClaim | None:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key.startswith(USER_KEY_PREFIX):
        return None
    return CallerClaim(headers.get(USER_ID, ""), key)


def _form_claim(credentials: dict[str, str]) -> CallerClaim:
    user_id, user_key = (credentials.get(name, "") for name in _NAMES)
    if not user_id or not user_key:
        raise Unauthorized
    return CallerClaim(user_id, user_key)


async def _of_body(headers: Headers, head_bytes: bytes, *, is_whole: bool) -> dict[str, str]:
    """Return the credentials among the first bytes of a body."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _JSON:
        return _of_json(head_bytes)
    form_kind(headers)
    if kind == WITHOUT_FILES:
        # The last field may be cut.
        fields = head_bytes if is_whole else head_bytes.rpartition(b"&")[0]
        return {name: value for name, value in parse_qsl(fields.decode("utf-8", "replace")) if name in _NAMES}
    return await _of_form(headers, head_bytes)


def _of_json(head_bytes: bytes) -> dict[str, str]:
    try:
        # The body continues after these bytes.
        return _FIELD_NAMES.validate_json(head_bytes, allow_partial=True)
    except ValueError:
        return {}


async def _of_form(headers: Headers, head_bytes: bytes) -> dict[str, str]:
    """Return the credentials of a form that are in its first bytes; its files are dropped."""

    async def stream() -> AsyncGenerator[bytes]:
        yield head_bytes
        raise EOFError

    parser = MultiPartParser(headers, stream())
    # If ended by an error, the parser closes the files that it began.
    with contextlib.suppress(MultiPartException, EOFError):
        await parser.parse()
    return {name: value for name, value in parser.items if name in _NAMES and isinstance(value, str)}
