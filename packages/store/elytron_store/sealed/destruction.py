"""The end of a space's keys. The mark comes first and the name is freed last, so what is cut short can be repeated."""

from elytron_core.errors import Conflict
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Delete, Erasure, Put
from elytron_store.sealed.keyring import Keyring, batch
from elytron_store.sealed.records import KEYRING, SEAT_WHAT, Life, Seat, read, record_ref


async def bury(keyring: Keyring, space: SpaceId, /) -> SpaceId | None:
    """Mark `space` as destroyed and physically erase its wrapped keys; return its inner space, None without keys."""
    while (kept := await keyring.seat(space)) is not None:
        seat = read(Seat, kept.body, what=SEAT_WHAT)
        if seat.life is Life.LIVE:
            mark = Seat(inner=seat.inner, life=Life.DESTROYED)
            try:
                await keyring.inner.commit(batch(keyring.clock, Put(kept.ref, mark.to_bytes(), kept.revision)))
            except Conflict:
                continue
        await keyring.inner.erase(Erasure(space=KEYRING, at=keyring.clock.now(), refs=(record_ref(seat.inner),)))
        return SpaceId(seat.inner)
    return None


async def free(keyring: Keyring, space: SpaceId, inner: SpaceId, /) -> None:
    """Take the mark of the destroyed `inner` away, so that the name `space` can live again."""
    kept = await keyring.seat(space)
    if kept is None or read(Seat, kept.body, what=SEAT_WHAT) != Seat(inner=inner, life=Life.DESTROYED):
        return
    try:
        await keyring.inner.commit(batch(keyring.clock, Delete(kept.ref, kept.revision)))
    except Conflict:
        return  # another call finished the same erasure
