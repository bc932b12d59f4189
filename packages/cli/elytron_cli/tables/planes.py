"""Human-readable reports of facts and other planes."""

import json
from typing import TYPE_CHECKING, Any

from elytron_cli.tables.layout import known_by_id, minute_text, show_more, show_pairs, show_table
from elytron_cli.terminal.output import safe_line, safe_text
from elytron_core.contracts.continuity import (
    ContinuityExportReport,
    ContinuityImportReport,
    ContinuityReport,
    GardenReport,
    SubjectsReport,
)
from elytron_core.contracts.facts import (
    CandidateListReport,
    CandidateResolveReport,
    FactChangeReport,
    FactDetailReport,
    FactEntry,
    FactForgetReport,
    FactListReport,
    LearningReport,
    MemoryMergeReport,
    ProfileReport,
)
from elytron_core.contracts.records import (
    RecordDeleteReport,
    RecordGetReport,
    RecordHistoryReport,
    RecordNamespaceListReport,
    RecordPutReport,
    RecordSearchReport,
)
from elytron_core.contracts.skills import (
    AgentSkillDirectoryReport,
    RuntimeSkillDetailReport,
    RuntimeSkillGovernReport,
    RuntimeSkillListReport,
    RuntimeSkillMutationReport,
    RuntimeSkillReuseReport,
    RuntimeSkillSummary,
)
from elytron_core.planes.candidates import Candidate, GardenProposal, SkillProposal
from elytron_core.planes.facts import FreshnessHint, LearningRules

if TYPE_CHECKING:
    from rich.console import Console


def fact_table(console: "Console", report: FactListReport, /) -> None:
    """Show a page of facts, what was withheld, the learning rules, and how to continue."""
    _show_facts(console, report.items)
    if report.withheld:
        console.print(f"{report.withheld} private facts are hidden: pass --private to show them")
    _show_rules(console, report.learning)
    show_more(console, report.next_cursor)


def fact_details(console: "Console", report: FactDetailReport, /) -> None:
    """Show one fact in full."""
    fact = report.fact
    hint = "" if fact.hint is FreshnessHint.NONE else f": {fact.hint.value} it first"
    chat_text = f" {fact.channel}/{fact.chat}" if fact.chat is not None else ""
    show_pairs(
        console,
        (
            ("id", fact.id),
            ("topic", f"{fact.kind.value}: {fact.topic}"),
            ("content", fact.content),
            ("keywords", ", ".join((*fact.keywords, *fact.entities))),
            ("state", fact.state.value),
            ("why", fact.closed_because or ""),
            ("confidence", f"{fact.confidence.value}, {fact.authority.value}, {fact.trust.value}"),
            ("evidence", f"{fact.evidence_count}: {', '.join(fact.evidence)}"),
            ("privacy", fact.privacy.value),
            ("scope", f"{fact.reach.value}{chat_text}"),
            ("freshness", f"{fact.freshness.value}{hint}"),
            ("observed", minute_text(fact.observed_at)),
            ("recorded", minute_text(fact.recorded_at)),
            ("confirmed", minute_text(fact.confirmed_at)),
            ("last used", minute_text(fact.last_used_at)),
            ("valid from", minute_text(fact.valid_from)),
            ("valid until", minute_text(fact.valid_to)),
            ("superseded by", fact.superseded_by or ""),
            ("version", fact.version),
        ),
    )


def show_changed_fact(console: "Console", report: FactChangeReport, /) -> None:
    """Show the outcome of a fact."""
    new_id_text = f"  now {safe_line(report.new_id)}" if report.new_id is not None else ""
    would_prefix = "would be " if report.dry_run else ""
    console.print(f"{would_prefix}{report.outcome.value}  {safe_line(report.id)}{new_id_text}", soft_wrap=True)
    if report.reason is not None:
        console.print(safe_text(report.reason), soft_wrap=True)
    for remaining_copy in report.remaining:
        console.print(f"another version remains, for another period: {safe_line(remaining_copy)}", soft_wrap=True)


def show_forgotten(console: "Console", report: FactForgetReport, /) -> None:
    """Show which facts were forgotten, or would be."""
    _show_facts(console, report.items)
    if report.withheld:
        console.print(f"{report.withheld} private facts match but are excluded: pass --private to include them")
    if report.has_more:
        console.print("more facts match than one call can forget: run it again afterwards")
    if report.token is not None and report.items:
        console.print(f"nothing was changed; to forget these: --token {safe_text(report.token)}", soft_wrap=True)
    elif report.changed:
        console.print(f"forgot {len(report.items)} facts")


