"""The planes with one document per matter, conversation or name, each declared once.

Lists, the index, hits, filters, ids, counts and erasures read this table: a new plane of this kind is one `PlaneHome`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from elytron_core.clock import Instant
from elytron_core.contracts.memories import ControlDecision, ControlOutcome
from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.evidence import TrustLevel
from elytron_core.model import Value
from elytron_core.planes import candidates, continuity, facts, records, skills, subjects, tools, transcript
from elytron_core.planes.facts import FRESH, STALE, FactFreshness, FactPrivacy
from elytron_core.planes.records import shown_again, succeed_record
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import DerivedMemoryPlane
from elytron_core.policy.redaction import public_record
from elytron_core.ports.store import Document, DocumentRef

ValueT = TypeVar("ValueT", bound=Value)


class PlaneReach(Enum):
    """Calls that return the memories of a plane."""

    RECALL = auto()
    """Recall and lists, if the filters allow it."""
    IF_NAMED = auto()
    """Recall and lists, only if the filters name it."""
    BY_ID = auto()
    """Neither: only its own operations, and `get` by id."""


def _plain_text(value: Any, /) -> str:
    return value.text


def _updated_at(value: Any, /) -> Instant:
    return value.updated_at


def _forgotten_at(value: Any, /) -> Instant | None:
    return value.forgotten_at


def _unhide_value(value: Any, /) -> Any:
    return value.model_copy(update={"forgotten_at": None})


def _return_false(*_: object) -> bool:
    return False


def _no_subject(*_: object) -> None:
    return None


def _only_value(value: Any, _: object, /) -> Any:
    return value


def _no_names(_: object, /) -> tuple[str, ...]:
    return ()


def _no_fields(_: object, /) -> Mapping[str, records.Scalar]:
    return {}


@dataclass(frozen=True, slots=True)
class PlaneHome(Generic[ValueT]):
    """One plane: where its documents are stored, what they contain, and who may see them."""

    plane: RecallPlane
    collection: str
    word: str
    """Prefix of its memory ids."""
    kind: type[ValueT]
    _: KW_ONLY
    reach: PlaneReach = PlaneReach.BY_ID
    is_of_space: bool = False
    """True if a document belongs to the whole space; others name their channel and conversation."""

    text: Callable[[ValueT], str] = _plain_text
    title: Callable[[ValueT], str]
    """The subject of a document, in a few words."""
    at: Callable[[ValueT], Instant] = _updated_at
    """When a document last changed."""
    citations: Callable[[ValueT], tuple[str, ...]] = _no_names
    """The turns and other references that a document is based on."""
    privacy: Callable[[ValueT], FactPrivacy | None] = _no_subject
    """The privacy of a document; a private one is only shown to a caller that requests private memories."""
    is_private: Callable[[ValueT], bool] = _return_false
    """True if a document is private, for a plane that is read by id and has no `privacy`."""
    freshness: Callable[[ValueT, Instant], FactFreshness | None] = _no_subject

    forgotten_at: Callable[[ValueT], Instant | None] | None = _forgotten_at
    """Since when a document is hidden; None for a plane that has states instead."""
    unhidden: Callable[[ValueT], ValueT] = _unhide_value
    expires_at: Callable[[ValueT], Instant | None] = _no_subject
    is_replaced: Callable[[ValueT], bool] = _return_false
    """True if a document is no longer recalled, though it is not hidden."""

    namespace: Callable[[ValueT], tuple[str, ...]] = _no_names
    fields: Callable[[ValueT], Mapping[str, records.Scalar]] = _no_fields
    """The fields that filter conditions compare."""
    index_text: Callable[[ValueT], str] | None = None
    """The text for the index; None for `text`."""
    index_title: Callable[[ValueT], str] | None = None
    is_embedded: bool = False

    public: Callable[[ValueT], ValueT | None] = _no_subject
    """The form of a document in a public archive; None if it is left out."""
    key: Callable[[SpaceRecord, ValueT], str] | None = None
    """The key of a document in a space; None for a plane that mode `bootstrap` of an archive does not import."""
    succeeding: Callable[[ValueT, ValueT], ValueT] = _only_value
    """An archive's document, replacing one that is hidden or expired."""
    evidence: DerivedMemoryPlane | None = None
    """The name of the plane in links from turns; None for a plane that is not linked to the turns it cites."""
    is_of_all: bool = False
    """True if a document is derived from its whole conversation, whose tag is its key."""


def _capsule_freshness(capsule: continuity.ContinuityCapsule, now: Instant, /) -> FactFreshness:
    return STALE if continuity.state_at(capsule, now) is continuity.CapsuleState.STALE else FRESH


def _mounted_subject(subject: subjects.Subject, /) -> str:
    return "\n".join(mount_text for mount_text in subject.mount.model_dump().values() if mount_text) or subject.name


def _proposed_subject(candidate: candidates.Candidate, /) -> str:
    proposal = candidate.draft.proposal
    return proposal.text if isinstance(proposal, candidates.GardenProposal) else proposal.content


