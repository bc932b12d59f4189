"""A user's own secret as surfaces of a server. A key acts on its own space alone, and no answer may be kept."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

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
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.flat_calls import own_scope
from elytron_adapter.http.requests import heads_of, read_body, require_json
from elytron_adapter.http.responses import principal_of, shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core.errors import ScopeMissing
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import PrincipalKind

ROOT: Final = "/v1/secret"
_GROUP: Final = "secret"
_BODY_BYTES: Final = 16 * 1024
_UNKEPT: Final = {"Cache-Control": "no-store"}
RequestT = TypeVar("RequestT", bound=Value)
SecretHandler = Callable[[SpaceSecrets, SpaceId, bytes], Awaitable[Value]]


def secret_surfaces(entrance: CallerEntrance, /) -> Iterable[Surface]:
    """Return the family of the routes of secrets."""
    for method, path, handler, told in _ROUTES:
        surface = shown_surface(
            path,
            partial(_secret_answer, entrance, handler, told),
            access=SurfaceAccess.OWNER,
            methods=(method,),
            told=replace(told, group=_GROUP),
        )
        yield surface


async def _secret_answer(
    entrance: CallerEntrance, handler: SecretHandler, told: SurfaceDescription, request: Request
) -> Response:
    principal = principal_of(request.scope)
    runtime = entrance.dispatcher.runtime
    scope = own_scope(principal.space, runtime.scope)
    if scope is None or principal.kind is PrincipalKind.OPERATOR:
        raise ScopeMissing(operation=told.name, way_out="an operator has no secret: use a user's key")
    sent = b""
    if told.taken is not None:
        sent = await read_body(request.scope, request.receive, limit=_BODY_BYTES)
        require_json(heads_of(request.scope))
    async with entrance.admitted(principal, sent=sent):
        answer = await handler(runtime.secrets, scope.space, sent)
    return Response(envelope.encode_value(answer), media_type="application/json", headers=_UNKEPT)


def _read_form(model: type[RequestT], sent: bytes) -> RequestT:
    return envelope.decode_as(model, sent or b"{}", limit=_BODY_BYTES)


async def secret_status(secrets: SpaceSecrets, space: SpaceId, _sent: bytes) -> Value:
    """Return the state of the space."""
    return await secrets.status(space)


async def fresh_words(secrets: SpaceSecrets, _space: SpaceId, _sent: bytes) -> Value:
    """Return twelve new words."""
    return SecretWords(words=secrets.fresh_words().get_secret_value())


async def seal_space(secrets: SpaceSecrets, space: SpaceId, sent: bytes) -> Value:
    """Put the space under a secret."""
    asked = _read_form(SecretRequest, sent)
    return await secrets.seal(space, words=asked.words, passphrase=asked.passphrase, minutes=asked.minutes)


async def unlock_space(secrets: SpaceSecrets, space: SpaceId, sent: bytes) -> Value:
    """Open the space."""
    asked = _read_form(SecretRequest, sent)
    return await secrets.unlock(space, words=asked.words, passphrase=asked.passphrase, minutes=asked.minutes)


async def lock_space(secrets: SpaceSecrets, space: SpaceId, _sent: bytes) -> Value:
    """Close the space."""
    return await secrets.lock(space)


async def change_secret(secrets: SpaceSecrets, space: SpaceId, sent: bytes) -> Value:
    """Put another secret in the place of one."""
    asked = _read_form(SecretChangeRequest, sent)
    return await secrets.change(
        space,
        words=asked.words,
        passphrase=asked.passphrase,
        new_words=asked.new_words,
        new_passphrase=asked.new_passphrase,
    )


async def rotate_secret(secrets: SpaceSecrets, space: SpaceId, sent: bytes) -> Value:
    """Seal the space again under a new data key."""
    asked = _read_form(SecretRotateRequest, sent)
    return await secrets.rotate(space, words=asked.words, passphrase=asked.passphrase)


async def grant_work(secrets: SpaceSecrets, space: SpaceId, sent: bytes) -> Value:
    """Let work in the background open the space for a time."""
    return await secrets.grant(space, minutes=_read_form(GrantRequest, sent).minutes)


async def revoke_grant(secrets: SpaceSecrets, space: SpaceId, _sent: bytes) -> Value:
    """End the grant."""
    return await secrets.revoke(space)


_ROUTES: Final[tuple[tuple[str, str, SecretHandler, SurfaceDescription], ...]] = (
    ("GET", ROOT, secret_status,
     SurfaceDescription("secret_status", "Show whether the space is under a secret, and unlocked here.", None,
                        SecretStatus)),
    ("POST", ROOT, seal_space,
     SurfaceDescription("seal_space", "Seal the space under its user's words or passphrase.", SecretRequest,
                        SecretStatus)),
    ("POST", f"{ROOT}/words", fresh_words,
     SurfaceDescription("fresh_secret_words", "Generate twelve words, which are not stored.", None, SecretWords)),
    ("POST", f"{ROOT}/unlock", unlock_space,
     SurfaceDescription("unlock_space", "Unlock the space on this server for some minutes.", SecretRequest,
                        SecretStatus)),
    ("POST", f"{ROOT}/lock", lock_space,
     SurfaceDescription("lock_space", "Lock the space on every server over this store, and end its grant.", None,
                        SecretStatus)),
    ("POST", f"{ROOT}/change", change_secret,
     SurfaceDescription("change_secret", "Replace the secret by another one.", SecretChangeRequest,
                        SecretStatus)),
    ("POST", f"{ROOT}/rotate", rotate_secret,
     SurfaceDescription("rotate_secret", "Re-encrypt the whole space under a new data key.", SecretRotateRequest,
                        SecretStatus)),
    ("POST", f"{ROOT}/grant", grant_work,
     SurfaceDescription("grant_secret", "Allow background work to open the space for some minutes.", GrantRequest,
                        SecretStatus)),
    ("DELETE", f"{ROOT}/grant", revoke_grant,
     SurfaceDescription("revoke_secret", "End the grant.", None, SecretStatus)),
)  # fmt: skip
