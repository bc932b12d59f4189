"""Extraction of lasting facts and procedures from turns, by a model or by rules. Admission judges each of them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet
from elytron.memories.tombstones import LEARNING, read_learning
from elytron.passes.pass_work import (
    NEEDS_MODEL,
    KnownTurn,
    PassWork,
    cited_turns,
    ended_outcome,
    mark_maintained,
    read_maintained,
    read_turns,
    skipped_outcome,
)
from elytron_core import limits
from elytron_core.contracts.facts import CandidatesWrite
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod, PassOutcome, PassStatus
from elytron_core.contracts.transcript import WriteOutcome
from elytron_core.errors import IdempotencyConflict, InvalidInput, ModelRefused, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import TurnId
from elytron_core.planes import facts, transcript
from elytron_core.planes.candidates import CandidateDraft
from elytron_core.planes.jobs import MAINTAINED, MaintainedTurns, MaintenancePass
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy import maintenance
from elytron_core.policy.admission.learning_rules import is_paused
from elytron_core.policy.extraction import model_facts
from elytron_core.policy.extraction.fact_language import parse_language
from elytron_core.policy.extraction.model_facts import (
    ExtractedItems,
    ReadingGate,
    extraction_prompt,
)
from elytron_core.policy.extraction.rule_facts import FactReader
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.profiles import MemoryPressure
from elytron_core.scope import Scope
from elytron_core.text import similarity

FACT_LANGUAGES: Final = 8
EXTRACTION_CONTEXT: Final = 4
"""Earlier messages that an extraction may read to know what is meant."""
EXTRACTION_KNOWN: Final = 24
"""Standing facts that an extraction is shown, so that it keeps their topics."""


LEARNING_PAUSED: Final = "learning_paused"


async def extract_facts(work: PassWork, /) -> PassOutcome:
    """Propose the facts of the turns, each turn once; rules read a turn that the model would not answer for.

    Each turn's candidates are committed under a key of that turn, so that an interrupted run, or two workers that both
    believed they had the job, commit them once.
    """
    if work.extraction is ExtractionMethod.OFF:
        return skipped_outcome(MaintenancePass.EXTRACTION, "off")
    if work.extraction is ExtractionMethod.MODEL and work.asker is None:
        return skipped_outcome(MaintenancePass.EXTRACTION, NEEDS_MODEL)
    learning_rules, _ = await read_learning(work.ctx, work.space)
    if is_paused(learning_rules):
        # Marked nevertheless: what was said during the pause is not learned later.
        await mark_maintained(work, [turn.turn.sequence for turn in work.turns])
        return skipped_outcome(MaintenancePass.EXTRACTION, LEARNING_PAUSED)
    counts: Counter[str] = Counter()
    progress = await read_maintained(work.ctx, work.scope, work.record)
    changed_count = 0
    for turn in work.turns:
        is_unread = not progress.has(turn.turn.sequence)
        if not is_unread and not (_asks_model(work) and progress.waits(turn.turn.sequence)):
            continue
        refused_before = counts["refused"]
        changed_count += await _extract_one(work, turn, counts)
        # Left open, a turn that the model refused is retried.
        if counts["refused"] == refused_before or not work.leaves_refused:
            await mark_maintained(
                work, (turn.turn.sequence,), waits=_waits_for_model(work.ctx, work.extraction, turn.turn)
            )
    outcome = ended_outcome(MaintenancePass.EXTRACTION, dict(counts), changed=changed_count)
    if counts["refused"]:
        return outcome.model_copy(update={"status": PassStatus.FAILED, "reason": ModelRefused.key})
    return outcome


@dataclass(slots=True)
class TurnReading:
    """Reads a new turn by rules before its commit. A turn with nothing to propose is marked by that commit.

    It is a companion of the turn's commit (see `TurnCompanion`). `outcome` is None if more is to be done after that.
    """

    ctx: OperationContext
    scope: Scope
    extraction: Callable[[transcript.Turn], ExtractionMethod]
    """The method for a turn."""
    outcome: PassOutcome | None = None

    def refs(self, record: SpaceRecord, /) -> Sequence[DocumentRef]:
        """Return the refs of the processed turns' document, and of the learning rules."""
        return LEARNING, DocumentRef(MAINTAINED, record.conversation_tag(self.scope.conversation_key))

    def changes(
        self,
        record: SpaceRecord,
        stored_documents: Mapping[DocumentRef, Document],
        turn_id: TurnId | None,
        turn: transcript.Turn | None,
        /,
    ) -> ChangeSet:
        """Return the mark of the turn, if rules have nothing to propose for it."""
        changes, (rules_ref, ref) = ChangeSet(record), self.refs(record)
        rules_document, stored_document = stored_documents.get(rules_ref), stored_documents.get(ref)
        is_learning_paused = rules_document is not None and is_paused(
            facts.LearningRules.from_bytes(rules_document.body)
        )
        maintained_turns = (
            MaintainedTurns.from_bytes(stored_document.body) if stored_document is not None else MaintainedTurns()
        )
        self.outcome = None
        extraction = self.extraction(turn) if turn is not None else ExtractionMethod.OFF
        if turn is None or turn_id is None or extraction not in {ExtractionMethod.AUTO, ExtractionMethod.RULES}:
            return changes
        gate = model_facts.gate_for_rules(turn)
        may_learn = gate is ReadingGate.OPEN and not is_learning_paused
        if may_learn and model_facts.rule_candidates(turn_id, turn, more=self.ctx.models.fact_readers):
            return changes
        waits_for_model = not is_learning_paused and _waits_for_model(self.ctx, extraction, turn)
        maintained_after = (
            maintained_turns.put_off(turn.sequence) if waits_for_model else maintained_turns.plus(turn.sequence)
        )
        changes.put(
            ref,
            maintained_after,
            expects=stored_document.revision if stored_document is not None else 0,
            action=JournalAction.MAINTENANCE,
        )
        counts = {"read" if gate is ReadingGate.OPEN else gate.value: 1}
        self.outcome = (
            skipped_outcome(MaintenancePass.EXTRACTION, LEARNING_PAUSED)
            if is_learning_paused
            else ended_outcome(MaintenancePass.EXTRACTION, counts, changed=0)
        )
        return changes


