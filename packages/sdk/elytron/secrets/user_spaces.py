"""The memory spaces of one user. Promises to a user, such as a secret, hold for all of them."""

from typing import Final

from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.planes.servers.gateway import USERS, GatewayUser
from elytron_core.planes.space import KEY, SPACE, SpaceRecord
from elytron_core.ports.store import DocumentRef, Store, scan_documents
from elytron_store.secret.records import SECRET_SLOT

USER_TAG: Final = "gateway user"
"""Purpose of the tag under which the system space stores a user of the gateway."""


async def further_spaces(store: Store, user: SpaceId, /) -> tuple[SpaceId, ...]:
    """Return the spaces of apps and projects that the user of the space `user` has written to; none for other spaces.

    `store` is the one beneath the users' secrets.
    """
    (document,) = await store.get(SYSTEM_SPACE, (DocumentRef(SPACE, KEY),))
    if document is None:
        return ()
    key = SpaceRecord.from_bytes(document.body).tag(USER_TAG, user)
    (document,) = await store.get(SYSTEM_SPACE, (DocumentRef(USERS, key),))
    if document is None:
        return ()
    return tuple(SpaceId(space) for space in GatewayUser.from_bytes(document.body).spaces if space != user)


async def unsealed_spaces(store: Store, /) -> list[SpaceId]:
    """Return the spaces that are plain although their user has a secret; the user's next unlock seals them."""
    unsealed_ids: list[SpaceId] = []
    async for document in scan_documents(store, SYSTEM_SPACE, USERS):
        user = GatewayUser.from_bytes(document.body)
        if not user.spaces or not await _has_secret_slot(store, SpaceId(user.user_id)):
            continue
        unsealed_ids += [SpaceId(space) for space in user.spaces if not await _has_secret_slot(store, SpaceId(space))]
    return unsealed_ids


async def _has_secret_slot(store: Store, space: SpaceId) -> bool:
    (document,) = await store.get(space, (SECRET_SLOT,))
    return document is not None
