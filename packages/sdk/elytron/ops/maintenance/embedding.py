"""Embedding of a space: vectors for what has none, and the switch to another model."""

from elytron.context import OperationContext
from elytron.documents.stored_values import value_at
from elytron.embedding.embed_pass import EmbedProgress, choice_of, commit_vectors, drop_others, embed_some
from elytron.indexing.units import CHOICE
from elytron.state.space_records import REF
from elytron_core.contracts.maintenance.embedding import (
    EmbeddingOutcome,
    MemoryEmbedReport,
    MemoryEmbedRequest,
    ModelSwitchRequest,
)
from elytron_core.errors import ModelError
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import EmbeddingChoice
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.models import Embedder
from elytron_core.ports.store import EntryDraft, JournalAction, PutChange, RequireRevision


async def embed_space(ctx: OperationContext, request: MemoryEmbedRequest, /) -> MemoryEmbedReport:
    """Create vectors for whatever lacks one of the model that recall compares."""
    space = ctx.scope_of(request).space
    if ctx.encoders.current is None:
        return MemoryEmbedReport(space=space, outcome=EmbeddingOutcome.NO_EMBEDDER)
    record = await ctx.spaces.find(space)
    if record is None:
        return MemoryEmbedReport(space=space, outcome=EmbeddingOutcome.EMPTY_SPACE)
    index = await ctx.folds.current(space)
    embedder = ctx.encoders.serving(record, index.compared)
    if embedder is None:
        return await _embed_report(ctx, space, record, None, EmbedProgress(), outcome=EmbeddingOutcome.OTHER_MODEL)
    progress = EmbedProgress()
    failure = await _embed_missing(ctx, space, embedder, progress, request.texts)
    if index.compared and progress.is_done and not failure:
        _, failure = await _cut_over(ctx, space, record, embedder)
    return await _embed_report(
        ctx, space, record, embedder, progress, outcome=_embedding_outcome(progress, failure), reason=failure
    )


async def switch_model(ctx: OperationContext, request: ModelSwitchRequest, /) -> MemoryEmbedReport:
    """Create vectors with the runtime's embedder in addition to the compared ones; once none is missing, compare only
    these."""
    space = ctx.scope_of(request).space
    embedder = ctx.encoders.current
    if embedder is None:
        return MemoryEmbedReport(space=space, outcome=EmbeddingOutcome.NO_EMBEDDER)
    record = await ctx.spaces.find(space)
    if record is None:
        return MemoryEmbedReport(space=space, outcome=EmbeddingOutcome.EMPTY_SPACE)
    progress = EmbedProgress()
    failure = await _embed_missing(ctx, space, embedder, progress, request.texts)
    is_switched, dropped_count = False, 0
    if progress.is_done and not failure:
        is_switched, failure = await _cut_over(ctx, space, record, embedder)
    if progress.is_done and not failure:
        dropped_count = await drop_others(ctx, space, record.model_tag(embedder.info.model), limit=request.texts)
    outcome = _embedding_outcome(progress, failure)
    # The limit was reached, so others may be left.
    if dropped_count == request.texts:
        outcome = EmbeddingOutcome.MORE
    report = await _embed_report(ctx, space, record, embedder, progress, outcome=outcome, reason=failure)
    has_changed = report.changed or is_switched or dropped_count > 0
    return report.model_copy(update={"switched": is_switched, "dropped": dropped_count, "changed": has_changed})


async def _embed_missing(
    ctx: OperationContext, space: SpaceId, embedder: Embedder, progress: EmbedProgress, texts: int
) -> str:
    """Embed what is missing; return why the embedder could not, if so."""
    await ctx.encoders.settled(space)
    try:
        await embed_some(ctx, space, embedder, progress, texts=texts)
    except ModelError as error:
        return error.message
    return ""


def _embedding_outcome(progress: EmbedProgress, failed: str) -> EmbeddingOutcome:
    if failed:
        return EmbeddingOutcome.FAILED
    return EmbeddingOutcome.COMPLETE if progress.is_done else EmbeddingOutcome.MORE


async def _cut_over(ctx: OperationContext, space: SpaceId, record: SpaceRecord, embedder: Embedder) -> tuple[bool, str]:
    """Make recall compare only the vectors of `embedder`, in one commit, if it can be measured.

    Return whether recall did not before, and what kept the embedder from its trial, if anything did.
    """
    tag = record.model_tag(embedder.info.model)
    current_choice, revision = await value_at(ctx.store, space, CHOICE, EmbeddingChoice)
    if current_choice is not None and current_choice.tag == tag and current_choice.reach is not None:
        return False, ""
    try:
        choice = await choice_of(ctx, embedder, tag)
    except ModelError as error:
        return False, error.message
    choice_bytes = choice.to_bytes()
    await commit_vectors(
        ctx,
        space,
        puts=(PutChange(CHOICE, choice_bytes, revision),),
        entries=(EntryDraft(JournalAction.OPERATOR, CHOICE, record.digest(choice_bytes)),),
        requires=(RequireRevision(REF, 1),),
        documents={CHOICE: choice},
    )
    return current_choice is None or current_choice.tag != tag, ""


async def _embed_report(
    ctx: OperationContext,
    space: SpaceId,
    record: SpaceRecord,
    embedder: Embedder | None,
    progress: EmbedProgress,
    *,
    outcome: EmbeddingOutcome,
    reason: str = "",
) -> MemoryEmbedReport:
    choice, _ = await value_at(ctx.store, space, CHOICE, EmbeddingChoice)
    index = await ctx.folds.current(space)
    tag = record.model_tag(embedder.info.model) if embedder is not None else index.compared
    return MemoryEmbedReport(
        space=space,
        outcome=outcome,
        model=embedder.info.model if embedder is not None else None,
        compared=choice.model if choice is not None else None,
        embedded=progress.embedded,
        reused=progress.reused,
        refused=progress.refused,
        remaining=index.unembedded(tag),
        reason=reason,
        changed=progress.sequence > 0,
        sequence=index.watermark,
    )
