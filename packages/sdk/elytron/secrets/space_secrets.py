"""Users' secrets over their spaces: create, unlock, lock, change, and grant to background work.

A secret belongs to its user: each call covers the user's own space and those of its apps and projects.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import SecretStr

from elytron.indexing.checkpoints import CHECKPOINT
from elytron.secrets.forms import GRANT_MINUTES, SESSION_MINUTES, SecretState, SecretStatus
from elytron.secrets.user_spaces import further_spaces
from elytron_core.clock import Instant
from elytron_core.errors import (
    Conflict,
    ElytronError,
    InvalidInput,
    NotFound,
    PermissionRefused,
    SecretRefused,
    SpaceLocked,
    Unsupported,
)
from elytron_core.ids import IdSource, SpaceId, is_reserved
from elytron_core.planes.embedding import TAG_LINKS
from elytron_core.planes.servers.gateway import WITH_BLOBS
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports.store import KeyProvider
from elytron_store import limits
from elytron_store.secret.records import SecretKind, SecretSlot, SecretSlotState
from elytron_store.secret.store import SecretStore

if TYPE_CHECKING:
    from elytron_store.secret.grants import GrantService
    from elytron_store.secret.keeper import SecretKeeper, SpaceCopier, UserKey, UserSecret
    from elytron_store.secret.shared_sessions import SharedSessions

logger = logging.getLogger(__name__)
LOOK_S: Final = 1.0
"""Interval between checks of open spaces: one locked elsewhere, or expired, is closed."""
_LOOKS_AFTER: Final = 3
"""Checks after a space was closed in which running calls' caches are cleared too."""
_MINUTE_MS: Final = 60_000
Secret = SecretStr | str


class SecretParts(NamedTuple):
    """The parts that need the cipher library. `shared` is set for the processes of one server."""

    keeper: "SecretKeeper"
    grants: "GrantService"
    shared: "SharedSessions | None"


