"""What a person reads: the tables of commands whose reports other tests check as JSON."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from tests.cli.conftest import CommandLine
from tests.cli.test_facts import stated

from elytron.flows.maintenance import BacklogReport, MaintenanceBacklog
from elytron_cli.tables.hits import show_controlled, show_recall
from elytron_cli.tables.inspection import account_text
from elytron_cli.tables.jobs import worked_off
from elytron_cli.tables.planes import (
    continuity_shown,
    show_changed_fact,
    show_forgotten,
    show_found_records,
    show_learning,
    show_profile,
)
from elytron_cli.tables.transcript import show_turns
from elytron_core.clock import Instant
from elytron_core.contracts.continuity import ContinuityReport
from elytron_core.contracts.facts import (
    FactAction,
    FactChangeReport,
    FactForgetReport,
    LearningReport,
    ProfileReport,
    ProfileSentence,
)
from elytron_core.contracts.inspection import JournalAccount, MemoryReplayReport
from elytron_core.contracts.memories import ControlDecision, ControlOutcome, MemoryControlReport
from elytron_core.contracts.recall import (
    AbsenceReason,
    MemoryRecallReport,
    NearbyTurn,
    RecallHit,
    RecallOutcome,
    RecallPlane,
    RerankUse,
    WhyNot,
)
from elytron_core.contracts.records import RecordSearchReport
from elytron_core.planes.continuity import DailyNote
from elytron_core.planes.facts import LearningRules
from elytron_core.profiles import ErasureLayer, ErasurePlace, ErasureState
from elytron_core.scope import ClipReason, ReportClip


def read(elytron: CommandLine, *arguments: str) -> str:
    """Return what a command prints for a person, on one line."""
    return " ".join(elytron(*arguments, "--no-json").stdout.split())


def test_a_fact_list_shows_withheld_and_unlearned_facts_and_the_next_page(elytron: CommandLine) -> None:
    stated(elytron, "home", "Lisbon")
    stated(elytron, "drink", "tea")
    secret = stated(elytron, "diary", "blue")
    elytron("facts", "change", secret, "change_privacy", "--privacy", "private")
    elytron("facts", "suppress", "wine", "--reason", "a guest")
    shown = read(elytron, "facts", "list", "--limit", "1")
    assert "wine suppressed" in shown
    assert "--cursor" in shown
    assert "a guest" in shown
    assert "1 private facts are hidden" in read(elytron, "facts", "list")
    assert "no facts" in read(elytron, "facts", "list", "nothing of it")


def test_a_full_fact_shows_its_scope_and_the_next_step(elytron: CommandLine) -> None:
    fact = stated(elytron, "home", "Lisbon")
    assert "hint" not in read(elytron, "facts", "show", fact)
    elytron("facts", "change", fact, "mark_stale")
    elytron("facts", "change", fact, "change_scope", "--reach", "chat", "--conversation", "kitchen")
    shown = read(elytron, "facts", "show", fact)
    assert "verify it first" in shown
    assert "kitchen" in shown


def test_a_change_shows_the_outcome_and_its_reason(elytron: CommandLine) -> None:
    fact = stated(elytron, "home", "Lisbon")
    later = stated(elytron, "home", "Porto")
    assert "now " in read(elytron, "facts", "correct", later, "Faro")
    unchanged = read(elytron, "facts", "change", fact, "mark_stale")
    assert fact in unchanged


def test_a_forget_dry_run_changes_nothing_and_the_real_one_shows_a_count(elytron: CommandLine) -> None:
    stated(elytron, "drink", "green tea")
    secret = stated(elytron, "diary", "tea at noon")
    elytron("facts", "change", secret, "change_privacy", "--privacy", "private")
    rehearsed = read(elytron, "facts", "forget", "tea")
    assert "nothing was changed; to forget these: --token" in rehearsed
    assert "1 private facts match" in rehearsed
    assert "forgot 1 facts" in read(elytron, "facts", "forget", "tea", "--yes")
    assert "1 tombstones removed" in read(elytron, "facts", "allow", "drink")
    assert "nothing was changed" in read(elytron, "facts", "allow", "drink")


def test_a_profile_shows_known_omitted_and_withheld_facts(elytron: CommandLine) -> None:
    elytron.make()
    assert "no current facts" in read(elytron, "profile")
    for topic in ("home", "drink"):
        stated(elytron, topic, "Lisbon")
    secret = stated(elytron, "diary", "blue")
    elytron("facts", "change", secret, "change_privacy", "--privacy", "private")
    shown = read(elytron, "profile", "--limit", "1")
    assert "1 more facts: raise --limit to show them" in shown
    assert "1 private facts are hidden" in shown


@pytest.mark.parametrize("arguments", [("compact",), ("jobs", "list"), ("jobs", "run")])
def test_commands_without_work_say_so(elytron: CommandLine, arguments: tuple[str, ...]) -> None:
    elytron("add", "I live in Lisbon.")
    assert any(words in read(elytron, *arguments) for words in ("nothing to compact", "no jobs", "0 jobs run"))


def test_a_backlog_shows_pending_and_completed_work_and_why_it_stopped() -> None:
    file = io.StringIO()
    console = Console(file=file, width=200)
    waiting = MaintenanceBacklog(space="ada", turns=3, calls=2, tokens=900)
    for report in (
        BacklogReport(space="ada", backlog=waiting, dry_run=True),
        BacklogReport(space="ada", backlog=waiting, turns=2, conversations=1, decisions={"stored": 1}),
        BacklogReport(space="ada", backlog=MaintenanceBacklog(space="ada"), stopped="budget", left=1),
    ):
        worked_off(console, report)
    shown = file.getvalue()
    assert "up to 2 model calls" in shown
    assert "nothing was changed (dry run)" in shown
    assert "2 turns of 1 conversations processed: 1 stored" in shown
    assert "stopped: budget; 1 turns are left" in shown


def test_refusals_and_deferred_work_are_reported() -> None:
    file = io.StringIO()
    console = Console(file=file, width=200)
    change = FactChangeReport(
        space="ada",
        id="f",
        action=FactAction.DELETE,
        outcome=ControlOutcome.UNCHANGED,
        reason="it has ended",
        remaining=("g",),
        changed=False,
        dry_run=True,
    )
    show_changed_fact(console, change)
    show_forgotten(console, FactForgetReport(space="ada", items=(), has_more=True, changed=False))
    show_learning(console, LearningReport(space="ada", learning=LearningRules(), changed=False))
    shown = file.getvalue()
    for words in (
        "would be unchanged",
        "it has ended",
        "for another period: g",
        "more facts match",
        "nothing was changed",
    ):
        assert words in shown


def test_a_forget_reports_changed_remaining_and_refused_memories() -> None:
    file = io.StringIO()
    console = Console(file=file, width=200)
    kept = ControlDecision(id="f", outcome=ControlOutcome.UNCHANGED, reason="it has ended", remaining=("g",))
    show_controlled(console, MemoryControlReport(space="ada", decisions=(kept,), changed=False, derived=("d",)))
    gone = MemoryControlReport(
        space="ada",
        decisions=(ControlDecision(id="m", outcome=ControlOutcome.CHANGED),),
        changed=True,
        dry_run=True,
        removed={"turns": 2},
    )
    show_controlled(console, gone)
    shown = file.getvalue()
    for words in (
        "f: it has ended",
        "for another period: g",
        "depends on erased content and remains: d",
        "nothing was changed",
    ):
        assert words in shown
    assert "would remove 2 from turns" in shown


def printed(*shown: Callable[[Console], None]) -> str:
    """Return what is printed on a wide terminal."""
    file = io.StringIO()
    for show in shown:
        show(Console(file=file, width=200))
    return file.getvalue()


def test_an_erasure_on_a_server_reports_where_bytes_remain() -> None:
    layers = (
        ErasureLayer(place=ErasurePlace.ROWS, state=ErasureState.GONE),
        ErasureLayer(place=ErasurePlace.LOG, state=ErasureState.OUT_OF_REACH, reason="its log is archived"),
    )
    report = MemoryControlReport(space="ada", decisions=(), changed=True, removed={"turns": 1}, layers=layers)
    shown = printed(lambda console: show_controlled(console, report))
    assert "rows: gone\n" in shown
    assert "(its log is archived)" in shown
    assert "removed 1 from turns" in shown


@pytest.mark.parametrize("explain", [False, True])
def test_a_recall_shows_neighbours_cutoffs_and_missing_information(*, explain: bool) -> None:
    hit = RecallHit(
        id="m2",
        plane=RecallPlane.TRANSCRIPT,
        text="Tea.",
        score=0.5,
        signals={"words": 0.5, "age": 0.0},
        before=(NearbyTurn(id="m1", text="What do you drink?", speaker="Bo"),),
        after=(NearbyTurn(id="m3", text="Noted."),),
        newer="Coffee now.",
    )
    report = MemoryRecallReport(
        space="ada",
        query="drink",
        outcome=RecallOutcome.DOUBTFUL,
        hits=(hit,),
        considered=3,
        cut=0.25,
        clipped=(ReportClip(what="hits", reason=ClipReason.LIMIT, limit=1, dropped=2),),
        rerank=RerankUse.FAILED,
        why_not=(
            WhyNot(id="m9", absence=AbsenceReason.UNKNOWN),
            WhyNot(id="m4", absence=AbsenceReason.LIMIT, score=0.2),
        ),
        next_cursor="more",
    )
    shown = printed(lambda console: show_recall(console, report, explain=explain))
    for words in (
        "Bo: What do you drink?",
        ": Noted.",
        "these may not answer the query",
        "2 more hits omitted: limit 1",
        "the reranker failed",
        "no such memory",
        "0.200",
        "--cursor more",
    ):
        assert words in shown
    assert ("newer: Coffee now." in shown) is explain
    assert ("cut off at 0.250" in shown) is explain


def test_a_single_hit_is_explained_without_a_cutoff() -> None:
    hit = RecallHit(id="m", plane=RecallPlane.TRANSCRIPT, text="Tea.", score=0.5, signals={"words": 0.5})
    report = MemoryRecallReport(space="ada", query="drink", outcome=RecallOutcome.FOUND, hits=(hit,), considered=1)
    shown = printed(lambda console: show_recall(console, report, explain=True))
    assert "1 memories passed the filters, as of sequence 0\n" in shown


def test_a_profile_shows_sentences_or_why_a_model_wrote_none() -> None:
    written = ProfileReport(
        space="ada", person="ada", sentences=(ProfileSentence(text="Likes tea.", citations=("f",)),)
    )
    refused = ProfileReport(space="ada", person="ada", not_written="the model did not answer")
    shown = printed(lambda console: show_profile(console, written), lambda console: show_profile(console, refused))
    assert "Likes tea. [f]" in shown
    assert "no text was written: the model did not answer" in shown


def test_a_page_of_records_shows_how_to_continue() -> None:
    page = RecordSearchReport(space="ada", items=(), has_more=True)
    assert "more are available: pass --offset" in printed(lambda console: show_found_records(console, page))


@pytest.mark.parametrize("has_note", [False, True])
def test_the_state_of_a_conversation_has_its_notes_below(*, has_note: bool) -> None:
    at = Instant(0)
    note = DailyNote.model_construct(id="n", period="2026-08", text="A quiet month.", updated_at=at)
    report = ContinuityReport(space="ada", channel="cli", conversation="kitchen", notes=(note,) if has_note else ())
    shown = printed(lambda console: continuity_shown(console, report))
    assert "cli/kitchen" in shown
    assert ("A quiet month." in shown) is has_note


def test_a_journal_report_names_altered_documents() -> None:
    assert account_text(JournalAccount(told=3)) == "3 documents match their last journal entries"
    assert account_text(JournalAccount(told=3, compacted=2)).endswith("; 2 emptied entries were compacted")
    shown = account_text(JournalAccount(told=3, altered=1, missing=2, unproven=1))
    assert shown.startswith("2 of 3 documents")
    assert "1 DO NOT, 2 missing, 1 runs of entries REMOVED" in shown


def test_an_empty_conversation_explains_how_to_list_others() -> None:
    report = MemoryReplayReport(space="ada", channel="cli", conversation="attic", turns=(), total_turns=0)
    assert "no turns in the conversation 'attic'" in printed(lambda console: show_turns(console, report))