async def _extract_one(work: PassWork, turn: KnownTurn, counts: Counter[str]) -> bool:
    """Propose the facts of one turn; return whether that changed anything."""
    uses_model = _asks_model(work)
    reading_gate = await _model_gate(work, turn) if uses_model else model_facts.gate_for_rules(turn.turn)
    if (
        uses_model
        and reading_gate in {ReadingGate.ONE_SIDED, ReadingGate.PRESSURE}
        and work.extraction is ExtractionMethod.AUTO
    ):
        # Not worth the time of a model now, so rules read it.
        uses_model, reading_gate = False, model_facts.gate_for_rules(turn.turn)
    if reading_gate is not ReadingGate.OPEN:
        counts[reading_gate.value] += 1
        return False
    counts["read"] += 1
    if not uses_model:
        return await _propose_read(work, turn, counts)
    try:
        drafts = await _ask_candidates(work, turn, counts)
    except ModelRefused:
        counts["refused"] += 1
        return await _propose_read(work, turn, counts)
    return await _propose_drafts(work, f"extracted.{turn.id}", drafts, counts)


def _asks_model(work: PassWork) -> bool:
    return work.asker is not None and work.extraction is not ExtractionMethod.RULES


def _waits_for_model(ctx: OperationContext, extraction: ExtractionMethod, turn: transcript.Turn) -> bool:
    """Return whether a turn read by rules is left to a model, because this runtime has none."""
    if ctx.models.language is not None or extraction is not ExtractionMethod.AUTO:
        return False
    return model_facts.gate_for_model(turn, is_pressed=False) in {ReadingGate.OPEN, ReadingGate.ONE_SIDED}


async def _model_gate(work: PassWork, turn: KnownTurn) -> ReadingGate:
    is_under_pressure = work.pressure is not MemoryPressure.NORMAL
    reading_gate = model_facts.gate_for_model(turn.turn, is_pressed=is_under_pressure)
    if reading_gate is not ReadingGate.ONE_SIDED:
        return reading_gate
    # The answer may be in the next turn.
    next_turns = await read_turns(work.ctx, work.scope, work.record, (turn.turn.sequence + 1,))
    if not next_turns:
        return reading_gate
    return model_facts.gate_for_model(turn.turn, is_pressed=is_under_pressure, following=next_turns[0].turn)