def is_private_candidate(candidate: candidates.Candidate, /) -> bool:
    """Return whether a proposal is private, or proposes a private document."""
    draft = candidate.draft
    return draft.privacy is FactPrivacy.PRIVATE or isinstance(draft.proposal, candidates.GardenProposal)


_DECLARED = (
    PlaneHome(RecallPlane.CONTINUITY, continuity.CAPSULES, continuity.CAPSULE_ID_WORD, continuity.ContinuityCapsule,
         reach=PlaneReach.RECALL, title=lambda capsule: capsule.topic, citations=lambda capsule: capsule.provenance,
         freshness=_capsule_freshness, is_replaced=lambda capsule: not capsule.is_recallable,
         evidence=DerivedMemoryPlane.CONTINUITY),
    PlaneHome(RecallPlane.EXECUTION, continuity.EXECUTION, continuity.EXECUTION_ID_WORD, continuity.ExecutionState,
         reach=PlaneReach.RECALL, title=lambda state: state.goal, is_of_all=True),
    PlaneHome(RecallPlane.SUMMARY, continuity.SUMMARIES, continuity.SUMMARY_ID_WORD, continuity.SessionSummary,
              reach=PlaneReach.RECALL,
         title=lambda summary: summary.conversation, is_of_all=True),
    PlaneHome(RecallPlane.ARCHIVE, continuity.NOTES, continuity.NOTE_ID_WORD, continuity.DailyNote,
              reach=PlaneReach.RECALL,
         title=lambda note: note.period, citations=lambda note: note.citations,
         evidence=DerivedMemoryPlane.ARCHIVE_EVIDENCE),
    PlaneHome(RecallPlane.RECORDS, records.RECORDS, records.ID_WORD, records.Record, reach=PlaneReach.IF_NAMED,
              is_of_space=True,
         title=lambda record: "/".join((*record.namespace, record.key)), text=lambda record: record.words,
         privacy=lambda record: record.privacy, expires_at=lambda record: record.expires_at,
         unhidden=shown_again, namespace=lambda record: record.namespace,
         fields=lambda record: record.fields,
         index_text=lambda record: record.text, index_title=lambda record: record.key, is_embedded=True,
         public=public_record, succeeding=succeed_record,
         key=lambda space, record: space.record_key(record.namespace, record.key)),
    PlaneHome(RecallPlane.PRIVATE_GARDEN, continuity.GARDEN, continuity.GARDEN_ID_WORD, continuity.GardenDocument,
         title=lambda document: document.name),
    PlaneHome(RecallPlane.SUBJECT, subjects.SUBJECTS, subjects.ID_WORD, subjects.Subject, is_of_space=True,
         title=lambda subject: subject.name, text=_mounted_subject, forgotten_at=None,
         is_private=lambda subject: subject.visibility is not subjects.SubjectVisibility.VISIBLE),
    PlaneHome(RecallPlane.CANDIDATE, candidates.CANDIDATES, candidates.ID_WORD, candidates.Candidate,
         title=lambda candidate: candidate.draft.proposal.target.value, text=_proposed_subject, forgotten_at=None,
         at=lambda candidate: candidate.proposed_at, citations=lambda candidate: candidate.draft.citations,
         is_private=is_private_candidate),
    PlaneHome(RecallPlane.TOOL_EXPERIENCE, tools.EXPERIENCES, tools.ID_WORD, tools.ToolExperience, is_of_space=True,
         title=lambda experience: experience.tool_id),
)  # fmt: skip
HOMES: dict[str, PlaneHome[Any]] = {home.collection: home for home in _DECLARED}
_OF_KIND: dict[type[Value], PlaneHome[Any]] = {home.kind: home for home in _DECLARED}
LISTED_HOMES = {name: home for name, home in HOMES.items() if home.reach is not PlaneReach.BY_ID}
"""Those that recall reads and lists show, in list order."""
OF_CONVERSATIONS = tuple(home.plane for home in HOMES.values() if home.reach is PlaneReach.RECALL)
"""The planes of conversations' continuity, which recall reads by default."""
PLANES_IF_NAMED = frozenset(home.plane for home in HOMES.values() if home.reach is PlaneReach.IF_NAMED)
"""The planes that recall reads only if the filters name them."""
PLANES: dict[str, RecallPlane] = {
    transcript.TURNS: RecallPlane.TRANSCRIPT,
    facts.FACTS: RecallPlane.LONG_TERM,
    skills.SKILLS: RecallPlane.PROCEDURAL,
    **{collection: home.plane for collection, home in HOMES.items()},
}
"""The plane of each collection's memories."""
BOOTSTRAP_HOMES = {name: home for name, home in HOMES.items() if home.key is not None}
"""Those that mode `bootstrap` of an archive imports, in addition to turns, facts and skills."""
WITH_PRIVACY = frozenset(
    {RecallPlane.LONG_TERM, *(home.plane for home in HOMES.values() if home.privacy is not _no_subject)}
)
"""The planes whose memories each have a privacy."""
LINKED = {home.evidence: home for home in HOMES.values() if home.evidence is not None}
"""Those that are linked to the turns they cite."""
COLLECTION_OF_WORD = {home.word: collection for collection, home in HOMES.items()}
FOLDED = (transcript.Turn, facts.Fact, skills.Skill, subjects.Subject, *(home.kind for home in LISTED_HOMES.values()))
"""Documents for an index: those that can be recalled, and subjects, which may have several names."""


