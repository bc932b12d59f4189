"""The engine's check report, translated for callers, who do not know inner spaces."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from elytron_core.clock import Instant
from elytron_core.errors import SealBroken, StoreCorrupt
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.ports.store import (
    ErasureTarget,
    Store,
    acknowledge_losses,
    find_losses,
    scan_documents,
    scan_entries,
    scan_spaces,
)
from elytron_core.ports.store_checks import CheckReport, DamageKind, StoreLoss, StoreProblem
from elytron_store.secret.records import (
    HOLD,
    INNER_PREFIX,
    SECRET_GUARD,
    SECRET_SLOT,
    SLOT_WHAT,
    SecretSlotState,
    read_secret_slot,
)


async def report_secrets(inner_store: Store, report: CheckReport, /) -> CheckReport:
    """Return `report` of `inner_store` with its spaces under secrets counted once and named as callers name them.

    Sealed content is not opened: the engine verifies its bytes, reading verifies its seal.
    """
    owners: dict[SpaceId, SpaceId] = {}
    inners: set[SpaceId] = set()
    own_documents = entries = 0
    problems: list[StoreProblem] = []
    async for space in scan_spaces(inner_store):
        if space.startswith(INNER_PREFIX):
            inners.add(space)
            own_documents += sum(
                document is not None for document in await inner_store.get(space, (SECRET_GUARD, HOLD))
            )
            continue
        if is_reserved(space):
            continue
        documents = [document async for document in scan_documents(inner_store, space, SECRET_SLOT.collection)]
        own_documents += len(documents)
        for document in documents[:1]:
            try:
                slot = read_secret_slot(document)
            except SealBroken:
                problems.append(StoreProblem(DamageKind.DOCUMENT, space, SLOT_WHAT))
                continue
            if slot.state in {SecretSlotState.SEALED, SecretSlotState.RENEWING}:
                owners[SpaceId(slot.inner)] = space
                entries += len([entry async for entry in scan_entries(inner_store, space)])
    orphan_spaces = inners - owners.keys()
    inner_problems = [
        replace(space_problem, space=_owner_of(space_problem.space, owners)) for space_problem in report.problems
    ]
    return replace(
        report,
        spaces=max(report.spaces - len(orphan_spaces) - sum(name in inners for name in owners), 0),
        documents=max(report.documents - own_documents, 0),
        entries=max(report.entries - entries, 0),
        problems=(*inner_problems, *problems),
        losses=tuple(replace(loss, space=_owner_of(loss.space, owners)) for loss in report.losses),
    )


async def find_secret_losses(inner_store: Store, space: SpaceId | None, /) -> Sequence[StoreLoss]:
    """Return the losses of the store `inner_store`, with spaces under secrets named as callers name them."""
    owners: dict[SpaceId, SpaceId] = {}
    if space is None:
        losses = await find_losses(inner_store)
        if any((loss.space or "").startswith(INNER_PREFIX) for loss in losses):
            owners = {
                listed_inner: owner
                async for owner in scan_spaces(inner_store)
                for listed_inner in await _inners_of(inner_store, owner)
            }
    else:
        owners = dict.fromkeys(await _inners_of(inner_store, space), space)
        losses = [loss for listed_inner in (space, *owners) for loss in await find_losses(inner_store, listed_inner)]
    merged: dict[SpaceId | None, StoreLoss] = {}
    for loss in sorted(losses, key=lambda loss: loss.at):
        owner = _owner_of(loss.space, owners)
        owner_loss = replace(loss, space=owner)
        merged[owner] = merged[owner].plus(owner_loss) if owner in merged else owner_loss
    return list(merged.values())


async def acknowledge_secret_losses(inner_store: Store, space: SpaceId | None, /, *, at: Instant) -> int:
    """Acknowledge the losses of `space` and its inner spaces, or all; return the number of spaces with losses."""
    inner_spaces = () if space is None else await _inners_of(inner_store, space)
    return max([await acknowledge_losses(inner_store, each, at=at) for each in (space, *inner_spaces)])


async def _inners_of(inner_store: Store, space: SpaceId) -> Sequence[SpaceId]:
    """Return the inner spaces of `space`, none if it is plain or its slot is damaged."""
    if not is_reserved(space):
        with suppress(StoreCorrupt, SealBroken):
            (document,) = await inner_store.get(space, (SECRET_SLOT,))
            return () if document is None else read_secret_slot(document).inners
    return ()


async def redraw_spaces(inner_store: Store, collections: Sequence[str], /, *, at: Instant) -> None:
    """Erase the documents of `collections` in all spaces under secrets; they are recreated when needed."""
    async for space in scan_spaces(inner_store):
        if space.startswith(INNER_PREFIX):
            with suppress(StoreCorrupt):
                await erase_redrawn(inner_store, space, collections, at=at)


async def erase_redrawn(inner_store: Store, space: SpaceId, collections: Sequence[str], /, *, at: Instant) -> None:
    """Erase the documents of `collections` in an inner space."""
    refs = [each.ref for collection in collections async for each in scan_documents(inner_store, space, collection)]
    if refs:
        await inner_store.erase(ErasureTarget(space=space, at=at, refs=tuple(refs)))


def _owner_of(space: SpaceId | None, owners: dict[SpaceId, SpaceId]) -> SpaceId | None:
    if space is None or not space.startswith(INNER_PREFIX):
        return space
    return owners.get(space)
