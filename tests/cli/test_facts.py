"""Long-term control at the command line."""

from tests.cli.conftest import CommandLine


def stated(elytron: CommandLine, topic: str, content: str) -> str:
    return elytron.json("facts", "add", topic, content)["decisions"][0]["id"]


def test_facts_are_listed_shown_and_corrected(elytron: CommandLine) -> None:
    fact = stated(elytron, "home", "Lisbon")
    (entry,) = elytron.json("facts", "list", "lisbon")["items"]
    assert (entry["id"], entry["authority"], entry["hint"]) == (fact, "operator", "none")
    shown = elytron.json("facts", "show", fact)["fact"]
    assert shown["version"] == entry["version"]
    report = elytron.json("facts", "correct", fact, "Porto", "--expect", entry["version"], "--reason", "misheard")
    assert elytron.json("facts", "show", report["new_id"])["fact"]["content"] == "Porto"
    history = elytron.json("history", fact)["items"]
    assert ("corrected", "cli", "misheard") in [(item["event"], item["by"], item["reason"]) for item in history]


def test_a_fact_is_changed_in_each_way(elytron: CommandLine) -> None:
    fact = stated(elytron, "home", "Lisbon")
    elytron.json("facts", "change", fact, "mark_stale")
    assert elytron.json("facts", "show", fact)["fact"]["hint"] == "verify"
    elytron.json("facts", "change", fact, "change_privacy", "--privacy", "private")
    assert elytron.json("facts", "list") | {"space": ""} == {
        "space": "",
        "items": [],
        "withheld": 1,
        "learning": {"rules": [], "log": []},
        "has_more": False,
    }
    assert len(elytron.json("facts", "list", "--private")["items"]) == 1
    elytron.json("facts", "change", fact, "change_scope", "--reach", "chat", "--conversation", "kitchen")
    assert elytron.json("facts", "show", fact, "--private")["fact"]["chat"] == "kitchen"
    elytron.json("facts", "change", fact, "invalidate", "--at", "2100-01-01T00:00:00Z")
    assert elytron.json("facts", "show", fact, "--private")["fact"]["state"] == "invalidated"


def test_facts_are_forgotten_by_query_and_allowed_again(elytron: CommandLine) -> None:
    stated(elytron, "drink", "green tea")
    rehearsed = elytron.json("facts", "forget", "tea")
    assert (rehearsed["changed"], len(rehearsed["items"])) == (False, 1)
    assert elytron.json("facts", "forget", "tea", "--token", rehearsed["token"])["changed"]
    assert elytron.json("facts", "add", "drink", "green tea")["decisions"][0]["outcome"] == "rejected"
    assert elytron.json("facts", "allow", "drink")["tombstones"] == 1
    assert elytron.json("facts", "add", "drink", "green tea")["decisions"][0]["outcome"] == "stored"
    assert elytron.json("facts", "forget", "tea", "--yes")["changed"]


def test_learning_is_paused_resumed_and_suppressed(elytron: CommandLine) -> None:
    stated(elytron, "home", "Lisbon")
    elytron.json("facts", "pause", "--reason", "a guest")
    assert elytron.json("facts", "add", "drink", "tea")["decisions"][0]["outcome"] == "rejected"
    elytron.json("facts", "resume")
    rules = elytron.json("facts", "suppress", "tea")["learning"]["rules"]
    assert [(rule["state"], rule["topic"], rule["by"]) for rule in rules] == [("suppressed", "tea", "cli")]
    assert elytron.json("facts", "add", "drink", "tea")["decisions"][0]["outcome"] == "rejected"


def test_facts_are_read_at_a_terminal(elytron: CommandLine) -> None:
    fact = stated(elytron, "drink", "green tea")
    elytron.json("facts", "suppress", "wine")
    told = elytron("--no-json", "facts", "list").stdout
    assert "green tea" in told
    assert "suppressed" in told
    assert "freshness" in elytron("--no-json", "facts", "show", fact).stdout
    assert "--token" in elytron("--no-json", "facts", "forget", "tea").stdout
    assert "changed" in elytron("--no-json", "facts", "correct", fact, "white tea").stdout
    assert "everything" in elytron("--no-json", "facts", "pause").stdout


def test_a_profile_shows_what_is_known_about_a_person(elytron: CommandLine) -> None:
    fact = stated(elytron, "home", "Ada lives in Lisbon")
    elytron.json(
        "facts", "change", stated(elytron, "illness", "Ada has asthma"), "change_privacy", "--privacy", "private"
    )
    (group,) = elytron.json("profile", "Ada")["groups"]
    assert [line["id"] for line in group["lines"]] == [fact]
    shown = elytron(
        "--no-json", "profile", "Ada", "--limit", "1", "--written", "--as-of", "2100-01-01T00:00:00Z"
    ).stdout
    assert "Ada lives in Lisbon" in shown
    assert "no text was written: no_language_model" in shown
    assert "None" not in shown
    assert "1 private facts are hidden" in shown
    assert "1 more facts" in elytron("--no-json", "profile", "Ada", "--limit", "1", "--private").stdout
    assert "no current facts" in elytron("--no-json", "profile", "Dora").stdout