class UserSecretSlots:
    """The slots of a user's spaces, and their states for the caller of a task."""

    def __init__(
        self, store: SecretStore, /, *, ids: IdSource, keys: KeyProvider | None, is_elsewhere: bool = False
    ) -> None:
        self.store = store
        self._ids = ids
        self._keys = keys
        self._is_elsewhere = is_elsewhere
        self._server_key: bytes | None = None
        self._parts: SecretParts | None = None

    async def _status(self, space_id: SpaceId, slot: SecretSlot | None, state: SecretState) -> SecretStatus:
        if slot is None:
            return SecretStatus(space=space_id, state=state)
        status = SecretStatus(
            space=space_id,
            state=state,
            kind=slot.kind.value,
            derivation=slot.terms.function.value if slot.terms is not None else "",
            made_at=slot.made_at,
        )
        if slot.filled:
            return status
        grant_service = self._opened_parts().grants
        if (
            await grant_service.session(space_id) is not None
            and (grant := await grant_service.record(space_id)) is not None
        ):
            status = status.model_copy(update={"grant_until": grant.until})
        if state is SecretState.UNLOCKED and (session := self.store.sessions.of(space_id)) is not None:
            status = status.model_copy(update={"until": session.until})
        return status

    async def _state(self, space: SpaceId, slot: SecretSlot | None) -> SecretState:
        if slot is None:
            return SecretState.PLAIN
        if slot.filled:
            return SecretState.MAKING
        await self._opened_parts().keeper.sweep(space)
        try:
            self.store.slots.require(space, slot)
        except ElytronError:
            return SecretState.LOCKED
        return SecretState.UNLOCKED

    async def _secret_slots(self, space_id: SpaceId) -> AsyncIterator[tuple[SpaceId, SecretSlot | None]]:
        """Yield the spaces of the user of `space_id`, that one first, each with its slot; None: plain."""
        for space in (space_id, *await further_spaces(self.store.inner, space_id)):
            entry = await self.store.settle_slot(space)
            yield space, None if entry is None or entry[0].state is SecretSlotState.DESTROYED else entry[0]

    async def _keyed(
        self, space_id: SpaceId, secret: "UserSecret"
    ) -> AsyncIterator[tuple[SpaceId, SecretSlot | None, "UserKey"]]:
        """Yield the spaces of the user of `space_id` with their slots and the key that `secret` gives for each.

        Raises NotFound, SecretRefused, WordsInvalid, RateLimited.
        """
        secret_keeper = self._opened_parts().keeper
        first_key = await secret_keeper.proven_key((await self._sealed(space_id))[0], secret)
        keys = [first_key]
        async for space, slot in self._secret_slots(space_id):
            terms = first_key.terms if slot is None or slot.terms is None else slot.terms
            key = next((key for key in keys if key.terms == terms), None)
            if key is None:  # of a space that was sealed separately, or of an interrupted change
                key = await secret_keeper.key_of(secret, terms)
                keys.append(key)
            yield space, slot, key

    async def _sealed(self, space_id: SpaceId) -> list[SpaceId]:
        """Return the spaces of the user of `space_id` that are under a secret. Raises NotFound if none is."""
        spaces = [space async for space, slot in self._secret_slots(space_id) if slot is not None]
        if not spaces:
            raise NotFound(what="sealed space", name=space_id, way_out="seal it first")
        return spaces

    async def status(self, space: str, /) -> SecretStatus:
        """Return the state of a user's spaces for the caller, which needs no secret."""
        space_id = _usable_space(space)
        space_states = [
            (sealed_space, slot, await self._state(sealed_space, slot))
            async for sealed_space, slot in self._secret_slots(space_id)
        ]
        status = await self._status(*space_states[0])
        return status.model_copy(
            update={
                "spaces": {sealed_space: secret_state for sealed_space, _, secret_state in space_states}
                if space_states[1:]
                else {}
            }
        )

    async def require_open(self, space: SpaceId, /) -> None:
        """Raise SpaceLocked if `space` is under a secret and not open to the caller of this task."""
        if not self.store.is_plain(space) and (entry := await self.store.settle_slot(space)) is not None:
            self.store.slots.require(space, entry[0])

    def opened_at(self, space: SpaceId, /) -> Instant:
        """Return since when `space` is open for this task; 0 for a plain or a locked one."""
        session = self.store.sessions.of(space)
        return session.since if session is not None else Instant(0)

    def _until(self, minutes: int | None, default_minutes: int, most_ms: int) -> Instant:
        duration_minutes = default_minutes if minutes is None else minutes
        if not 1 <= duration_minutes <= most_ms // _MINUTE_MS:
            raise InvalidInput(field="minutes", problem=f"must be 1 to {most_ms // _MINUTE_MS}")
        return Instant(self.store.clock.now() + duration_minutes * _MINUTE_MS)

    def _opened_parts(self) -> "SecretParts":
        # Imported late: a process that meets no secret needs no cipher library.
        if self._is_elsewhere:
            raise Unsupported("this store belongs to a server: call its routes /v1/secret")
        if self._parts is None:
            from elytron_store.secret.grants import GrantService
            from elytron_store.secret.keeper import PlainContents, SecretKeeper
            from elytron_store.secret.shared_sessions import SharedSessions

            plain_contents = PlainContents(COLLECTIONS, (CHECKPOINT,), WITH_BLOBS, redrawn=self.store.redrawn)
            secret_keeper = SecretKeeper(self.store, ids=self._ids, contents=plain_contents)
            grant_service = GrantService(self.store, ids=self._ids, keys=self._keys)
            shared_sessions = SharedSessions(secret_keeper, self._server_key) if self._server_key is not None else None
            self._parts = SecretParts(secret_keeper, grant_service, shared_sessions)
        return self._parts


