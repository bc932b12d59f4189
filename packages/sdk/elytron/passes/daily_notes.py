"""Daily notes drawn from the transcript: rules choose the sentences, and choose again when a day has more turns."""

from functools import partial

from elytron.documents.change_set import Changes
from elytron.passes.pass_context import Work, read_maintained
from elytron.writes.commit import commit
from elytron.writes.conversation_planes import plan_drawn_notes
from elytron.writes.settlement import Settled, settle
from elytron_core import limits
from elytron_core.contracts.conversation.write import MemoryWriteRequest
from elytron_core.contracts.planes import NotesWrite
from elytron_core.ids import TurnId
from elytron_core.planes.admin import jobs
from elytron_core.planes.admin.jobs import Maintained
from elytron_core.planes.conversation import transcript
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.extraction import daily_notes
from elytron_core.ports.store import Action, Ref


async def draw_notes(work: Work, /) -> int:
    """Note up to four days older than a week without a note; return how many notes were drawn, or drawn again.

    Broken off before the last turn is written down, the days are read again and have their notes.
    """
    noted = (await read_maintained(work.ctx, work.scope, work.record)).noted
    after = transcript.turn_id(work.record.conversation_tag(work.scope.conversation_key), noted)
    page = await work.ctx.store.scan(
        work.space, transcript.TURNS, prefix=f"{work.tag}.", after=after, limit=limits.SCAN_MAX
    )
    turns = [(TurnId(document.ref.key), transcript.Turn.from_bytes(document.body)) for document in page]
    found = daily_notes.drawn(turns, work.ctx.clock.now(), is_cut=len(page) == limits.SCAN_MAX)
    count = 0
    if found.drafts:
        write = NotesWrite(notes=found.drafts)
        request = MemoryWriteRequest(scope=work.scope, write=write)
        report = await commit(
            work.ctx, work.space, request, partial(plan_drawn_notes, work.ctx, work.scope, write, turns)
        )
        work.decisions += report.decisions
        count = len(report.decisions)
    if found.through > noted:
        await _mark_noted(work, found.through)
    return count


async def _mark_noted(work: Work, through: int) -> None:
    async def plan(record: SpaceRecord) -> Settled[None]:
        ref = Ref(jobs.MAINTAINED, record.conversation_tag(work.scope.conversation_key))
        (document,) = await work.ctx.store.get(work.space, (ref,))
        before = Maintained.from_bytes(document.body) if document is not None else Maintained()
        changes = Changes(record)
        after = before.model_copy(update={"noted": max(before.noted, through)})
        changes.put(ref, after, expects=document.revision if document is not None else 0, action=Action.MAINTENANCE)
        return Settled(None, changes)

    await settle(work.ctx, work.space, plan)
