"""Shared parts of planes with one document per matter, conversation or name.

Their memories are known by a word and a key (`capsule:3f…`), so that one look-up finds any of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elytron.documents.planes import COLLECTION_OF_WORD, HOMES, PLANES, Kept
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.control import ControlDecision, ControlOutcome
from elytron_core.contracts.knowledge.recall import Plane, RecallHit
from elytron_core.planes import tools
from elytron_core.planes.conversation import candidates, continuity, execution, summaries
from elytron_core.planes.evidence import Trust
from elytron_core.planes.knowledge import garden, notes, records, subjects
from elytron_core.policy.admission import record_versions
from elytron_core.policy.temporal.freshness import FRESH, STALE, Freshness
from elytron_core.ports.store import Document, Ref


@dataclass(frozen=True, slots=True)
class KeptMemory:
    """A stored document of one of these planes."""

    ref: Ref
    revision: int
    value: Kept

    @property
    def plane(self) -> Plane:
        return HOMES[self.ref.collection].plane

    @property
    def hit(self) -> RecallHit:
        return self.found()

    def found(
        self, *, score: float = 0.0, signals: Mapping[str, float] | None = None, now: Instant | None = None
    ) -> RecallHit:
        """Return its hit, with a capsule's freshness at `now`."""
        value = self.value
        fresh = _freshness(value, now) if now is not None else None
        is_of_space = isinstance(value, subjects.Subject | tools.ToolExperience | records.Record)
        channel, conversation = (None, None) if is_of_space else (value.channel, value.conversation)
        return RecallHit(
            id=id_of(self.ref),
            plane=self.plane,
            text=text_of(value),
            score=round(score, 6),
            at=at_of(value),
            channel=channel,
            conversation=conversation,
            title=title_of(value),
            trust=None if is_of_space else Trust.DRAWN,
            freshness=fresh.state if fresh is not None else None,
            privacy=value.privacy if isinstance(value, records.Record) else None,
            hint=fresh.hint if fresh is not None else None,
            citations=citations_of(value),
            signals=dict(signals or {}),
        )


def _freshness(value: Kept, now: Instant) -> Freshness | None:
    """Return how fresh a capsule is; None for what is not asked that."""
    if not isinstance(value, continuity.ContinuityCapsule):
        return None
    return STALE if continuity.state_at(value, now) is continuity.CapsuleState.STALE else FRESH


def by_plane(documents: Mapping[str, int], /) -> dict[Plane, int]:
    """Return the number of memories of each plane from the number of documents of each collection."""
    return {PLANES[name]: count for name, count in sorted(documents.items()) if name in PLANES and count}


def kept(document: Document, /) -> KeptMemory:
    """Return what a document of one of these planes holds."""
    return KeptMemory(document.ref, document.revision, HOMES[document.ref.collection].kind.from_bytes(document.body))


def id_of(ref: Ref, /) -> str:
    """Return the memory id of the document at `ref`."""
    return f"{HOMES[ref.collection].word}:{ref.key}"


def place_of(memory_id: str, /) -> Ref | None:
    """Return where a memory of this id would stand; None where the id is of another form."""
    word, sign, key = memory_id.partition(":")
    collection = COLLECTION_OF_WORD.get(word)
    return Ref(collection, key) if sign and collection is not None else None


def text_of(value: Kept, /) -> str:
    """Return what the document says."""
    match value:
        case continuity.ContinuityCapsule() | execution.ExecutionState():
            return value.text
        case summaries.SessionSummary() | notes.DailyNote() | garden.GardenDocument() | tools.ToolExperience():
            return value.text
        case records.Record():
            return value.words
        case subjects.Subject():
            return "\n".join(part for part in value.mount.model_dump().values() if part) or value.name
        case candidates.Candidate():
            proposal = value.draft.proposal
            return proposal.text if isinstance(proposal, candidates.GardenProposal) else proposal.content


def title_of(value: Kept, /) -> str:
    """Return what the document is about, in a few words."""
    match value:
        case continuity.ContinuityCapsule():
            return value.topic
        case execution.ExecutionState():
            return value.goal
        case summaries.SessionSummary():
            return value.conversation
        case notes.DailyNote():
            return value.period
        case garden.GardenDocument() | subjects.Subject():
            return value.name
        case records.Record():
            return "/".join((*value.namespace, value.key))
        case tools.ToolExperience():
            return value.tool_id
        case candidates.Candidate():
            return value.draft.proposal.target.value


def at_of(value: Kept, /) -> Instant:
    """Return when the document last changed."""
    return value.proposed_at if isinstance(value, candidates.Candidate) else value.updated_at


def citations_of(value: Kept, /) -> tuple[str, ...]:
    """Return the turns and other references that the document rests on."""
    match value:
        case continuity.ContinuityCapsule():
            return value.provenance
        case notes.DailyNote():
            return value.citations
        case candidates.Candidate():
            return value.draft.citations
        case _:
            return ()


def touched(decisions: Iterable[ControlDecision], /) -> tuple[Plane, ...]:
    """Return the planes in which something was changed, or would be, in their order."""
    planes = {decision.plane for decision in decisions if decision.outcome is ControlOutcome.CHANGED}
    return tuple(plane for plane in Plane if plane in planes)


def forgotten_at(value: Kept, /) -> Instant | None:
    """Return since when the document is hidden; subjects and candidates have states instead."""
    return None if isinstance(value, subjects.Subject | candidates.Candidate) else value.forgotten_at


def is_forgotten(value: Kept, /) -> bool:
    """Return whether a caller hid the document."""
    return forgotten_at(value) is not None


def is_expired(value: Kept, now: Instant, /) -> bool:
    """Return whether the document's time to live is over."""
    return isinstance(value, records.Record) and value.is_expired(now)


def hidden(value: Kept, at: Instant | None, /) -> Kept | None:
    """Return the document hidden since `at`, or shown again for None; None if unchanged, or if it cannot be hidden."""
    if isinstance(value, subjects.Subject | candidates.Candidate) or is_forgotten(value) is (at is not None):
        return None
    if isinstance(value, records.Record) and at is None:
        return record_versions.shown_again(value)
    return value.model_copy(update={"forgotten_at": at})
