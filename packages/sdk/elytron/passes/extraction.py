"""Lasting facts and procedures, drawn from turns by the model or by rules; admission judges every one."""

from collections import Counter

from elytron.memories.tombstones import read_learning
from elytron.passes.pass_context import (
    NEEDS_MODEL,
    KnownTurn,
    Work,
    ended,
    mark_maintained,
    read_maintained,
    read_turns,
    skipped,
)
from elytron_core import limits
from elytron_core.contracts.admin.maintenance import Extraction, PassOutcome, PassStatus
from elytron_core.contracts.conversation.candidates import CandidatesWrite
from elytron_core.contracts.modes import Pressure
from elytron_core.errors import IdempotencyConflict, ModelRefused
from elytron_core.planes.admin.jobs import Pass
from elytron_core.planes.conversation import transcript
from elytron_core.planes.conversation.candidates import CandidateDraft
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.roles import Role
from elytron_core.policy.admission.learning_rules import is_paused
from elytron_core.policy.extraction import model_facts, prompts
from elytron_core.policy.extraction.model_facts import ExtractedItems, Gate
from elytron_core.text import similarity


async def extract(work: Work, /) -> PassOutcome:
    """Propose what the turns hold, each turn once; a turn that the model would not answer for is read by rules.

    Each turn's candidates are committed under a key of that turn, so that a run that was broken off, or two workers
    that both thought they had the job, commit them once.
    """
    if work.extraction is Extraction.OFF:
        return skipped(Pass.EXTRACTION, "off")
    if work.extraction is Extraction.MODEL and work.asker is None:
        return skipped(Pass.EXTRACTION, NEEDS_MODEL)
    learning, _ = await read_learning(work.ctx, work.space)
    if is_paused(learning):
        await mark_maintained(work, [turn.turn.sequence for turn in work.turns])
        return skipped(Pass.EXTRACTION, "learning_paused")
    counts: Counter[str] = Counter()
    known = await read_maintained(work.ctx, work.scope, work.record)
    changed = 0
    for turn in work.turns:
        is_new = not known.has(turn.turn.sequence)
        if not is_new and not (_asks(work) and known.waits(turn.turn.sequence)):
            continue
        before = counts["refused"]
        changed += await _extract_one(work, turn, counts)
        if counts["refused"] == before or not work.leaves_refused:
            await mark_maintained(work, (turn.turn.sequence,), waits=_waits(work, turn))
    outcome = ended(Pass.EXTRACTION, dict(counts), changed=changed)
    if counts["refused"]:
        return outcome.model_copy(update={"status": PassStatus.FAILED, "reason": ModelRefused.key})
    return outcome


async def _extract_one(work: Work, turn: KnownTurn, counts: Counter[str]) -> bool:
    """Propose what one turn holds; tell whether that changed anything."""
    uses_model = _asks(work)
    gate = await _model_gate(work, turn) if uses_model else model_facts.gate_for_rules(turn.turn)
    if uses_model and gate in {Gate.ONE_SIDED, Gate.PRESSURE} and work.extraction is Extraction.AUTO:
        uses_model, gate = False, model_facts.gate_for_rules(turn.turn)
    if gate is not Gate.OPEN:
        counts[gate.value] += 1
        return False
    counts["read"] += 1
    if not uses_model:
        return await _propose_read(work, turn, counts)
    try:
        drafts = await _ask(work, turn, counts)
    except ModelRefused:
        counts["refused"] += 1
        return await _propose_read(work, turn, counts)
    return await _propose(work, f"extracted.{turn.id}", drafts, counts)


def _asks(work: Work) -> bool:
    return work.asker is not None and work.extraction is not Extraction.RULES


def _waits(work: Work, turn: KnownTurn) -> bool:
    """Return whether a turn that rules have read is left to a model, because this runtime has none."""
    if work.ctx.models.language is not None or work.extraction is not Extraction.AUTO:
        return False
    return model_facts.gate_for_model(turn.turn, is_pressed=False) in {Gate.OPEN, Gate.ONE_SIDED}


async def _model_gate(work: Work, turn: KnownTurn) -> Gate:
    is_pressed = work.pressure is not Pressure.NORMAL
    gate = model_facts.gate_for_model(turn.turn, is_pressed=is_pressed)
    if gate is not Gate.ONE_SIDED:
        return gate
    following = await read_turns(work.ctx, work.scope, work.record, (turn.turn.sequence + 1,))
    if not following:
        return gate
    return model_facts.gate_for_model(turn.turn, is_pressed=is_pressed, following=following[0].turn)


async def _ask(work: Work, turn: KnownTurn, counts: Counter[str]) -> tuple[CandidateDraft, ...]:
    before, known = await _before(work, turn), await _standing(work, turn)
    prompt = prompts.prompt(turn.turn, before=before, known=known, most=work.chars)
    answer = await work.ask(prompt.instruction, prompt.data, ExtractedItems)
    found = model_facts.proposed(turn.id, turn.turn, answer)
    counts.update(found.dropped)
    return found.drafts


async def _propose_read(work: Work, turn: KnownTurn, counts: Counter[str]) -> bool:
    """Propose what rules read in a turn."""
    drafts = model_facts.gleaned(turn.id, turn.turn, more=work.ctx.models.fact_readers)
    return await _propose(work, f"gleaned.{turn.id}", drafts, counts)


async def _propose(work: Work, key: str, drafts: tuple[CandidateDraft, ...], counts: Counter[str]) -> bool:
    if not drafts:
        return False
    try:
        report = await work.write(CandidatesWrite(candidates=drafts), key=key)
    except IdempotencyConflict:
        report = None  # the turn was read before; a model that now words it otherwise adds nothing
    if report is None or report.duplicated:
        counts["read_before"] += 1
        return False
    counts.update(decision.outcome.value for decision in report.decisions)
    return report.changed


async def _before(work: Work, turn: KnownTurn) -> tuple[transcript.Message, ...]:
    """Return what was said just before a turn."""
    numbers = [number for number in (turn.turn.sequence - 2, turn.turn.sequence - 1) if number > 0]
    earlier = await read_turns(work.ctx, work.scope, work.record, numbers)
    said = [
        message
        for known in earlier
        for part, message in enumerate(known.turn.messages)
        if message.role in {Role.USER, Role.ASSISTANT} and known.turn.is_recallable(part)
    ]
    return tuple(said[-limits.EXTRACTION_CONTEXT :])


async def _standing(work: Work, turn: KnownTurn) -> tuple[long_term.Fact, ...]:
    """Return the current facts that share most words with a turn, then the newest."""
    said = similarity.normalise(" ".join(message.text for message in turn.turn.messages)[: limits.EXTRACTION_CHARS])
    here = [fact for fact in await work.current_facts() if fact.counts_in(work.scope.conversation_key)]
    shown = [fact for fact in here if fact.privacy is not long_term.Privacy.PRIVATE]
    words = {
        fact.id: similarity.words_of(similarity.normalise(f"{fact.topic} {fact.content}"), limit=limits.KEYWORDS)
        for fact in shown
    }
    order = sorted(shown, key=lambda fact: -sum(similarity.holds(said, word) for word in words[fact.id]))
    return tuple(order[: limits.EXTRACTION_KNOWN])
