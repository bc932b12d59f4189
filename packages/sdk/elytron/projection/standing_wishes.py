"""Standing wishes in a block: statements of people about what is to hold, read from the transcript alone."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from elytron.context import OperationContext
from elytron.documents.stored_values import documents_at
from elytron.indexing.statement_labels import is_standing
from elytron.recall.filters import index_filters, wants
from elytron_core import limits
from elytron_core.contracts.conversation.projection import MemoryProjectionRequest
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.ids import TurnId
from elytron_core.planes.evidence import Trust
from elytron_core.policy.extraction.wishes_in_force import Said, standing_wishes
from elytron_core.policy.projection.items import WishItem
from elytron_core.scope import ConversationKey, Scope
from elytron_core.text.features import Trait
from elytron_index import UnitView

_LEAST: Final = Trust.VOUCHED.rank


async def wishes_of(
    ctx: OperationContext, scope: Scope, request: MemoryProjectionRequest, key: ConversationKey | None
) -> tuple[WishItem, ...]:
    """Return what people said is to hold and have not taken back since, latest first.

    Text from outside, from a tool or a page, is no wish and takes none back. `key` is the conversation of the block,
    None if it cannot be trusted: then no wish is shown.
    """
    if key is None or not wants(request.filters, Plane.TRANSCRIPT) or await ctx.spaces.find(scope.space) is None:
        return ()
    index = await ctx.folds.current(scope.space)
    filters = index_filters(request.filters, Plane.TRANSCRIPT, ctx.clock.now(), key)
    standing = index.latest(filters, Trait.STANDING, limit=limits.WISHES_READ, least_trust=_LEAST)
    if not standing:
        return ()
    since = standing[-1].at
    changes = index.latest(filters, Trait.CHANGE, limit=limits.WISHES_READ, least_trust=_LEAST)
    views = {(view.ref, view.part): view for view in (*standing, *(view for view in changes if view.at >= since))}
    latest = sorted(views.values(), key=lambda view: (view.at, view.order, view.ref, view.part), reverse=True)
    return standing_wishes(await _said(ctx, scope, latest), is_standing=partial(is_standing, ctx.models.statements))


async def _said(ctx: OperationContext, scope: Scope, views: Sequence[UnitView]) -> list[Said]:
    """Return the messages, those left out that may not be recalled any more."""
    documents = await documents_at(ctx.store, scope.space, (view.ref for view in views))
    turns = {ref: ctx.folds.readings.turn(scope.space, document) for ref, document in documents.items()}
    hits = [turns[view.ref].hit(TurnId(view.ref.key), view.part) for view in views if view.ref in turns]
    return [Said(id=hit.id, text=hit.text, speaker=hit.speaker, at=hit.at) for hit in hits if hit is not None]
