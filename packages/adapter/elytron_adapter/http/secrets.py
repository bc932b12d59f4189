"""Routes for a user's own secret. A key acts only on its own space, and no answer may be cached."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from elytron.api.flat_calls import own_scope
from elytron.secrets.forms import (
    GrantRequest,
    SecretChangeRequest,
    SecretRequest,
    SecretRotateRequest,
    SecretStatus,
    SecretWords,
)
from elytron.secrets.space_secrets import SpaceSecrets
from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http.requests import json_body
from elytron_adapter.http.responses import answered_by, principal_of, value_response
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces
from elytron_core.errors import ScopeMissing
from elytron_core.ids import SpaceId
from elytron_core.model import Value

ROOT: Final = "/v1/secret"
_OWNER: Final = SurfaceAccess.OWNER
_BODY_BYTES: Final = 16 * 1024
_UNKEPT: Final = {"Cache-Control": "no-store"}
SecretCall = Callable[..., Awaitable[Value]]


def secret_surfaces(admission: CallerAdmission, /) -> Iterable[Surface]:
    """Return the family of the routes of secrets."""
    return build_surfaces(_ROUTES, answered_by(partial(_secret_answer, admission)), group="secret")


async def _secret_answer(admission: CallerAdmission, route: Route[SecretCall], request: Request) -> Response:
    principal = principal_of(request.scope)
    runtime = admission.dispatcher.runtime
    scope = own_scope(principal.space, runtime.scope)
    if scope is None:
        raise ScopeMissing(operation=route.name, way_out="an operator has no secret: use a user's key")
    request_type = route.request if isinstance(route.request, type) else None
    body = await json_body(request, limit=_BODY_BYTES) if request_type is not None else b""
    async with admission.admitted(principal, body=body):
        fields = (
            dict(envelope.decode_as(request_type, body or b"{}", limit=_BODY_BYTES)) if request_type is not None else {}
        )
        answer = await route.handler(runtime.secrets, scope.space, **fields)
    return value_response(answer, headers=_UNKEPT)


async def _fresh_words(secrets: SpaceSecrets, _space: SpaceId) -> Value:
    return SecretWords(words=secrets.fresh_words().get_secret_value())


_ROUTES: Final[tuple[Route[SecretCall], ...]] = (
    Route("GET", ROOT, SpaceSecrets.status, "secret_status",
          "Show whether the space has a user secret and is unlocked here.", None, SecretStatus, _OWNER),
    Route("POST", ROOT, SpaceSecrets.seal, "seal_space", "Seal the space with its user's words or passphrase.",
          SecretRequest, SecretStatus, _OWNER),
    Route("POST", f"{ROOT}/words", _fresh_words, "fresh_secret_words",
          "Generate twelve words, which are never stored.", None, SecretWords, _OWNER),
    Route("POST", f"{ROOT}/unlock", SpaceSecrets.unlock, "unlock_space",
          "Unlock the space on this server for a number of minutes.", SecretRequest, SecretStatus, _OWNER),
    Route("POST", f"{ROOT}/lock", SpaceSecrets.lock, "lock_space",
          "Lock the space on every server of this store and end its grant.", None, SecretStatus, _OWNER),
    Route("POST", f"{ROOT}/change", SpaceSecrets.change, "change_secret", "Replace the secret of the space.",
          SecretChangeRequest, SecretStatus, _OWNER),
    Route("POST", f"{ROOT}/rotate", SpaceSecrets.rotate, "rotate_secret",
          "Re-encrypt the whole space under a new data key.", SecretRotateRequest, SecretStatus, _OWNER),
    Route("POST", f"{ROOT}/grant", SpaceSecrets.grant, "grant_secret",
          "Allow background work to unlock the space for a number of minutes.", GrantRequest, SecretStatus, _OWNER),
    Route("DELETE", f"{ROOT}/grant", SpaceSecrets.revoke, "revoke_secret", "Revoke the grant for background work.",
          None, SecretStatus, _OWNER),
)  # fmt: skip
"""The fields of a request are the parameters of the called method."""
