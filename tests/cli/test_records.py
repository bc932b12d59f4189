"""`elytron records`: values put, found, shown with history, and deleted."""

from tests.cli.conftest import CommandLine


def test_a_record_is_put_shown_and_deleted(elytron: CommandLine) -> None:
    put = elytron.json("records", "put", "users/ada", "theme", '{"colour": "dark"}', "--text", "The screen is dark.")
    assert put["record"]["namespace"] == ["users", "ada"]
    stored = elytron("records", "put", "users/ada", "theme", '"light"', "--expect", "1", "--no-json").stdout
    assert stored.startswith("stored  version 2  record:")
    assert elytron("records", "get", "users/ada", "theme", "--no-json").stdout.startswith('"light"\nversion 2')
    told = elytron("records", "history", "users/ada", "theme", "--no-json").stdout
    assert '{"colour": "dark"}' in told
    assert elytron.json("records", "delete", "users/ada", "theme", "--dry-run")["changed"] is False
    deleted = elytron("records", "delete", "users/ada", "theme", "--yes", "--no-json").stdout
    assert deleted.endswith("version 3\n")
    again = elytron("records", "delete", "users/ada", "theme", "--yes", "--no-json").stdout
    assert again == "no such record\n"
    assert elytron.error("records", "get", "users/ada", "theme", expect=3)["key"] == "not_found"


def test_records_are_found_by_namespace_field_and_words(elytron: CommandLine) -> None:
    elytron("records", "put", "users/ada", "a", '{"size": 3}', "--text", "The ferry leaves at six.", "--ttl", "60")
    elytron("records", "put", "users/bo", "b", '{"size": 4}')
    assert "until" in elytron("records", "get", "users/ada", "a", "--no-json").stdout
    found = elytron.json("records", "search", "users", "--where", '{"size": {"gte": 4}}')
    assert [item["key"] for item in found["items"]] == ["b"]
    assert [item["key"] for item in elytron.json("records", "search", "--query", "ferry")["items"]] == ["a"]
    assert "--offset" in elytron("records", "search", "--limit", "1", "--no-json").stdout
    listed = elytron("records", "namespaces", "users", "--depth", "1", "--no-json").stdout
    assert "users" in listed
    assert "2" in listed
    assert "--offset" in elytron("records", "namespaces", "--limit", "1", "--no-json").stdout


def test_null_is_shown_as_a_value(elytron: CommandLine) -> None:
    assert elytron.json("records", "put", "users", "a", "null")["record"]["value"] is None
    assert elytron.json("records", "get", "users", "a")["record"]["value"] is None


def test_invalid_json_is_rejected(elytron: CommandLine) -> None:
    assert elytron.error("records", "put", "users", "a", "{", expect=2)["key"] == "invalid_input"
    elytron("records", "put", "users", "a", "1")
    assert elytron.error("records", "search", "--where", "[]", expect=2)["key"] == "invalid_input"
    assert elytron.error("records", "put", "users", "a", "2", "--expect", "7", expect=4)["key"] == "precondition_failed"
