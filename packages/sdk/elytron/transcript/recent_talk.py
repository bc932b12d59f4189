"""The last words of a conversation, beside which a query that is too short to stand alone is read."""

from typing import Final

from elytron.context import OperationContext
from elytron_core.planes.conversation import transcript
from elytron_core.planes.space import SpaceRecord
from elytron_core.scope import ConversationKey, Scope

TURNS: Final = 4
CHARS: Final = 400
"""Number of characters at the end of each message that are read."""


async def recent_talk(ctx: OperationContext, scope: Scope, record: SpaceRecord, key: ConversationKey, /) -> str:
    """Return what the last turns of a conversation say that may be recalled, latest first."""
    prefix = f"{record.conversation_tag(key)}."
    documents = await ctx.store.scan(scope.space, transcript.TURNS, prefix=prefix, limit=TURNS, descending=True)
    turns = [ctx.folds.readings.turn(scope.space, document).turn for document in documents]
    return " ".join(
        message.text[-CHARS:]
        for turn in turns
        for part, message in enumerate(turn.messages)
        if turn.is_recallable(part)
    )