class SpaceSecrets(UserSecretSlots):
    """The secrets of spaces. Words and passphrases are in no report, log, error or record.

    A space that was unlocked is open only to the caller that unlocked it, for a time, and only in this process and in
    those of the same server; a lock closes it everywhere.
    """

    def __init__(
        self,
        store: SecretStore,
        /,
        *,
        ids: IdSource,
        keys: KeyProvider | None,
        copy: "SpaceCopier",
        is_elsewhere: bool = False,
    ) -> None:
        super().__init__(store, ids=ids, keys=keys, is_elsewhere=is_elsewhere)
        store.sweeper = self._sweep
        store.redrawn = (TAG_LINKS,)
        self._copy = copy
        self._looking: asyncio.Task[None] | None = None
        self._closed: dict[SpaceId, int] = {}
        self._on_open: list[Callable[[SpaceId], None]] = []

    def __repr__(self) -> str:
        return "SpaceSecrets()"

    @property
    def shares_grants(self) -> bool:
        """True if a grant outlasts this process: the store has a key-encryption key that seals it."""
        return self._keys is not None

    @staticmethod
    def fresh_words() -> SecretStr:
        """Return twelve new words. They are stored nowhere: seal a space with them once its user has them."""
        from elytron_core.text.recovery_words import ENTROPY_BYTES, words_of

        return SecretStr(words_of(os.urandom(ENTROPY_BYTES)))

    async def seal(
        self,
        space: str,
        /,
        *,
        words: Secret | None = None,
        passphrase: Secret | None = None,
        minutes: int | None = None,
    ) -> SecretStatus:
        """Put a user's spaces with all their contents under words or a passphrase; they are then open to the caller.

        If interrupted, each space is either still plain or sealed, and a repeat seals the rest. Raises Conflict if all
        are under a secret, SecretRefused if the user has another one, WordsInvalid, InvalidInput, SpaceInUse if others
        write too much meanwhile.
        """
        space_id = _usable_space(space)
        open_until = self._until(minutes, SESSION_MINUTES, limits.SECRET_SESSION_MS_MAX)
        secret_keeper = self._opened_parts().keeper
        secret = _secret_of(words, passphrase)
        unsealed_spaces = [user_space async for user_space, slot in self._secret_slots(space_id) if slot is None]
        if space_id in unsealed_spaces or not unsealed_spaces:
            key = await secret_keeper.fresh_key(secret)
            await secret_keeper.seal(space_id, key, until=open_until, copy=self._copy)
        else:
            key = await secret_keeper.proven_key(space_id, secret)
            await secret_keeper.unlock(space_id, key, until=open_until)
        await self._note_open(space_id)
        # Listed after that: a space that the user enters from here on is sealed at its first write.
        async for user_space, slot in self._secret_slots(space_id):
            if slot is None:
                await secret_keeper.seal(user_space, key, until=open_until, copy=self._copy)
                await self._note_open(user_space)
        return await self.status(space_id)

    async def unlock(
        self,
        space: str,
        /,
        *,
        words: Secret | None = None,
        passphrase: Secret | None = None,
        minutes: int | None = None,
    ) -> SecretStatus:
        """Open a user's spaces to the caller in this process for some minutes; those still plain are sealed.

        One that cannot be sealed now, or is under another secret, is unchanged, and the status says so. Raises NotFound
        if no space is under a secret, SecretRefused, WordsInvalid, RateLimited after wrong secrets.
        """
        space_id = _usable_space(space)
        open_until = self._until(minutes, SESSION_MINUTES, limits.SECRET_SESSION_MS_MAX)
        secret_keeper = self._opened_parts().keeper
        async for user_space, slot, key in self._keyed(space_id, _secret_of(words, passphrase)):
            try:
                if slot is None:
                    await secret_keeper.seal(user_space, key, until=open_until, copy=self._copy)
                else:
                    await secret_keeper.unlock(user_space, key, until=open_until)
            except SecretRefused:
                continue
            except ElytronError as error:
                logger.warning("a space could not be opened with the user's other spaces (%s)", error.key)
                continue
            await self._note_open(user_space)
        return await self.status(space_id)

    async def lock(self, space: str, /) -> SecretStatus:
        """Close a user's spaces in every process, and end their grants. Raises NotFound if none is under a secret."""
        space_id = _usable_space(space)
        secret_keeper = self._opened_parts().keeper
        for sealed_space in await self._sealed(space_id):
            await secret_keeper.lock(sealed_space)
            self._note_closed(sealed_space)
        return await self.status(space_id)

    async def change(
        self,
        space: str,
        /,
        *,
        words: Secret | None = None,
        passphrase: Secret | None = None,
        new_words: Secret | None = None,
        new_passphrase: Secret | None = None,
    ) -> SecretStatus:
        """Replace a user's secret by another; sealed content is unchanged. If interrupted, a repeat changes the rest.

        Raises as `unlock`, InvalidInput.
        """
        space_id = _usable_space(space)
        secret_keeper = self._opened_parts().keeper
        new_secret = _secret_of(new_words, new_passphrase, field="new ")
        new_secret.require_form(is_new=True)
        keys = self._keyed(space_id, _secret_of(words, passphrase))
        spaces_with_keys = [(sealed_space, key) async for sealed_space, slot, key in keys if slot is not None]
        new_key = await secret_keeper.fresh_key(new_secret)
        # The user's own space last: until then the former secret opens it, and a repeat changes what is left.
        for sealed_space, key in reversed(spaces_with_keys):
            with suppress(SecretRefused):  # under another secret, or changed before the call was interrupted
                await secret_keeper.change(sealed_space, key, new_key)
                await self._share(sealed_space)
        return await self.status(space_id)

    async def rotate(
        self, space: str, /, *, words: Secret | None = None, passphrase: Secret | None = None
    ) -> SecretStatus:
        """Re-seal a user's spaces under new data keys; erase what was under older ones, and the grants.

        Calls of a space raise SpaceIncomplete meanwhile. If interrupted, it is as before, or renewed. Raises as
        `unlock`.
        """
        space_id = _usable_space(space)
        secret_keeper = self._opened_parts().keeper
        async for sealed_space, slot, key in self._keyed(space_id, _secret_of(words, passphrase)):
            if slot is not None:
                with suppress(SecretRefused):  # under another secret
                    await secret_keeper.rotate(sealed_space, key, copy=self._copy)
                    await self._share(sealed_space)
        return await self.status(space_id)

    async def enter(self, user: SpaceId, space: SpaceId, /) -> None:
        """Prepare `space`, which the user of the space `user` is about to use: if the user's is sealed, it is sealed
        too.

        The user's list of spaces already names it, so that a secret created at this moment covers it. Raises
        SpaceLocked unless this caller has the user's own space open.
        """
        if space == user or (own_slot := await self.store.settle_slot(user)) is None:
            return
        if own_slot[0].state is SecretSlotState.DESTROYED or await self.store.settle_slot(space) is not None:
            return
        session = self.store.slots.require(user, own_slot[0])
        if not session.user_key or own_slot[0].terms is None:
            raise SpaceLocked(space=user)
        from elytron_store.secret.keeper import UserKey

        with suppress(Conflict):  # another call of the user was quicker
            key = UserKey(own_slot[0].terms, session.user_key)
            await self._opened_parts().keeper.seal(space, key, until=session.until, copy=self._copy)
        await self._note_open(space)

    async def grant(self, space: str, /, *, minutes: int | None = None) -> SecretStatus:
        """Let background work open a user's unlocked spaces for some minutes. The next lock ends it.

        It is valid in every process that has the store's key-encryption key; without one, in this process. Raises
        SpaceLocked, NotFound if no space is under a secret.
        """
        space_id = _usable_space(space)
        open_until = self._until(minutes, GRANT_MINUTES, limits.SECRET_GRANT_MS_MAX)
        secret_keeper, grant_service, _ = self._opened_parts()
        first_space, *other_spaces = await self._sealed(space_id)
        await secret_keeper.require_slot(first_space)
        await grant_service.make(first_space, until=open_until)
        for other_space in other_spaces:
            with suppress(SpaceLocked):  # under another secret, which is not open
                await grant_service.make(other_space, until=open_until)
        return await self.status(space_id)

    async def revoke(self, space: str, /) -> SecretStatus:
        """End the grants of a user's spaces. Raises NotFound if no space is under a secret."""
        space_id = _usable_space(space)
        secret_keeper, grant_service, _ = self._opened_parts()
        sealed_spaces = await self._sealed(space_id)
        await secret_keeper.require_slot(sealed_spaces[0])
        for sealed_space in sealed_spaces:
            await grant_service.end(sealed_space)
        return await self.status(space_id)

    @asynccontextmanager
    async def background(self, space: SpaceId, /) -> AsyncGenerator[None]:
        """Run the block as the server's own work in `space`: while its user has it open, or by a grant, for the block.

        Otherwise the calls in a locked space raise SpaceLocked. What the block returns must have no content of the
        space, since any caller may have asked for the work.
        """
        slot = None if self.store.is_plain(space) else await self.store.slots.read(space)
        if slot is None or slot[0].state is not SecretSlotState.SEALED or self.store.sessions.of(space) is not None:
            yield
            return
        session = self.store.sessions.latest(space)
        if session is None or not session.fits(slot[0], self.store.clock.now()):
            session = await self._opened_parts().grants.session(space)
        if session is None:
            yield
            return
        with self.store.lend(space, session):
            yield

    def on_forget(self, listener: Callable[[SpaceId], None], /) -> None:
        """Call `listener` with each space that is closed, so that it clears caches of the space's content."""
        self.store.listeners.append(listener)

    def on_open(self, listener: Callable[[SpaceId], None], /) -> None:
        """Call `listener` with each space that is opened."""
        self._on_open.append(listener)

    async def look(self) -> None:
        """Close the spaces that have expired, or that another process locked."""
        secret_keeper = self._opened_parts().keeper
        for space in await secret_keeper.look():
            self._note_closed(space)
        for space, rounds_left in tuple(self._closed.items()):
            if not self.store.sessions.is_open(space):
                self.store.forget_content(space)
            self._closed[space] = rounds_left - 1
            if rounds_left <= 1:
                del self._closed[space]

    async def close(self) -> None:
        """Stop checking open spaces; the keys are dropped with the store, which may first store checkpoints."""
        stopped_task, self._looking = self._looking, None
        if stopped_task is not None:
            stopped_task.cancel()
            with suppress(asyncio.CancelledError):
                await stopped_task

    async def _sweep(self, space: SpaceId) -> None:
        await self._opened_parts().keeper.sweep(space)

    def share_sessions(self, key: bytes, /) -> None:
        """Share what callers unlock with the other processes of a server, which all have `key` (32 random bytes)."""
        self._server_key, self._parts = key, None
        self.store.adopter = self._adopt

    async def _adopt(self, space: SpaceId, slot: SecretSlot) -> None:
        shared_sessions = self._opened_parts().shared
        if shared_sessions is not None and await shared_sessions.adopt(space, slot):
            self._note_adopted(space)

    async def _share(self, space: SpaceId) -> None:
        if (shared_sessions := self._opened_parts().shared) is not None:
            await shared_sessions.put(space)

    async def _note_open(self, space: SpaceId) -> None:
        await self._share(space)
        self._note_adopted(space)

    def _note_adopted(self, space: SpaceId) -> None:
        self._closed.pop(space, None)
        for listener in self._on_open:
            listener(space)
        self._begin_looking()

    def _note_closed(self, space: SpaceId) -> None:
        self._closed[space] = _LOOKS_AFTER
        self._begin_looking()

    def _begin_looking(self) -> None:
        if self._looking is None or self._looking.done():
            looking_coroutine: Coroutine[Any, Any, None] = self._keep_looking()
            self._looking = asyncio.get_running_loop().create_task(looking_coroutine, name="elytron-secrets")

    async def _keep_looking(self) -> None:
        while self._closed or list(self.store.sessions):
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except ElytronError as error:
                logger.warning("open spaces could not be checked (%s)", error.key)


def _usable_space(space: str) -> SpaceId:
    if is_reserved(space):
        raise PermissionRefused("the system's own spaces cannot have a user's secret: name another space")
    return SpaceId(space)


def _secret_of(words: Secret | None, passphrase: Secret | None, *, field: str = "") -> "UserSecret":
    from elytron_store.secret.keeper import UserSecret

    if (words is None) is (passphrase is None):
        raise InvalidInput(field=f"{field}words".replace(" ", "_"), problem="or a passphrase: pass one of the two")
    secret = words if words is not None else passphrase
    text = secret.get_secret_value() if isinstance(secret, SecretStr) else str(secret)
    return UserSecret(SecretKind.WORDS if words is not None else SecretKind.PASSPHRASE, text)
