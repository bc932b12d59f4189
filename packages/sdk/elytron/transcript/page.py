"""Reading a page of a conversation through one view."""

import re
from typing import TypeVar

from elytron.context import OperationContext
from elytron.documents.cursor import CursorForm
from elytron.memories.chat_aliases import meant
from elytron_core.contracts.conversation.transcript import (
    MemoryTranscriptExportRequest,
    MemoryTranscriptReplayReport,
    MemoryTranscriptReplayRequest,
    TranscriptReplayView,
)
from elytron_core.contracts.scope_fields import Clip, ClipReason
from elytron_core.ids import ConversationTag, SpaceId, TurnId
from elytron_core.planes.conversation import transcript
from elytron_core.planes.conversation.attributes import TURN_ATTRIBUTES, TurnAttribute
from elytron_core.policy.transcript.view_cut import cut
from elytron_core.ports import store_pages
from elytron_core.ports.store import Ref

ReportT = TypeVar("ReportT", bound=MemoryTranscriptReplayReport)
_CURSOR = CursorForm(re.compile(r"([0-9]{1,15}):(.+)", re.DOTALL), "a report of this conversation")


async def read_page(
    ctx: OperationContext,
    request: MemoryTranscriptReplayRequest | MemoryTranscriptExportRequest,
    view: TranscriptReplayView,
    report: type[ReportT],
    /,
) -> ReportT:
    """Return the page behind the cursor; nothing where the scope's chat cannot be trusted. Raises InvalidInput."""
    scope, limit, cursor = ctx.scope_of(request), request.limit, request.cursor
    found = await meant(ctx, scope)
    record = await ctx.spaces.find(scope.space)
    budget = ctx.profile.budget.transcript
    if record is None or not found.is_trusted:
        if cursor is not None:
            raise _CURSOR.refusal()
        return report(slice=cut(scope.space, found.key, (), {}, view=view, budget=budget).slice, alias=found.trust)
    tag = record.conversation_tag(found.key)
    after = await _place(ctx, scope.space, tag, cursor)
    size = min(limit, budget.page_turns)
    documents = await ctx.store.scan(scope.space, transcript.TURNS, prefix=f"{tag}.", after=after, limit=size + 1)
    turns = [(TurnId(document.ref.key), transcript.Turn.from_bytes(document.body)) for document in documents[:size]]
    attributes = await _attributes(ctx, scope.space, tag, turns)
    made = cut(scope.space, found.key, turns, attributes, view=view, budget=budget)
    has_more = len(documents) > size
    clips = list(made.clipped)
    if has_more and size < limit:
        beyond = store_pages.documents(
            ctx.store, scope.space, transcript.TURNS, prefix=f"{tag}.", after=documents[size - 1].ref.key
        )
        dropped = 0
        async for _ in beyond:
            dropped += 1
            if dropped == limit - size:
                break
        clips.append(Clip(what="turns", reason=ClipReason.PROFILE, limit=size, dropped=dropped))
    return report(
        slice=made.slice,
        alias=found.trust,
        next_cursor=cursor_of(turns[-1][0]) if has_more else None,
        has_more=has_more,
        profile_budget_applied=bool(clips),
        clipped=tuple(clips),
    )


def cursor_of(turn: TurnId, /) -> str:
    """Return the cursor that continues behind a turn."""
    return f"{transcript.sequence_of(turn)}:{turn}"


async def _place(ctx: OperationContext, space: SpaceId, tag: ConversationTag, cursor: str | None) -> TurnId:
    """Return the turn behind which a page begins. Raises InvalidInput if it is not one of this conversation."""
    if cursor is None:
        return TurnId("")
    sequence, key = _CURSOR.parts(cursor)
    turn = transcript.turn_id(tag, int(sequence))
    if turn != key or (await ctx.store.get(space, (Ref(transcript.TURNS, turn),)))[0] is None:
        raise _CURSOR.refusal()
    return turn


async def _attributes(
    ctx: OperationContext, space: SpaceId, tag: ConversationTag, turns: list[tuple[TurnId, transcript.Turn]]
) -> dict[TurnId, list[TurnAttribute]]:
    """Return the attributes of a page's turns."""
    found: dict[TurnId, list[TurnAttribute]] = {}
    if not turns:
        return found
    # Behind the first turn's id come its attributes, then those of the turns after it.
    after, last = str(turns[0][0]), turns[-1][0]
    async for document in store_pages.documents(ctx.store, space, TURN_ATTRIBUTES, prefix=f"{tag}.", after=after):
        turn = TurnId(document.ref.key.rpartition(".")[0])
        if turn > last:
            return found
        found.setdefault(turn, []).append(TurnAttribute.from_bytes(document.body))
    return found
