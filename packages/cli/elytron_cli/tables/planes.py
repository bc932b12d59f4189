"""Contents of the planes, as people read them at a terminal."""

from typing import TYPE_CHECKING

from elytron_cli.tables.common import known_by_id, more, pairs, table, when
from elytron_cli.terminal.output import line
from elytron_core.contracts.conversation.candidates import (
    CandidateListReport,
    CandidateResolveReport,
    MemoryMergeReport,
)
from elytron_core.contracts.conversation.continuity import (
    ContinuityExportReport,
    ContinuityImportReport,
    ContinuityReport,
)
from elytron_core.contracts.knowledge.subjects import GardenReport, SubjectsReport
from elytron_core.planes.conversation.candidates import Candidate, GardenProposal, SkillProposal

if TYPE_CHECKING:
    from rich.console import Console


def candidates_listed(console: "Console", report: CandidateListReport, /) -> None:
    """Show a page of candidates and how to go on."""
    rows = [(_candidate(one), one.id) for one in report.items]
    known_by_id(console, ("state", "for", "on whose word", "what"), rows, none="no candidates")
    if report.withheld:
        console.print(f"{report.withheld} private: --private")
    more(console, report.next_cursor)


def _candidate(one: Candidate, /) -> tuple[str, ...]:
    why = f" ({one.reason})" if one.reason else ""
    return one.state, one.draft.proposal.target, one.draft.authority, f"{_what(one)}{why}"


def candidate_resolved(console: "Console", report: CandidateResolveReport, /) -> None:
    """Show what became of a candidate."""
    became = f"  became {line(report.became)}" if report.became is not None else ""
    why = f"  {line(report.reason)}" if report.reason else ""
    console.print(f"{report.state.value}  {line(report.id)}{became}{why}", soft_wrap=True)


def facts_merged(console: "Console", report: MemoryMergeReport, /) -> None:
    """Show which facts were folded or brought back, or would be, and why others were not."""
    rows = (
        (pair.kept, pair.folded, f"{pair.likeness:.2f}" if pair.likeness else "", pair.reason) for pair in report.pairs
    )
    table(console, ("kept", "folded", "likeness", "why not"), rows, numbers=("likeness",))
    if not report.changed:
        console.print("nothing was changed")


def continuity_shown(console: "Console", report: ContinuityReport, /) -> None:
    """Show the state of a conversation; a star marks the capsules that a block would show."""
    state, summary = report.state, report.summary
    pairs(
        console,
        (
            ("conversation", f"{report.channel}/{report.conversation}"),
            ("work", f"{state.status.value}: {state.text}" if state is not None else ""),
            ("summary", summary.text if summary is not None else ""),
            ("summary is due", "yes" if report.summary_is_due else ""),
        ),
    )
    rows = (
        ("*" if one.id in report.selected else "", one.kind, one.state, one.topic, one.summary, when(one.updated_at))
        for one in report.capsules
    )
    table(console, ("", "kind", "state", "topic", "summary", "updated"), rows)
    if report.notes:
        notes_shown(console, report)


def notes_shown(console: "Console", report: ContinuityReport, /) -> None:
    """Show notes, the latest first."""
    table(console, ("period", "text"), ((note.period, note.text) for note in report.notes), none="no notes")


def snapshot_written(console: "Console", report: ContinuityExportReport, name: str, /) -> None:
    """Show the layers of a snapshot, and the name of its file."""
    layers = ", ".join(layer.value for layer in report.snapshot.manifest.includes) or "nothing"
    left = f"{report.facts_left} facts and {report.private_left} private ones stay"
    console.print(f"wrote {line(name)}: {layers}; {left}", soft_wrap=True)


def snapshot_taken(console: "Console", report: ContinuityImportReport, /) -> None:
    """Show what became of each layer of a snapshot."""
    for one in report.layers:
        why = f"  {line(one.reason)}" if one.reason else ""
        told = f"{one.layer.value:<9}  {one.outcome.value}: {one.taken} taken, {one.left} left{why}"
        console.print(told, soft_wrap=True)


def garden_shown(console: "Console", report: GardenReport, /) -> None:
    """Show the private documents that may be seen, and how many may not."""
    rows = ((one.name, one.role, one.text, when(one.updated_at)) for one in report.documents)
    table(console, ("name", "role", "text", "updated"), rows)
    console.print(f"{len(report.documents)} shown, {report.withheld} withheld")


def subjects_shown(console: "Console", report: SubjectsReport, /) -> None:
    """Show who takes part, and how they stand to each other."""
    rows = (
        (one.name, ", ".join(one.other_names), one.kind, one.visibility, one.lifecycle, one.soul and one.soul.soul)
        for one in report.subjects
    )
    table(console, ("name", "called", "kind", "visibility", "lifecycle", "soul"), rows)
    for edge in report.edges:
        console.print(f"{line(edge.source)} {edge.kind.value} {line(edge.target)}", soft_wrap=True)
    console.print(f"{len(report.subjects)} subjects, {report.withheld} withheld")


def _what(candidate: Candidate) -> str:
    match candidate.draft.proposal:
        case SkillProposal(title=title):
            return title
        case GardenProposal(name=name):
            return name
        case proposal:
            return proposal.content
