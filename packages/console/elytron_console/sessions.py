"""Console sessions, and the check that every changing request must pass."""

import hmac
from typing import Final

from starlette.types import Scope

from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http.requests import SAFE_METHODS, heads_of, is_own_page
from elytron_adapter.sessions import CookieSessions, SessionCookie
from elytron_console import limits
from elytron_core.errors import PermissionRefused, Unauthorized

MAX_SESSIONS: Final = 1_000
SESSIONS_EACH: Final = 16


ROOT: Final = "/console"
COOKIE: Final = "elytron_console"
TOKEN: Final = "X-Console-Token"  # noqa: S105 - the name of a header
"""Header in which a console page repeats its session's token, which a foreign page cannot read."""
_REFUSED: Final = (
    "changes are accepted only from a page of this console: sign in again, and let no proxy change Origin or the token"
)


class ConsoleGuard:
    """Guards the routes of a console: each requires a cookie with its session's token, and a change also the origin.

    A cookie is sent to every port of its host, so a program on another port may get it. Only pages of this origin store
    the token. A caller with its own `Authorization` header is no page, and needs neither.
    """

    def __init__(self, admission: CallerAdmission, /) -> None:
        cookie = SessionCookie(COOKIE, ROOT, limits.SESSION_S, MAX_SESSIONS, SESSIONS_EACH)
        self.sessions = CookieSessions(admission.dispatcher.runtime.context, cookie)

    async def token_of(self, scope: Scope, /) -> str:
        """Return the token of a request's session; without a session, that of the store's pages."""
        return await self.sessions.page_token(self.sessions.token(heads_of(scope)))

    async def require_own(self, scope: Scope) -> None:
        """Raise PermissionRefused for a change that another site may have made a browser request.

        Raises Unauthorized for a reader with a cookie alone. In development mode no session is open, and reading is
        free.
        """
        headers = heads_of(scope)
        if "authorization" in headers:
            return
        is_safe_method = scope["method"] in SAFE_METHODS
        if is_safe_method and not await self.sessions.is_open(headers):
            return
        is_token_right = hmac.compare_digest(headers.get(TOKEN, "").encode(), (await self.token_of(scope)).encode())
        if is_safe_method and not is_token_right:
            raise Unauthorized
        if not is_token_right or not is_own_page(scope, headers):
            raise PermissionRefused(_REFUSED)
