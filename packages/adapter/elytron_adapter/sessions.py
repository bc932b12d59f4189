"""Browser sessions: a cookie stands for a credential and is accepted by every server of the same store."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from elytron.context import OperationContext
from elytron.state.change_lines import retry_lost_races
from elytron_adapter.system_documents import SystemDocuments
from elytron_core.clock import Instant
from elytron_core.planes.servers.system_documents import SESSIONS, BrowserSession
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.credentials import TOKEN_BYTES, issued_token
from elytron_core.ports.store import DeleteChange, Document, PutChange
from elytron_core.strict_json import keyed_tag

_TOKEN_DIGITS = 64
_PAGE_TOKEN_DIGITS = 48


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """The cookie of one kind of session: its name, its path, its lifetime, and the maximum number open at once."""

    name: str
    path: str
    lifetime_s: float
    most: int
    each: int
    """Maximum sessions per holder; the oldest is removed for another."""


class CookieSessions:
    """Sessions of one kind of cookie. The store contains no cookie and no usable key.

    A session is stored under a keyed digest of its cookie, and the holder's credential under a mask that only the
    cookie gives. So whoever reads the store can use neither, and a session ends with its credential. Each holder has a
    limited number, so that one cannot displace those of others.
    """

    def __init__(self, context: OperationContext, cookie: SessionCookie, /) -> None:
        self.cookie = cookie
        self._context = context
        self._documents = SystemDocuments(context, SESSIONS)

    @retry_lost_races
    async def open(self, holder: str, authorization: str, /) -> str:
        """Return a new cookie for the holder of `authorization`; the holder's oldest session is removed if
        necessary."""
        token = issued_token(self._context.ids.secret(TOKEN_BYTES))
        masked_credential = self._mask(token, authorization.encode("latin-1", "replace")).hex()
        record, now = await self._documents.record(), self._context.clock.now()
        expires_at = Instant(now + round(self.cookie.lifetime_s * 1_000))
        session = BrowserSession(
            cookie=self.cookie.name, holder=_holder_tag(record, holder), masked=masked_credential, until=expires_at
        )
        surplus_documents = await self._surplus(session.holder, now)
        session_change = PutChange(self._documents.ref(self._key(record, token)), session.to_bytes(), 0)
        surplus_removals = [DeleteChange(document.ref, document.revision) for document in surplus_documents]
        # Even in a full store: its operator signs in to make room.
        await self._documents.commit(record, session_change, deletes=surplus_removals, takes_back=True)
        return token

    @retry_lost_races
    async def end(self, headers: Mapping[str, str], /) -> None:
        """End the session of a request's cookie on every server, if it has one."""
        record, document = await self._find(self.token(headers))
        if record is None or document is None:
            return
        session_removal = DeleteChange(document.ref, document.revision)
        await self._documents.commit(record, deletes=(session_removal,), takes_back=True)

    def token(self, headers: Mapping[str, str], /) -> str | None:
        """Return the cookie of a request; None if it has none."""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie.name:
                return value
        return None

    async def credential(self, headers: Mapping[str, str], /) -> str | None:
        """Return the `Authorization` of a request, else the one of its cookie."""
        authorization, token = headers.get("authorization"), self.token(headers)
        if authorization is not None or token is None:
            return authorization
        session = await self._session(token)
        return self._mask(token, bytes.fromhex(session.masked)).decode("latin-1") if session is not None else None

    async def is_open(self, headers: Mapping[str, str], /) -> bool:
        """Return whether a request's cookie, if it has one, opens a session."""
        return await self._session(self.token(headers)) is not None

    async def page_token(self, cookie: str | None, /) -> str:
        """Return the token that pages of `cookie`'s session send back, the same on every server of the store.

        It is derived under the store's secret, so that a program that received the cookie does not have it.
        """
        secret = bytes.fromhex((await self._documents.record()).secret)
        return keyed_tag(secret, "page token", self.cookie.name, cookie or "", size=_PAGE_TOKEN_DIGITS)

    async def _surplus(self, holder: str, now: Instant) -> list[Document]:
        """Return the sessions to remove for one more of `holder`: expired ones, then the oldest."""
        surplus_documents: list[Document] = []
        active_sessions: list[tuple[Instant, Document, str]] = []
        async for document in self._documents.scan():
            session = BrowserSession.from_bytes(document.body)
            if session.until <= now:
                surplus_documents.append(document)
            elif session.cookie == self.cookie.name:
                active_sessions.append((session.until, document, session.holder))
        active_sessions.sort(key=lambda entry: entry[0])
        holder_documents = [document for _, document, name in active_sessions if name == holder]
        surplus_documents += holder_documents[: max(0, len(holder_documents) + 1 - self.cookie.each)]
        remaining_documents = [document for _, document, _ in active_sessions if document not in surplus_documents]
        return surplus_documents + remaining_documents[: max(0, len(remaining_documents) + 1 - self.cookie.most)]

    async def _session(self, token: str | None) -> BrowserSession | None:
        _, document = await self._find(token)
        session = BrowserSession.from_bytes(document.body) if document is not None else None
        return session if session is not None and session.until > self._context.clock.now() else None

    async def _find(self, token: str | None) -> tuple[SpaceRecord | None, Document | None]:
        # A value that is not in the form of a cookie costs no lookup.
        record = await self._documents.find_record() if token is not None and len(token) == _TOKEN_DIGITS else None
        if record is None or token is None:
            return None, None
        return record, await self._documents.read(self._key(record, token))

    def _key(self, record: SpaceRecord, token: str) -> str:
        return keyed_tag(bytes.fromhex(record.secret), "session", self.cookie.name, token, size=64)

    def _mask(self, token: str, data: bytes) -> bytes:
        """Return `data` masked by a cookie, or unmasked. A cookie masks only one credential."""
        mask_bytes = hashlib.shake_256(self.cookie.name.encode() + b"\0" + token.encode()).digest(len(data))
        return bytes(data_byte ^ mask_byte for data_byte, mask_byte in zip(data, mask_bytes, strict=True))


async def removed_sessions(documents: SystemDocuments, record: SpaceRecord, holder: str, /) -> tuple[DeleteChange, ...]:
    """Return the changes that end every stored session of `holder`."""
    tag = _holder_tag(record, holder)
    return tuple(
        [
            DeleteChange(document.ref, document.revision)
            async for document in documents.scan()
            if BrowserSession.from_bytes(document.body).holder == tag
        ]
    )


def _holder_tag(record: SpaceRecord, holder: str) -> str:
    return keyed_tag(bytes.fromhex(record.secret), "session holder", holder)
