"""Contents of the planes, as people read them at a terminal."""

from typing import TYPE_CHECKING

from elytron_cli.tables.common import known_by_id, more, new_table, pairs, when
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
from elytron_core.contracts.conversation.write import MemoryWriteReport
from elytron_core.contracts.knowledge.subjects import GardenReport, SubjectsReport
from elytron_core.planes.conversation.candidates import Candidate, GardenProposal, SkillProposal

if TYPE_CHECKING:
    from rich.console import Console

    from elytron_core.planes.knowledge.notes import DailyNote


def candidates_listed(console: "Console", report: CandidateListReport, /) -> None:
    """Show a page of candidates and how to go on."""
    rows = [(_candidate(one), one.id) for one in report.items]
    table = known_by_id(console, ("state", "for", "on whose word", "what"), rows)
    console.print(table if rows else "no candidates")
    if report.withheld:
        console.print(f"{report.withheld} private: --private")
    more(console, report.next_cursor)


def _candidate(one: Candidate, /) -> tuple[str, ...]:
    target, authority = one.draft.proposal.target.value, one.draft.authority.value
    why = f" ({line(one.reason)})" if one.reason else ""
    return one.state.value, target, authority, f"{line(_what(one))}{why}"


def candidate_resolved(console: "Console", report: CandidateResolveReport, /) -> None:
    """Show what became of a candidate."""
    became = f"  became {line(report.became)}" if report.became is not None else ""
    why = f"  {line(report.reason)}" if report.reason else ""
    console.print(f"{report.state.value}  {line(report.id)}{became}{why}", soft_wrap=True)


def facts_merged(console: "Console", report: MemoryMergeReport, /) -> None:
    """Show which facts were folded or brought back, or would be, and why others were not."""
    rows = new_table("kept", "folded", "likeness", "why not", numbers=("likeness",))
    for pair in report.pairs:
        rows.add_row(line(pair.kept), line(pair.folded), f"{pair.likeness:.2f}" if pair.likeness else "", pair.reason)
    if report.pairs:
        console.print(rows)
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
    if report.capsules:
        rows = new_table("", "kind", "state", "topic", "summary", "updated")
        for one in report.capsules:
            mark, at = "*" if one.id in report.selected else "", when(one.updated_at)
            rows.add_row(mark, one.kind.value, one.state.value, line(one.topic), line(one.summary), at)
        console.print(rows)
    if report.notes:
        notes_shown(console, report.notes)


def notes_shown(console: "Console", notes: "tuple[DailyNote, ...]", /) -> None:
    """Show notes, the latest first."""
    rows = new_table("period", "text")
    for note in notes:
        rows.add_row(note.period, line(note.text))
    console.print(rows if notes else "no notes")


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
    if report.documents:
        rows = new_table("name", "role", "text", "updated")
        for one in report.documents:
            rows.add_row(line(one.name), one.role.value, line(one.text), when(one.updated_at))
        console.print(rows)
    console.print(f"{len(report.documents)} shown, {report.withheld} withheld")


def subjects_shown(console: "Console", report: SubjectsReport, /) -> None:
    """Show who takes part, and how they stand to each other."""
    if report.subjects:
        rows = new_table("name", "called", "kind", "visibility", "lifecycle", "soul")
        for one in report.subjects:
            soul = line(one.soul.soul) if one.soul is not None else ""
            called = line(", ".join(one.other_names))
            rows.add_row(line(one.name), called, one.kind.value, one.visibility.value, one.lifecycle.value, soul)
        console.print(rows)
    for edge in report.edges:
        console.print(f"{line(edge.source)} {edge.kind.value} {line(edge.target)}", soft_wrap=True)
    console.print(f"{len(report.subjects)} subjects, {report.withheld} withheld")


def written(console: "Console", report: MemoryWriteReport, /) -> None:
    """Show what became of each part of a write."""
    for one in report.decisions:
        why = f"  {line(one.reason)}" if one.reason else ""
        console.print(f"{one.outcome.value}  {line(one.name or one.id or '')}{why}", soft_wrap=True)


def _what(candidate: Candidate) -> str:
    match candidate.draft.proposal:
        case SkillProposal(title=title):
            return title
        case GardenProposal(name=name):
            return name
        case proposal:
            return proposal.content
