"""What a person reads: the tables of commands whose reports other tests read as JSON."""

import io

import pytest
from rich.console import Console
from tests.cli.conftest import CommandLine
from tests.cli.test_facts import stated

from elytron.flows.maintenance import BacklogReport, MaintenanceBacklog
from elytron_cli.tables.common import show_controlled
from elytron_cli.tables.jobs import worked_off
from elytron_cli.tables.planes import show_changed_fact, show_forgotten, show_learning
from elytron_core.contracts.control import ControlDecision, ControlOutcome, MemoryControlReport
from elytron_core.contracts.facts import FactAction, FactChangeReport, FactForgetReport, LearningReport
from elytron_core.planes.facts import LearningRules


def read(elytron: CommandLine, *arguments: str) -> str:
    """Return what a command says to a person, on one line."""
    return " ".join(elytron(*arguments, "--no-json").stdout.split())


def test_a_list_of_facts_says_what_is_withheld_not_learned_and_how_to_go_on(elytron: CommandLine) -> None:
    stated(elytron, "home", "Lisbon")
    stated(elytron, "drink", "tea")
    secret = stated(elytron, "diary", "blue")
    elytron("facts", "change", secret, "change_privacy", "--privacy", "private")
    elytron("facts", "suppress", "wine", "--reason", "a guest")
    shown = read(elytron, "facts", "list", "--limit", "1")
    assert "wine suppressed" in shown
    assert "--cursor" in shown
    assert "a guest" in shown
    assert "1 private facts are withheld" in read(elytron, "facts", "list")
    assert "no facts" in read(elytron, "facts", "list", "nothing of it")


def test_a_fact_in_full_says_where_it_counts_and_what_to_do_first(elytron: CommandLine) -> None:
    fact = stated(elytron, "home", "Lisbon")
    assert "hint" not in read(elytron, "facts", "show", fact)
    elytron("facts", "change", fact, "mark_stale")
    elytron("facts", "change", fact, "change_scope", "--reach", "chat", "--conversation", "kitchen")
    shown = read(elytron, "facts", "show", fact)
    assert "verify it first" in shown
    assert "kitchen" in shown


def test_a_change_says_what_became_of_the_fact_and_why(elytron: CommandLine) -> None:
    fact = stated(elytron, "home", "Lisbon")
    later = stated(elytron, "home", "Porto")
    assert "now " in read(elytron, "facts", "correct", later, "Faro")
    unchanged = read(elytron, "facts", "change", fact, "mark_stale")
    assert fact in unchanged


def test_a_rehearsal_of_forgetting_says_that_nothing_was_changed_and_the_act_how_many(elytron: CommandLine) -> None:
    stated(elytron, "drink", "green tea")
    secret = stated(elytron, "diary", "tea at noon")
    elytron("facts", "change", secret, "change_privacy", "--privacy", "private")
    rehearsed = read(elytron, "facts", "forget", "tea")
    assert "nothing was changed; to forget them: --token" in rehearsed
    assert "1 private facts match" in rehearsed
    assert "1 forgotten" in read(elytron, "facts", "forget", "tea", "--yes")
    assert "1 tombstones removed" in read(elytron, "facts", "allow", "drink")
    assert "nothing was changed" in read(elytron, "facts", "allow", "drink")


def test_a_profile_says_what_is_known_left_out_and_withheld(elytron: CommandLine) -> None:
    elytron.make()
    assert "no current facts" in read(elytron, "profile")
    for topic in ("home", "drink"):
        stated(elytron, topic, "Lisbon")
    secret = stated(elytron, "diary", "blue")
    elytron("facts", "change", secret, "change_privacy", "--privacy", "private")
    shown = read(elytron, "profile", "--limit", "1")
    assert "1 more facts: --limit shows them" in shown
    assert "1 private facts are withheld" in shown


@pytest.mark.parametrize("arguments", [("compact",), ("jobs", "list"), ("jobs", "run")])
def test_what_has_nothing_to_do_says_so(elytron: CommandLine, arguments: tuple[str, ...]) -> None:
    elytron("add", "I live in Lisbon.")
    assert any(words in read(elytron, *arguments) for words in ("nothing to compact", "no jobs", "0 jobs taken"))


def test_a_backlog_says_what_waits_what_was_done_and_why_it_stopped() -> None:
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
    assert "asked 2 times at most" in shown
    assert "nothing was done, this was a dry run" in shown
    assert "2 turns of 1 conversations looked at: 1 stored" in shown
    assert "stopped: budget; 1 turns are left" in shown


def test_what_was_refused_or_left_to_a_job_is_said() -> None:
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
        "for another time: g",
        "more facts match",
        "nothing was changed",
    ):
        assert words in shown


def test_what_a_forget_changed_left_and_refused_is_said() -> None:
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
    for words in ("f: it has ended", "for another time: g", "rests on what is gone: d", "nothing was changed"):
        assert words in shown
    assert "would remove 2 from turns" in shown
