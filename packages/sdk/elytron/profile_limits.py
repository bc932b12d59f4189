"""Effects of a profile's hard limits: stores are bounded, texts beyond them refused whole, blocks built smaller."""

from elytron.indexing.checkpoint_store import CHECKPOINT
from elytron.journal.compaction import compact
from elytron_core.contracts.scope_fields import Clip, ClipReason
from elytron_core.errors import LimitExceeded, Unsupported
from elytron_core.planes.knowledge.profiles import Profile, StoreCapacity
from elytron_core.planes.space import COLLECTIONS
from elytron_core.policy.host.profiles import EMBEDDED_SDK, EMBEDDED_STANDALONE
from elytron_core.ports.store import Store
from elytron_store.wrappers.capacity import CapacityStore


def capacity_of(profile: Profile, engine: str, /, *, is_kept: bool) -> StoreCapacity | None:
    """Return the capacity of a store of `engine` in `profile`; None if its device is the bound. Raises Unsupported.

    An embedded store is bounded in every profile: as a standalone device's if it is kept in a folder.
    """
    if profile.engines and engine not in profile.engines:
        way_out = ", ".join(f"{name}:" for name in profile.engines if name != "given")
        raise Unsupported(f"profile {profile.name.value!r} has no {engine} store: use {way_out}")
    if profile.capacity is None and engine == "embedded":
        return EMBEDDED_STANDALONE if is_kept else EMBEDDED_SDK
    return profile.capacity


async def bounded(store: Store, capacity: StoreCapacity | None, /) -> Store:
    """Return `store` bounded by `capacity`, if any; a store that cannot be counted is closed."""
    if capacity is None:
        return store
    try:
        return await CapacityStore.open(
            store, capacity, collections=COLLECTIONS, blobs=(CHECKPOINT,), compactor=compact
        )
    except BaseException:
        await store.close()
        raise


def require_chars(profile: Profile, longest: int, /) -> None:
    """Raise LimitExceeded for a text longer than the profile takes; evidence is never cut in silence."""
    most = profile.budget.source_chars
    if profile.capacity is not None and longest > most:
        raise LimitExceeded(what=f"characters of one text in profile {profile.name.value}", limit=most, found=longest)


def rendered_chars(profile: Profile, asked: int, /) -> tuple[int, tuple[Clip, ...]]:
    """Return how many characters a block may have, and what the profile cut from what was asked."""
    most = min(asked, profile.budget.render_chars)
    clip = Clip(what="max_chars", reason=ClipReason.PROFILE, limit=most, dropped=asked - most)
    return most, (clip,) if most < asked else ()
