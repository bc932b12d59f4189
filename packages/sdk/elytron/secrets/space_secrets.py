"""The secrets of the spaces of one runtime: made, opened, closed, changed, and granted to work in the background."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from elytron.indexing.checkpoints import CHECKPOINT
from elytron.secrets.forms import GRANT_MINUTES, SESSION_MINUTES, SecretState, SecretStatus
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError, InvalidInput, PermissionRefused, Unsupported
from elytron_core.ids import IdSource, SpaceId, is_reserved
from elytron_core.planes.embedding import TAG_LINKS
from elytron_core.planes.gateway import WITH_BLOBS
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports.store import KeyProvider
from elytron_store import limits
from elytron_store.secret.records import SeatState, SecretKind
from elytron_store.secret.store import SecretStore

if TYPE_CHECKING:
    from elytron_store.secret.grants import GrantDesk
    from elytron_store.secret.keeper import SecretKeeper, SpaceCopier, UserSecret

logger = logging.getLogger(__name__)
LOOK_S: Final = 1.0
"""Time between two looks at the open spaces: one that was locked elsewhere, or whose time is over, is let go."""
_LOOKS_AFTER: Final = 3
"""Looks after a space was closed in which what was under way is forgotten too."""
_MINUTE_MS: Final = 60_000
Secret = SecretStr | str


class SpaceSecrets:
    """The secrets of spaces. Words and passphrases are in no report, log, error or record.

    A space that was unlocked is open in this process alone, for a time; a lock closes it in all.
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
        self.store = store
        store.sweeper = self._sweep
        store.redrawn = (TAG_LINKS,)
        self._copy = copy
        self._is_elsewhere = is_elsewhere
        self._ids = ids
        self._keys = keys
        self._parts: tuple[SecretKeeper, GrantDesk] | None = None
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
        """Return twelve new words. They are kept nowhere: seal a space with them once its user has them."""
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
        """Put a space under its user's words or passphrase, with all that it holds; it is then open here.

        Cut short, the space is plain as before or sealed. Raises Conflict if it is under a secret, WordsInvalid,
        InvalidInput, SpaceInUse if others write too much meanwhile.
        """
        place = _usable_space(space)
        until = self._until(minutes, SESSION_MINUTES, limits.SECRET_SESSION_MS_MAX)
        keeper, _ = self._opened_parts()
        await keeper.seal(place, _secret_of(words, passphrase), until=until, copy=self._copy)
        self._note_open(place)
        return await self.status(place)

    async def unlock(
        self,
        space: str,
        /,
        *,
        words: Secret | None = None,
        passphrase: Secret | None = None,
        minutes: int | None = None,
    ) -> SecretStatus:
        """Open a space in this process for some minutes.

        Raises NotFound if it is under no secret, SecretRefused, WordsInvalid, RateLimited after ten wrong ones in a
        quarter of an hour.
        """
        place = _usable_space(space)
        until = self._until(minutes, SESSION_MINUTES, limits.SECRET_SESSION_MS_MAX)
        keeper, _ = self._opened_parts()
        await keeper.unlock(place, _secret_of(words, passphrase), until=until)
        self._note_open(place)
        return await self.status(place)

    async def lock(self, space: str, /) -> SecretStatus:
        """Close a space in every process, and end its grant. Raises NotFound if it is under no secret."""
        place = _usable_space(space)
        keeper, _ = self._opened_parts()
        await keeper.lock(place)
        self._note_closed(place)
        return await self.status(place)

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
        """Put another secret in the place of one; what is sealed stays as it is. Raises as `unlock`, InvalidInput."""
        place = _usable_space(space)
        keeper, _ = self._opened_parts()
        await keeper.change(place, _secret_of(words, passphrase), _secret_of(new_words, new_passphrase, field="new "))
        return await self.status(place)

    async def rotate(
        self, space: str, /, *, words: Secret | None = None, passphrase: Secret | None = None
    ) -> SecretStatus:
        """Seal all that a space holds again, under a new data key; what was under older ones, and its grant, is erased.

        Calls of the space raise SpaceIncomplete meanwhile. Cut short, it is as before, or renewed. Raises as `unlock`.
        """
        place = _usable_space(space)
        keeper, _ = self._opened_parts()
        await keeper.rotate(place, _secret_of(words, passphrase), copy=self._copy)
        return await self.status(place)

    async def status(self, space: str, /) -> SecretStatus:
        """Return the state of a space, which needs no secret."""
        place = _usable_space(space)
        found = await self.store.settled_seat(place)
        if found is None or found[0].state is SeatState.DESTROYED:
            return SecretStatus(space=space, state=SecretState.PLAIN)
        seat = found[0]
        status = SecretStatus(
            space=space,
            state=SecretState.LOCKED,
            kind=seat.kind.value,
            derivation=seat.terms.function.value if seat.terms is not None else "",
            made_at=seat.made_at,
        )
        if seat.filled:
            return status.model_copy(update={"state": SecretState.MAKING})
        keeper, grants = self._opened_parts()
        await keeper.sweep(place)
        if await grants.session(place) is not None and (grant := await grants.record(place)) is not None:
            status = status.model_copy(update={"grant_until": grant.until})
        with suppress(ElytronError):
            session = self.store.seats.require(place, seat)
            status = status.model_copy(update={"state": SecretState.UNLOCKED, "until": session.until})
        return status

    async def grant(self, space: str, /, *, minutes: int | None = None) -> SecretStatus:
        """Let work in the background open an unlocked space for some minutes. The next lock ends it.

        It holds in every process that has the store's key-encryption key; without one, in this process. Raises
        SpaceLocked, NotFound if the space is under no secret.
        """
        place = _usable_space(space)
        until = self._until(minutes, GRANT_MINUTES, limits.SECRET_GRANT_MS_MAX)
        keeper, grants = self._opened_parts()
        await keeper.required_seat(place)
        await grants.make(place, until=until)
        return await self.status(place)

    async def revoke(self, space: str, /) -> SecretStatus:
        """End the grant of a space. Raises NotFound if the space is under no secret."""
        place = _usable_space(space)
        keeper, grants = self._opened_parts()
        await keeper.required_seat(place)
        await grants.end(place)
        return await self.status(place)

    @asynccontextmanager
    async def background(self, space: SpaceId, /) -> AsyncGenerator[None]:
        """Run the block as work in the background of `space`: a grant opens it, for the block alone.

        Without one, the calls in a locked space raise SpaceLocked.
        """
        seat = None if self.store.is_plain(space) else await self.store.seats.read(space)
        if seat is None or seat[0].state is not SeatState.SEALED or self.store.sessions.of(space) is not None:
            yield
            return
        session = await self._opened_parts()[1].session(space)
        if session is None:
            yield
            return
        with self.store.lend(space, session):
            yield

    def on_forget(self, listener: Callable[[SpaceId], None], /) -> None:
        """Call `listener` with each space that is closed: what it remembers of that space's content must go."""
        self.store.listeners.append(listener)

    def on_open(self, listener: Callable[[SpaceId], None], /) -> None:
        """Call `listener` with each space that is opened."""
        self._on_open.append(listener)

    def opened_at(self, space: SpaceId, /) -> Instant:
        """Return since when `space` is open for this task; 0 for a plain one, and one that is locked."""
        session = self.store.sessions.of(space)
        return session.since if session is not None else Instant(0)

    async def look(self) -> None:
        """Let go of the spaces whose time is over, or that another process locked."""
        keeper, _ = self._opened_parts()
        for space in await keeper.look():
            self._note_closed(space)
        for space, left in tuple(self._closed.items()):
            if not self.store.sessions.is_open(space):
                self.store.forget_content(space)
            self._closed[space] = left - 1
            if left <= 1:
                del self._closed[space]

    async def close(self) -> None:
        """End the looks at open spaces; the keys go with the store, which may store checkpoints before."""
        task, self._looking = self._looking, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _sweep(self, space: SpaceId) -> None:
        await self._opened_parts()[0].sweep(space)

    def _until(self, minutes: int | None, usual: int, most_ms: int) -> Instant:
        wanted = usual if minutes is None else minutes
        if not 1 <= wanted <= most_ms // _MINUTE_MS:
            raise InvalidInput(field="minutes", problem=f"is not 1 to {most_ms // _MINUTE_MS}")
        return Instant(self.store.clock.now() + wanted * _MINUTE_MS)

    def _note_open(self, space: SpaceId) -> None:
        self._closed.pop(space, None)
        for listener in self._on_open:
            listener(space)
        self._begin_looking()

    def _note_closed(self, space: SpaceId) -> None:
        self._closed[space] = _LOOKS_AFTER
        self._begin_looking()

    def _begin_looking(self) -> None:
        if self._looking is None or self._looking.done():
            looking: Coroutine[Any, Any, None] = self._keep_looking()
            self._looking = asyncio.get_running_loop().create_task(looking, name="elytron-secrets")

    async def _keep_looking(self) -> None:
        while self._closed or list(self.store.sessions):
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except ElytronError as error:
                logger.warning("open spaces were not looked at (%s)", error.key)

    def _opened_parts(self) -> "tuple[SecretKeeper, GrantDesk]":
        # Imported now: a process that meets no secret needs no cipher library.
        if self._is_elsewhere:
            raise Unsupported("this store is a server's: call the routes /v1/secret of that server")
        if self._parts is None:
            from elytron_store.secret.grants import GrantDesk
            from elytron_store.secret.keeper import PlainContents, SecretKeeper

            contents = PlainContents(COLLECTIONS, (CHECKPOINT,), WITH_BLOBS, redrawn=self.store.redrawn)
            keeper = SecretKeeper(self.store, ids=self._ids, contents=contents)
            self._parts = keeper, GrantDesk(self.store, ids=self._ids, keys=self._keys)
        return self._parts


def _usable_space(space: str) -> SpaceId:
    if is_reserved(space):
        raise PermissionRefused("the system's own spaces are under no user's secret: name another")
    return SpaceId(space)


def _secret_of(words: Secret | None, passphrase: Secret | None, *, field: str = "") -> "UserSecret":
    from elytron_store.secret.keeper import UserSecret

    if (words is None) is (passphrase is None):
        raise InvalidInput(field=f"{field}words".replace(" ", "_"), problem="or a passphrase: give one of the two")
    given = words if words is not None else passphrase
    text = given.get_secret_value() if isinstance(given, SecretStr) else str(given)
    return UserSecret(SecretKind.WORDS if words is not None else SecretKind.PASSPHRASE, text)
