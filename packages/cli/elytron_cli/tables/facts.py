"""Facts in full, as people read them at a terminal."""

from typing import TYPE_CHECKING

from elytron_cli.tables.common import known_by_id, more, pairs, table, when
from elytron_cli.terminal.output import line, safe
from elytron_core.contracts.knowledge.facts import (
    FactChangeReport,
    FactDetailReport,
    FactEntry,
    FactForgetReport,
    FactListReport,
    FreshnessHint,
    LearningReport,
    ProfileReport,
)
from elytron_core.planes.knowledge.learning_rules import Learning

if TYPE_CHECKING:
    from rich.console import Console


def listed(console: "Console", report: FactListReport, /) -> None:
    """Show a page of facts, what was withheld, what is not learned, and how to go on."""
    _table(console, report.items)
    if report.withheld:
        console.print(f"{report.withheld} private facts are withheld: --private shows them")
    _rules(console, report.learning)
    more(console, report.next_cursor)


def shown(console: "Console", report: FactDetailReport, /) -> None:
    """Show one fact in full."""
    fact = report.fact
    hint = "" if fact.hint is FreshnessHint.NONE else f": {fact.hint.value} it first"
    chat = f" {fact.channel}/{fact.chat}" if fact.chat is not None else ""
    pairs(
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
            ("counts for", f"{fact.reach.value}{chat}"),
            ("freshness", f"{fact.freshness.value}{hint}"),
            ("observed", when(fact.observed_at)),
            ("confirmed", when(fact.confirmed_at)),
            ("last used", when(fact.last_used_at)),
            ("holds from", when(fact.valid_from)),
            ("holds until", when(fact.valid_to)),
            ("superseded by", fact.superseded_by or ""),
            ("version", fact.version),
        ),
    )


def changed(console: "Console", report: FactChangeReport, /) -> None:
    """Show what became of a fact."""
    new = f"  now {line(report.new_id)}" if report.new_id is not None else ""
    would = "would be " if report.dry_run else ""
    console.print(f"{would}{report.outcome.value}  {line(report.id)}{new}", soft_wrap=True)
    if report.reason is not None:
        console.print(safe(report.reason), soft_wrap=True)
    for other in report.remaining:
        console.print(f"another version of it remains, for another time: {line(other)}", soft_wrap=True)


def forgotten(console: "Console", report: FactForgetReport, /) -> None:
    """Show which facts were forgotten, or would be."""
    _table(console, report.items)
    if report.withheld:
        console.print(f"{report.withheld} private facts match and are left alone: --private includes them")
    if report.has_more:
        console.print("more facts match than one call takes: run it again afterwards")
    if report.token is not None and report.items:
        console.print(f"nothing was changed; to forget them: --token {safe(report.token)}", soft_wrap=True)
    elif report.changed:
        console.print(f"{len(report.items)} forgotten")


def profiled(console: "Console", report: ProfileReport, /) -> None:
    """Show a profile: its sentences if a model wrote it, and the facts by kind with what they rest on."""
    for sentence in report.sentences:
        console.print(f"{safe(sentence.text)} [{safe(', '.join(sentence.citations))}]", soft_wrap=True, markup=False)
    if report.not_written is not None:
        console.print(f"not written: {report.not_written}")
    for group in report.groups:
        rows = [
            ((fact.bearing.value, f"{line(fact.topic)}: {line(fact.content)}", ", ".join(fact.evidence)), fact.id)
            for fact in group.lines
        ]
        console.print(known_by_id(console, (group.kind.value, "what", "evidence"), rows))
    if not report.groups:
        console.print("no current facts")
    if report.left_out:
        console.print(f"{report.left_out} more facts: --limit shows them")
    if report.withheld:
        console.print(f"{report.withheld} private facts are withheld: --private shows them")


def learned(console: "Console", report: LearningReport, /) -> None:
    """Show what is not learned now."""
    if report.tombstones:
        console.print(f"{report.tombstones} tombstones removed")
    _rules(console, report.learning)
    if not report.changed:
        console.print("nothing was changed")


def _table(console: "Console", facts: tuple[FactEntry, ...]) -> None:
    rows = [(_row(fact), fact.id) for fact in facts]
    known_by_id(console, ("kind", "state", "confidence", "privacy", "hint", "what"), rows, none="no facts")


def _row(fact: FactEntry) -> tuple[str, ...]:
    worth = f"{fact.confidence} x{fact.evidence_count}"
    return fact.kind, fact.state, worth, fact.privacy, fact.hint, f"{fact.topic}: {fact.content}"


def _rules(console: "Console", learning: Learning) -> None:
    rows = (
        ("everything" if rule.topic is None else rule.topic, rule.state, when(rule.since), rule.by, rule.reason)
        for rule in learning.rules
    )
    table(console, ("not learned", "state", "since", "by", "why"), rows)