def home_of(value: Value, /) -> PlaneHome[Any]:
    """Return the declaration of the plane of the document `value`."""
    return _OF_KIND[type(value)]


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A stored document of one of these planes."""

    ref: DocumentRef
    revision: int
    value: Value

    @property
    def home(self) -> PlaneHome[Any]:
        return HOMES[self.ref.collection]

    @property
    def plane(self) -> RecallPlane:
        return self.home.plane

    def to_hit(
        self, *, score: float = 0.0, signals: Mapping[str, float] | None = None, now: Instant | None = None
    ) -> RecallHit:
        """Return its hit, with its freshness at `now` if its plane has one."""
        plane_home, value = self.home, self.value
        freshness = plane_home.freshness(value, now) if now is not None else None
        channel, conversation = conversation_of(value)
        return RecallHit(
            id=id_of(self.ref),
            plane=plane_home.plane,
            text=plane_home.text(value),
            score=round(score, 6),
            at=plane_home.at(value),
            channel=channel,
            conversation=conversation,
            title=plane_home.title(value),
            trust=None if plane_home.is_of_space else TrustLevel.DRAWN,
            freshness=freshness.state if freshness is not None else None,
            privacy=plane_home.privacy(value),
            hint=freshness.hint if freshness is not None else None,
            citations=plane_home.citations(value),
            signals=dict(signals or {}),
        )


def by_plane(documents: Mapping[str, int], /) -> dict[RecallPlane, int]:
    """Return the number of memories of each plane from the number of documents of each collection."""
    return {PLANES[name]: count for name, count in sorted(documents.items()) if name in PLANES and count}


def kept_memory(document: Document, /) -> StoredMemory:
    """Return the value of a document of one of these planes."""
    return StoredMemory(document.ref, document.revision, HOMES[document.ref.collection].kind.from_bytes(document.body))


def public_form(collection: str, body: bytes, /) -> bytes | None:
    """Return a document of one of these planes in the form of a public archive; None if it stays out."""
    plane_home = HOMES.get(collection)
    value = plane_home.public(plane_home.kind.from_bytes(body)) if plane_home is not None else None
    return value.to_bytes() if value is not None else None


def id_of(ref: DocumentRef, /) -> str:
    """Return the memory id of the document at `ref`."""
    return f"{HOMES[ref.collection].word}:{ref.key}"


def place_of(memory_id: str, /) -> DocumentRef | None:
    """Return where a memory of this id would be stored; None if the id has another form."""
    plane_word, separator, key = memory_id.partition(":")
    collection = COLLECTION_OF_WORD.get(plane_word)
    return DocumentRef(collection, key) if separator and collection is not None else None


def text_of(value: Value, /) -> str:
    """Return the document's text."""
    return home_of(value).text(value)


def title_of(value: Value, /) -> str:
    """Return the document's subject, in a few words."""
    return home_of(value).title(value)


def at_of(value: Value, /) -> Instant:
    """Return when the document last changed."""
    return home_of(value).at(value)


def citations_of(value: Value, /) -> tuple[str, ...]:
    """Return the turns and other references that the document is based on."""
    return home_of(value).citations(value)


def conversation_of(value: Any, /) -> tuple[str | None, str | None]:
    """Return the channel and conversation of the document; None for both if it belongs to the whole space."""
    return (None, None) if home_of(value).is_of_space else (value.channel, value.conversation)


def touched_planes(decisions: Iterable[ControlDecision], /) -> tuple[RecallPlane, ...]:
    """Return the planes that were changed, or would be, in order."""
    planes = {decision.plane for decision in decisions if decision.outcome is ControlOutcome.CHANGED}
    return tuple(plane for plane in RecallPlane if plane in planes)


def forgotten_at(value: Value, /) -> Instant | None:
    """Return since when the document is hidden; subjects and candidates have states instead."""
    read_forgotten_at = home_of(value).forgotten_at
    return read_forgotten_at(value) if read_forgotten_at is not None else None


def is_forgotten(value: Value, /) -> bool:
    """Return whether a caller hid the document."""
    return forgotten_at(value) is not None


def is_expired(value: Value, now: Instant, /) -> bool:
    """Return whether the document's time to live has passed."""
    expires_at = home_of(value).expires_at(value)
    return expires_at is not None and expires_at <= now


def hide_value(value: Value, at: Instant | None, /) -> Value | None:
    """Return the document hidden since `at`, or shown again for None; None if unchanged, or if it cannot be hidden."""
    plane_home = home_of(value)
    if plane_home.forgotten_at is None or is_forgotten(value) is (at is not None):
        return None
    return plane_home.unhidden(value) if at is None else value.model_copy(update={"forgotten_at": at})