def show_profile(console: "Console", report: ProfileReport, /) -> None:
    """Show a profile: its sentences if a model wrote it, and the facts by kind with their sources."""
    for sentence in report.sentences:
        console.print(
            f"{safe_text(sentence.text)} [{safe_text(', '.join(sentence.citations))}]", soft_wrap=True, markup=False
        )
    if report.not_written is not None:
        console.print(f"no text was written: {report.not_written}")
    for group in report.groups:
        rows = [
            (
                (fact.bearing.value, f"{safe_line(fact.topic)}: {safe_line(fact.content)}", ", ".join(fact.evidence)),
                fact.id,
            )
            for fact in group.lines
        ]
        known_by_id(console, (group.kind.value, "what", "evidence"), rows)
    if not report.groups:
        console.print("no current facts")
    if report.left_out:
        console.print(f"{report.left_out} more facts: raise --limit to show them")
    if report.withheld:
        console.print(f"{report.withheld} private facts are hidden: pass --private to show them")


def show_learning(console: "Console", report: LearningReport, /) -> None:
    """Show the current learning rules."""
    if report.tombstones:
        console.print(f"{report.tombstones} tombstones removed")
    _show_rules(console, report.learning)
    if not report.changed:
        console.print("nothing was changed")


def _show_facts(console: "Console", facts: tuple[FactEntry, ...]) -> None:
    rows = [(_fact_row(fact), fact.id) for fact in facts]
    known_by_id(console, ("kind", "state", "confidence", "privacy", "hint", "what"), rows, none="no facts")


def _fact_row(fact: FactEntry) -> tuple[str, ...]:
    worth_text = f"{fact.confidence} x{fact.evidence_count}"
    return fact.kind, fact.state, worth_text, fact.privacy, fact.hint, f"{fact.topic}: {fact.content}"


def _show_rules(console: "Console", learning: LearningRules) -> None:
    rows = (
        ("everything" if rule.topic is None else rule.topic, rule.state, minute_text(rule.since), rule.by, rule.reason)
        for rule in learning.rules
    )
    show_table(console, ("not learned", "state", "since", "by", "why"), rows)


def show_stored_record(console: "Console", report: RecordPutReport, /) -> None:
    """Show the outcome of a put."""
    outcome = "stored" if report.changed else "would be stored" if report.dry_run else "unchanged"
    console.print(f"{outcome}  version {report.record.version}  {report.record.id}", soft_wrap=True)


def record_details(console: "Console", report: RecordGetReport, /) -> None:
    """Show one record."""
    record = report.record
    expiry_text = f"  until {minute_text(record.expires_at)}" if record.expires_at is not None else ""
    console.print(_json_text(record.value), soft_wrap=True)
    if record.text:
        console.print(safe_line(record.text), soft_wrap=True)
    console.print(
        f"version {record.version}  {minute_text(record.updated_at)}{expiry_text}  {record.id}", soft_wrap=True
    )


def show_deleted_record(console: "Console", report: RecordDeleteReport, /) -> None:
    """Show the outcome of a deletion."""
    outcome = f"deleted {report.id}, version {report.version}" if report.version else "no such record"
    console.print(outcome, soft_wrap=True)


def show_found_records(console: "Console", report: RecordSearchReport, /) -> None:
    """Show the records of a search."""
    rows = (
        ("/".join(one.namespace), one.key, one.version, minute_text(one.updated_at), _json_text(one.value))
        for one in report.items
    )
    show_table(console, ("namespace", "key", "version", "date", "value"), rows, numbers=("version",), none="no records")
    if report.has_more:
        console.print("more are available: pass --offset")


def record_table(console: "Console", report: RecordNamespaceListReport, /) -> None:
    """Show namespaces."""
    rows = (("/".join(one.namespace), one.records) for one in report.namespaces)
    show_table(console, ("namespace", "records"), rows, numbers=("records",), none="no namespaces")
    if report.has_more:
        console.print("more are available: pass --offset")


def show_record_versions(console: "Console", report: RecordHistoryReport, /) -> None:
    """Show the versions of a record."""
    rows = (
        (one.version, minute_text(one.at), "deleted" if one.deleted else _json_text(one.value))
        for one in report.versions
    )
    show_table(console, ("version", "date", "value"), rows, numbers=("version",))


def _json_text(value: Any) -> str:
    return safe_line(json.dumps(value, ensure_ascii=False))


