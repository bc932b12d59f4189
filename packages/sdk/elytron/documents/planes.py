"""The planes that keep one document per matter, conversation or name, each declared once.

Lists, the index, filters, ids, counts and erasures read this table: a new plane of this kind is a `Home` here.
"""

from enum import Enum, auto
from typing import NamedTuple

from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.planes import tools
from elytron_core.planes.conversation import candidates, continuity, execution, summaries, transcript
from elytron_core.planes.knowledge import garden, long_term, notes, procedural, records, subjects

KeptRecallable = (
    continuity.ContinuityCapsule
    | execution.ExecutionState
    | summaries.SessionSummary
    | notes.DailyNote
    | records.Record
)
"""What of these recall reads, and lists show."""
Recallable = transcript.Turn | long_term.Fact | procedural.Skill | KeptRecallable
Folded = Recallable | subjects.Subject
"""What an index is told of: what can be recalled, and those who are called by several names."""
Kept = KeptRecallable | garden.GardenDocument | subjects.Subject | candidates.Candidate | tools.ToolExperience


class Reach(Enum):
    """Calls that show the memories of a plane."""

    RECALL = auto()
    """Recall and lists, if the filters leave it."""
    ASKED = auto()
    """Recall and lists, only if the filters name it."""
    BY_ID = auto()
    """Neither: its own operations, and `get` by id."""


class Home(NamedTuple):
    """Where a plane's documents are stored, by which word their ids begin, what they hold, and who is shown them."""

    plane: Plane
    word: str
    kind: type[Kept]
    reach: Reach = Reach.BY_ID


HOMES: dict[str, Home] = {
    continuity.CAPSULES: Home(Plane.CONTINUITY, continuity.ID_WORD, continuity.ContinuityCapsule, reach=Reach.RECALL),
    execution.EXECUTION: Home(Plane.EXECUTION, execution.ID_WORD, execution.ExecutionState, reach=Reach.RECALL),
    summaries.SUMMARIES: Home(Plane.SUMMARY, summaries.ID_WORD, summaries.SessionSummary, reach=Reach.RECALL),
    notes.NOTES: Home(Plane.ARCHIVE, notes.ID_WORD, notes.DailyNote, reach=Reach.RECALL),
    records.RECORDS: Home(Plane.RECORDS, records.ID_WORD, records.Record, reach=Reach.ASKED),
    garden.GARDEN: Home(Plane.PRIVATE_GARDEN, garden.ID_WORD, garden.GardenDocument),
    subjects.SUBJECTS: Home(Plane.SUBJECT, subjects.ID_WORD, subjects.Subject),
    candidates.CANDIDATES: Home(Plane.CANDIDATE, candidates.ID_WORD, candidates.Candidate),
    tools.EXPERIENCES: Home(Plane.TOOL_EXPERIENCE, tools.ID_WORD, tools.ToolExperience),
}
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
"""Which plane the memories of a collection belong to."""
COLLECTION_OF_WORD = {home.word: collection for collection, home in HOMES.items()}
