"""Forms, within bounds of size and time; large files of one lie on disk until it is closed."""

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.types import Message

from elytron_adapter.http.bodies import body, require_length
from elytron_core import limits
from elytron_core.errors import InvalidInput, PayloadTooLarge
from elytron_gateway import limits as gateway_limits
from elytron_gateway.messages import Upload

_FORM = "multipart/form-data"
WITHOUT_FILES = "application/x-www-form-urlencoded"
"""Media type of a form without a file, as HTTP clients send it."""
_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii"})
"""Others are not decoded: some take time that grows with the square of a text."""
_FIELDS = 64
_ROOM = 1024 * 1024
"""Bytes of a form beside its files."""


def form_kind(headers: Headers, /) -> str:
    """Return the media type of a form. Raises HTTPException for what is none, or is in another charset than UTF-8."""
    kind, _, told = headers.get("content-type", "").lower().partition(";")
    charset = next((part for part in told.split(";") if part.strip().startswith("charset")), "")
    if kind.strip() not in {_FORM, WITHOUT_FILES} or charset.partition("=")[2].strip(' "') not in _CHARSETS:
        raise HTTPException(415, headers={"Accept": _FORM})
    return kind.strip()


class Form:
    """The form of a request, read when it is entered and let go of when it is left.

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
        self._until = asyncio.get_running_loop().time() + limits.HTTP_UPLOAD_WAIT_S
        bounded = Request(self._request.scope, self._receive)
        try:
            self._form = await bounded.form(
                max_files=gateway_limits.ITEMS, max_fields=_FIELDS, max_part_size=limits.JSON_BYTES
            )
        except (MultiPartException, HTTPException) as error:
            if isinstance(error, HTTPException) and error.status_code != 400:
                raise
            raise InvalidInput(field="body", problem="is no multipart form, or has too many parts") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._form is not None
        await self._form.close()

    def fields(self, *known: str) -> dict[str, str]:
        """Return the text fields. Raises InvalidInput for one that is not `known`, or occurs twice."""
        assert self._form is not None
        found: dict[str, str] = {}
        for name, value in self._form.multi_items():
            if isinstance(value, UploadFile):
                continue
            if name not in known or name in found:
                raise InvalidInput(field="body", problem=f"takes each of {', '.join(known)} once, and no other field")
            found[name] = value
        return found

    def file(self, name: str, /) -> UploadFile:
        """Return the one file of the form. Raises InvalidInput if it is missing or not alone."""
        assert self._form is not None
        files = [(key, value) for key, value in self._form.multi_items() if isinstance(value, UploadFile)]
        if len(files) != 1 or files[0][0] != name:
            raise InvalidInput(field=name, problem="is not the one file of the form")
        return files[0][1]

    async def uploads(self) -> dict[str, Upload]:
        """Return the files by the names of their fields. Raises InvalidInput for a name that is there twice."""
        assert self._form is not None
        found: dict[str, Upload] = {}
        for name, value in self._form.multi_items():
            if isinstance(value, UploadFile):
                if name in found:
                    raise InvalidInput(field="files", problem="has two files of one name")
                found[name] = Upload((value.filename or "")[:128], value.content_type or "", await value.read())
        return found

    async def _without_files(self) -> FormData:
        sent = await body(self._request.scope, self._request.receive, limit=limits.JSON_BYTES)
        try:
            fields = parse_qsl(sent.decode(), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
        except ValueError:
            raise InvalidInput(field="body", problem="is no form of text, or has too many fields") from None
        return FormData([*fields])

    async def _receive(self) -> Message:
        try:
            now = asyncio.get_running_loop().time()
            async with asyncio.timeout_at(min(now + limits.HTTP_BODY_WAIT_S, self._until)):
                message = await self._request.receive()
        except TimeoutError:
            raise HTTPException(408) from None
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            raise PayloadTooLarge(limit=self._limit, what="the form", way_out="send fewer or smaller files at once")
        return message