def skill_table(console: "Console", report: RuntimeSkillListReport, /) -> None:
    """Show the skills, and their total number."""
    rows = (
        (skill.name, skill.topic, skill.title, _skill_state(skill), skill.quality, _skill_use(skill))
        for skill in report.runtime_skills
    )
    show_table(console, ("name", "topic", "title", "state", "quality", "used"), rows, numbers=("quality", "used"))
    summary = f"{report.total} in total, {report.active} active, {report.disabled} disabled, {report.retired} retired"
    console.print(summary + ("; more are available" if report.clipped else ""))


def skill_details(console: "Console", report: RuntimeSkillDetailReport, /) -> None:
    """Show one skill, whole."""
    skill = report.skill
    show_pairs(
        console,
        {
            "name": skill.name,
            "topic": skill.topic,
            "title": skill.title,
            "summary": skill.summary,
            "state": _skill_state(skill),
            "quality": str(skill.quality),
            "used": _skill_use(skill),
            "source": f"{skill.source.value} ({skill.origin.value})",
            "updated": minute_text(skill.updated_at),
            "citations": ", ".join(report.citations),
            "supersedes": ", ".join(skill.supersedes),
            "superseded by": skill.superseded_by or "",
            "last outcome": f"{minute_text(report.last_outcome_at)} {report.last_outcome_note}".strip(),
        }.items(),
    )
    console.print()
    console.print(safe_text(report.procedure), soft_wrap=True)
    if len(report.lineage) > 1:
        rows = ((node.revision, node.name, node.status, minute_text(node.at)) for node in report.lineage)
        show_table(console, ("revision", "name", "status", "date"), rows, numbers=("revision",))
    for diff in report.strategy_diffs:
        reason_text = f": {safe_line(diff.reason)}" if diff.reason else ""
        console.print(
            f"{minute_text(diff.at)} revision {diff.revision}, {diff.change.value}{reason_text}", soft_wrap=True
        )
        for line_sign, text in (("-", diff.before), ("+", diff.after)):
            for part in text.splitlines():
                console.print(f"  {line_sign} {safe_text(part)}", soft_wrap=True)


def show_mutated_skill(console: "Console", report: RuntimeSkillMutationReport, /) -> None:
    """Show the change of one skill."""
    if report.refused is not None:
        console.print(f"refused: {report.reason}", soft_wrap=True)
    elif not report.changed:
        console.print("nothing was changed")
    elif report.skill is None:
        console.print(f"deleted {safe_line(report.name)}", soft_wrap=True)
    else:
        state_text = f"revision {report.skill.revision}, {_skill_state(report.skill)}"
        console.print(f"changed {safe_line(report.name)}: {state_text}", soft_wrap=True)


def show_reused_skills(console: "Console", report: RuntimeSkillReuseReport, /) -> None:
    """Show for which skills the outcome was recorded."""
    for name in report.recorded:
        console.print(f"recorded  {safe_line(name)}", soft_wrap=True)
    for name in report.unknown:
        console.print(f"no such skill  {safe_line(name)}", soft_wrap=True)


def show_governance(console: "Console", report: RuntimeSkillGovernReport, /) -> None:
    """Show what governance did, or would do."""
    for outcome_name in ("active", "stale", "low_value", "retired", "merged", "pruned"):
        names: tuple[str, ...] = getattr(report, outcome_name)
        for name in names:
            console.print(f"{outcome_name:<9}  {safe_line(name)}", soft_wrap=True)
    console.print(f"{report.looked_at} skills checked" + ("" if report.changed else "; nothing was changed"))


def show_directories(console: "Console", report: AgentSkillDirectoryReport, /) -> None:
    """Show the agent skills, and what was skipped."""
    rows = ((skill.name, skill.description, skill.place, sum(skill.resources.values())) for skill in report.skills)
    show_table(console, ("name", "description", "place", "files"), rows, numbers=("files",))
    for skipped_file in report.skipped:
        console.print(f"skipped  {safe_line(skipped_file.place)}: {skipped_file.reason.value}", soft_wrap=True)
    console.print(f"{len(report.skills)} skills in {report.directories} directories")


def _skill_state(skill: RuntimeSkillSummary) -> str:
    marks = ("" if skill.enabled else "disabled", "forgotten" if skill.forgotten else "")
    pending_text = "revision pending" if skill.revision_pending else ""
    return ", ".join(part for part in (skill.state.value, *marks, pending_text) if part)


def _skill_use(skill: RuntimeSkillSummary) -> str:
    return f"{skill.use_count}× +{skill.validated_count} -{skill.mismatch_count}"


