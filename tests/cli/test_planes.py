"""`elytron candidates`, `continuity`, `notes`, `garden`, `subjects`, and the profile of a store."""

import json

import pytest
from tests.cli.conftest import CommandLine

FACT = {"target": "long_term", "topic": "tea", "content": "Ada likes green tea"}
SKILL = {"target": "procedural", "name": "brew", "topic": "tea", "title": "Brew tea", "content": "1. Boil.\n2. Steep."}
DIARY = {"target": "private_garden", "role": "diary", "name": "monday", "text": "It rained."}


def left(elytron: CommandLine, name: str, value: object) -> str:
    return elytron.write(name, json.dumps(value).encode())


@pytest.mark.parametrize("store", ["m.db", "file:///{folder}/store"])
def test_pending_proposals_are_listed_and_decided(
    elytron: CommandLine, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELYTRON_STORE", store.format(folder=str(elytron.folder).lstrip("/")))
    elytron.make()
    assert elytron("candidates", "list", "--no-json").stdout == "no candidates\n"
    drafts = [{"proposal": proposal, "authority": "user_asserted"} for proposal in (FACT, SKILL, DIARY)]
    file = left(elytron, "c.json", {"candidates": drafts})
    assert elytron("candidates", "propose", file, "--no-json").stdout.count("deferred") == 3
    page = elytron.json("candidates", "list", "--limit", "1")
    assert f"more: --cursor {page['next_cursor']}" in elytron("candidates", "list", "--limit", "1", "--no-json").stdout
    assert (
        "1 private candidates are hidden: pass --private to show them"
        in elytron("candidates", "list", "--no-json").stdout
    )
    waiting = elytron.json("candidates", "list", "--private")["items"]
    ids = {item["draft"]["proposal"]["target"]: item["id"] for item in waiting}
    told = elytron("candidates", "list", "--private", "--no-json").stdout
    assert all(word in told for word in ("Brew tea", "monday"))
    assert elytron.json("candidates", "accept", ids["long_term"], "--dry-run")["changed"] is False
    assert "became" in elytron("candidates", "accept", ids["long_term"], "--no-json").stdout
    assert elytron.json("recall", "green tea")["hits"][0]["text"] == "Ada likes green tea"
    again = elytron("candidates", "accept", ids["long_term"], "--no-json", expect=2).stdout
    assert "it was accepted before" in again
    assert elytron.json("candidates", "reject", ids["procedural"], "--reason", "no")["state"] == "rejected"
    rejected = elytron.json("candidates", "list", "--state", "rejected", "--target", "procedural")["items"]
    assert [item["resolution"] for item in rejected] == ["no"]
    assert elytron.error("candidates", "accept", "candidate:00", expect=3)["key"] == "not_found"


def test_a_conversation_is_recorded_shown_and_moved(elytron: CommandLine) -> None:
    here = ("--conversation", "shop")
    capsule = {"capsule_kind": "work_session", "topic": "lease", "summary": "The lease is drawn up."}
    elytron("continuity", "write", "capsules", left(elytron, "k.json", {"capsules": [capsule]}), *here)
    state = left(elytron, "s.json", {"state": {"goal": "move the shop", "blocker": "no van"}})
    assert elytron("continuity", "write", "execution", state, *here, "--no-json").stdout.startswith("stored  state:")
    summary = left(elytron, "t.json", {"summary": {"text": "They move.", "messages": 4}})
    elytron("continuity", "write", "summary", summary, *here)
    elytron("notes", "write", "2026-01-03", "The van was rented.", *here)
    told = elytron("continuity", "show", "lease", *here, "--no-json").stdout
    assert all(word in told for word in ("default/shop", "move the shop", "They move.", "*", "lease", "2026-01-03"))
    assert "The van was rented." in elytron("notes", "list", *here, "--no-json").stdout
    assert elytron("notes", "list", "--no-json").stdout == "no notes\n"
    assert "execution, summary, capsules" in elytron("continuity", "export", "x.json", *here, "--no-json").stdout
    there = ("--conversation", "new shop", "--mode", "full_restore")
    assert elytron.json("continuity", "import", "x.json", *there, "--dry-run")["changed"] is False
    assert (
        "capsules   taken: 1 imported, 0 not imported"
        in elytron("continuity", "import", "x.json", *there, "--no-json").stdout
    )
    assert elytron.json("continuity", "show", "--conversation", "new shop")["state"]["goal"] == "move the shop"
    assert elytron.error("continuity", "export", "no/such/x.json", *here, expect=2)["key"] == "invalid_input"


def test_a_garden_is_shown_only_to_its_audience(elytron: CommandLine) -> None:
    elytron.make()
    assert elytron("garden", "list", "--no-json").stdout == "0 shown, 0 withheld\n"
    elytron("garden", "write", "q", "Quince smells.", "--role", "diary")
    assert "Quince smells." in elytron("garden", "list", "--no-json").stdout
    hidden = elytron("garden", "list", "--audience", "host_ui", "--no-json").stdout
    assert hidden == "0 shown, 1 withheld\n"


def test_subjects_are_listed_with_their_edges_and_edges_end(elytron: CommandLine) -> None:
    elytron.make()
    assert elytron("subjects", "list", "--no-json").stdout == "0 subjects, 0 withheld\n"
    edge = {"source": "io", "edge_kind": "represents", "target": "ada"}
    people = [
        {"name": "io", "subject_kind": "agent_persona", "soul": {"soul": "keeper"}},
        {"name": "ada", "subject_kind": "human_user"},
        {"name": "root", "subject_kind": "system_governor", "visibility": "hidden"},
    ]
    elytron("subjects", "write", left(elytron, "p.json", {"subjects": people, "edges": [edge]}))
    told = elytron("subjects", "list", "--no-json").stdout
    assert all(word in told for word in ("keeper", "io represents ada", "2 subjects, 1 withheld"))
    audited = elytron.json("subjects", "list", "--audit", "--kind", "system_governor")["subjects"]
    assert [one["name"] for one in audited] == ["root"]
    ended = elytron("subjects", "write", left(elytron, "e.json", {"ended_edges": [edge]}), "--no-json").stdout
    assert ended == "deleted  io represents ada\n"


def test_a_store_is_opened_in_a_profile(elytron: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    small = "desktop-macos-embedded-sdk"
    assert elytron.error("add", "x" * 2_049, "--profile", small, expect=7)["key"] == "limit_exceeded"
    assert elytron.json("platform", "capabilities", "--profile", small)["profile"] == small
    monkeypatch.setenv("ELYTRON_PROFILE", "toaster")
    assert elytron.error("inspect", expect=2)["key"] == "invalid_input"
    assert elytron.json("inspect", "--profile", small)["space"] == "default"
    snapshot = elytron.json("platform", "capability-snapshot", "--profile", "esp-embedded-sdk")
    assert snapshot["catalog"]["profile"] == "esp-embedded-sdk"


def test_the_command_line_is_listed_as_an_entry_point(elytron: CommandLine) -> None:
    elytron.make()
    entries = elytron.json("platform", "capabilities")["entry"]
    assert entries["cli"]["visible"]
    assert not entries["webhook_sender"]["compiled"], "nothing here sends webhooks"


@pytest.mark.parametrize("command", [("serve", "--development", "--port", "0"), ("mcp",)])
def test_operations_that_a_profile_forbids_do_not_start(elytron: CommandLine, command: tuple[str, ...]) -> None:
    named = ("--store", "memory:", "--profile", "esp-embedded-sdk")
    assert elytron.error(*command, *named, expect=8)["key"] == "unsupported"


def test_a_fact_is_stated_and_a_weaker_claim_is_refused_with_a_reason(elytron: CommandLine) -> None:
    words = ("facts", "add", "tea", "Ada drinks green tea", "--kind", "preference")
    assert elytron(*words, "--at", "2026-05-09", "--dry-run", "--no-json").stdout.startswith("stored")
    told = elytron.json(*words, "--at", "2026-05-09", "--citation", "said")
    fact = elytron.json("get", told["decisions"][0]["id"])
    assert (fact["text"], fact["trust"], fact["citations"]) == ("Ada drinks green tea", "vouched", ["said"])
    weaker = elytron(
        "facts", "add", "tea", "Ada hates tea", "--kind", "preference", "--authority", "extracted", "--no-json"
    )
    assert weaker.stdout == f"rejected  {fact['id']}  it is less certain than the current fact\n"


def test_duplicate_facts_are_merged_and_separated_again(elytron: CommandLine) -> None:
    elytron.make()
    assert elytron("facts", "merge", "--no-json").stdout == "nothing was changed\n"
    for number, topic in enumerate(("tea", "drink")):
        elytron("facts", "add", topic, "Ada likes green tea in the morning" + "s" * number)
    assert "nothing was changed" in elytron("facts", "merge", "--dry-run", "--no-json").stdout
    (pair,) = elytron.json("facts", "merge")["pairs"]
    assert pair["folded"] in elytron("facts", "merge", "--undo", pair["folded"], "--no-json").stdout
    assert "not merged" in elytron("facts", "merge", "--undo", pair["folded"], "--no-json").stdout


def test_an_unsuitable_file_is_reported(elytron: CommandLine) -> None:
    wrong = left(elytron, "wrong.json", {"goal": "move"})
    for command in (("candidates", "propose"), ("subjects", "write"), ("continuity", "write", "execution")):
        assert "file 'wrong.json' is not valid: " in elytron.error(*command, wrong, expect=6)["reason"]
    half = elytron.write("half.json", b'{"candidates": [')
    assert "file 'half.json'" in elytron.error("candidates", "propose", half, expect=6)["reason"]
