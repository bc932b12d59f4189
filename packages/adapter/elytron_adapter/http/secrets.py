"""Routes for a user's own secret. A key acts only on its own space, and no answer may be cached."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

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
from elytron_adapter.flat_calls import own_scope
from elytron_adapter.http.requests import heads_of, read_body, require_json
from elytron_adapter.http.responses import principal_of, shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core.errors import ScopeMissing
from elytron_core.ids import SpaceId
from elytron_core.model import Value

ROOT: Final = "/v1/secret"
_GROUP: Final = "secret"
_BODY_BYTES: Final = 16 * 1024
_UNKEPT: Final = {"Cache-Control": "no-store"}
SecretCall = Callable[..., Awaitable[Value]]


def secret_surfaces(entrance: CallerAdmission, /) -> Iterable[Surface]:
    """Return the family of the routes of secrets."""
    for method, path, call, description in _ROUTES:
        answered, described = partial(_secret_answer, entrance, call, description), replace(description, group=_GROUP)
        yield shown_surface(path, answered, access=SurfaceAccess.OWNER, methods=(method,), description=described)


async def _secret_answer(
    entrance: CallerAdmission, call: SecretCall, description: SurfaceDescription, request: Request
) -> Response:
    principal = principal_of(request.scope)
    runtime = entrance.dispatcher.runtime
    scope = own_scope(principal.space, runtime.scope)
    if scope is None:
        raise ScopeMissing(operation=description.name, way_out="an operator has no secret: use a user's key")
    body, fields = b"", {}
    if isinstance(description.taken, type):
        body = await read_body(request.scope, request.receive, limit=_BODY_BYTES)
        require_json(heads_of(request.scope))
    async with entrance.admitted(principal, body=body):
        if isinstance(description.taken, type):
            fields = dict(envelope.decode_as(description.taken, body or b"{}", limit=_BODY_BYTES))
        answer = await call(runtime.secrets, scope.space, **fields)
    return Response(envelope.encode_value(answer), media_type="application/json", headers=_UNKEPT)


async def _fresh_words(secrets: SpaceSecrets, _space: SpaceId) -> Value:
    return SecretWords(words=secrets.fresh_words().get_secret_value())


_ROUTES: Final[tuple[tuple[str, str, SecretCall, SurfaceDescription], ...]] = (
    ("GET", ROOT, SpaceSecrets.status,
     SurfaceDescription("secret_status", "Show whether the space has a user secret and is unlocked here.", None,
                        SecretStatus)),
    ("POST", ROOT, SpaceSecrets.seal,
     SurfaceDescription("seal_space", "Seal the space with its user's words or passphrase.", SecretRequest,
                        SecretStatus)),
    ("POST", f"{ROOT}/words", _fresh_words,
     SurfaceDescription("fresh_secret_words", "Generate twelve words, which are never stored.", None, SecretWords)),
    ("POST", f"{ROOT}/unlock", SpaceSecrets.unlock,
     SurfaceDescription("unlock_space", "Unlock the space on this server for a number of minutes.", SecretRequest,
                        SecretStatus)),
    ("POST", f"{ROOT}/lock", SpaceSecrets.lock,
     SurfaceDescription("lock_space", "Lock the space on every server of this store and end its grant.", None,
                        SecretStatus)),
    ("POST", f"{ROOT}/change", SpaceSecrets.change,
     SurfaceDescription("change_secret", "Replace the secret of the space.", SecretChangeRequest,
                        SecretStatus)),
    ("POST", f"{ROOT}/rotate", SpaceSecrets.rotate,
     SurfaceDescription("rotate_secret", "Re-encrypt the whole space under a new data key.", SecretRotateRequest,
                        SecretStatus)),
    ("POST", f"{ROOT}/grant", SpaceSecrets.grant,
     SurfaceDescription("grant_secret", "Allow background work to unlock the space for a number of minutes.",
                        GrantRequest, SecretStatus)),
    ("DELETE", f"{ROOT}/grant", SpaceSecrets.revoke,
     SurfaceDescription("revoke_secret", "Revoke the grant for background work.", None, SecretStatus)),
)  # fmt: skip
"""The fields of a request are the parameters of what its route calls."""