async def _ask_candidates(work: PassWork, turn: KnownTurn, counts: Counter[str]) -> tuple[CandidateDraft, ...]:
    earlier_messages, current_facts = await _messages_before(work, turn), await _standing_facts(work, turn)
    prompt = extraction_prompt(turn.turn, before=earlier_messages, facts=current_facts, most=work.chars)
    extracted_items = await work.ask(prompt.instruction, prompt.data, ExtractedItems)
    proposals = model_facts.propose_candidates(turn.id, turn.turn, extracted_items)
    counts.update(proposals.dropped)
    return proposals.drafts


async def _propose_read(work: PassWork, turn: KnownTurn, counts: Counter[str]) -> bool:
    """Propose what rules read in a turn."""
    drafts = model_facts.rule_candidates(turn.id, turn.turn, more=work.ctx.models.fact_readers)
    return await _propose_drafts(work, f"gleaned.{turn.id}", drafts, counts)


async def _propose_drafts(work: PassWork, key: str, drafts: tuple[CandidateDraft, ...], counts: Counter[str]) -> bool:
    if not drafts:
        return False
    try:
        report = await work.write(CandidatesWrite(candidates=drafts), key=key)
    except IdempotencyConflict:
        report = None  # the turn was read before; a model that now words it differently adds nothing
    if report is None or report.duplicated:
        counts["read_before"] += 1
        return False
    counts.update(decision.outcome.value for decision in report.decisions)
    return report.changed


async def _messages_before(work: PassWork, turn: KnownTurn) -> tuple[transcript.Message, ...]:
    """Return the messages just before a turn."""
    sequences = [sequence for sequence in (turn.turn.sequence - 2, turn.turn.sequence - 1) if sequence > 0]
    earlier_turns = await read_turns(work.ctx, work.scope, work.record, sequences)
    messages = [
        message
        for stored_turn in earlier_turns
        for part, message in enumerate(stored_turn.turn.messages)
        if message.role in {EvidenceRole.USER, EvidenceRole.ASSISTANT} and stored_turn.turn.is_recallable(part)
    ]
    return tuple(messages[-EXTRACTION_CONTEXT:])


async def _standing_facts(work: PassWork, turn: KnownTurn) -> tuple[facts.Fact, ...]:
    """Return the current facts that share most words with a turn, then the newest."""
    turn_text = similarity.normalise_text(
        " ".join(message.text for message in turn.turn.messages)[: limits.EXTRACTION_CHARS]
    )
    conversation_facts = [fact for fact in await work.current_facts() if fact.counts_in(work.scope.conversation_key)]
    public_facts = [fact for fact in conversation_facts if fact.privacy is not facts.FactPrivacy.PRIVATE]
    words_by_fact = {
        fact.id: similarity.words_of(similarity.normalise_text(f"{fact.topic} {fact.content}"), limit=limits.KEYWORDS)
        for fact in public_facts
    }
    ordered_facts = sorted(
        public_facts,
        key=lambda fact: -sum(similarity.has_term(turn_text, fact_word) for fact_word in words_by_fact[fact.id]),
    )
    return tuple(ordered_facts[:EXTRACTION_KNOWN])


async def learn_procedure(work: PassWork, /) -> PassOutcome:
    """Propose the steps of finished work as a procedure; admission judges whether it is one."""
    execution_state = await work.state()
    if execution_state is None:
        return skipped_outcome(MaintenancePass.TASK_LEARNING, "no_execution_state")
    draft = maintenance.learned_of(execution_state, cited_turns(work))
    if draft is None:
        return skipped_outcome(MaintenancePass.TASK_LEARNING, "not_due")
    report = await work.write(CandidatesWrite(candidates=(draft,)))
    outcome_counts = {outcome.value: report.count(outcome) for outcome in WriteOutcome}
    return ended_outcome(MaintenancePass.TASK_LEARNING, outcome_counts, changed=report.changed)


def fact_readers(paths: Sequence[str | PathLike[str]], /) -> tuple[FactReader, ...]:
    """Return a reader for each language file. Raises UnreadableFile, and InvalidInput for too many."""
    if len(paths) > FACT_LANGUAGES:
        raise InvalidInput(field="fact_languages", problem=f"names more than {FACT_LANGUAGES} files")
    return tuple(FactReader(parse_language(_read_table(Path(path)), name=Path(path).name)) for path in paths)


def _read_table(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limits.FACT_LANGUAGE_BYTES + 1)
    except OSError as error:
        raise UnreadableFile.unopened(path.name, error) from None
