"""Contents of a space as figures: documents of each plane by the store's own count, and the heads of conversations."""

from elytron.context import OperationContext
from elytron.documents.planes import by_plane
from elytron.jobs.queue import work_of
from elytron.state.spaces import read_heads
from elytron_console import limits
from elytron_core.clock import Instant
from elytron_core.contracts.maintenance import WorkHealth
from elytron_core.contracts.recall import RecallPlane
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import COLLECTIONS


class SpaceContents(Value):
    """Number of memories of each plane, and what the space is about. Counted for this answer; nothing of it is kept."""

    space: str
    exists: bool
    planes: dict[RecallPlane, int] = {}
    conversations: int = 0
    speakers: tuple[str, ...] = ()
    """The first of many."""
    first_at: Instant | None = None
    last_at: Instant | None = None
    work: WorkHealth = WorkHealth.IDLE
    jobs: dict[str, int] = {}
    compared_model: str | None = None
    """The model whose vectors recall compares; None: it compares none of a model."""
    unembedded_units: int = 0


async def space_contents(ctx: OperationContext, space: SpaceId, /) -> SpaceContents:
    """Return the contents of `space`. No memory is read: the store counts, and conversations have heads."""
    record = await ctx.spaces.find(space)
    if record is None:
        return SpaceContents(space=space, exists=False)
    counts = {collection: await ctx.store.count(space, collection) for collection in COLLECTIONS}
    heads = [head async for head in read_heads(ctx.store, space)]
    speakers = dict.fromkeys(name for head in heads for name in head.speakers)
    work, jobs = await work_of(ctx, space)
    wanted = ctx.encoders.wanted
    unembedded = 0
    if wanted is not None:
        unembedded = (await ctx.folds.current(space)).unembedded(record.model_tag(wanted.info.model))
    return SpaceContents(
        space=space,
        exists=True,
        planes=by_plane(counts),
        conversations=len(heads),
        speakers=tuple(speakers)[: limits.SPEAKERS_LISTED],
        first_at=min((head.first_at for head in heads if head.first_at is not None), default=None),
        last_at=max((head.last_at for head in heads if head.last_at is not None), default=None),
        work=work,
        jobs=jobs,
        compared_model=wanted.info.model if wanted is not None else None,
        unembedded_units=unembedded,
    )
