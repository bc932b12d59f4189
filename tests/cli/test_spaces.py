"""The spaces of a store: listed, and suggested when an empty one was read."""

import json

from tests.cli.conftest import CommandLine


def test_the_spaces_of_a_store_are_listed(elytron: CommandLine) -> None:
    elytron("add", "tea", "--space", "ada", "--at", "2025-05-01T10:00:00Z")
    elytron("add", "coffee", "--space", "ben", "--at", "2025-05-02T10:00:00Z")
    elytron("access", "add", "--kind", "user", "--label", "x", "--space", "ada")
    found = elytron.json("spaces")["spaces"]
    assert [(space["space"], space["turns"]) for space in found] == [("ada", 1), ("ben", 1)]
    assert "2025-05-02" in elytron("spaces", "--no-json").stdout
    page = elytron.json("spaces", "--limit", "1")
    assert page["has_more"]
    assert [space["space"] for space in elytron.json("spaces", "--cursor", page["next_cursor"])["spaces"]] == ["ben"]


def test_an_empty_space_shows_a_hint_about_the_others(elytron: CommandLine) -> None:
    for name in "abcdefg":
        elytron("add", "tea", "--space", name)
    told = elytron("recall", "tea").stderr
    hint = json.loads(told)["hint"]
    assert hint.startswith("the space 'default' is empty; this store has 'a', 'b', 'c', 'd', 'e' and others")
    assert elytron("recall", "tea", "--space", "a").stderr == ""
    assert elytron("add", "tea", "--space", "h").stderr == ""
    assert elytron("spaces").stderr == ""


def test_a_store_without_spaces_shows_no_hint(elytron: CommandLine) -> None:
    elytron("add", "tea")
    elytron("erase", "--all", "--yes")
    assert elytron("recall", "tea").stderr == ""
