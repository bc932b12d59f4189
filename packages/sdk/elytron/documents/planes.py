"""The planes that keep one document per matter, conversation or name, each declared once.

Lists, the index, hits, filters, ids, counts and erasures read this table: a new plane of this kind is a `Home` here.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.model import Value
from elytron_core.planes import tools
from elytron_core.planes.conversation import candidates, continuity, execution, summaries, transcript
from elytron_core.planes.derived_refs import DerivedMemoryPlane
from elytron_core.planes.knowledge import garden, long_term, notes, procedural, records, subjects
from elytron_core.planes.knowledge.long_term import Privacy
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import record_versions
from elytron_core.policy.privacy.public_export import public_record
from elytron_core.policy.temporal.freshness import FRESH, STALE, Freshness

ValueT = TypeVar("ValueT", bound=Value)


class Reach(Enum):
    """Calls that show the memories of a plane."""

    RECALL = auto()
    """Recall and lists, if the filters leave it."""
    ASKED = auto()
    """Recall and lists, only if the filters name it."""
    BY_ID = auto()
    """Neither: its own operations, and `get` by id."""


def _text(value: Any, /) -> str:
    return value.text


def _updated_at(value: Any, /) -> Instant:
    return value.updated_at


def _forgotten_at(value: Any, /) -> Instant | None:
    return value.forgotten_at


def _unhidden(value: Any, /) -> Any:
    return value.model_copy(update={"forgotten_at": None})


def _no(*_: object) -> bool:
    return False


def _none(*_: object) -> None:
    return None


def _first(value: Any, _: object, /) -> Any:
    return value


def _empty(_: object, /) -> tuple[str, ...]:
    return ()


def _no_fields(_: object, /) -> Mapping[str, records.Scalar]:
    return {}


@dataclass(frozen=True, slots=True)
class Home(Generic[ValueT]):
    """One plane: where its documents are stored, what they hold, and who is shown them."""

    plane: Plane
    collection: str
    word: str
    """The beginning of the ids of its memories."""
    kind: type[ValueT]
    _: KW_ONLY
    reach: Reach = Reach.BY_ID
    is_of_space: bool = False
    """True if a document belongs to the whole space; others name their channel and conversation."""

    text: Callable[[ValueT], str] = _text
    title: Callable[[ValueT], str]
    """The subject of a document, in a few words."""
    at: Callable[[ValueT], Instant] = _updated_at
    """When a document last changed."""
    citations: Callable[[ValueT], tuple[str, ...]] = _empty
    """The turns and other references that a document rests on."""
    privacy: Callable[[ValueT], Privacy | None] = _none
    """The privacy of a document; a private one is shown only to a caller that asks for it."""
    is_private: Callable[[ValueT], bool] = _no
    """True if a document is private, for a plane that is read by id and has no `privacy`."""
    freshness: Callable[[ValueT, Instant], Freshness | None] = _none

    forgotten_at: Callable[[ValueT], Instant | None] | None = _forgotten_at
    """Since when a document is hidden; None for a plane that has states instead."""
    unhidden: Callable[[ValueT], ValueT] = _unhidden
    expires_at: Callable[[ValueT], Instant | None] = _none
    is_replaced: Callable[[ValueT], bool] = _no
    """True if a document is no longer recalled, though it is not hidden."""

    namespace: Callable[[ValueT], tuple[str, ...]] = _empty
    fields: Callable[[ValueT], Mapping[str, records.Scalar]] = _no_fields
    """The fields that conditions of a filter compare."""
    index_text: Callable[[ValueT], str] | None = None
    """The text that the index is given; None for `text`."""
    index_title: Callable[[ValueT], str] | None = None
    is_embedded: bool = False

    public: Callable[[ValueT], ValueT | None] = _none
    """The form of a document in a public archive; None if it stays out."""
    key: Callable[[SpaceRecord, ValueT], str] | None = None
    """The key of a document in a space; None for a plane that mode `bootstrap` of an archive does not bring."""
    succeeding: Callable[[ValueT, ValueT], ValueT] = _first
    """A document of an archive, in the place of one that is hidden or expired."""
    evidence: DerivedMemoryPlane | None = None
    """The name of the plane in links from turns; None for a plane that is not linked to the turns it cites."""
    is_of_all: bool = False
    """True if a document is drawn from its whole conversation, whose tag is its key."""


def _capsule_freshness(capsule: continuity.ContinuityCapsule, now: Instant, /) -> Freshness:
    return STALE if continuity.state_at(capsule, now) is continuity.CapsuleState.STALE else FRESH


def _mounted(subject: subjects.Subject, /) -> str:
    return "\n".join(part for part in subject.mount.model_dump().values() if part) or subject.name


def _proposed(candidate: candidates.Candidate, /) -> str:
    proposal = candidate.draft.proposal
    return proposal.text if isinstance(proposal, candidates.GardenProposal) else proposal.content


def is_private_candidate(candidate: candidates.Candidate, /) -> bool:
    """Return whether a proposal is private, or is to become a private document."""
    draft = candidate.draft
    return draft.privacy is Privacy.PRIVATE or isinstance(draft.proposal, candidates.GardenProposal)


_DECLARED = (
    Home(Plane.CONTINUITY, continuity.CAPSULES, continuity.ID_WORD, continuity.ContinuityCapsule, reach=Reach.RECALL,
         title=lambda capsule: capsule.topic, citations=lambda capsule: capsule.provenance,
         freshness=_capsule_freshness, is_replaced=lambda capsule: not capsule.is_recallable,
         evidence=DerivedMemoryPlane.CONTINUITY),
    Home(Plane.EXECUTION, execution.EXECUTION, execution.ID_WORD, execution.ExecutionState, reach=Reach.RECALL,
         title=lambda state: state.goal, is_of_all=True),
    Home(Plane.SUMMARY, summaries.SUMMARIES, summaries.ID_WORD, summaries.SessionSummary, reach=Reach.RECALL,
         title=lambda summary: summary.conversation, is_of_all=True),
    Home(Plane.ARCHIVE, notes.NOTES, notes.ID_WORD, notes.DailyNote, reach=Reach.RECALL,
         title=lambda note: note.period, citations=lambda note: note.citations,
         evidence=DerivedMemoryPlane.ARCHIVE_EVIDENCE),
    Home(Plane.RECORDS, records.RECORDS, records.ID_WORD, records.Record, reach=Reach.ASKED, is_of_space=True,
         title=lambda record: "/".join((*record.namespace, record.key)), text=lambda record: record.words,
         privacy=lambda record: record.privacy, expires_at=lambda record: record.expires_at,
         unhidden=record_versions.shown_again, namespace=lambda record: record.namespace,
         fields=lambda record: record.fields,
         index_text=lambda record: record.text, index_title=lambda record: record.key, is_embedded=True,
         public=public_record, succeeding=record_versions.succeeding,
         key=lambda space, record: space.record_key(record.namespace, record.key)),
    Home(Plane.PRIVATE_GARDEN, garden.GARDEN, garden.ID_WORD, garden.GardenDocument,
         title=lambda document: document.name),
    Home(Plane.SUBJECT, subjects.SUBJECTS, subjects.ID_WORD, subjects.Subject, is_of_space=True,
         title=lambda subject: subject.name, text=_mounted, forgotten_at=None,
         is_private=lambda subject: subject.visibility is not subjects.SubjectVisibility.VISIBLE),
    Home(Plane.CANDIDATE, candidates.CANDIDATES, candidates.ID_WORD, candidates.Candidate,
         title=lambda candidate: candidate.draft.proposal.target.value, text=_proposed, forgotten_at=None,
         at=lambda candidate: candidate.proposed_at, citations=lambda candidate: candidate.draft.citations,
         is_private=is_private_candidate),
    Home(Plane.TOOL_EXPERIENCE, tools.EXPERIENCES, tools.ID_WORD, tools.ToolExperience, is_of_space=True,
         title=lambda experience: experience.tool_id),
)  # fmt: skip
HOMES: dict[str, Home[Any]] = {home.collection: home for home in _DECLARED}
_OF_KIND: dict[type[Value], Home[Any]] = {home.kind: home for home in _DECLARED}
SHOWN = {name: home for name, home in HOMES.items() if home.reach is not Reach.BY_ID}
"""Those among them that recall reads and lists show, in the order of lists."""
OF_CONVERSATIONS = tuple(home.plane for home in HOMES.values() if home.reach is Reach.RECALL)
"""The planes of what conversations keep, which recall reads unasked."""
ASKED = frozenset(home.plane for home in HOMES.values() if home.reach is Reach.ASKED)
"""The planes that recall reads only if the filters name them."""
PLANES: dict[str, Plane] = {
    transcript.TURNS: Plane.TRANSCRIPT,
    long_term.FACTS: Plane.LONG_TERM,
    procedural.SKILLS: Plane.PROCEDURAL,
    **{collection: home.plane for collection, home in HOMES.items()},
}
"""The plane of each collection's memories."""
BROUGHT = {name: home for name, home in HOMES.items() if home.key is not None}
"""Those that mode `bootstrap` of an archive brings, beside turns, facts and skills."""
WITH_PRIVACY = frozenset({Plane.LONG_TERM, *(home.plane for home in HOMES.values() if home.privacy is not _none)})
"""The planes whose memories each have a privacy."""
LINKED = {home.evidence: home for home in HOMES.values() if home.evidence is not None}
"""Those that are linked to the turns that they cite."""
COLLECTION_OF_WORD = {home.word: collection for collection, home in HOMES.items()}
FOLDED = (transcript.Turn, long_term.Fact, procedural.Skill, subjects.Subject, *(home.kind for home in SHOWN.values()))
"""Documents for an index: those that can be recalled, and subjects, which may have several names."""


def home_of(value: Value, /) -> Home[Any]:
    """Return the declaration of the plane that `value` is a document of."""
    return _OF_KIND[type(value)]