def candidates_listed(console: "Console", report: CandidateListReport, /) -> None:
    """Show a page of candidates and how to continue."""
    rows = [(_candidate_row(one), one.id) for one in report.items]
    known_by_id(console, ("state", "for", "authority", "what"), rows, none="no candidates")
    if report.withheld:
        console.print(f"{report.withheld} private candidates are hidden: pass --private to show them")
    show_more(console, report.next_cursor)


def _candidate_row(candidate: Candidate, /) -> tuple[str, ...]:
    reason_text = f" ({candidate.reason})" if candidate.reason else ""
    return (
        candidate.state,
        candidate.draft.proposal.target,
        candidate.draft.authority,
        f"{_candidate_text(candidate)}{reason_text}",
    )


def candidate_resolved(console: "Console", report: CandidateResolveReport, /) -> None:
    """Show the outcome of a candidate."""
    became_text = f"  became {safe_line(report.became)}" if report.became is not None else ""
    reason_text = f"  {safe_line(report.reason)}" if report.reason else ""
    console.print(f"{report.state.value}  {safe_line(report.id)}{became_text}{reason_text}", soft_wrap=True)


def facts_merged(console: "Console", report: MemoryMergeReport, /) -> None:
    """Show which facts were merged or restored, or would be, and why others were not."""
    rows = (
        (pair.kept, pair.folded, f"{pair.likeness:.2f}" if pair.likeness else "", pair.reason) for pair in report.pairs
    )
    show_table(console, ("kept", "folded", "likeness", "reason"), rows, numbers=("likeness",))
    if not report.changed:
        console.print("nothing was changed")


def continuity_shown(console: "Console", report: ContinuityReport, /) -> None:
    """Show the state of a conversation; a star marks the capsules that a block would show."""
    state, summary = report.state, report.summary
    show_pairs(
        console,
        (
            ("conversation", f"{report.channel}/{report.conversation}"),
            ("work", f"{state.status.value}: {state.text}" if state is not None else ""),
            ("summary", summary.text if summary is not None else ""),
            ("summary due", "yes" if report.summary_is_due else ""),
        ),
    )
    rows = (
        (
            "*" if one.id in report.selected else "",
            one.kind,
            one.state,
            one.topic,
            one.summary,
            minute_text(one.updated_at),
        )
        for one in report.capsules
    )
    show_table(console, ("", "kind", "state", "topic", "summary", "updated"), rows)
    if report.notes:
        notes_shown(console, report)


def notes_shown(console: "Console", report: ContinuityReport, /) -> None:
    """Show notes, the latest first."""
    show_table(console, ("period", "text"), ((note.period, note.text) for note in report.notes), none="no notes")


def snapshot_written(console: "Console", report: ContinuityExportReport, name: str, /) -> None:
    """Show the layers of a snapshot, and the name of its file."""
    layers = ", ".join(layer.value for layer in report.snapshot.manifest.includes) or "nothing"
    omissions = f"{report.facts_left} facts and {report.private_left} private ones were not exported"
    console.print(f"wrote {safe_line(name)}: {layers}; {omissions}", soft_wrap=True)


def snapshot_taken(console: "Console", report: ContinuityImportReport, /) -> None:
    """Show the outcome of each layer of a snapshot."""
    for layer in report.layers:
        reason_text = f"  {safe_line(layer.reason)}" if layer.reason else ""
        line = (
            f"{layer.layer.value:<9}  {layer.outcome.value}: "
            f"{layer.taken} imported, {layer.left} not imported{reason_text}"
        )
        console.print(line, soft_wrap=True)


def garden_shown(console: "Console", report: GardenReport, /) -> None:
    """Show the private documents that may be seen, and how many may not."""
    rows = (
        (document.name, document.role, document.text, minute_text(document.updated_at)) for document in report.documents
    )
    show_table(console, ("name", "role", "text", "updated"), rows)
    console.print(f"{len(report.documents)} shown, {report.withheld} withheld")


def subjects_shown(console: "Console", report: SubjectsReport, /) -> None:
    """Show the subjects and their relations."""
    rows = (
        (one.name, ", ".join(one.other_names), one.kind, one.visibility, one.lifecycle, one.soul and one.soul.soul)
        for one in report.subjects
    )
    show_table(console, ("name", "called", "kind", "visibility", "lifecycle", "soul"), rows)
    for edge in report.edges:
        console.print(f"{safe_line(edge.source)} {edge.kind.value} {safe_line(edge.target)}", soft_wrap=True)
    console.print(f"{len(report.subjects)} subjects, {report.withheld} withheld")


def _candidate_text(candidate: Candidate) -> str:
    match candidate.draft.proposal:
        case SkillProposal(title=title):
            return title
        case GardenProposal(name=name):
            return name
        case proposal:
            return proposal.content
